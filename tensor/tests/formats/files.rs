//! Valid files of every format, small ones: what the mutator of `tensor/tests/formats.rs` changes,
//! and what the target `formats` of `fuzz/` starts from.

use half::{bf16, f16};
use seriatim_tensor::{Format, NDArray, Runtime};

/// Arrays of each type and of several shapes.
fn arrays(runtime: &Runtime) -> Vec<(&'static str, NDArray)> {
    let named = [
        ("weight", runtime.from_slice(&[1.5f32, -2.0, f32::NAN, 0.25, 3.0, -0.0], [2, 3])),
        ("bias/π", runtime.from_slice(&[0.5f64, f64::INFINITY], [2])),
        ("n", runtime.from_slice(&[-7i64], [])),
        ("none", runtime.from_slice::<i32>(&[], [0, 2])),
        ("mask", runtime.from_slice(&[true, false, true], [3, 1])),
        ("i8", runtime.from_slice(&[-1i8, 127], [1, 2, 1])),
        ("u8", runtime.from_slice(&[0u8, 255, 7], [3])),
        ("i32", runtime.from_slice(&[i32::MIN, 5], [2, 1])),
        ("half", runtime.from_slice(&[f16::from_f32(0.5); 4], [2, 2])),
        ("brain", runtime.from_slice(&[bf16::from_f32(-3.0); 2], [2])),
    ];
    named.map(|(name, array)| (name, array.expect("an array is made"))).into()
}

/// A file of `npy` with such a header.
pub fn npy(version: u8, header: &str, values: &[u8]) -> Vec<u8> {
    let length = header.len() as u32;
    let length = if version == 1 { (length as u16).to_le_bytes().to_vec() } else { length.to_le_bytes().to_vec() };
    [b"\x93NUMPY", &[version, 0][..], &length, header.as_bytes(), values].concat()
}

/// Numbers of 32 bits as bytes.
fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Files with their names and formats.
pub fn files(runtime: &Runtime) -> Vec<(String, Format, Vec<u8>)> {
    let mut files = Vec::new();
    let mut add = |name: &str, format: Format, bytes: Vec<u8>| files.push((name.to_owned(), format, bytes));
    let arrays = arrays(runtime);
    let all: Vec<(&str, &NDArray)> = arrays.iter().map(|(name, array)| (*name, array)).collect();
    let known = &all[..all.len() - 1];
    for one in known {
        add(&format!("{}.npy", one.0.replace('/', "-")), Format::Npy, Format::Npy.encode(&[*one]).unwrap());
    }
    let fortran = "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }";
    add("fortran.npy", Format::Npy, npy(1, fortran, &[1, 4, 2, 5, 3, 6]));
    add("third.npy", Format::Npy, npy(3, "{\"shape\":(2L,),\"descr\":\"=i1\",\"fortran_order\":False}", &[1, 2]));
    for count in [0, 1, 3, known.len()] {
        add(&format!("{count}.npz"), Format::Npz, Format::Npz.encode(&known[..count]).unwrap());
    }
    add("stored.npz", Format::Npz, include_bytes!("../files/numpy-stored.npz").to_vec());
    add("deflated.npz", Format::Npz, include_bytes!("../files/numpy-deflated.npz").to_vec());
    for format in [Format::Params, Format::Safetensors] {
        for count in [0, 1, 3, all.len()] {
            add(&format!("{count}.{format:?}"), format, format.encode(&all[..count]).unwrap());
        }
    }
    let list: Vec<(&str, &NDArray)> = all.iter().map(|(_, array)| ("", *array)).collect();
    add("list.params", Format::Params, Format::Params.encode(&list).unwrap());
    // The first form of an array, V1, and one that is none.
    let list = words(&[0x112, 0, 0, 0, 1, 0]);
    let name = [&words(&[1, 0, 1, 0])[..], b"a"].concat();
    let first = [&list[..], &words(&[1, 2, 1, 0, 0, 7, 8]), &name].concat();
    let second = [&list[..], &words(&[0xF993_FAC8, 1, 2, 0, 1, 0, 4, 7, 8]), &name].concat();
    let none = [&list[..], &words(&[0xF993_FAC9, 0, 0]), &words(&[0, 0])].concat();
    for (name, bytes) in [("first", first), ("second", second), ("none", none)] {
        add(&format!("{name}.params"), Format::Params, bytes);
    }
    let header = br#"{"__metadata__":{"a":"b"},"x":{"shape":[2],"dtype":"U8","data_offsets":[0,2]}} "#;
    let spaced = [&(header.len() as u64).to_le_bytes()[..], header, &[1, 2]].concat();
    add("metadata.safetensors", Format::Safetensors, spaced);
    files
}
