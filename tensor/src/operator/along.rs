//! Sums, extremes and probabilities along axes as methods of `NDArray`.
//!
//! Each makes its operator anew, but those of `arithmetic.rs`, which take all elements or the last
//! axis. A program that calls one often makes an [`Op`](crate::operator::Op) once.

#![forbid(unsafe_code)]

use crate::error::Error;
use crate::ndarray::array::NDArray;
use crate::operator::parameters::{Axes, ParameterType};
use crate::operator::shaping::methods::call;

macro_rules! over_axes {
    ($($method:ident = $name:literal, $about:literal, $example:literal;)*) => {
        impl NDArray {$(
            #[doc = concat!($about, " over axes, counted from the end if negative. Without axes it")]
            /// is over all. With `keepdims` the axes stay, with size 1.
            ///
            /// # Errors
            /// [`OutOfRange`](crate::ErrorKind::OutOfRange) if there is no such axis;
            /// [`UnsupportedType`](crate::ErrorKind::UnsupportedType); of extremes
            /// [`ShapeMismatch`](crate::ErrorKind::ShapeMismatch) over no elements; those of a
            /// call.
            ///
            /// ```
            /// # use seriatim_tensor::NDArray;
            /// let x = NDArray::from_slice(&[3.0f32, 4.0, 6.0, 8.0], [2, 2])?;
            #[doc = concat!("let rows = x.", stringify!($method), "(&[-1], false)?;")]
            #[doc = concat!("assert_eq!(rows.to_vec::<f32>()?, ", $example, ");")]
            #[doc = concat!("assert_eq!(x.", stringify!($method), "(&[0, 1], true)?.shape().dims(), [1, 1]);")]
            /// # Ok::<(), seriatim_tensor::Error>(())
            /// ```
            pub fn $method(&self, axes: &[isize], keepdims: bool) -> Result<NDArray, Error> {
                let axes = Axes((!axes.is_empty()).then(|| axes.iter().copied().collect()));
                call($name, &[self], &[("axis", &axes.show()), ("keepdims", &keepdims.show())])
            }
        )*}
    };
}

over_axes! {
    sum_axes = "sum", "The sums", "[7.0, 14.0]";
    mean_axes = "mean", "The means", "[3.5, 7.0]";
    prod_axes = "prod", "The products", "[12.0, 48.0]";
    max_axes = "max", "The greatest elements", "[4.0, 8.0]";
    min_axes = "min", "The least elements", "[3.0, 6.0]";
    norm_axes = "norm", "The roots of the sums of squares", "[5.0, 10.0]";
}

macro_rules! along_axis {
    ($($method:ident = $name:literal, $about:literal, |$x:ident| $example:expr;)*) => {
        impl NDArray {$(
            #[doc = $about]
            ///
            /// # Errors
            /// [`OutOfRange`](crate::ErrorKind::OutOfRange) if there is no such axis;
            /// [`UnsupportedType`](crate::ErrorKind::UnsupportedType); those of a call.
            ///
            /// ```
            /// # use seriatim_tensor::NDArray;
            #[doc = concat!("let ", stringify!($x), " = NDArray::from_slice(&[1.0f32, 9.0, 5.0, 2.0], [2, 2])?;")]
            #[doc = concat!("assert!(", stringify!($example), ");")]
            /// # Ok::<(), seriatim_tensor::Error>(())
            /// ```
            pub fn $method(&self, axis: isize) -> Result<NDArray, Error> {
                call($name, &[self], &[("axis", &axis.to_string())])
            }
        )*}
    };
}

along_axis! {
    argmax = "argmax", "The place of the first greatest element along an axis, as a number of the same type.",
        |x| x.argmax(0)?.to_vec::<f32>()? == [1.0, 0.0];
    argmin = "argmin", "The place of the first least element along an axis, as a number of the same type.",
        |x| x.argmin(-1)?.to_vec::<f32>()? == [0.0, 1.0];
    softmax_axis = "softmax", "The softmax along an axis.",
        |x| (x.softmax_axis(0)?.sum_axes(&[0], false)?.to_vec::<f32>()?[1] - 1.0).abs() < 1e-6;
    log_softmax_axis = "log_softmax", "The logarithm of the softmax along an axis.",
        |x| x.log_softmax_axis(0)?.max()?.as_scalar::<f32>()? <= 0.0;
}
