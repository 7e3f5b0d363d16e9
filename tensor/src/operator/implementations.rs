//! `Implementations`: what does the work of an operator, one implementation a context.
//!
//! `op.rs` makes it with an `Op`, and calls ask it, in `call.rs` and `kernel_call.rs`. The
//! processor's is made with the operator, those of devices when a call first has arrays there.

#![forbid(unsafe_code)]

use crate::error::Error;
use crate::ndarray::placing::no_kernel;
use crate::operator::op::OpInner;
use crate::operator::property::{Operator, OperatorProperty};
use crate::storage::by_context::ByContext;
use seriatim::{Context, Device};
use std::sync::Arc;

/// The implementations that have been made.
pub(crate) struct Implementations {
    /// For all memory of the processor, if the property has one.
    processor: Option<Box<dyn Operator>>,
    devices: ByContext<OnDevice>,
}

/// The implementation for a device.
#[derive(Clone)]
pub(crate) struct OnDevice {
    pub context: Context,
    pub operator: Arc<dyn Operator>,
}

impl Implementations {
    /// Those of a property, of which the processor's is made now.
    pub fn of(property: &dyn OperatorProperty) -> Result<Implementations, Error> {
        let has_one = property.devices().contains(&Device::Cpu);
        let processor = has_one.then(|| property.create_operator(Context::cpu(0))).transpose()?;
        Ok(Implementations { processor, devices: ByContext::new() })
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
        let made = self.implementations.devices.get_or_make(context, || {
            if !self.property.devices().contains(&context.device()) {
                return Err(no_kernel(context));
            }
            Ok(OnDevice { context, operator: Arc::from(self.property.create_operator(context)?) })
        });
        made.cloned()
    }
}
