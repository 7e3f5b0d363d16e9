//! What the formats have in common: cutting bytes without going beyond their end, values of arrays
//! as bytes with the low one first, and files.
//!
//! Used by the files beside this one.

#![forbid(unsafe_code)]

use crate::dtype::{with_type, DType, Element};
use crate::error::{Error, ErrorKind};
use crate::ndarray::array::NDArray;
use crate::ndarray::runtime::Runtime;
use crate::shape::Shape;
use half::{bf16, f16};
use std::path::Path;

/// An error of a format. What it quotes of a file may be as long as the file: so it is cut.
pub(super) fn bad(format: &str, why: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::BadFormat, format!("not of the format {format}: {}", short(why.to_string())))
}

/// The beginning of a text, of at most so many bytes as a reader wants.
pub(super) fn short(mut text: String) -> String {
    const MOST: usize = 300;
    if text.len() > MOST {
        text.truncate((0..=MOST).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default());
        text.push('…');
    }
    text
}

pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path)
        .map_err(|error| Error::with_source(ErrorKind::Io, format!("cannot read {}: {error}", path.display()), error))
}

pub(super) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    std::fs::write(path, bytes)
        .map_err(|error| Error::with_source(ErrorKind::Io, format!("cannot write {}: {error}", path.display()), error))
}

/// Bytes of which the first ones are taken again and again.
pub(super) struct Cut<'a> {
    format: &'static str,
    all: usize,
    left: &'a [u8],
}

impl<'a> Cut<'a> {
    pub fn new(format: &'static str, bytes: &'a [u8]) -> Cut<'a> {
        Cut { format, all: bytes.len(), left: bytes }
    }

    /// The next bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let Some((taken, left)) = self.left.split_at_checked(count) else {
            let (at, left) = (self.all - self.left.len(), self.left.len());
            return Err(bad(self.format, format!("{count} bytes belong at byte {at}, and {left} are there")));
        };
        self.left = left;
        Ok(taken)
    }

    pub fn array<const COUNT: usize>(&mut self) -> Result<[u8; COUNT], Error> {
        let taken = self.take(COUNT)?;
        Ok(std::array::from_fn(|at| taken[at]))
    }

    pub fn u16(&mut self) -> Result<u16, Error> {
        self.array().map(u16::from_le_bytes)
    }

    /// The next numbers of 16 bits.
    pub fn words<const COUNT: usize>(&mut self) -> Result<[u16; COUNT], Error> {
        let mut words = [0; COUNT];
        for word in &mut words {
            *word = self.u16()?;
        }
        Ok(words)
    }

    pub fn u32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, Error> {
        self.array().map(u64::from_le_bytes)
    }

    /// A count of things that take so many bytes each, at least: there are no more than fit.
    pub fn count(&mut self, each: usize) -> Result<usize, Error> {
        let count = self.u64()?;
        let fits = usize::try_from(count).ok().filter(|count| *count <= self.left.len() / each.max(1));
        fits.ok_or_else(|| bad(self.format, format!("a count of {count} is more than the rest of the file has")))
    }

    /// Refuses bytes that nobody has taken.
    pub fn end(&self) -> Result<(), Error> {
        match self.left.len() {
            0 => Ok(()),
            left => Err(bad(self.format, format!("{left} bytes are left over at its end"))),
        }
    }
}

/// Elements that bytes can be made of.
trait Bytes: Element {
    fn read(bytes: &[u8]) -> Self;
    fn write(self, into: &mut Vec<u8>);
}

macro_rules! by_bytes {
    ($($type:ty),*) => {$(
        impl Bytes for $type {
            fn read(bytes: &[u8]) -> $type {
                <$type>::from_le_bytes(std::array::from_fn(|at| bytes[at]))
            }

            fn write(self, into: &mut Vec<u8>) {
                into.extend(self.to_le_bytes());
            }
        }
    )*};
}

by_bytes!(f32, f64, f16, bf16, i8, u8, i32, i64);

impl Bytes for bool {
    fn read(bytes: &[u8]) -> bool {
        bytes[0] != 0
    }

    fn write(self, into: &mut Vec<u8>) {
        into.push(self.into());
    }
}

/// An array of the next bytes.
pub(super) fn from_bytes(
    runtime: &Runtime,
    format: &'static str,
    cut: &mut Cut<'_>,
    dtype: DType,
    shape: Shape,
) -> Result<NDArray, Error> {
    let bytes = shape.size().checked_mul(dtype.size()).ok_or_else(|| bad(format, format!("its shape is {shape}")))?;
    let bytes = cut.take(bytes)?;
    with_type!(dtype, T => {
        let values: Vec<T> = bytes.chunks_exact(size_of::<T>()).map(T::read).collect();
        runtime.from_slice(&values, shape)
    })
}

/// Waits for an array, and appends its values.
pub(super) fn to_bytes(array: &NDArray, into: &mut Vec<u8>) -> Result<(), Error> {
    into.reserve(array.size() * array.dtype().size());
    with_type!(array.dtype(), T => array.to_vec::<T>()?.into_iter().for_each(|value| value.write(into)));
    Ok(())
}
