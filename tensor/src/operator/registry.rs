//! The registry, where operators are found by name, with what there is to be said of them and of
//! their parameters.
//!
//! Looked at when an `Op` is made, and not when one is called. The files of operators beside this
//! one give theirs as a [`Maker`], and programs theirs by [`register`]. By [`implement`] programs
//! give other implementations of an operator that is there.

#![forbid(unsafe_code)]

use crate::error::{Error, ErrorKind};
use crate::operator::fields::Field;
use crate::operator::parameters::Parameters;
use crate::operator::property::{Operator, OperatorProperty};
use seriatim::Context;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

type Made = Result<Box<dyn OperatorProperty>, Error>;

type Make = dyn Fn(&[(&str, &str)]) -> Made + Send + Sync;

/// How the property of an operator is made of parameters as text, and what parameters it has.
#[derive(Clone)]
pub(crate) struct Maker {
    make: Arc<Make>,
    fields: fn() -> Vec<Field>,
}

impl Maker {
    /// Of a structure of parameters, which reads the text.
    pub fn of<P: Parameters>(make: impl Fn(P) -> Made + Send + Sync + 'static) -> Maker {
        Maker { make: Arc::new(move |given: &[(&str, &str)]| make(P::init(given)?)), fields: P::fields }
    }

    /// Of a function that reads the text itself.
    pub fn reading(
        fields: fn() -> Vec<Field>,
        make: impl Fn(&[(&str, &str)]) -> Made + Send + Sync + 'static,
    ) -> Maker {
        Maker { make: Arc::new(make), fields }
    }

    pub fn make(&self, parameters: &[(&str, &str)]) -> Made {
        (self.make)(parameters)
    }
}

/// What a program says to an operator in a context: its implementation, or none.
pub(super) type Implement =
    dyn Fn(&dyn OperatorProperty, Context) -> Result<Option<Box<dyn Operator>>, Error> + Send + Sync;

struct Entry {
    maker: Maker,
    description: String,
    /// The last one is asked first.
    implementations: Vec<Arc<Implement>>,
}

impl Entry {
    fn new(maker: Maker, description: &str) -> Entry {
        Entry { maker, description: description.into(), implementations: Vec::new() }
    }
}

type Registry = BTreeMap<&'static str, Entry>;

fn registry() -> &'static RwLock<Registry> {
    static REGISTRY: OnceLock<RwLock<Registry>> = OnceLock::new();
    REGISTRY.get_or_init(|| {
        let mut registry = Registry::new();
        super::builtin(&mut |name, description, maker| {
            let entry = Entry::new(maker, description);
            assert!(registry.insert(name, entry).is_none(), "operator '{name}' is built in twice");
        });
        RwLock::new(registry)
    })
}

/// How an operator is made, with its name for good.
///
/// # Errors
/// [`UnknownOperator`](ErrorKind::UnknownOperator), with names that are near.
pub(super) fn find(name: &str) -> Result<(&'static str, Maker), Error> {
    let registry = registry().read().unwrap_or_else(PoisonError::into_inner);
    if let Some((name, entry)) = registry.get_key_value(name) {
        return Ok((*name, entry.maker.clone()));
    }
    Err(unknown(name, &registry))
}

#[cold]
fn unknown(name: &str, registry: &Registry) -> Error {
    let near = registry.keys().filter(|known| known.to_lowercase().contains(&name.to_lowercase()));
    let near: Vec<&str> = near.copied().take(8).collect();
    let message = format!("no operator is named '{name}'; near are {near:?}; list_all_ops has all");
    Error::new(ErrorKind::UnknownOperator, message)
}

/// What programs have registered by [`implement`] for an operator.
pub(super) fn implementations(name: &str) -> Vec<Arc<Implement>> {
    let registry = registry().read().unwrap_or_else(PoisonError::into_inner);
    registry.get(name).map_or_else(Vec::new, |entry| entry.implementations.clone())
}

/// Adds an operator.
///
/// # Errors
/// [`AlreadyRegistered`](ErrorKind::AlreadyRegistered).
pub(super) fn add(name: &'static str, description: &str, maker: Maker) -> Result<(), Error> {
    let mut registry = registry().write().unwrap_or_else(PoisonError::into_inner);
    if registry.contains_key(name) {
        let message = format!("an operator '{name}' is registered already: choose another name");
        return Err(Error::new(ErrorKind::AlreadyRegistered, message));
    }
    registry.insert(name, Entry::new(maker, description));
    Ok(())
}

/// Registers an operator: `make` makes its property of a structure of
/// [parameters](trait@Parameters), which is `()` for an operator without any.
///
/// # Errors
/// [`AlreadyRegistered`](ErrorKind::AlreadyRegistered).
pub fn register<P: Parameters>(
    name: &'static str,
    description: &str,
    make: impl Fn(P) -> Result<Box<dyn OperatorProperty>, Error> + Send + Sync + 'static,
) -> Result<(), Error> {
    add(name, description, Maker::of(make))
}

/// Registers other implementations of an operator that is there, such as those of a library, or for
/// a GPU: meaning, parameters and gradients stay those of the operator.
///
/// When an operator is made, and when one is first called on a GPU, `choose` is asked for each
/// context as [`create_operator`](OperatorProperty::create_operator) is. It goes by the property,
/// whose [`get_params`](OperatorProperty::get_params) has the parameters, and returns `None` where
/// it has no implementation. Then those are asked that were registered before, and at last the
/// operator. An implementation that is good for some shapes or types only makes the operator's own
/// too, and hands on to it in a call. Its choice is a function of these alone, so that results do
/// not depend on anything else.
///
/// Operators that were made before stay as they are; so do those behind methods of arrays once a
/// method has been called.
///
/// # Errors
/// [`UnknownOperator`](ErrorKind::UnknownOperator).
///
/// ```
/// use seriatim::{Context, Device};
/// use seriatim_tensor::operator::{implement, unary_map, Op, OpContext, Operator};
/// use seriatim_tensor::{Blob, BlobMut, Error, NDArray, OpReq};
/// struct Fast;
/// impl Operator for Fast {
///     fn forward(
///         &self,
///         _: &mut OpContext<'_, '_>,
///         in_data: &[Blob<'_>],
///         req: &[OpReq],
///         out_data: &mut [BlobMut<'_>],
///         _: &mut [BlobMut<'_>],
///     ) -> Result<(), Error> {
///         unary_map(in_data[0], &mut out_data[0], req[0], |x| x.sqrt().recip())
///     }
/// }
/// implement("rsqrt", |_, context| Ok(match context.device() {
///     Device::Cpu => Some(Box::new(Fast)),
///     _ => None,
/// }))?;
/// let x = NDArray::from_slice(&[4.0f32], [1])?;
/// assert_eq!(Op::new("rsqrt", &[])?.invoke(&[&x])?.as_scalar::<f32>()?, 0.5);
/// # Ok::<(), Error>(())
/// ```
pub fn implement(
    name: &str,
    choose: impl Fn(&dyn OperatorProperty, Context) -> Result<Option<Box<dyn Operator>>, Error> + Send + Sync + 'static,
) -> Result<(), Error> {
    let mut registry = registry().write().unwrap_or_else(PoisonError::into_inner);
    match registry.get_mut(name) {
        Some(entry) => entry.implementations.push(Arc::new(choose)),
        None => return Err(unknown(name, &registry)),
    }
    Ok(())
}

/// The names of all operators, in order, each with its description.
///
/// ```
/// let all = seriatim_tensor::operator::list_all_ops();
/// assert!(all.iter().any(|(name, _)| *name == "smooth_l1"));
/// ```
pub fn list_all_ops() -> Vec<(&'static str, String)> {
    let registry = registry().read().unwrap_or_else(PoisonError::into_inner);
    registry.iter().map(|(name, entry)| (*name, entry.description.clone())).collect()
}

/// The parameters of an operator: what each is, its default, its range and its purpose.
///
/// Those of a [`SimpleOp`](crate::operator::SimpleOp) that takes whatever keywords it is given are
/// none.
///
/// # Errors
/// [`UnknownOperator`](ErrorKind::UnknownOperator).
///
/// ```
/// use seriatim_tensor::operator::list_parameters;
/// let fields = list_parameters("Dropout")?;
/// let p = fields.iter().find(|field| field.name == "p").unwrap();
/// assert_eq!((p.kind.as_str(), p.default, p.range), ("a number", Some("0.5"), "0.0..1.0"));
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
pub fn list_parameters(name: &str) -> Result<Vec<Field>, Error> {
    find(name).map(|(_, maker)| (maker.fields)())
}
