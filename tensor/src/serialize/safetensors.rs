//! `safetensors`: named arrays behind a header of JSON. Used by programs through
//! [`save_safetensors`] and [`load_safetensors`].
//!
//! A file has the length of the header in 8 bytes, the header, and the values. The header says for
//! each name the type, the shape, and where its values begin and end. Each byte of the values
//! belongs to one array: gaps and overlaps are refused, as the format asks for.

#![forbid(unsafe_code)]

use crate::dtype::DType;
use crate::error::{Error, ErrorKind};
use crate::ndarray::array::NDArray;
use crate::ndarray::runtime::Runtime;
use crate::serialize::bytes::{bad, from_bytes, read_file, to_bytes, write_file, Cut};
use crate::shape::Shape;
use serde_json::{Map, Value};
use std::path::Path;

const FORMAT: &str = "safetensors";
/// The longest header that the format allows.
const LONGEST: u64 = 100_000_000;
/// What is no array but text about the file.
const METADATA: &str = "__metadata__";

const TYPES: [(DType, &str); 9] = [
    (DType::F64, "F64"),
    (DType::I64, "I64"),
    (DType::F32, "F32"),
    (DType::I32, "I32"),
    (DType::F16, "F16"),
    (DType::Bf16, "BF16"),
    (DType::I8, "I8"),
    (DType::U8, "U8"),
    (DType::Bool, "BOOL"),
];

/// What the header says of an array.
struct Entry {
    name: String,
    dtype: DType,
    shape: Shape,
    begin: usize,
    end: usize,
}

impl Entry {
    fn new(name: String, value: &Value) -> Result<Entry, Error> {
        let wrong = |what: &str| bad(FORMAT, format!("the {what} of '{name}' is none: {value}"));
        let dtype = value.get("dtype").and_then(Value::as_str).ok_or_else(|| wrong("dtype"))?;
        let Some((dtype, _)) = TYPES.iter().find(|(_, known)| *known == dtype) else {
            return Err(bad(FORMAT, format!("'{name}' has the type {dtype:?}, which arrays have not")));
        };
        let numbers = |key: &str| {
            let list = value.get(key).and_then(Value::as_array).ok_or_else(|| wrong(key))?;
            let sizes = list.iter().map(|size| size.as_u64().and_then(|size| usize::try_from(size).ok()));
            sizes.collect::<Option<Vec<usize>>>().ok_or_else(|| wrong(key))
        };
        let shape = Shape::new(&numbers("shape")?)?;
        let [begin, end] = numbers("data_offsets")?[..] else { return Err(wrong("data_offsets")) };
        if end.checked_sub(begin) != shape.size().checked_mul(dtype.size()) {
            return Err(bad(FORMAT, format!("'{name}' of shape {shape} has its values from {begin} to {end}")));
        }
        Ok(Entry { dtype: *dtype, shape, begin, end, name })
    }
}

/// Reads all arrays of a file, by their names in order.
pub(super) fn decode(runtime: &Runtime, bytes: &[u8]) -> Result<Vec<(String, NDArray)>, Error> {
    let mut cut = Cut::new(FORMAT, bytes);
    let length = cut.u64()?;
    if length > LONGEST {
        return Err(bad(FORMAT, format!("its header has {length} bytes: {LONGEST} are the most")));
    }
    let header: Map<String, Value> = serde_json::from_slice(cut.take(length as usize)?).map_err(|error| {
        Error::with_source(ErrorKind::BadFormat, format!("not of the format {FORMAT}: its header: {error}"), error)
    })?;
    let named = header.into_iter().filter(|(name, _)| name != METADATA);
    let mut entries = named.map(|(name, value)| Entry::new(name, &value)).collect::<Result<Vec<Entry>, Error>>()?;
    entries.sort_by_key(|entry| (entry.begin, entry.end));
    let (mut arrays, mut at) = (Vec::new(), 0);
    for Entry { name, dtype, shape, begin, end } in entries {
        if begin != at {
            return Err(bad(FORMAT, format!("the values of '{name}' begin at {begin}, and those before end at {at}")));
        }
        arrays.push((name, from_bytes(runtime, FORMAT, &mut cut, dtype, shape)?));
        at = end;
    }
    cut.end()?;
    arrays.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(arrays)
}

/// Writes arrays with their names, those with the largest elements first, so that all lie aligned.
pub(super) fn encode(arrays: &[(&str, &NDArray)]) -> Result<Vec<u8>, Error> {
    let mut sorted: Vec<&(&str, &NDArray)> = arrays.iter().collect();
    sorted.sort_by_key(|(name, array)| (std::cmp::Reverse(array.dtype().size()), *name));
    let (mut header, mut values) = (Map::new(), Vec::new());
    for (name, array) in sorted {
        let begin = values.len();
        to_bytes(array, &mut values)?;
        let dtype = TYPES.iter().find(|(dtype, _)| *dtype == array.dtype()).map(|(_, name)| *name);
        let dtype = dtype.ok_or_else(|| bad(FORMAT, format!("it has no type {}", array.dtype())))?;
        let entry = serde_json::json!({
            "dtype": dtype,
            "shape": array.shape().dims(),
            "data_offsets": [begin, values.len()],
        });
        if *name == METADATA || header.insert((*name).to_owned(), entry).is_some() {
            return Err(bad(FORMAT, format!("'{name}' cannot be the name of an array, or is that of two")));
        }
    }
    let mut header = Value::Object(header).to_string();
    header.extend(std::iter::repeat_n(' ', header.len().next_multiple_of(8) - header.len()));
    Ok([&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &values].concat())
}

/// Reads all arrays of a `safetensors` file, by their names in order.
///
/// # Errors
/// [`Io`](ErrorKind::Io); [`BadFormat`](ErrorKind::BadFormat) if the file is torn, or has a type
/// that arrays have not.
///
/// ```
/// use seriatim_tensor::{load_safetensors, save_safetensors, NDArray, Runtime};
/// let path = std::env::temp_dir().join(format!("seriatim-doc-{}.safetensors", std::process::id()));
/// save_safetensors(&path, &[("weight", &NDArray::from_slice(&[1.5f32], [1])?)])?;
/// let read = load_safetensors(Runtime::global()?, &path)?;
/// assert_eq!((read[0].0.as_str(), read[0].1.to_vec::<f32>()?), ("weight", vec![1.5]));
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
pub fn load_safetensors(runtime: &Runtime, path: impl AsRef<Path>) -> Result<Vec<(String, NDArray)>, Error> {
    let path = path.as_ref();
    decode(runtime, &read_file(path)?).map_err(|error| error.within(path.display()))
}

/// Waits for arrays, and writes them with their names.
///
/// # Errors
/// [`Io`](ErrorKind::Io), and those of [`NDArray::to_vec`]; [`BadFormat`](ErrorKind::BadFormat) if
/// two have one name.
///
/// ```
/// # use seriatim_tensor::{save_safetensors, NDArray};
/// let path = std::env::temp_dir().join(format!("seriatim-doc2-{}.safetensors", std::process::id()));
/// save_safetensors(&path, &[("x", &NDArray::from_slice(&[1u8], [1])?)])?;
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
pub fn save_safetensors(path: impl AsRef<Path>, arrays: &[(&str, &NDArray)]) -> Result<(), Error> {
    write_file(path.as_ref(), &encode(arrays)?)
}
