//! Arithmetic on arrays: the methods and operators of `NDArray` that call operators by the
//! registry's names. Programs call them on any thread.

#![forbid(unsafe_code)]

use crate::dtype::DType;
use crate::error::{Error, ErrorKind};
use crate::ndarray::array::NDArray;
use crate::operator::op::Op;
use crate::operator::tape;
use crate::request::OpReq;
use seriatim::Context;
use std::sync::OnceLock;

/// The operator of a name without parameters, which is made once.
macro_rules! cached {
    ($name:literal) => {{
        static OP: OnceLock<Result<Op, Error>> = OnceLock::new();
        OP.get_or_init(|| Op::new($name, &[])).as_ref().map_err(Error::clone)
    }};
}

macro_rules! unary {
    ($($method:ident = $name:literal, $about:literal, $example:literal;)*) => {
        impl NDArray {$(
            #[doc = $about]
            ///
            /// # Errors
            /// [`UnsupportedType`](crate::ErrorKind::UnsupportedType), and those of a push.
            ///
            /// ```
            #[doc = concat!("let x = seriatim_tensor::NDArray::from_slice(&[1.0f64], [1])?.", stringify!($method), "()?;")]
            #[doc = concat!("assert!((x.to_vec::<f64>()?[0] - ", $example, ").abs() < 1e-12);")]
            /// # Ok::<(), seriatim_tensor::Error>(())
            /// ```
            pub fn $method(&self) -> Result<NDArray, Error> {
                cached!($name)?.invoke(&[self])
            }
        )*}
    };
}

unary! {
    negative = "negative", "−x of each element.", "-1.0";
    abs = "abs", "The absolute value of each element.", "1.0";
    square = "square", "The square of each element.", "1.0";
    sqrt = "sqrt", "The square root of each element.", "1.0";
    exp = "exp", "eˣ of each element.", "std::f64::consts::E";
    log = "log", "The natural logarithm of each element.", "0.0";
    sin = "sin", "The sine of each element.", "1f64.sin()";
    cos = "cos", "The cosine of each element.", "1f64.cos()";
    tanh = "tanh", "The hyperbolic tangent of each element.", "1f64.tanh()";
    sigmoid = "sigmoid", "1 / (1 + e⁻ˣ) of each element.", "(1.0 / (1.0 + (-1f64).exp()))";
    relu = "relu", "Each element, or 0 where it is below.", "1.0";
    softmax = "softmax", "The softmax along the last axis.", "1.0";
    log_softmax = "log_softmax", "The logarithm of the softmax along the last axis.", "0.0";
    sum = "sum", "The sum of all elements, an array without axes.", "1.0";
    mean = "mean", "The mean of all elements, an array without axes.", "1.0";
    max = "max", "The greatest element, an array without axes.", "1.0";
    min = "min", "The least element, an array without axes.", "1.0";
    norm = "norm", "The root of the sum of squares, an array without axes.", "1.0";
}

macro_rules! binary {
    ($($method:ident, $scalar:ident = $equal:literal, $broadcast:literal, $of_scalar:literal,
        $about:literal, $example:literal;)*) => {
        impl NDArray {$(
            #[doc = concat!($about, " of each two elements. Shapes broadcast by NumPy's rule.")]
            ///
            /// # Errors
            /// [`ShapeMismatch`](crate::ErrorKind::ShapeMismatch),
            /// [`UnsupportedType`](crate::ErrorKind::UnsupportedType),
            /// [`ForeignArray`](crate::ErrorKind::ForeignArray), and those of a push.
            ///
            /// ```
            /// # use seriatim_tensor::NDArray;
            /// let (a, b) = (NDArray::from_slice(&[6.0f32], [1])?, NDArray::from_slice(&[2.0f32], [])?);
            #[doc = concat!("assert_eq!(a.", stringify!($method), "(&b)?.to_vec::<f32>()?, [", $example, "]);")]
            /// # Ok::<(), seriatim_tensor::Error>(())
            /// ```
            pub fn $method(&self, other: &NDArray) -> Result<NDArray, Error> {
                let op = if self.shape() == other.shape() { cached!($equal) } else { cached!($broadcast) };
                op?.invoke(&[self, other])
            }

            #[doc = concat!($about, " of each element and a number.")]
            ///
            /// # Errors
            /// [`UnsupportedType`](crate::ErrorKind::UnsupportedType), and those of a push.
            ///
            /// ```
            /// # use seriatim_tensor::NDArray;
            /// let a = NDArray::from_slice(&[6.0f32], [1])?;
            #[doc = concat!("assert_eq!(a.", stringify!($scalar), "(2.0)?.to_vec::<f32>()?, [", $example, "]);")]
            /// # Ok::<(), seriatim_tensor::Error>(())
            /// ```
            pub fn $scalar(&self, scalar: f64) -> Result<NDArray, Error> {
                cached!($of_scalar)?.with_scalar(scalar).invoke(&[self])
            }
        )*}
    };
}

binary! {
    add, add_scalar = "elemwise_add", "broadcast_add", "_plus_scalar", "The sum", "8.0";
    sub, sub_scalar = "elemwise_sub", "broadcast_sub", "_minus_scalar", "The difference", "4.0";
    mul, mul_scalar = "elemwise_mul", "broadcast_mul", "_mul_scalar", "The product", "12.0";
    div, div_scalar = "elemwise_div", "broadcast_div", "_div_scalar", "The quotient", "3.0";
    power, power_scalar = "_power", "broadcast_power", "_power_scalar", "The power", "36.0";
    maximum, maximum_scalar = "_maximum", "broadcast_maximum", "_maximum_scalar", "The greater", "6.0";
    minimum, minimum_scalar = "_minimum", "broadcast_minimum", "_minimum_scalar", "The lesser", "2.0";
    equal, equal_scalar = "_equal", "broadcast_equal", "_equal_scalar", "Whether both are equal, 1 or 0,", "0.0";
    greater, greater_scalar = "_greater", "broadcast_greater", "_greater_scalar", "Whether the first is greater, 1 or 0,", "1.0";
    lesser, lesser_scalar = "_lesser", "broadcast_lesser", "_lesser_scalar", "Whether the first is lesser, 1 or 0,", "0.0";
}

macro_rules! assign {
    ($($method:ident, $scalar:ident = $equal:literal, $broadcast:literal, $of_scalar:literal, $sign:literal, $example:literal;)*) => {
        impl NDArray {$(
            #[doc = concat!("`", $sign, "`, in place: no temporary array is made. The other array broadcasts.")]
            ///
            /// # Errors
            /// As for the operation; [`Recording`](crate::ErrorKind::Recording) if gradients are
            /// recorded of one of the arrays.
            ///
            /// ```
            /// # use seriatim_tensor::NDArray;
            /// let (a, b) = (NDArray::from_slice(&[6.0f32, 4.0], [2])?, NDArray::from_slice(&[2.0f32], [])?);
            #[doc = concat!("a.", stringify!($method), "(&b)?;")]
            #[doc = concat!("assert_eq!(a.to_vec::<f32>()?, ", $example, ");")]
            /// # Ok::<(), seriatim_tensor::Error>(())
            /// ```
            pub fn $method(&self, other: &NDArray) -> Result<(), Error> {
                if self.shape() == other.shape() {
                    return cached!($equal)?.invoke_into(&[self, other], &[(self, OpReq::Inplace)]);
                }
                let shown = other.viewed(other.layout().broadcast_to(self.shape())?)?;
                cached!($equal)?.invoke_into(&[self, &shown], &[(self, OpReq::Inplace)])
            }

            #[doc = concat!("`", $sign, "` with a number, in place.")]
            ///
            /// # Errors
            /// As for the operation; [`Recording`](crate::ErrorKind::Recording).
            ///
            /// ```
            /// # use seriatim_tensor::NDArray;
            /// let a = NDArray::from_slice(&[6.0f32, 4.0], [2])?;
            #[doc = concat!("a.", stringify!($scalar), "(2.0)?;")]
            #[doc = concat!("assert_eq!(a.to_vec::<f32>()?, ", $example, ");")]
            /// # Ok::<(), seriatim_tensor::Error>(())
            /// ```
            pub fn $scalar(&self, scalar: f64) -> Result<(), Error> {
                cached!($of_scalar)?.with_scalar(scalar).invoke_into(&[self], &[(self, OpReq::Inplace)])
            }
        )*}
    };
}

assign! {
    add_assign, add_scalar_assign = "elemwise_add", "broadcast_add", "_plus_scalar", "+=", "[8.0, 6.0]";
    sub_assign, sub_scalar_assign = "elemwise_sub", "broadcast_sub", "_minus_scalar", "-=", "[4.0, 2.0]";
    mul_assign, mul_scalar_assign = "elemwise_mul", "broadcast_mul", "_mul_scalar", "*=", "[12.0, 8.0]";
    div_assign, div_scalar_assign = "elemwise_div", "broadcast_div", "_div_scalar", "/=", "[3.0, 2.0]";
}

macro_rules! signs {
    ($($trait:ident, $method:ident, $scalar:ident;)*) => {$(
        impl std::ops::$trait for &NDArray {
            type Output = Result<NDArray, Error>;

            fn $method(self, other: &NDArray) -> Result<NDArray, Error> {
                NDArray::$method(self, other)
            }
        }

        impl std::ops::$trait<f64> for &NDArray {
            type Output = Result<NDArray, Error>;

            fn $method(self, scalar: f64) -> Result<NDArray, Error> {
                self.$scalar(scalar)
            }
        }
    )*};
}

signs! {
    Add, add, add_scalar;
    Sub, sub, sub_scalar;
    Mul, mul, mul_scalar;
    Div, div, div_scalar;
}

impl std::ops::Neg for &NDArray {
    type Output = Result<NDArray, Error>;

    fn neg(self) -> Result<NDArray, Error> {
        self.negative()
    }
}

impl NDArray {
    /// The product over the last axis of this array and the first of the other one: of matrices,
    /// their product.
    ///
    /// # Errors
    /// As for [`add`](NDArray::add).
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// let a = NDArray::from_slice(&[1.0f64, 2.0, 3.0, 4.0], [2, 2])?;
    /// assert_eq!(a.dot(&a)?.to_vec::<f64>()?, [7.0, 10.0, 15.0, 22.0]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn dot(&self, other: &NDArray) -> Result<NDArray, Error> {
        cached!("dot")?.invoke(&[self, other])
    }

    /// The same values in memory of their own, one after the other.
    ///
    /// # Errors
    /// Those of a push.
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// let x = NDArray::from_slice(&[1, 2], [2])?;
    /// let y = x.copy()?;
    /// x.fill(0)?;
    /// assert_eq!(y.to_vec::<i32>()?, [1, 2]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn copy(&self) -> Result<NDArray, Error> {
        if self.is_on_device() {
            let copy = self.runtime().empty_in(self.shape(), self.dtype(), self.context())?;
            self.copy_to(&copy)?;
            return Ok(copy);
        }
        cached!("_copy")?.invoke(&[self])
    }

    /// Writes the values into another array of the same shape, converted to its type (`copyto`).
    ///
    /// The other array may lie in another context. If one lies on a GPU, both have the same type,
    /// and the copy is an operation of the GPU. Where a part of an array of a GPU is written, all
    /// of it goes to the processor and back, as drivers copy arrays whole here.
    ///
    /// # Errors
    /// As for [`add`](NDArray::add). At the wait, with shape and contexts,
    /// [`DeviceFailed`](ErrorKind::DeviceFailed) if the driver refuses the copy.
    ///
    /// ```
    /// # use seriatim_tensor::{DType, NDArray};
    /// let (x, y) = (NDArray::from_slice(&[1.7f32], [1])?, NDArray::zeros([1], DType::I32)?);
    /// x.copy_to(&y)?;
    /// assert_eq!(y.to_vec::<i32>()?, [1]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn copy_to(&self, other: &NDArray) -> Result<(), Error> {
        if self.is_on_device() || other.is_on_device() {
            if tape::is_recording() && [self, other].into_iter().any(tape::is_tracked) {
                let message = "an array of which gradients are recorded is copied from or to a GPU: pause recording";
                return Err(Error::new(ErrorKind::Recording, message));
            }
            return self.copy_across(other);
        }
        match self.dtype() == other.dtype() {
            true => cached!("_copy")?.invoke_into(&[self], &[(other, OpReq::Write)]),
            false => cast(other.dtype())?.invoke_into(&[self], &[(other, OpReq::Write)]),
        }
    }

    /// The values converted to another type, in memory of their own.
    ///
    /// # Errors
    /// Those of a push.
    ///
    /// ```
    /// # use seriatim_tensor::{DType, NDArray};
    /// let x = NDArray::from_slice(&[0i64, 3], [2])?.astype(DType::Bool)?;
    /// assert_eq!(x.to_vec::<bool>()?, [false, true]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn astype(&self, dtype: DType) -> Result<NDArray, Error> {
        cast(dtype)?.invoke(&[self])
    }

    /// The same values in memory of a context, or the array itself if it is there. A gradient by
    /// them goes back to the context of this array.
    ///
    /// # Errors
    /// Those of [`empty_in`](crate::Runtime::empty_in) and of [`copy_to`](NDArray::copy_to).
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// let pinned = NDArray::from_slice(&[1, 2], [2])?.as_in_context(seriatim::Context::cpu_pinned(0))?;
    /// assert_eq!(pinned.to_vec::<i32>()?, [1, 2]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn as_in_context(&self, context: Context) -> Result<NDArray, Error> {
        if context == self.context() {
            return Ok(self.clone());
        }
        let copy = self.runtime().empty_in(self.shape(), self.dtype(), context)?;
        {
            let _before = tape::Before::set(false, tape::is_training());
            self.copy_to(&copy)?;
        }
        tape::record_copy(self, &copy);
        Ok(copy)
    }
}

/// The operator that converts to a type.
fn cast(dtype: DType) -> Result<&'static Op, Error> {
    static OPS: [OnceLock<Result<Op, Error>>; DType::ALL.len()] = [const { OnceLock::new() }; DType::ALL.len()];
    let number = DType::ALL.iter().position(|known| *known == dtype).unwrap_or_default();
    OPS[number].get_or_init(|| Op::new("Cast", &[("dtype", dtype.name())])).as_ref().map_err(Error::clone)
}
