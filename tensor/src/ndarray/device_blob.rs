//! Arrays of a device as its operators see them: by an address, which only what they queue on the
//! device uses.
//!
//! Used by `operator/device_call.rs`, which borrows the memory of the arguments in an operation of
//! the device. The blobs are those of `access.rs`, and give out no elements.

use crate::error::{Error, ErrorKind};
use crate::ndarray::access::{Blob, BlobMut};
use crate::ndarray::frame::{Argument, Frame};
use crate::storage::device::DeviceBlock;

/// How the memory of a blob is reached.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// By this blob alone.
    Alone,
    /// By another blob of the operation too, so that there are no slices.
    Shared,
    /// By a device, and not from here.
    Device,
    /// By a device, and the operator has its address, to write there.
    Given,
}

impl Reach {
    #[inline]
    pub fn of(shared: bool) -> Reach {
        if shared {
            Reach::Shared
        } else {
            Reach::Alone
        }
    }

    /// Ends an operator that walks over elements of a device: the operation fails.
    #[inline]
    pub fn check_processor(self) {
        if matches!(self, Reach::Device | Reach::Given) {
            unreachable_here();
        }
    }
}

impl Frame {
    /// The memory of an array of a device. The caller has the array.
    pub fn device_block(&self, argument: Argument) -> Option<&DeviceBlock> {
        self.chunk(argument).device_block()
    }

    /// Whether the elements lie one after the other.
    pub fn lies_in_order(&self, argument: Argument) -> bool {
        self.layout(argument).is_contiguous()
    }

    /// The array in memory of a device that begins here, to be read.
    pub fn read_on_device(&self, argument: Argument, base: *mut u8) -> Blob<'_> {
        Blob(self.chunk(argument).show(base, self.layout(argument), Reach::Device))
    }

    /// The same, to be written.
    pub fn write_on_device(&self, argument: Argument, base: *mut u8) -> BlobMut<'_> {
        BlobMut(self.chunk(argument).show(base, self.layout(argument), Reach::Device))
    }
}

#[cold]
fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::UnsupportedContext, what)
}

#[cold]
fn unreachable_here() -> ! {
    panic!("the elements of an array of a GPU are out of the processor's reach: use device_address()")
}

const OF_THE_PROCESSOR: &str = "an array of the processor has no address of a device";

impl Blob<'_> {
    /// The address of the first element on the device, for an
    /// [`Operator`](crate::operator::Operator) of a GPU. The elements lie one after the other, and
    /// may be read by what the operator queues on
    /// [`run_ctx.stream()`](seriatim::RunContext::stream).
    ///
    /// # Errors
    /// [`UnsupportedContext`](ErrorKind::UnsupportedContext) for an array of the processor.
    pub fn device_address(&self) -> Result<*const u8, Error> {
        match self.0.reach {
            Reach::Device => Ok(self.0.first().cast_const()),
            _ => Err(wrong(OF_THE_PROCESSOR)),
        }
    }
}

impl BlobMut<'_> {
    /// The address of the first element on the device, for an
    /// [`Operator`](crate::operator::Operator) of a GPU. The elements lie one after the other. What
    /// the operator queues on [`run_ctx.stream()`](seriatim::RunContext::stream) may change them,
    /// and read them with [`OpReq::Add`](crate::OpReq::Add), or if it is an auxiliary state.
    ///
    /// An array that is new counts as written once the operator has asked for its address and
    /// succeeded.
    ///
    /// # Safety
    /// If the operator succeeds, what it has queued on the stream writes every element, each with a
    /// value of the array's type. With `OpReq::Add`, and of an auxiliary state, it may leave out
    /// some.
    ///
    /// # Errors
    /// [`UnsupportedContext`](ErrorKind::UnsupportedContext) for an array of the processor, and for
    /// one that is not to be written ([`OpReq::Null`](crate::OpReq::Null)).
    pub unsafe fn device_address(&mut self) -> Result<*mut u8, Error> {
        match self.0.reach {
            Reach::Device | Reach::Given => {
                self.0.reach = Reach::Given;
                Ok(self.0.first())
            }
            _ if self.0.base.is_null() => Err(wrong("an array that is not to be written has no address")),
            _ => Err(wrong(OF_THE_PROCESSOR)),
        }
    }

    /// Whether an operator has asked for the address.
    pub(crate) fn is_given(&self) -> bool {
        self.0.reach == Reach::Given
    }
}
