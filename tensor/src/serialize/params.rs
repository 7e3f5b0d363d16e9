//! MXNet's `.params`: a list of arrays, with names or without. Used by programs through
//! [`save_params`] and [`load_params`].
//!
//! A file has a magic number, a reserved one, the arrays and the names. Of an array there are four
//! forms: the first without a magic number of its own, V1, V2 with a storage type, and V3, where a
//! shape without axes is that of a number. V2 is written, or V3 where V2 cannot say the shape.
//! Sparse arrays are refused.

#![forbid(unsafe_code)]

use crate::dtype::DType;
use crate::error::Error;
use crate::ndarray::array::NDArray;
use crate::ndarray::runtime::Runtime;
use crate::serialize::bytes::{bad, from_bytes, read_file, to_bytes, write_file, Cut};
use crate::shape::{Shape, MAX_RANK};
use std::path::Path;

const FORMAT: &str = "params";
const LIST: u64 = 0x112;
const V1: u32 = 0xF993_FAC8;
const V2: u32 = 0xF993_FAC9;
const V3: u32 = 0xF993_FACA;

/// MXNet's numbers of types.
const TYPES: [(DType, u32); 9] = [
    (DType::F32, 0),
    (DType::F64, 1),
    (DType::F16, 2),
    (DType::U8, 3),
    (DType::I32, 4),
    (DType::I8, 5),
    (DType::I64, 6),
    (DType::Bool, 7),
    (DType::Bf16, 12),
];

/// Reads a list of arrays and their names, which are empty if the file has none.
pub(super) fn decode(runtime: &Runtime, bytes: &[u8]) -> Result<Vec<(String, NDArray)>, Error> {
    let mut cut = Cut::new(FORMAT, bytes);
    let magic = cut.u64()?;
    if magic != LIST {
        return Err(bad(FORMAT, format!("it begins with {magic:#x}, and not with {LIST:#x}")));
    }
    cut.u64()?;
    let count = cut.count(4)?;
    let arrays = (0..count).map(|_| array(runtime, &mut cut)).collect::<Result<Vec<NDArray>, Error>>()?;
    let names = cut.count(8)?;
    if names != 0 && names != count {
        return Err(bad(FORMAT, format!("it has {count} arrays and {names} names")));
    }
    let mut read = Vec::new();
    for array in arrays {
        let length = if names == 0 { 0 } else { cut.count(1)? };
        let name = std::str::from_utf8(cut.take(length)?).map_err(|_| bad(FORMAT, "a name is no text"))?;
        read.push((name.to_owned(), array));
    }
    cut.end()?;
    Ok(read)
}

/// Reads one array.
fn array(runtime: &Runtime, cut: &mut Cut<'_>) -> Result<NDArray, Error> {
    let magic = cut.u32()?;
    if [V2, V3].contains(&magic) {
        let storage = cut.u32()?;
        if storage != 0 {
            return Err(bad(FORMAT, format!("an array has the storage type {storage}: only dense ones (0) are read")));
        }
    }
    let is_first_form = ![V1, V2, V3].contains(&magic);
    let rank = if is_first_form { magic } else { cut.u32()? } as usize;
    if rank > MAX_RANK {
        return Err(bad(FORMAT, format!("an array has {rank} axes: {MAX_RANK} are the most")));
    }
    let mut dims = [0; MAX_RANK];
    for dim in &mut dims[..rank] {
        let size = if is_first_form { u64::from(cut.u32()?) } else { cut.u64()? };
        *dim = usize::try_from(size).map_err(|_| bad(FORMAT, format!("a size is {size}")))?;
    }
    // Before V3 an array without axes is none: nothing follows.
    if rank == 0 && magic != V3 {
        return runtime.empty([0], DType::F32);
    }
    let shape = Shape::new(&dims[..rank])?;
    let (_device, _number, flag) = (cut.u32()?, cut.u32()?, cut.u32()?);
    let Some((dtype, _)) = TYPES.iter().find(|(_, number)| *number == flag) else {
        return Err(bad(FORMAT, format!("an array has the type {flag}, which is not known")));
    };
    from_bytes(runtime, FORMAT, cut, *dtype, shape)
}

/// Writes arrays with their names, or without if all are empty.
pub(super) fn encode(arrays: &[(&str, &NDArray)]) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    [LIST, 0, arrays.len() as u64].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    for (_, array) in arrays {
        let (shape, dtype) = (array.shape(), array.dtype());
        let flag = TYPES.iter().find(|(known, _)| *known == dtype).map(|(_, flag)| *flag);
        let flag = flag.ok_or_else(|| bad(FORMAT, format!("it has no type {dtype}")))?;
        let magic = if shape.size() == 0 || shape.rank() == 0 { V3 } else { V2 };
        [magic, 0, shape.rank() as u32].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        shape.dims().iter().for_each(|dim| bytes.extend((*dim as u64).to_le_bytes()));
        // The context is the processor: its kind is 1, its number 0.
        [1, 0, flag].iter().for_each(|word: &u32| bytes.extend(word.to_le_bytes()));
        to_bytes(array, &mut bytes)?;
    }
    let names = if arrays.iter().all(|(name, _)| name.is_empty()) { &[] } else { arrays };
    bytes.extend((names.len() as u64).to_le_bytes());
    for (name, _) in names {
        bytes.extend((name.len() as u64).to_le_bytes());
        bytes.extend(name.as_bytes());
    }
    Ok(bytes)
}

/// Reads the arrays of a file that MXNet's `nd.save` has written, with their names in the file's
/// order. The names of a list are empty.
///
/// # Errors
/// [`Io`](crate::ErrorKind::Io); [`BadFormat`](crate::ErrorKind::BadFormat) if the file is torn, or
/// has a sparse array.
///
/// ```
/// use seriatim_tensor::{load_params, save_params, NDArray, Runtime};
/// let path = std::env::temp_dir().join(format!("seriatim-doc-{}.params", std::process::id()));
/// save_params(&path, &[("arg:weight", &NDArray::from_slice(&[1.5f32], [1])?)])?;
/// let read = load_params(Runtime::global()?, &path)?;
/// assert_eq!((read[0].0.as_str(), read[0].1.to_vec::<f32>()?), ("arg:weight", vec![1.5]));
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
pub fn load_params(runtime: &Runtime, path: impl AsRef<Path>) -> Result<Vec<(String, NDArray)>, Error> {
    let path = path.as_ref();
    decode(runtime, &read_file(path)?).map_err(|error| error.within(path.display()))
}

/// Waits for arrays, and writes a file that MXNet's `nd.load` reads: a dictionary, or a list if all
/// names are empty.
///
/// # Errors
/// [`Io`](crate::ErrorKind::Io), and those of [`NDArray::to_vec`].
///
/// ```
/// # use seriatim_tensor::{save_params, NDArray};
/// let path = std::env::temp_dir().join(format!("seriatim-doc2-{}.params", std::process::id()));
/// save_params(&path, &[("", &NDArray::from_slice(&[1.5f32], [1])?)])?;
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
pub fn save_params(path: impl AsRef<Path>, arrays: &[(&str, &NDArray)]) -> Result<(), Error> {
    write_file(path.as_ref(), &encode(arrays)?)
}
