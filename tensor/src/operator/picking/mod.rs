//! Operators that pick elements by their places, or order them: `take` and `Embedding` are in
//! `take.rs`, `pick` in `pick.rs`, `one_hot` in `one_hot.rs`; `topk`, `sort` and `argsort` in
//! `sort.rs`; `methods.rs` has the methods of arrays.
//!
//! Places may have any type of numbers. They have no gradient.

mod methods;
mod one_hot;
mod pick;
mod sort;
mod take;

use crate::dtype::DType;
use crate::error::{Error, ErrorKind};
use crate::operator::parameters::Choices;
use crate::operator::property::NUMBERS;
use crate::operator::Builtin;
use crate::shape::Shape;

/// What becomes of places that there are not.
#[derive(Clone, Copy, PartialEq, Debug, Choices)]
pub(crate) enum Mode {
    Clip,
    Wrap,
    Raise,
}

impl Mode {
    /// The place that is meant, of so many.
    fn place(self, place: i64, count: usize) -> Result<usize, Error> {
        let last = i64::try_from(count).unwrap_or(i64::MAX) - 1;
        match self {
            Mode::Clip if last >= 0 => Ok(place.clamp(0, last) as usize),
            Mode::Wrap if last >= 0 => Ok(place.rem_euclid(last + 1) as usize),
            Mode::Raise if (0..=last).contains(&place) => Ok(place as usize),
            _ => {
                let message = format!("place {place} is none of the {count} that there are, from 0 on");
                Err(Error::new(ErrorKind::OutOfRange, message))
            }
        }
    }
}

/// How many elements lie around an axis, along it, and within it.
fn around(shape: &Shape, axis: usize) -> [usize; 3] {
    let dims = shape.dims();
    [dims[..axis].iter().product(), dims[axis], dims[axis + 1..].iter().product()]
}

/// Whether the type of an array of places is known; refuses one that has no numbers.
fn check_places(name: &str, dtype: Option<DType>) -> Result<bool, Error> {
    match dtype {
        Some(other) if !NUMBERS.contains(&other) => {
            let message = format!("'{name}' has elements of {other}, which are no places: convert them to int32");
            Err(Error::new(ErrorKind::UnsupportedType, message))
        }
        known => Ok(known.is_some()),
    }
}

/// All of them.
pub(super) fn all(add: &mut Builtin<'_>) {
    take::all(add);
    pick::all(add);
    one_hot::all(add);
    sort::all(add);
}
