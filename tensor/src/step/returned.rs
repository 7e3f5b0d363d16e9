//! `Returned`: what the closure of a step may return. Its arrays stay usable outside.

#![forbid(unsafe_code)]

use crate::ndarray::array::NDArray;

/// Arrays that the closure of a [`Step`](crate::Step) returns: none, one, a list, an array, an
/// option or a tuple of them, or a type of the program's.
///
/// ```
/// use seriatim_tensor::{step::Returned, NDArray, Step};
/// struct Both {
///     sum: NDArray,
///     square: NDArray,
/// }
/// impl Returned for Both {
///     fn visit(&self, visit: &mut dyn FnMut(&NDArray)) {
///         visit(&self.sum);
///         visit(&self.square);
///     }
/// }
/// let x = NDArray::from_slice(&[1.0f32, 2.0], [2])?;
/// let mut step = Step::capture(&[&x], |inputs| {
///     Ok(Both { sum: inputs[0].sum()?, square: inputs[0].square()? })
/// })?;
/// let Both { sum, square } = step.run(&[&x])?;
/// assert_eq!((sum.as_scalar::<f32>()?, square.to_vec::<f32>()?), (3.0, vec![1.0, 4.0]));
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
pub trait Returned {
    /// Calls `visit` with each array. An array that is left out cannot be used outside.
    fn visit(&self, visit: &mut dyn FnMut(&NDArray));
}

impl Returned for () {
    fn visit(&self, _: &mut dyn FnMut(&NDArray)) {}
}

impl Returned for NDArray {
    fn visit(&self, visit: &mut dyn FnMut(&NDArray)) {
        visit(self);
    }
}

impl<R: Returned> Returned for Option<R> {
    fn visit(&self, visit: &mut dyn FnMut(&NDArray)) {
        self.iter().for_each(|returned| returned.visit(visit));
    }
}

impl<R: Returned> Returned for Vec<R> {
    fn visit(&self, visit: &mut dyn FnMut(&NDArray)) {
        self.iter().for_each(|returned| returned.visit(visit));
    }
}

impl<R: Returned, const N: usize> Returned for [R; N] {
    fn visit(&self, visit: &mut dyn FnMut(&NDArray)) {
        self.iter().for_each(|returned| returned.visit(visit));
    }
}

macro_rules! tuples {
    ($($($name:ident $place:tt),+;)+) => {$(
        impl<$($name: Returned),+> Returned for ($($name,)+) {
            fn visit(&self, visit: &mut dyn FnMut(&NDArray)) {
                $(self.$place.visit(visit);)+
            }
        }
    )+};
}

tuples! {
    A 0;
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
}
