//! `DType`, the type of an array's elements, and `Element`, the Rust types that they are.
//!
//! All other folders use them. Values of different types are converted through [`Number`], which
//! has a whole number or a float, so that no bit of an `i64` is lost.

#![forbid(unsafe_code)]

use crate::error::{Error, ErrorKind};
use half::{bf16, f16};
use std::fmt;

/// The type of an array's elements.
///
/// `F16` and `Bf16` are storage types: operators compute with `f32` and round once at the end.
///
/// ```
/// use seriatim_tensor::DType;
/// assert_eq!(DType::F32.size(), 4);
/// assert_eq!("int64".parse::<DType>()?, DType::I64);
/// assert_eq!(DType::Bf16.to_string(), "bfloat16");
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum DType {
    /// 32-bit float.
    F32,
    /// 64-bit float.
    F64,
    /// 16-bit float of IEEE 754.
    F16,
    /// 16-bit float with the exponent of an `f32`.
    Bf16,
    /// Signed byte.
    I8,
    /// Unsigned byte.
    U8,
    /// 32-bit whole number.
    I32,
    /// 64-bit whole number.
    I64,
    /// `true` or `false`, one byte.
    Bool,
}

impl DType {
    /// All of them.
    pub const ALL: [DType; 9] =
        [DType::F32, DType::F64, DType::F16, DType::Bf16, DType::I8, DType::U8, DType::I32, DType::I64, DType::Bool];

    /// The bytes of an element.
    ///
    /// ```
    /// assert_eq!(seriatim_tensor::DType::Bool.size(), 1);
    /// ```
    pub const fn size(self) -> usize {
        match self {
            DType::F64 | DType::I64 => 8,
            DType::F32 | DType::I32 => 4,
            DType::F16 | DType::Bf16 => 2,
            DType::I8 | DType::U8 | DType::Bool => 1,
        }
    }

    /// Whether it is one of the four floats.
    ///
    /// ```
    /// use seriatim_tensor::DType;
    /// assert!(DType::F16.is_float() && !DType::U8.is_float());
    /// ```
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F64 | DType::F16 | DType::Bf16)
    }

    /// The name that MXNet and NumPy have for it.
    ///
    /// ```
    /// assert_eq!(seriatim_tensor::DType::F32.name(), "float32");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            DType::F32 => "float32",
            DType::F64 => "float64",
            DType::F16 => "float16",
            DType::Bf16 => "bfloat16",
            DType::I8 => "int8",
            DType::U8 => "uint8",
            DType::I32 => "int32",
            DType::I64 => "int64",
            DType::Bool => "bool",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for DType {
    type Err = Error;

    fn from_str(text: &str) -> Result<DType, Error> {
        DType::ALL.into_iter().find(|dtype| dtype.name() == text).ok_or_else(|| {
            let known = DType::ALL.map(DType::name).join(", ");
            Error::new(ErrorKind::UnsupportedType, format!("no type is named '{text}': known are {known}"))
        })
    }
}

/// A value between two types.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// Of a whole number or a truth value.
    Whole(i64),
    /// Of a float.
    Float(f64),
}

mod sealed {
    pub trait Sealed {}
}

/// A Rust type that elements can have. Nine types have it, and no others can.
///
/// ```
/// use seriatim_tensor::{DType, Element};
/// assert_eq!((f32::DTYPE, bool::DTYPE), (DType::F32, DType::Bool));
/// assert_eq!(i32::from_number(2.7f64.to_number()), 2);
/// ```
pub trait Element: Copy + Default + PartialEq + fmt::Debug + Send + Sync + 'static + sealed::Sealed {
    /// The type's name among the types of elements.
    const DTYPE: DType;

    /// The value, to be converted.
    fn to_number(self) -> Number;

    /// The nearest value. Floats are cut towards zero for whole numbers, and kept within their
    /// range; whole numbers wrap around as Rust's `as` has it; a truth value is whether the number
    /// is not 0.
    fn from_number(number: Number) -> Self;
}

/// The value as an `f32`; one between two of them becomes the one whose last bit is set. Rounded
/// again to fewer bits, it is what the value is if it is rounded once.
#[inline]
fn to_odd(value: f64) -> f32 {
    let near = value as f32;
    if f64::from(near) == value || value.is_nan() {
        return near;
    }
    let is_beyond = f64::from(near).abs() > value.abs();
    f32::from_bits((near.to_bits() - u32::from(is_beyond)) | 1)
}

macro_rules! elements {
    ($($type:ty, $dtype:ident, $variant:ident as $wide:ty, $from_whole:expr, $from_float:expr;)*) => {$(
        impl sealed::Sealed for $type {}
        impl Element for $type {
            const DTYPE: DType = DType::$dtype;

            #[inline]
            fn to_number(self) -> Number {
                Number::$variant(<$wide>::from(self))
            }

            #[inline]
            fn from_number(number: Number) -> $type {
                match number {
                    Number::Whole(value) => ($from_whole)(value),
                    Number::Float(value) => ($from_float)(value),
                }
            }
        }
    )*};
}

elements! {
    f32, F32, Float as f64, |value: i64| value as f32, |value: f64| value as f32;
    f64, F64, Float as f64, |value: i64| value as f64, |value: f64| value;
    f16, F16, Float as f64, |value: i64| f16::from_f32(to_odd(value as f64)), |value| f16::from_f32(to_odd(value));
    bf16, Bf16, Float as f64, |value: i64| bf16::from_f32(to_odd(value as f64)), |value| bf16::from_f32(to_odd(value));
    i8, I8, Whole as i64, |value: i64| value as i8, |value: f64| value as i8;
    u8, U8, Whole as i64, |value: i64| value as u8, |value: f64| value as u8;
    i32, I32, Whole as i64, |value: i64| value as i32, |value: f64| value as i32;
    i64, I64, Whole as i64, |value: i64| value, |value: f64| value as i64;
    bool, Bool, Whole as i64, |value: i64| value != 0, |value: f64| value != 0.0;
}

/// Runs `$body` with `$type` as the Rust type of a [`DType`].
macro_rules! with_type {
    ($dtype:expr, $type:ident => $body:expr) => {
        match $dtype {
            $crate::dtype::DType::F32 => {
                type $type = f32;
                $body
            }
            $crate::dtype::DType::F64 => {
                type $type = f64;
                $body
            }
            $crate::dtype::DType::F16 => {
                type $type = half::f16;
                $body
            }
            $crate::dtype::DType::Bf16 => {
                type $type = half::bf16;
                $body
            }
            $crate::dtype::DType::I8 => {
                type $type = i8;
                $body
            }
            $crate::dtype::DType::U8 => {
                type $type = u8;
                $body
            }
            $crate::dtype::DType::I32 => {
                type $type = i32;
                $body
            }
            $crate::dtype::DType::I64 => {
                type $type = i64;
                $body
            }
            $crate::dtype::DType::Bool => {
                type $type = bool;
                $body
            }
        }
    };
}
pub(crate) use with_type;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_16_bits_are_rounded_once() {
        // A little above the middle between two numbers: the nearer is the upper one, by a bit that
        // an `f32` has last, or has not.
        let little = [2f64.powi(-23), 2f64.powi(-50)];
        for little in little {
            let half = |value: f64| f16::from_number(Number::Float(value)).to_f64();
            let upper = |value: f64| bf16::from_number(Number::Float(value)).to_f64();
            assert_eq!(half(1.0 + 2f64.powi(-11) + little), 1.0 + 2f64.powi(-10));
            assert_eq!(upper(1.0 + 2f64.powi(-8) + little), 1.0 + 2f64.powi(-7));
            assert_eq!([half(1.0 + 2f64.powi(-11)), upper(1.0 + 2f64.powi(-8))], [1.0; 2], "a tie is even");
            assert_eq!(upper(-1.0 - 3.0 * 2f64.powi(-8) + little), -1.0 - 2f64.powi(-7));
        }
        let [largest, least] = [f64::MAX, 1e-300].map(|value| bf16::from_number(Number::Float(value)));
        assert_eq!([largest, least], [bf16::INFINITY, bf16::ZERO]);
        assert!(f16::from_number(Number::Float(f64::NAN)).is_nan());
    }
}
