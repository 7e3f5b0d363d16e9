//! What functions of a [`SimpleOp`](crate::operator::SimpleOp) are given and say: operands, the
//! kinds of gradients, and where results may be written over operands.
//!
//! Used by `simple.rs`, which takes them, and `simple_property.rs`, which calls them.

#![forbid(unsafe_code)]

use crate::error::Error;
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::property::OpContext;
use crate::request::OpReq;
use crate::shape::Shape;
use std::fmt;

/// What a [`SimpleOp`](crate::operator::SimpleOp) is told beside its operands: the scalar, the
/// keywords, and the context with the resources.
#[derive(Debug)]
pub struct EnvArguments<'a, 'c, 'r> {
    /// The scalar, if it is enabled; otherwise 0.
    pub scalar: f64,
    /// The keywords, if they are enabled.
    pub kwargs: &'a [(String, String)],
    /// The context; `ctx.requested` has the resources.
    pub ctx: &'a mut OpContext<'c, 'r>,
}

macro_rules! operands {
    ($($(#[$about:meta])* $name:ident),*) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<'a>(
            /// The array.
            pub Blob<'a>,
        );
    )*};
}

operands! {
    /// The gradient by the output, of a gradient function.
    OutputGrad,
    /// The output, of a gradient function.
    OutputValue,
    /// The first operand, of a gradient function.
    Input0,
    /// The second operand, of a gradient function.
    Input1
}

/// Where a function or a gradient may write its result over what it reads. It is a suggestion, and
/// invisible to functions: they compute each element from those at its place.
///
/// ```
/// assert_eq!(seriatim_tensor::operator::Inplace::default(), seriatim_tensor::operator::Inplace::No);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Inplace {
    /// Nowhere (`kNoInplace`).
    #[default]
    No,
    /// The output over the operand of a unary function, or over the first one of a binary function
    /// (`kInplaceInOut`, `kInplaceLhsOut`).
    InOut,
    /// The gradient by the operand of a unary function, or by the first one of a binary function,
    /// over the gradient by the output (`kInplaceOutIn`, `kInplaceOutLhs`). A binary gradient
    /// writes the one by the second operand first, as it reads what the other one is written over.
    OutIn,
}

pub(super) type Env<'a, 'c, 'r> = EnvArguments<'a, 'c, 'r>;
pub(super) type Done = Result<(), Error>;

pub(super) type UnaryShape = dyn Fn(&Shape, f64, &[(String, String)]) -> Result<Shape, Error> + Send + Sync;
pub(super) type BinaryShape = dyn Fn(&Shape, &Shape, f64, &[(String, String)]) -> Result<Shape, Error> + Send + Sync;
pub(super) type UnaryFunction = dyn Fn(Input0<'_>, &mut Env<'_, '_, '_>, &mut BlobMut<'_>, OpReq) -> Done + Send + Sync;
pub(super) type BinaryFunction =
    dyn Fn(Input0<'_>, Input1<'_>, &mut Env<'_, '_, '_>, &mut BlobMut<'_>, OpReq) -> Done + Send + Sync;

/// The gradient of a unary function, by what it uses besides the gradient by the output. Each
/// multiplies by that gradient (the chain rule), and writes as the request says.
#[expect(clippy::type_complexity, reason = "the types are the kinds")]
pub enum UnaryGradient {
    /// Nothing else.
    T0(Box<dyn Fn(OutputGrad<'_>, &mut Env<'_, '_, '_>, &mut BlobMut<'_>, OpReq) -> Done + Send + Sync>),
    /// The output.
    T1(
        Box<
            dyn Fn(OutputGrad<'_>, OutputValue<'_>, &mut Env<'_, '_, '_>, &mut BlobMut<'_>, OpReq) -> Done
                + Send
                + Sync,
        >,
    ),
    /// The operand.
    T2(Box<dyn Fn(OutputGrad<'_>, Input0<'_>, &mut Env<'_, '_, '_>, &mut BlobMut<'_>, OpReq) -> Done + Send + Sync>),
}

/// Results of a binary gradient: the gradients by both operands, and how each is written.
pub type TwoGradients<'a, 'b> = ([&'a mut BlobMut<'b>; 2], [OpReq; 2]);

/// The gradients of a binary function, by what they use besides the gradient by the output.
#[expect(clippy::type_complexity, reason = "the types are the kinds")]
pub enum BinaryGradient {
    /// Nothing else.
    T0(Box<dyn Fn(OutputGrad<'_>, &mut Env<'_, '_, '_>, TwoGradients<'_, '_>) -> Done + Send + Sync>),
    /// The output.
    T1(Box<dyn Fn(OutputGrad<'_>, OutputValue<'_>, &mut Env<'_, '_, '_>, TwoGradients<'_, '_>) -> Done + Send + Sync>),
    /// Both operands.
    T2(
        Box<
            dyn Fn(OutputGrad<'_>, Input0<'_>, Input1<'_>, &mut Env<'_, '_, '_>, TwoGradients<'_, '_>) -> Done
                + Send
                + Sync,
        >,
    ),
}

/// What does the work on some devices.
pub(super) enum Functions {
    Unary(Box<UnaryFunction>, Option<UnaryGradient>),
    Binary(Box<BinaryFunction>, Option<BinaryGradient>),
}

/// The shape of the output.
pub(super) enum OutShape {
    Unary(Box<UnaryShape>),
    Binary(Box<BinaryShape>),
}

impl fmt::Debug for UnaryGradient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UnaryGradient::T0(_) => "T0",
            UnaryGradient::T1(_) => "T1",
            UnaryGradient::T2(_) => "T2",
        })
    }
}

impl fmt::Debug for BinaryGradient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BinaryGradient::T0(_) => "T0",
            BinaryGradient::T1(_) => "T1",
            BinaryGradient::T2(_) => "T2",
        })
    }
}
