//! `Implementations`: what does the work of an operator, one implementation a context.
//!
//! `op.rs` makes it with an `Op`, and calls ask it, in `call.rs` and `kernel_call.rs`. The
//! processor's is made with the operator, those of devices when a call first has arrays there. What
//! programs have registered for an operator goes before its own.

#![forbid(unsafe_code)]

use crate::error::Error;
use crate::ndarray::placing::no_kernel;
use crate::operator::op::OpInner;
use crate::operator::property::{Operator, OperatorProperty};
use crate::operator::registry::Implement;
use crate::storage::by_context::ByContext;
use seriatim::Context;
use std::sync::Arc;

/// The implementations that have been made.
pub(crate) struct Implementations {
    /// For all memory of the processor, if the property has one.
    processor: Option<Box<dyn Operator>>,
    devices: ByContext<OnDevice>,
    /// What programs have registered; the last one is asked first.
    registered: Vec<Arc<Implement>>,
}

/// Makes the implementation for a context, if there is one.
fn create(
    registered: &[Arc<Implement>],
    property: &dyn OperatorProperty,
    context: Context,
) -> Result<Option<Box<dyn Operator>>, Error> {
    for implement in registered.iter().rev() {
        if let Some(chosen) = implement(property, context)? {
            return Ok(Some(chosen));
        }
    }
    let has_one = property.devices().contains(&context.device());
    has_one.then(|| property.create_operator(context)).transpose()
}

/// The implementation for a device.
#[derive(Clone)]
pub(crate) struct OnDevice {
    pub context: Context,
    pub operator: Arc<dyn Operator>,
}

impl Implementations {
    /// Those of a property, of which the processor's is made now.
    pub fn of(property: &dyn OperatorProperty, registered: Vec<Arc<Implement>>) -> Result<Implementations, Error> {
        let processor = create(&registered, property, Context::cpu(0))?;
        Ok(Implementations { processor, devices: ByContext::new(), registered })
    }

    /// The processor's.
    ///
    /// # Errors
    /// [`UnsupportedContext`](crate::ErrorKind::UnsupportedContext).
    #[inline]
    pub fn of_processor(&self) -> Result<&dyn Operator, Error> {
        self.processor.as_deref().ok_or_else(|| no_kernel(Context::cpu(0)))
    }
}

impl OpInner {
    /// The implementation for a device.
    ///
    /// # Errors
    /// [`UnsupportedContext`](crate::ErrorKind::UnsupportedContext) if there is none; those of
    /// [`create_operator`](OperatorProperty::create_operator).
    #[cold]
    pub fn on_device(&self, context: Context) -> Result<OnDevice, Error> {
        let Implementations { devices, registered, .. } = &self.implementations;
        let made = devices.get_or_make(context, || {
            let made = create(registered, &*self.property, context)?.ok_or_else(|| no_kernel(context))?;
            Ok(OnDevice { context, operator: Arc::from(made) })
        });
        made.cloned()
    }
}
