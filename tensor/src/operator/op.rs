//! `Op`: an operator with its parameters, ready to be called.
//!
//! Programs make an `Op` once and call it often. `registry.rs` finds operators by name, and
//! `call.rs` calls them.

#![forbid(unsafe_code)]

use crate::error::Error;
use crate::operator::implementations::Implementations;
use crate::operator::property::OperatorProperty;
use crate::operator::registry;
use crate::resource::ResourceRequest;
use seriatim::Name;
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;

/// An operator with its parameters. A handle: clones are the same, and a call allocates nothing for
/// it.
///
/// ```
/// use seriatim_tensor::{operator::Op, NDArray};
/// let dense = Op::new("FullyConnected", &[("num_hidden", "2"), ("no_bias", "true")])?;
/// let x = NDArray::from_slice(&[1.0f32, 2.0], [1, 2])?;
/// let weight = NDArray::from_slice(&[1.0f32, 0.0, 1.0, 1.0], [2, 2])?;
/// assert_eq!(dense.invoke(&[&x, &weight])?.to_vec::<f32>()?, [1.0, 3.0]);
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
#[derive(Clone)]
pub struct Op {
    pub(crate) inner: Arc<OpInner>,
    pub(crate) scalar: f64,
}

pub(crate) struct OpInner {
    pub name: Name,
    pub backward_name: Name,
    pub property: Box<dyn OperatorProperty>,
    pub implementations: Implementations,
    pub arguments: usize,
    pub auxiliary: usize,
    pub outputs: usize,
    pub visible: usize,
    /// Of `(input, output)`.
    pub inplace: SmallVec<[(usize, usize); 2]>,
    /// Of `(output, input)`, whose gradients may share memory in a backward pass.
    pub backward_inplace: SmallVec<[(usize, usize); 2]>,
    /// Which of the gradients, inputs and outputs the backward pass needs.
    pub needs: [SmallVec<[bool; 4]>; 3],
    pub resources: [SmallVec<[ResourceRequest; 2]>; 2],
}

impl Op {
    /// The operator of a name, with these parameters as text.
    ///
    /// # Errors
    /// [`UnknownOperator`](crate::ErrorKind::UnknownOperator);
    /// [`BadParameter`](crate::ErrorKind::BadParameter), which lists the parameters that there are.
    ///
    /// ```
    /// use seriatim_tensor::{operator::Op, ErrorKind};
    /// assert_eq!(Op::new("exq", &[]).unwrap_err().kind(), ErrorKind::UnknownOperator);
    /// let error = Op::new("sum", &[("axes", "0")]).unwrap_err();
    /// assert!(error.to_string().contains("axis"));
    /// ```
    pub fn new(name: &str, parameters: &[(&str, &str)]) -> Result<Op, Error> {
        let (name, maker) = registry::find(name)?;
        let property = maker.make(parameters).map_err(|error| error.within(format_args!("operator '{name}'")))?;
        Op::made_of(name, property, registry::implementations(name))
    }

    /// An operator that need not be registered.
    ///
    /// # Errors
    /// Those of [`create_operator`](OperatorProperty::create_operator).
    pub fn of_property(name: &'static str, property: Box<dyn OperatorProperty>) -> Result<Op, Error> {
        Op::made_of(name, property, Vec::new())
    }

    fn made_of(
        name: &'static str,
        property: Box<dyn OperatorProperty>,
        registered: Vec<Arc<registry::Implement>>,
    ) -> Result<Op, Error> {
        let (arguments, outputs) = (property.list_arguments().len(), property.num_outputs());
        let numbers: Vec<usize> = (0..2 * outputs + arguments).collect();
        let (out_grad, rest) = numbers.split_at(outputs);
        let (in_data, out_data) = rest.split_at(arguments);
        let needed = property.declare_backward_dependency(out_grad, in_data, out_data);
        let needs =
            [out_grad, in_data, out_data].map(|numbers| numbers.iter().map(|number| needed.contains(number)).collect());
        let places: Vec<usize> = (0..arguments.max(outputs)).collect();
        let inplace = property.forward_inplace_option(&places[..arguments], &places[..outputs]).into();
        let backward = property.backward_inplace_option(out_grad, in_data, out_data, &places[..arguments]);
        let inner = OpInner {
            name: Name::from(name),
            backward_name: Name::from(format!("{name} backward")),
            implementations: Implementations::of(&*property, registered)?,
            arguments,
            auxiliary: property.list_auxiliary_states().len(),
            outputs,
            visible: property.num_visible_outputs(),
            inplace,
            backward_inplace: backward.into_iter().filter(|(from, _)| *from < outputs).collect(),
            needs,
            resources: [property.forward_resource().into(), property.backward_resource().into()],
            property,
        };
        Ok(Op { inner: Arc::new(inner), scalar: 0.0 })
    }

    /// The same operator with this scalar. Costs no allocation.
    ///
    /// ```
    /// use seriatim_tensor::{operator::Op, NDArray};
    /// let double = Op::new("_mul_scalar", &[])?.with_scalar(2.0);
    /// assert_eq!(double.invoke(&[&NDArray::from_slice(&[1.5f32], [1])?])?.as_scalar::<f32>()?, 3.0);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn with_scalar(&self, scalar: f64) -> Op {
        Op { scalar, ..self.clone() }
    }

    /// Its name.
    ///
    /// ```
    /// assert_eq!(seriatim_tensor::operator::Op::new("exp", &[])?.name(), "exp");
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn name(&self) -> &'static str {
        self.inner.name.as_str()
    }

    /// Whether the backward pass needs the gradient by an output.
    pub(crate) fn needs_gradient_by(&self, output: usize) -> bool {
        self.inner.needs[0].get(output).copied().unwrap_or_default()
    }

    /// Whether a backward pass may write a gradient over that by an output.
    pub(crate) fn writes_over(&self) -> bool {
        !self.inner.backward_inplace.is_empty()
    }

    /// The output whose gradient a backward pass may write over with the gradient by an input.
    pub(crate) fn written_over(&self, input: usize) -> Option<usize> {
        self.inner.backward_inplace.iter().find(|(_, to)| *to == input).map(|(from, _)| *from)
    }

    /// What it means: its arguments, shapes, parameters.
    ///
    /// ```
    /// let op = seriatim_tensor::operator::Op::new("FullyConnected", &[("num_hidden", "2")])?;
    /// assert_eq!(op.property().list_arguments(), ["data", "weight", "bias"]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn property(&self) -> &dyn OperatorProperty {
        &*self.inner.property
    }
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Op({} {:?})", self.inner.name, self.property().get_params())
    }
}
