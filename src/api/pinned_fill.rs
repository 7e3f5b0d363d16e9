//! How pinned arrays get their first values: at once, or when their memory has come.
//!
//! Used by `pinned_data.rs`, on the thread that makes the array. Late memory is waited for by an
//! operation (`device_array.rs`), and another one, which a worker runs, fills the array then. What
//! became of that is in a [`LateFill`], which all clones of the array have.

use crate::api::data::{Data, RefMut};
use crate::device::memory::Plain;
use crate::engine::core::Core;
use crate::engine::gpu::lease::Lease;
use crate::engine::push::push;
use crate::engine::request::{Claim, Request};
use crate::error::{Error, ErrorKind};
use crate::operation::access::Mode;
use crate::operation::block::FLAG_BEYOND;
use crate::operation::closure::sync_vtable;
use crate::operation::context::RunContext;
use crate::operation::name::Name;
use std::sync::{Arc, OnceLock};

/// Empty until late memory is there and filled, or there is none.
pub type LateFill = Arc<OnceLock<Result<(), Error>>>;

/// What fills an array. If it is dropped and was not called, the array is never filled.
struct FillEnd(LateFill);

impl Drop for FillEnd {
    fn drop(&mut self) {
        let message = "the array was never filled: its variable was deleted, or the engine was shut down";
        // No effect behind a call.
        let _ = self.0.set(Err(Error::new(ErrorKind::OutOfMemory, message)));
    }
}

/// Pushes what fills the array, behind the operation that waits for its memory.
pub fn fill_late<T: Plain>(
    core: &Arc<Core>,
    data: &Data<Lease>,
    arrival: &LateFill,
    values: Option<Vec<T>>,
) -> Result<(), Error> {
    let variable = data.variable();
    let (data, end) = (data.clone(), FillEnd(Arc::clone(arrival)));
    let body = move |_: &RunContext<'_>| {
        let found = data.write().and_then(|lease| lease.memory().map(|_| fill(&lease, values.as_deref())));
        // After the borrow, so that it is in nobody's way.
        let _ = end.0.set(found.clone());
        found
    };
    let request = Request { flags: FLAG_BEYOND, ..Request::named(Name::from("fill")) };
    let claim = Claim { variable, mode: Mode::Write };
    push(core, &request, &[claim][..], sync_vtable(&body), body)
}

/// Puts values, or zeros, into pinned memory that is there.
pub fn fill<T: Plain>(lease: &RefMut<'_, Lease>, values: Option<&[T]>) {
    let (to, bytes) = (lease.pinned().raw().cast::<u8>(), lease.bytes());
    match values {
        // SAFETY: the memory has so many bytes, of which no other borrow knows. The device is done
        // with it, as with every pinned buffer that is used again.
        None => unsafe { to.write_bytes(0, bytes) },
        // SAFETY: as above; the values have no more bytes, and no padding, and lie elsewhere.
        Some(values) => unsafe {
            to.copy_from_nonoverlapping(values.as_ptr().cast(), bytes.min(size_of_val(values)));
        },
    }
}
