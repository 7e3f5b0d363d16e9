//! `Format`: the formats of files, for bytes that are in memory already. Used by programs.

#![forbid(unsafe_code)]

use crate::error::{Error, ErrorKind};
use crate::ndarray::array::NDArray;
use crate::ndarray::runtime::Runtime;
use crate::serialize::{npy, npz, params, safetensors};

/// A format that arrays are read from and written to.
///
/// ```
/// use seriatim_tensor::{Format, NDArray, Runtime};
/// let x = NDArray::from_slice(&[1.0f32, 2.0], [2])?;
/// for format in [Format::Npy, Format::Npz, Format::Params, Format::Safetensors] {
///     let bytes = format.encode(&[("x", &x)])?;
///     let read = format.decode(Runtime::global()?, &bytes)?;
///     assert_eq!(read[0].1.to_vec::<f32>()?, [1.0, 2.0]);
/// }
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Format {
    /// NumPy's `.npy`: one array without a name.
    Npy,
    /// NumPy's `.npz`, whose values are stored as they are. Deflated ones are read too.
    Npz,
    /// MXNet's `.params`.
    Params,
    /// `safetensors`.
    Safetensors,
}

impl Format {
    /// Reads all arrays with their names, which are empty where the format has none.
    ///
    /// # Errors
    /// [`BadFormat`](ErrorKind::BadFormat), [`TooLarge`](ErrorKind::TooLarge), and those of a push.
    ///
    /// ```
    /// use seriatim_tensor::{ErrorKind, Format, Runtime};
    /// let error = Format::Npz.decode(Runtime::global()?, b"PK").unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::BadFormat);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn decode(self, runtime: &Runtime, bytes: &[u8]) -> Result<Vec<(String, NDArray)>, Error> {
        match self {
            Format::Npy => Ok(vec![(String::new(), npy::decode(runtime, bytes)?)]),
            Format::Npz => npz::decode(runtime, bytes),
            Format::Params => params::decode(runtime, bytes),
            Format::Safetensors => safetensors::decode(runtime, bytes),
        }
    }

    /// Waits for arrays, and writes them with their names.
    ///
    /// # Errors
    /// [`BadFormat`](ErrorKind::BadFormat) for a type or names that the format has not;
    /// [`WrongArguments`](ErrorKind::WrongArguments) for another number of arrays than 1 in `Npy`;
    /// those of [`to_vec`](NDArray::to_vec).
    ///
    /// ```
    /// use seriatim_tensor::{ErrorKind, Format};
    /// assert_eq!(Format::Npy.encode(&[]).unwrap_err().kind(), ErrorKind::WrongArguments);
    /// ```
    pub fn encode(self, arrays: &[(&str, &NDArray)]) -> Result<Vec<u8>, Error> {
        match (self, arrays) {
            (Format::Npy, [(_, array)]) => npy::encode(array),
            (Format::Npy, _) => {
                let message = format!("a file of the format npy has one array, and not {}: use npz", arrays.len());
                Err(Error::new(ErrorKind::WrongArguments, message))
            }
            (Format::Npz, _) => npz::encode(arrays, false),
            (Format::Params, _) => params::encode(arrays),
            (Format::Safetensors, _) => safetensors::encode(arrays),
        }
    }
}
