//! NumPy's `.npy`: one array a file, versions 1 to 3. Used by programs through
//! [`NDArray::save_npy`] and [`NDArray::load_npy`].
//!
//! A file has a magic text, a version, the length of a header, the header as text of Python, and
//! the values. `bfloat16` is not a type of NumPy's, so such arrays are refused.

#![forbid(unsafe_code)]

use crate::dtype::DType;
use crate::error::Error;
use crate::ndarray::array::NDArray;
use crate::ndarray::runtime::Runtime;
use crate::serialize::bytes::{bad, from_bytes, read_file, to_bytes, write_file, Cut};
use crate::shape::Shape;
use std::path::Path;

const MAGIC: &[u8] = b"\x93NUMPY";

/// NumPy's names of types, for values with the low byte first.
const TYPES: [(DType, &str); 8] = [
    (DType::F32, "<f4"),
    (DType::F64, "<f8"),
    (DType::F16, "<f2"),
    (DType::I8, "|i1"),
    (DType::U8, "|u1"),
    (DType::I32, "<i4"),
    (DType::I64, "<i8"),
    (DType::Bool, "|b1"),
];

/// What stands behind a key of the header, up to the comma or bracket that ends it.
fn value<'a>(header: &'a str, key: &str) -> Result<&'a str, Error> {
    let missing = || bad("npy", format!("its header has no {key}: {header:?}"));
    let rest =
        ['\'', '"'].iter().find_map(|quote| header.split_once(&format!("{quote}{key}{quote}"))).ok_or_else(missing)?.1;
    let rest = rest.trim_start().strip_prefix(':').ok_or_else(missing)?.trim_start();
    let end = match rest.strip_prefix('(') {
        Some(inside) => 1 + inside.find(')').ok_or_else(missing)?,
        None => rest.find([',', '}']).ok_or_else(missing)?,
    };
    Ok(rest[..end].trim_start_matches('(').trim())
}

/// Reads a file of the format.
pub(super) fn decode(runtime: &Runtime, bytes: &[u8]) -> Result<NDArray, Error> {
    let mut cut = Cut::new("npy", bytes);
    if cut.take(MAGIC.len())? != MAGIC {
        return Err(bad("npy", "it does not begin with \\x93NUMPY"));
    }
    let [version, _] = cut.array::<2>()?;
    let length = match version {
        1 => usize::from(u16::from_le_bytes(cut.array()?)),
        2 | 3 => u32::from_le_bytes(cut.array()?) as usize,
        _ => return Err(bad("npy", format!("its version is {version}: 1 to 3 are known"))),
    };
    let header = std::str::from_utf8(cut.take(length)?).map_err(|_| bad("npy", "its header is no text"))?;
    let descr = value(header, "descr")?.trim_matches(['\'', '"']);
    // Of one byte, and of no byte order, is the same.
    let name = |text: &str| text.trim_start_matches(['<', '=', '|']).to_owned();
    let dtype = TYPES.iter().find(|(_, known)| !descr.starts_with('>') && name(known) == name(descr));
    let Some((dtype, _)) = dtype else {
        return Err(bad("npy", format!("its type is {descr:?}: known are {}", TYPES.map(|(_, name)| name).join(", "))));
    };
    let dims = value(header, "shape")?.split(',').map(str::trim).filter(|dim| !dim.is_empty());
    let dims = dims.map(|dim| dim.trim_end_matches('L').parse().map_err(|_| bad("npy", format!("a size is {dim:?}"))));
    let dims = dims.collect::<Result<Vec<usize>, Error>>()?;
    let is_fortran = match value(header, "fortran_order")? {
        "True" => true,
        "False" => false,
        other => return Err(bad("npy", format!("its fortran_order is {other:?}"))),
    };
    let turned: Vec<usize> = if is_fortran { dims.iter().rev().copied().collect() } else { dims };
    let shape = Shape::new(&turned)?;
    let array = from_bytes(runtime, "npy", &mut cut, *dtype, shape)?;
    cut.end()?;
    match is_fortran {
        true => array.transpose()?.copy(),
        false => Ok(array),
    }
}

/// Writes an array in the format, version 1.
pub(super) fn encode(array: &NDArray) -> Result<Vec<u8>, Error> {
    let Some((_, descr)) = TYPES.iter().find(|(dtype, _)| *dtype == array.dtype()) else {
        return Err(bad("npy", format!("it has no type {}: convert the array by astype", array.dtype())));
    };
    let dims: String = array.shape().dims().iter().map(|dim| format!("{dim}, ")).collect();
    let shape = if array.ndim() == 1 { dims.trim_end().to_owned() } else { dims.trim_end_matches(", ").to_owned() };
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    // The values begin at a multiple of 64.
    let before = MAGIC.len() + 4;
    let length = (before + header.len() + 1).next_multiple_of(64) - before;
    header.extend(std::iter::repeat_n(' ', length - header.len() - 1).chain(['\n']));
    let mut bytes = [MAGIC, &[1, 0], &(length as u16).to_le_bytes(), header.as_bytes()].concat();
    to_bytes(array, &mut bytes)?;
    Ok(bytes)
}

impl NDArray {
    /// Reads a file that NumPy's `save` has written, also one of Fortran's order.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io); [`BadFormat`](crate::ErrorKind::BadFormat) if the file is
    /// torn, or of a type that arrays have not.
    ///
    /// ```
    /// use seriatim_tensor::{NDArray, Runtime};
    /// let path = std::env::temp_dir().join(format!("seriatim-doc-{}.npy", std::process::id()));
    /// NDArray::from_slice(&[1i64, 2, 3], [3, 1])?.save_npy(&path)?;
    /// let read = NDArray::load_npy(Runtime::global()?, &path)?;
    /// assert_eq!((read.shape().dims(), read.to_vec::<i64>()?), (&[3, 1][..], vec![1, 2, 3]));
    /// # std::fs::remove_file(path).unwrap();
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn load_npy(runtime: &Runtime, path: impl AsRef<Path>) -> Result<NDArray, Error> {
        let path = path.as_ref();
        decode(runtime, &read_file(path)?).map_err(|error| error.within(path.display()))
    }

    /// Waits for the array, and writes a file that NumPy's `load` reads.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io); [`BadFormat`](crate::ErrorKind::BadFormat) for `bfloat16`;
    /// those of [`to_vec`](NDArray::to_vec).
    ///
    /// ```
    /// let path = std::env::temp_dir().join(format!("seriatim-doc2-{}.npy", std::process::id()));
    /// seriatim_tensor::NDArray::from_slice(&[true], [1])?.save_npy(&path)?;
    /// assert!(std::fs::read(&path).unwrap().starts_with(b"\x93NUMPY"));
    /// # std::fs::remove_file(path).unwrap();
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn save_npy(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        write_file(path.as_ref(), &encode(self)?)
    }
}
