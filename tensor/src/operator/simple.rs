//! `SimpleOp`: operators of one or two operands with one output, each registered by a function and
//! a gradient.
//!
//! `elementwise.rs` registers those of this crate by it, and programs register theirs. The kind of
//! a gradient is the type of its function, so the kind, what the backward pass is given and what is
//! kept for it cannot disagree.

#![forbid(unsafe_code)]

use crate::dtype::DType;
use crate::error::{Error, ErrorKind};
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::op::register;
use crate::operator::property::{OpContext, OperatorProperty, FLOATS, PROCESSOR};
use crate::operator::simple_property::SimpleProperty;
use crate::request::OpReq;
use crate::resource::ResourceRequest;
use crate::shape::Shape;
use seriatim::Device;
use std::fmt;
use std::sync::Arc;

/// What a [`SimpleOp`] is told beside its operands: the scalar, the keywords, and the context with
/// the resources.
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

/// Where an operand and a result may share memory. It is a suggestion, and invisible to functions.
///
/// ```
/// assert_eq!(seriatim_tensor::operator::Inplace::default(), seriatim_tensor::operator::Inplace::No);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Inplace {
    /// Nowhere (`kNoInplace`).
    #[default]
    No,
    /// The operand of a unary function with its output, or the first one of a binary function
    /// (`kInplaceInOut`, `kInplaceLhsOut`).
    InOut,
}

type Env<'a, 'c, 'r> = EnvArguments<'a, 'c, 'r>;
type Done = Result<(), Error>;

type UnaryShape = dyn Fn(&Shape, f64, &[(String, String)]) -> Result<Shape, Error> + Send + Sync;
type BinaryShape = dyn Fn(&Shape, &Shape, f64, &[(String, String)]) -> Result<Shape, Error> + Send + Sync;
type UnaryFunction = dyn Fn(Input0<'_>, &mut Env<'_, '_, '_>, &mut BlobMut<'_>, OpReq) -> Done + Send + Sync;
type BinaryFunction =
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

pub(super) enum Function {
    Unary(Box<UnaryFunction>, Box<UnaryShape>, Option<UnaryGradient>),
    Binary(Box<BinaryFunction>, Box<BinaryShape>, Option<BinaryGradient>),
}

/// An operator of one or two operands that is about to be registered.
///
/// ```
/// use seriatim_tensor::operator::{unary_map, Inplace, Op, SimpleOp};
/// use seriatim_tensor::{autograd, NDArray, OpReq};
/// // x³ with its gradient 3 x²: an operator from two closures.
/// SimpleOp::unary("cube", |x, _, out, req| unary_map(x.0, out, req, |x| x * x * x))
///     .inplace(Inplace::InOut)
///     .gradient_by_input(|g, x, _, out, req| {
///         seriatim_tensor::operator::binary_map(g.0, x.0, out, req, |g, x| g * 3.0 * x * x)
///     })
///     .describe("The third power")
///     .register()?;
/// let x = NDArray::from_slice(&[2.0f64], [1])?;
/// x.attach_grad(OpReq::Write)?;
/// let y = autograd::record(|| Op::new("cube", &[])?.invoke(&[&x]))?;
/// autograd::backward(&[&y])?;
/// assert_eq!((y.as_scalar::<f64>()?, x.grad()?.as_scalar::<f64>()?), (8.0, 12.0));
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
#[must_use = "nothing is registered until register() is called"]
pub struct SimpleOp {
    pub(super) name: &'static str,
    pub(super) function: Function,
    pub(super) inplace: Inplace,
    pub(super) types: &'static [DType],
    pub(super) output_type: Option<DType>,
    pub(super) scalar: bool,
    pub(super) kwargs: bool,
    pub(super) resources: Vec<ResourceRequest>,
    pub(super) devices: &'static [Device],
    pub(super) description: String,
}

impl SimpleOp {
    /// An operator of one operand. By default the output has its shape.
    pub fn unary(
        name: &'static str,
        function: impl Fn(Input0<'_>, &mut EnvArguments<'_, '_, '_>, &mut BlobMut<'_>, OpReq) -> Result<(), Error>
            + Send
            + Sync
            + 'static,
    ) -> SimpleOp {
        let same = |shape: &Shape, _: f64, _: &[(String, String)]| Ok(*shape);
        SimpleOp::of(name, Function::Unary(Box::new(function), Box::new(same), None))
    }

    /// An operator of two operands. By default they have the same shape, and the output has it too.
    pub fn binary(
        name: &'static str,
        function: impl Fn(Input0<'_>, Input1<'_>, &mut EnvArguments<'_, '_, '_>, &mut BlobMut<'_>, OpReq) -> Result<(), Error>
            + Send
            + Sync
            + 'static,
    ) -> SimpleOp {
        let equal = |lhs: &Shape, rhs: &Shape, _: f64, _: &[(String, String)]| match lhs == rhs {
            true => Ok(*lhs),
            false => {
                let message = format!("its operands have shapes {lhs} and {rhs}, which must be equal");
                Err(Error::new(ErrorKind::ShapeMismatch, message))
            }
        };
        SimpleOp::of(name, Function::Binary(Box::new(function), Box::new(equal), None))
    }

    fn of(name: &'static str, function: Function) -> SimpleOp {
        let (types, resources, devices, description) = (FLOATS, Vec::new(), PROCESSOR, String::new());
        let (inplace, output_type, scalar, kwargs) = (Inplace::No, None, false, false);
        SimpleOp { name, function, inplace, types, output_type, scalar, kwargs, resources, devices, description }
    }

    /// The output's shape of a unary operator, from the operand's, the scalar and the keywords. It
    /// may also refuse these.
    ///
    /// # Panics
    /// If the operator is binary.
    pub fn unary_shape(
        mut self,
        of: impl Fn(&Shape, f64, &[(String, String)]) -> Result<Shape, Error> + Send + Sync + 'static,
    ) -> SimpleOp {
        match &mut self.function {
            Function::Unary(_, shape, _) => *shape = Box::new(of),
            Function::Binary(..) => panic!("'{}' is binary", self.name),
        }
        self
    }

    /// The output's shape of a binary operator.
    ///
    /// # Panics
    /// If the operator is unary.
    pub fn binary_shape(
        mut self,
        of: impl Fn(&Shape, &Shape, f64, &[(String, String)]) -> Result<Shape, Error> + Send + Sync + 'static,
    ) -> SimpleOp {
        match &mut self.function {
            Function::Binary(_, shape, _) => *shape = Box::new(of),
            Function::Unary(..) => panic!("'{}' is unary", self.name),
        }
        self
    }

    /// The gradient of a unary operator, of any kind.
    ///
    /// # Panics
    /// If the operator is binary.
    pub fn unary_gradient(mut self, of: UnaryGradient) -> SimpleOp {
        match &mut self.function {
            Function::Unary(_, _, gradient) => *gradient = Some(of),
            Function::Binary(..) => panic!("'{}' is binary", self.name),
        }
        self
    }

    /// The gradient of a unary operator that uses the operand: the kind T2.
    ///
    /// # Panics
    /// If the operator is binary.
    pub fn gradient_by_input(
        self,
        of: impl Fn(OutputGrad<'_>, Input0<'_>, &mut EnvArguments<'_, '_, '_>, &mut BlobMut<'_>, OpReq) -> Result<(), Error>
            + Send
            + Sync
            + 'static,
    ) -> SimpleOp {
        self.unary_gradient(UnaryGradient::T2(Box::new(of)))
    }

    /// The gradients of a binary operator.
    ///
    /// # Panics
    /// If the operator is unary.
    pub fn binary_gradient(mut self, of: BinaryGradient) -> SimpleOp {
        match &mut self.function {
            Function::Binary(_, _, gradient) => *gradient = Some(of),
            Function::Unary(..) => panic!("'{}' is unary", self.name),
        }
        self
    }

    /// Where the function may work in place.
    pub fn inplace(mut self, inplace: Inplace) -> SimpleOp {
        self.inplace = inplace;
        self
    }

    /// The types that operands may have; the floats by default.
    pub fn types(mut self, types: &'static [DType]) -> SimpleOp {
        self.types = types;
        self
    }

    /// The type of the output, if it is always the same; by default it is that of the operands.
    pub fn output_type(mut self, dtype: DType) -> SimpleOp {
        self.output_type = Some(dtype);
        self
    }

    /// Gives functions a scalar: the parameter `scalar`, or
    /// [`Op::with_scalar`](crate::operator::Op::with_scalar).
    pub fn enable_scalar(mut self, enable: bool) -> SimpleOp {
        self.scalar = enable;
        self
    }

    /// Gives functions whatever parameters a call has.
    pub fn enable_kwargs(mut self, enable: bool) -> SimpleOp {
        self.kwargs = enable;
        self
    }

    /// The resources that functions and gradients get.
    pub fn resource_requests(mut self, requests: &[ResourceRequest]) -> SimpleOp {
        self.resources = requests.to_vec();
        self
    }

    /// The kinds of devices that the functions are for; those of the processor by default. On
    /// others the operator is refused with
    /// [`UnsupportedContext`](ErrorKind::UnsupportedContext).
    pub fn devices(mut self, devices: &'static [Device]) -> SimpleOp {
        self.devices = devices;
        self
    }

    /// What it does, for people.
    pub fn describe(mut self, description: &str) -> SimpleOp {
        self.description = description.into();
        self
    }

    /// Registers the operator.
    ///
    /// # Errors
    /// [`AlreadyRegistered`](ErrorKind::AlreadyRegistered);
    /// [`BadParameter`](ErrorKind::BadParameter) if both a scalar and keywords are enabled.
    pub fn register(self) -> Result<(), Error> {
        let (name, description, make) = self.ready()?;
        register(name, &description, make)
    }

    /// The parts of a registration.
    #[expect(clippy::type_complexity, reason = "they go straight to the registry")]
    pub(crate) fn ready(
        self,
    ) -> Result<
        (
            &'static str,
            String,
            impl Fn(&[(&str, &str)]) -> Result<Box<dyn OperatorProperty>, Error> + Send + Sync + 'static,
        ),
        Error,
    > {
        if self.scalar && self.kwargs {
            let message = format!("'{}' enables both a scalar and keywords: choose one", self.name);
            return Err(Error::new(ErrorKind::BadParameter, message));
        }
        let (name, description) = (self.name, self.description.clone());
        let op = Arc::new(self);
        let make = move |parameters: &[(&str, &str)]| {
            let property = SimpleProperty::new(&op, parameters)?;
            Ok(Box::new(property) as Box<dyn OperatorProperty>)
        };
        Ok((name, description, make))
    }
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

impl fmt::Debug for SimpleOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimpleOp({})", self.name)
    }
}
