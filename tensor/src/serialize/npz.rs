//! NumPy's `.npz`: an archive of ZIP with a file of the format `.npy` for each array. Used by
//! programs through [`load_npz`], [`save_npz`] and [`save_npz_compressed`].

#![forbid(unsafe_code)]

use crate::error::Error;
use crate::ndarray::array::NDArray;
use crate::ndarray::runtime::Runtime;
use crate::serialize::bytes::{bad, read_file, short, write_file};
use crate::serialize::npy;
use crate::serialize::zip::{entries, Archive};
use std::collections::BTreeSet;
use std::path::Path;

const FORMAT: &str = "npz";
/// What NumPy puts behind a name in the archive, and takes off when it reads.
const SUFFIX: &str = ".npy";

/// Reads all arrays with their names, in the order of the archive's directory.
pub(super) fn decode(runtime: &Runtime, bytes: &[u8]) -> Result<Vec<(String, NDArray)>, Error> {
    let (mut arrays, mut names) = (Vec::new(), BTreeSet::new());
    for entry in entries(bytes)? {
        let name = entry.name.strip_suffix(SUFFIX).unwrap_or(&entry.name);
        if !names.insert(name.to_owned()) {
            return Err(bad(FORMAT, format!("two arrays are named '{name}'")));
        }
        let array = npy::decode(runtime, &entry.unpack()?);
        arrays.push((name.to_owned(), array.map_err(|error| error.within(short(format!("array '{name}'"))))?));
    }
    Ok(arrays)
}

/// Writes arrays with their names.
pub(super) fn encode(arrays: &[(&str, &NDArray)], deflates: bool) -> Result<Vec<u8>, Error> {
    let (mut archive, mut names) = (Archive::default(), BTreeSet::new());
    for (name, array) in arrays {
        if !names.insert(name) {
            return Err(bad(FORMAT, format!("two arrays are named '{name}'")));
        }
        archive.add(&format!("{name}{SUFFIX}"), &npy::encode(array)?, deflates)?;
    }
    archive.finish()
}

/// Reads a file that NumPy's `savez` or `savez_compressed` has written: arrays with their names.
///
/// # Errors
/// [`Io`](crate::ErrorKind::Io); [`BadFormat`](crate::ErrorKind::BadFormat) if the file is torn, if
/// it is beyond 4 GiB (ZIP64), or if an array is of a type that arrays have not.
///
/// ```
/// use seriatim_tensor::{load_npz, save_npz, NDArray, Runtime};
/// let path = std::env::temp_dir().join(format!("seriatim-doc-{}.npz", std::process::id()));
/// save_npz(&path, &[("weight", &NDArray::from_slice(&[1.5f32], [1])?)])?;
/// let read = load_npz(Runtime::global()?, &path)?;
/// assert_eq!((read[0].0.as_str(), read[0].1.to_vec::<f32>()?), ("weight", vec![1.5]));
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
pub fn load_npz(runtime: &Runtime, path: impl AsRef<Path>) -> Result<Vec<(String, NDArray)>, Error> {
    let path = path.as_ref();
    decode(runtime, &read_file(path)?).map_err(|error| error.within(path.display()))
}

/// Waits for arrays, and writes them with their names, as NumPy's `savez` does.
///
/// # Errors
/// [`Io`](crate::ErrorKind::Io); [`BadFormat`](crate::ErrorKind::BadFormat) for `bfloat16` and for
/// two arrays of one name; [`TooLarge`](crate::ErrorKind::TooLarge) beyond 4 GiB; those of
/// [`to_vec`](NDArray::to_vec).
///
/// ```
/// # use seriatim_tensor::{save_npz, NDArray};
/// let path = std::env::temp_dir().join(format!("seriatim-doc2-{}.npz", std::process::id()));
/// save_npz(&path, &[("x", &NDArray::from_slice(&[1u8], [1])?)])?;
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
pub fn save_npz(path: impl AsRef<Path>, arrays: &[(&str, &NDArray)]) -> Result<(), Error> {
    write_file(path.as_ref(), &encode(arrays, false)?)
}

/// [`save_npz`] with deflated values, as NumPy's `savez_compressed` does.
///
/// # Errors
/// Those of [`save_npz`].
///
/// ```
/// # use seriatim_tensor::{save_npz_compressed, DType, NDArray};
/// let path = std::env::temp_dir().join(format!("seriatim-doc3-{}.npz", std::process::id()));
/// save_npz_compressed(&path, &[("x", &NDArray::zeros([10_000], DType::F64)?)])?;
/// assert!(std::fs::metadata(&path).unwrap().len() < 1_000);
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
pub fn save_npz_compressed(path: impl AsRef<Path>, arrays: &[(&str, &NDArray)]) -> Result<(), Error> {
    write_file(path.as_ref(), &encode(arrays, true)?)
}
