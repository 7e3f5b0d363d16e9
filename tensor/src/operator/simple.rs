//! `SimpleOp`: operators of one or two operands with one output, each registered by a function and
//! a gradient.
//!
//! `elementwise.rs` registers those of this crate by it, and programs register theirs. The kind of
//! a gradient is the type of its function, so the kind, what the backward pass is given and what is
//! kept for it cannot disagree.

#![forbid(unsafe_code)]

use crate::dtype::DType;
use crate::error::{Error, ErrorKind};
use crate::ndarray::access::BlobMut;
use crate::operator::fields::Field;
use crate::operator::parameters::ParameterType;
use crate::operator::property::{OperatorProperty, FLOATS, PROCESSOR};
use crate::operator::registry::{self, Maker};
use crate::operator::simple_kinds::{
    BinaryGradient, EnvArguments, Functions, Inplace, Input0, Input1, OutShape, OutputGrad, UnaryGradient,
};
use crate::operator::simple_property::SimpleProperty;
use crate::request::OpReq;
use crate::resource::ResourceRequest;
use crate::shape::Shape;
use seriatim::{Context, Device};
use std::fmt;
use std::sync::Arc;

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
    pub(super) shape: OutShape,
    /// For the devices of `own`.
    pub(super) functions: Functions,
    pub(super) own: &'static [Device],
    /// For one device each, others before `functions`.
    pub(super) elsewhere: Vec<(Device, Functions)>,
    /// All that there is a function for; known when the operator is registered.
    pub(super) devices: Vec<Device>,
    /// Whether the output may be written over the first operand, and the gradient by that over the
    /// one by the output.
    pub(super) inplace: [bool; 2],
    pub(super) types: &'static [DType],
    pub(super) output_type: Option<DType>,
    pub(super) scalar: bool,
    pub(super) kwargs: bool,
    pub(super) resources: Vec<ResourceRequest>,
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
        SimpleOp::of(name, OutShape::Unary(Box::new(same)), Functions::Unary(Box::new(function), None))
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
        SimpleOp::of(name, OutShape::Binary(Box::new(equal)), Functions::Binary(Box::new(function), None))
    }

    fn of(name: &'static str, shape: OutShape, functions: Functions) -> SimpleOp {
        SimpleOp {
            name,
            shape,
            functions,
            own: PROCESSOR,
            elsewhere: Vec::new(),
            devices: Vec::new(),
            inplace: [false; 2],
            types: FLOATS,
            output_type: None,
            scalar: false,
            kwargs: false,
            resources: Vec::new(),
            description: String::new(),
        }
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
        match &mut self.shape {
            OutShape::Unary(shape) => *shape = Box::new(of),
            OutShape::Binary(_) => panic!("'{}' is binary", self.name),
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
        match &mut self.shape {
            OutShape::Binary(shape) => *shape = Box::new(of),
            OutShape::Unary(_) => panic!("'{}' is unary", self.name),
        }
        self
    }

    /// The gradient of a unary operator, of any kind.
    ///
    /// # Panics
    /// If the operator is binary.
    pub fn unary_gradient(mut self, of: UnaryGradient) -> SimpleOp {
        match &mut self.functions {
            Functions::Unary(_, gradient) => *gradient = Some(of),
            Functions::Binary(..) => panic!("'{}' is binary", self.name),
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
        match &mut self.functions {
            Functions::Binary(_, gradient) => *gradient = Some(of),
            Functions::Unary(..) => panic!("'{}' is unary", self.name),
        }
        self
    }

    /// Another function of a unary operator for a kind of device, and its gradient there
    /// (`set_function`, `set_gradient`). Of several for one kind the last counts.
    ///
    /// A function for [`Device::Gpu`] runs in an operation of the GPU that has a
    /// [stream](seriatim::RunContext::stream). Its blobs give
    /// [addresses](crate::Blob::device_address) in place of elements.
    ///
    /// # Panics
    /// If the operator is binary.
    ///
    /// ```
    /// use seriatim::{gpu::Immediate, Context, Device, Engine};
    /// use seriatim_tensor::{operator::{unary_map, Op, SimpleOp}, Runtime};
    /// SimpleOp::unary("halved", |x, _, out, req| unary_map(x.0, out, req, |x| x / 2.0))
    ///     .unary_on(Device::Gpu, |x, env, out, _| {
    ///         assert!(env.ctx.run_ctx.stream().is_some());
    ///         // SAFETY: what is put on the stream, here at once, writes each element.
    ///         let (from, to) = (x.0.device_address()?.cast::<f32>(), unsafe { out.device_address() }?.cast::<f32>());
    ///         for at in 0..x.0.size() {
    ///             // SAFETY: memory of this back end is the processor's, and has so many elements.
    ///             unsafe { to.add(at).write(from.add(at).read() / 2.0) };
    ///         }
    ///         Ok(())
    ///     }, None)
    ///     .register()?;
    /// let runtime = Runtime::new(&Engine::builder().gpus(Immediate::new(1)).build()?);
    /// let x = runtime.from_slice_in(&[1.0f32, 2.0], [2], Context::gpu(0))?;
    /// let y = Op::new("halved", &[])?.invoke(&[&x])?;
    /// assert_eq!((y.context(), y.to_vec::<f32>()?), (Context::gpu(0), vec![0.5, 1.0]));
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn unary_on(
        self,
        device: Device,
        function: impl Fn(Input0<'_>, &mut EnvArguments<'_, '_, '_>, &mut BlobMut<'_>, OpReq) -> Result<(), Error>
            + Send
            + Sync
            + 'static,
        gradient: Option<UnaryGradient>,
    ) -> SimpleOp {
        assert!(matches!(self.functions, Functions::Unary(..)), "'{}' is binary", self.name);
        self.on(device, Functions::Unary(Box::new(function), gradient))
    }

    /// Another function of a binary operator for a kind of device, and its gradients there; as
    /// [`unary_on`](SimpleOp::unary_on).
    ///
    /// # Panics
    /// If the operator is unary.
    pub fn binary_on(
        self,
        device: Device,
        function: impl Fn(Input0<'_>, Input1<'_>, &mut EnvArguments<'_, '_, '_>, &mut BlobMut<'_>, OpReq) -> Result<(), Error>
            + Send
            + Sync
            + 'static,
        gradients: Option<BinaryGradient>,
    ) -> SimpleOp {
        assert!(matches!(self.functions, Functions::Binary(..)), "'{}' is unary", self.name);
        self.on(device, Functions::Binary(Box::new(function), gradients))
    }

    fn on(mut self, device: Device, functions: Functions) -> SimpleOp {
        self.elsewhere.retain(|(other, _)| *other != device);
        self.elsewhere.push((device, functions));
        self
    }

    /// Where functions and gradients may work in place, on all devices. [`Inplace::InOut`] and
    /// [`Inplace::OutIn`] go together: call it for each. [`Inplace::No`] takes both back.
    pub fn inplace(mut self, inplace: Inplace) -> SimpleOp {
        match inplace {
            Inplace::No => self.inplace = [false; 2],
            Inplace::InOut => self.inplace[0] = true,
            Inplace::OutIn => self.inplace[1] = true,
        }
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

    /// The kinds of devices that the first function and gradient are for; those of the processor by
    /// default. On those that no function is for the operator is refused with
    /// [`UnsupportedContext`](ErrorKind::UnsupportedContext).
    pub fn devices(mut self, devices: &'static [Device]) -> SimpleOp {
        self.own = devices;
        self
    }

    /// Those that do the work in a context.
    pub(super) fn functions_on(&self, context: Context) -> &Functions {
        let elsewhere = self.elsewhere.iter().find(|(device, _)| *device == context.device());
        elsewhere.map_or(&self.functions, |(_, functions)| functions)
    }

    /// The functions of all devices.
    pub(super) fn all_functions(&self) -> impl Iterator<Item = &Functions> {
        self.elsewhere.iter().map(|(_, functions)| functions).chain([&self.functions])
    }

    /// What makes the list of parameters.
    fn list_fields(&self) -> fn() -> Vec<Field> {
        if self.scalar {
            scalar
        } else {
            Vec::new
        }
    }

    /// The parameters, unless any keywords are taken.
    pub(super) fn fields(&self) -> Vec<Field> {
        self.list_fields()()
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
    /// [`BadParameter`](ErrorKind::BadParameter) if both a scalar and keywords are enabled, or a
    /// function is given for pinned memory by itself.
    pub fn register(self) -> Result<(), Error> {
        let (name, description, maker) = self.ready()?;
        registry::add(name, &description, maker)
    }

    /// The parts of a registration.
    pub(crate) fn ready(mut self) -> Result<(&'static str, String, Maker), Error> {
        if self.scalar && self.kwargs {
            let message = format!("'{}' enables both a scalar and keywords: choose one", self.name);
            return Err(Error::new(ErrorKind::BadParameter, message));
        }
        if self.elsewhere.iter().any(|(device, _)| *device == Device::CpuPinned) {
            let message = format!("'{}' has a function for pinned memory, which is the processor's", self.name);
            return Err(Error::new(ErrorKind::BadParameter, message));
        }
        let (name, description) = (self.name, self.description.clone());
        self.devices = self.own.iter().copied().chain(self.elsewhere.iter().map(|(device, _)| *device)).collect();
        let fields = self.list_fields();
        let op = Arc::new(self);
        let maker = Maker::reading(fields, move |parameters| {
            let property = SimpleProperty::new(&op, parameters)?;
            Ok(Box::new(property) as Box<dyn OperatorProperty>)
        });
        Ok((name, description, maker))
    }
}

/// The parameter of an operator that has a scalar.
fn scalar() -> Vec<Field> {
    let about = "The scalar; where it is not given, it is that of with_scalar";
    vec![Field { name: "scalar", kind: f64::kind(), default: Some("0"), range: "..", about }]
}

impl fmt::Debug for SimpleOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimpleOp({})", self.name)
    }
}
