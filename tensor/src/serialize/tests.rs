//! Round trips of all types and shapes, files as their own programs write them, and broken files:
//! cut at every byte, and changed at random.

use super::{npy, npz, params, safetensors, zip};
use crate::dtype::{with_type, DType, Element, Number};
use crate::resource::Philox;
use crate::{Error, ErrorKind, NDArray, Runtime};
use rand_core::RngCore;

fn runtime() -> &'static Runtime {
    Runtime::global().unwrap()
}

/// One array of each type and of several shapes.
fn arrays() -> Vec<NDArray> {
    // Under Miri there are fewer: operations of the engine make and read each array.
    let shapes = [&[][..], &[0, 2], &[2, 3], &[3], &[1, 2, 1, 2]];
    let shapes = if cfg!(miri) { &shapes[..3] } else { &shapes };
    let of = |dtype: DType, shape: &[usize]| {
        let count = shape.iter().product::<usize>();
        with_type!(dtype, T => {
            let values: Vec<T> = (0..count).map(|at| T::from_number(Number::Float(at as f64 * 1.5 - 1.0))).collect();
            runtime().from_slice(&values, shape).unwrap()
        })
    };
    let types = if cfg!(miri) { &DType::ALL[3..5] } else { &DType::ALL };
    types.iter().flat_map(|dtype| shapes.iter().map(|shape| of(*dtype, shape))).collect()
}

fn same(one: &NDArray, other: &NDArray) {
    assert_eq!((one.shape(), one.dtype()), (other.shape(), other.dtype()));
    with_type!(one.dtype(), T => assert_eq!(one.to_vec::<T>().unwrap(), other.to_vec::<T>().unwrap()));
}

#[test]
fn every_type_and_shape_comes_back() {
    for array in arrays() {
        if array.dtype() == DType::Bf16 {
            assert_eq!(npy::encode(&array).unwrap_err().kind(), ErrorKind::BadFormat);
        } else {
            let bytes = npy::encode(&array).unwrap();
            let values = bytes.len() - array.size() * array.dtype().size();
            assert_eq!(values % 64, 0);
            same(&npy::decode(runtime(), &bytes).unwrap(), &array);
        }
    }
    let known: Vec<NDArray> = arrays().into_iter().filter(|array| array.dtype() != DType::Bf16).collect();
    let names: Vec<String> = (0..known.len()).map(|number| format!("folder/π{number}")).collect();
    let named: Vec<(&str, &NDArray)> = names.iter().map(String::as_str).zip(&known).collect();
    for deflates in [false, true] {
        let read = npz::decode(runtime(), &npz::encode(&named, deflates).unwrap()).unwrap();
        assert_eq!(read.len(), known.len());
        for ((name, array), (expected_name, expected)) in read.iter().zip(&named) {
            assert_eq!(name, expected_name);
            same(array, expected);
        }
    }
    assert!(npz::decode(runtime(), &npz::encode(&[], true).unwrap()).unwrap().is_empty());
    let arrays = arrays();
    let names: Vec<String> = (0..arrays.len()).map(|number| format!("arg:{number:03}")).collect();
    let named: Vec<(&str, &NDArray)> = names.iter().map(String::as_str).zip(&arrays).collect();
    for read in [
        params::decode(runtime(), &params::encode(&named).unwrap()).unwrap(),
        safetensors::decode(runtime(), &safetensors::encode(&named).unwrap()).unwrap(),
    ] {
        assert_eq!(read.len(), arrays.len());
        for ((name, array), (expected_name, expected)) in read.iter().zip(&named) {
            assert_eq!(name, expected_name);
            same(array, expected);
        }
    }
    let list: Vec<(&str, &NDArray)> = arrays.iter().map(|array| ("", array)).collect();
    let read = params::decode(runtime(), &params::encode(&list).unwrap()).unwrap();
    assert!(read.len() == arrays.len() && read.iter().all(|(name, _)| name.is_empty()));
}

/// What NumPy 2's `np.save` writes for `np.array([[1, 2, 3], [4, 5, 6]], "<i2" or others)`.
fn numpy(descr: &str, order: &str, shape: &str, values: &[u8]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes(), values].concat()
}

#[test]
fn archives_of_numpy_are_read() {
    // Written by NumPy 2's `savez` and `savez_compressed`.
    let stored = npz::decode(runtime(), include_bytes!("../../tests/files/numpy-stored.npz")).unwrap();
    let shapes: Vec<(&str, Vec<usize>)> =
        stored.iter().map(|(name, array)| (name.as_str(), array.shape().dims().to_vec())).collect();
    assert_eq!(shapes, [("a", vec![2, 3]), ("n", vec![]), ("none", vec![0, 2])]);
    assert_eq!(stored[0].1.to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(stored[1].1.as_scalar::<f64>().unwrap(), 2.5);
    let deflated = npz::decode(runtime(), include_bytes!("../../tests/files/numpy-deflated.npz")).unwrap();
    assert_eq!(deflated[0].1.to_vec::<i64>().unwrap(), [0, 1, 2, 3, 4, 5]);
    assert_eq!(deflated[1].1.to_vec::<bool>().unwrap(), [true, false]);
}

#[test]
fn files_of_other_programs_are_read() {
    let fortran = npy::decode(runtime(), &numpy("|u1", "True", "(2, 3)", &[1, 4, 2, 5, 3, 6])).unwrap();
    assert_eq!((fortran.shape().dims(), fortran.to_vec::<u8>().unwrap()), (&[2, 3][..], vec![1, 2, 3, 4, 5, 6]));
    for (descr, shape) in [(">f4", "(1,)"), ("<c8", "(1,)"), ("|O", "(1,)"), ("<f4", "(-1,)"), ("<f4", "(x,)")] {
        let error = npy::decode(runtime(), &numpy(descr, "False", shape, &[0; 8])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadFormat, "{descr} {shape}");
    }
    // The first form of an array, without a magic number: (2,) of f32 on cpu(0), by the name 'a'.
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let list = words(&[0x112, 0, 0, 0, 1, 0]);
    let values = [1.5f32, -2.0].map(f32::to_bits);
    let name = [&words(&[1, 0, 1, 0])[..], b"a"].concat();
    let first = [&list[..], &words(&[1, 2, 1, 0, 0]), &words(&values), &name].concat();
    // V1 and V2 have sizes of 64 bits.
    let second = [&list[..], &words(&[0xF993_FAC8, 1, 2, 0, 1, 0, 0]), &words(&values), &name].concat();
    let third = [&list[..], &words(&[0xF993_FAC9, 0, 1, 2, 0, 1, 0, 0]), &words(&values), &name].concat();
    for bytes in [first, second, third.clone()] {
        let read = params::decode(runtime(), &bytes).unwrap();
        assert_eq!((read[0].0.as_str(), read[0].1.to_vec::<f32>().unwrap()), ("a", vec![1.5, -2.0]));
    }
    let ours = runtime().from_slice(&[1.5f32, -2.0], [2]).unwrap();
    assert_eq!(params::encode(&[("a", &ours)]).unwrap(), third);
    let sparse = [&list[..], &words(&[0xF993_FAC9, 1, 1, 2, 0, 1, 0, 0]), &words(&values), &name].concat();
    assert!(params::decode(runtime(), &sparse).unwrap_err().to_string().contains("dense"));
}

/// A reader that gives only its error, if it has one.
type Reader = fn(&[u8]) -> Option<Error>;

#[test]
fn broken_files_are_errors() {
    let arrays: Vec<NDArray> = arrays().into_iter().filter(|array| array.dtype() != DType::Bf16).take(12).collect();
    let names: Vec<String> = (0..arrays.len()).map(|number| number.to_string()).collect();
    let named: Vec<(&str, &NDArray)> = names.iter().map(String::as_str).zip(&arrays).collect();
    let few = &named[..named.len().min(4)];
    let read_npz: Reader = |bytes| npz::decode(runtime(), bytes).err();
    let formats: [(Vec<u8>, Reader); 5] = [
        (npz::encode(few, false).unwrap(), read_npz),
        (npz::encode(few, true).unwrap(), read_npz),
        (npy::encode(&arrays[2]).unwrap(), |bytes| npy::decode(runtime(), bytes).err()),
        (params::encode(&named).unwrap(), |bytes| params::decode(runtime(), bytes).err()),
        (safetensors::encode(&named).unwrap(), |bytes| safetensors::decode(runtime(), bytes).err()),
    ];
    let mut random = Philox::new(8, 0);
    let is_typed = |error: &Error| matches!(error.kind(), ErrorKind::BadFormat | ErrorKind::TooLarge);
    for (whole, read) in formats {
        assert!(read(&whole).is_none());
        for length in (0..whole.len()).step_by(if cfg!(miri) { 499 } else { 1 }) {
            let error = read(&whole[..length]).unwrap_or_else(|| panic!("{length} of {} bytes are read", whole.len()));
            assert!(is_typed(&error), "{error:?}");
        }
        assert!(read(&[&whole[..], &[0]].concat()).is_some_and(|error| is_typed(&error)));
        let (mut refused, rounds) = (0, if cfg!(miri) { 1 } else { 4_000 });
        for _ in 0..rounds {
            let mut bytes = whole.clone();
            for _ in 0..=random.next_u32() % 4 {
                let at = random.next_u32() as usize % bytes.len();
                bytes[at] = match random.next_u32() % 3 {
                    0 => random.next_u32() as u8,
                    1 => 0xFF,
                    _ => bytes[at] ^ 1 << (random.next_u32() % 8),
                };
            }
            if let Some(error) = read(&bytes) {
                assert!(is_typed(&error), "{error:?}");
                refused += 1;
            }
        }
        assert!(cfg!(miri) || refused > 100, "{refused}");
    }
}

#[test]
fn archives_that_lie_are_errors_and_take_no_memory() {
    let count = if cfg!(miri) { 20 } else { 1000 };
    let zeros = runtime().zeros([count], DType::F64).unwrap();
    let whole = npz::encode(&[("x", &zeros)], true).unwrap();
    let read = npz::decode(runtime(), &whole).unwrap();
    assert_eq!((read[0].0.as_str(), read[0].1.size()), ("x", count));
    let directory = whole.windows(4).position(|word| word == b"PK\x01\x02").unwrap();
    let end = whole.windows(4).position(|word| word == b"PK\x05\x06").unwrap();
    let changed = |at: usize, to: &[u8]| {
        let mut bytes = whole.clone();
        bytes[at..at + to.len()].copy_from_slice(to);
        let error = npz::decode(runtime(), &bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadFormat);
        error.to_string()
    };
    // The unpacked size: one too few, and far more than there is.
    let size = (128 + 8 * count) as u32;
    assert_eq!(whole[directory + 24..directory + 28], size.to_le_bytes());
    assert!(changed(directory + 24, &(size - 1).to_le_bytes()).contains("does not unpack"));
    assert!(changed(directory + 24, &0xFFFF_FFF0u32.to_le_bytes()).contains("does not unpack"));
    assert!(changed(directory + 24, &[0xFF; 4]).contains("ZIP64"));
    assert!(changed(directory + 8, &[1, 0]).contains("encrypted"));
    assert!(changed(directory + 10, &[9, 0]).contains("method 9"));
    assert!(changed(directory + 16, &[0; 4]).contains("checksum"));
    assert!(changed(directory + 42, &[0xFF, 0xFF, 0, 0]).contains("beyond the file"));
    assert!(changed(end + 10, &[2, 0]).contains("several parts"));
    assert!(changed(end + 16, &[0; 4]).contains("directory"));
    // Two entries that share their bytes.
    let entry = whole[directory..end].to_vec();
    let mut shared = [&whole[..end], &entry[..], &whole[end..]].concat();
    let end = end + entry.len();
    shared[end + 8..end + 12].copy_from_slice(&[2, 0, 2, 0]);
    shared[end + 12..end + 16].copy_from_slice(&(2 * entry.len() as u32).to_le_bytes());
    assert!(npz::decode(runtime(), &shared).unwrap_err().to_string().contains("one over the other"));
    let one = runtime().zeros([1], DType::F32).unwrap();
    assert_eq!(npz::encode(&[("x", &one), ("x", &one)], false).unwrap_err().kind(), ErrorKind::BadFormat);
    let mut archive = zip::Archive::default();
    archive.add("readme.txt", b"no array", false).unwrap();
    let error = npz::decode(runtime(), &archive.finish().unwrap()).unwrap_err();
    assert!(error.to_string().contains("'readme.txt'"), "{error}");
}

#[test]
fn values_of_safetensors_leave_no_gap() {
    let read = |offsets: [[usize; 2]; 2]| {
        let entry =
            |[begin, end]: [usize; 2]| format!(r#"{{"dtype":"F32","shape":[1],"data_offsets":[{begin},{end}]}}"#);
        let header = format!(r#"{{"a":{},"b":{}}}"#, entry(offsets[0]), entry(offsets[1]));
        let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 8]].concat();
        safetensors::decode(runtime(), &bytes)
    };
    assert_eq!(read([[4, 8], [0, 4]]).unwrap().len(), 2);
    for wrong in [[[0, 4], [8, 12]], [[0, 4], [0, 4]], [[4, 8], [8, 12]]] {
        assert!(read(wrong).unwrap_err().to_string().contains("begin at"), "{wrong:?}");
    }
}

#[test]
fn shapes_that_no_memory_has_are_refused() {
    for shape in ["(9223372036854775807,)", "(4294967296, 4294967296)", "(1152921504606846975, 0)", "(1000000,)"] {
        let error = npy::decode(runtime(), &numpy("<f8", "False", shape, &[0; 64])).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::BadFormat | ErrorKind::TooLarge), "{shape} {error}");
    }
    let header = br#"{"x":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,4]}}"#;
    let bytes = [&(header.len() as u64).to_le_bytes()[..], header, &[0; 4]].concat();
    assert!(safetensors::decode(runtime(), &bytes).is_err());
}
