//! What must hold of any bytes that are read as a file: an error or arrays, without a panic; no
//! memory beyond what the bytes can fill; and what was read comes back from a file of each format.
//!
//! Used by `tensor/tests/formats.rs` and by the target `formats` of `fuzz/`.

use crate::memory::peak_of;
use half::{bf16, f16};
use seriatim::{Engine, Kind};
use seriatim_tensor::storage::{Pooling, Storage};
use seriatim_tensor::{DType, ErrorKind, Format, NDArray, Runtime};

pub const FORMATS: [Format; 4] = [Format::Npy, Format::Npz, Format::Params, Format::Safetensors];

/// What a reader may take for a file without bytes: messages, the records of variables.
const LEAST: usize = 1 << 18;

/// How many bytes a reader may take for each byte of a file. The smallest arrays of `params` have
/// four bytes and are records of some hundred. Deflated zeros are 1,032 times as long as their
/// file, and are there three times: as bytes, as values, and as an array.
fn most(format: Format) -> usize {
    match format {
        Format::Npz => 6 << 10,
        _ => 1 << 10,
    }
}

/// A runtime whose operations run on the thread that pushes them, and which keeps no memory.
pub fn runtime() -> Runtime {
    let engine = Engine::builder().kind(Kind::Naive).build().expect("an engine is made");
    Runtime::builder(&engine).storage(Storage::builder().pooling(Pooling::None).build()).build()
}

/// The bits of an array's elements, in order.
fn bits(array: &NDArray) -> Vec<u64> {
    macro_rules! of {
        ($type:ty, $bits:expr) => {
            array.to_vec::<$type>().expect("it was read").into_iter().map($bits).collect()
        };
    }
    match array.dtype() {
        DType::F32 => of!(f32, |value| u64::from(value.to_bits())),
        DType::F64 => of!(f64, f64::to_bits),
        DType::F16 => of!(f16, |value| u64::from(value.to_bits())),
        DType::Bf16 => of!(bf16, |value| u64::from(value.to_bits())),
        DType::I8 => of!(i8, |value| value as u64),
        DType::U8 => of!(u8, u64::from),
        DType::I32 => of!(i32, |value| value as u64),
        DType::I64 => of!(i64, |value| value as u64),
        DType::Bool => of!(bool, u64::from),
        other => panic!("the test does not know {other}"),
    }
}

/// Arrays with their names.
type Named = [(String, NDArray)];

fn borrowed(arrays: &Named) -> Vec<(&str, &NDArray)> {
    arrays.iter().map(|(name, array)| (name.as_str(), array)).collect()
}

/// Whether a format can have the arrays, as its documentation says.
fn has(format: Format, arrays: &Named) -> bool {
    let are_unique = || {
        let mut names: Vec<&str> = arrays.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names.windows(2).all(|two| two[0] != two[1])
    };
    let have_bf16 = arrays.iter().any(|(_, array)| array.dtype() == DType::Bf16);
    match format {
        Format::Npy => arrays.len() == 1 && !have_bf16,
        Format::Npz => are_unique() && !have_bf16 && arrays.iter().all(|(name, _)| name.len() < 60_000),
        Format::Safetensors => are_unique() && arrays.iter().all(|(name, _)| name != "__metadata__"),
        _ => true,
    }
}

/// Writes arrays in a format, reads the file, and compares.
fn write_and_read(runtime: &Runtime, format: Format, arrays: &Named, has_mistake: bool) {
    let written = format.encode(&borrowed(arrays)).unwrap_or_else(|error| panic!("{format:?}: {error}"));
    let mut again = format.decode(runtime, &written).unwrap_or_else(|error| panic!("{format:?}: {error}"));
    if has_mistake {
        again.pop();
    }
    let mut expected: Vec<&(String, NDArray)> = arrays.iter().collect();
    if format == Format::Safetensors {
        expected.sort_by(|one, other| one.0.cmp(&other.0));
    }
    assert_eq!(again.len(), expected.len(), "{format:?}: as many arrays come back");
    for ((name, array), (expected_name, expected)) in again.iter().zip(expected) {
        assert!(name == expected_name || format == Format::Npy, "{format:?}: the name '{expected_name}' comes back");
        assert_eq!((array.shape(), array.dtype()), (expected.shape(), expected.dtype()), "{format:?}");
        assert_eq!(bits(array), bits(expected), "{format:?}: the values of '{name}' come back");
    }
    assert_eq!(format.encode(&borrowed(&again)).unwrap(), written, "{format:?}: and are written alike");
}

/// Reads bytes as a file of a format; says whether they are one. `has_mistake` plants one that the
/// check must notice.
pub fn check(runtime: &Runtime, format: Format, bytes: &[u8], has_mistake: bool) -> bool {
    let (read, peak) = peak_of(|| format.decode(runtime, bytes));
    let most = LEAST + most(format) * bytes.len();
    assert!(peak <= most, "{format:?}: {} bytes took {peak} bytes of memory, of {most}", bytes.len());
    let arrays = match read {
        Ok(arrays) => arrays,
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::BadFormat | ErrorKind::TooLarge), "{error:?}");
            let (text, _) = (error.to_string(), format!("{error:?}"));
            assert!(text.len() <= 1_000, "{format:?}: a message of {} bytes", text.len());
            return false;
        }
    };
    assert!(has(format, &arrays), "{format:?}: its own arrays can be written");
    for other in FORMATS {
        if has(other, &arrays) {
            write_and_read(runtime, other, &arrays, has_mistake);
        }
    }
    true
}
