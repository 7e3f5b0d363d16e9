//! Handles of libraries, such as cuBLAS, that a worker of a device keeps: made when an operation
//! first asks, and used again by those that come later on the same thread. No other thread touches
//! them.
//!
//! What is captured may hold memory that a library ties to a handle. So operations that are
//! captured for a graph of the driver have handles of their own, which no other operation gets. The
//! graph is captured anew once its handles may be gone (`src/engine/replay/device_graph.rs`), and a
//! worker drops those of graphs that are gone when it captures the next time.
//!
//! [`RunContext::with_handle`](crate::RunContext::with_handle) asks. At its end the worker drops
//! them (`src/engine/gpu/entered.rs`). A thread of the naive engine keeps them for one operation
//! (`src/engine/gpu/call.rs`).

#![forbid(unsafe_code)]

use crate::device::current;
use crate::error::{Error, ErrorKind, Source};
use std::any::{type_name, Any, TypeId};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::mem::forget;
use std::sync::{Arc, Weak};

/// Which handle: its type, a number among those of that type, and the graph of the driver that it
/// is for.
#[derive(Clone)]
struct HandleKey(TypeId, usize, OwningGraph);

/// What is there as long as a graph of the driver is; none for handles of other operations.
type OwningGraph = Option<Weak<()>>;

/// The handles of a thread, by their order.
#[derive(Default)]
pub struct Handles(Vec<(HandleKey, Option<Box<dyn Any>>)>);

impl PartialEq for HandleKey {
    fn eq(&self, other: &HandleKey) -> bool {
        // As long as a key has a weak one, no other graph has its address.
        let same_owner = match (&self.2, &other.2) {
            (Some(own), Some(other)) => own.ptr_eq(other),
            (own, other) => own.is_none() && other.is_none(),
        };
        self.0 == other.0 && self.1 == other.1 && same_owner
    }
}

impl HandleKey {
    /// Whether the graph is gone, so that nobody asks for the handle any more.
    fn is_left(&self) -> bool {
        self.2.as_ref().is_some_and(|graph| graph.strong_count() == 0)
    }
}

std::thread_local! {
    /// Those without a value are in use, or are being made.
    static KEPT_HANDLES: RefCell<Handles> = const { RefCell::new(Handles(Vec::new())) };
}

impl Handles {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the youngest: what was made later may use what was there before.
    pub fn pop(&mut self) -> Option<Box<dyn Any>> {
        self.0.pop().and_then(|(_, handle)| handle)
    }

    fn place(&self, key: &HandleKey) -> Option<usize> {
        self.0.iter().position(|(of, _)| of == key)
    }
}

/// They are forgotten, and not dropped: their library calls the driver. A thread that could enter
/// the device has taken them before.
impl Drop for Handles {
    fn drop(&mut self) {
        self.0.drain(..).for_each(forget);
    }
}

/// Gives the calling thread these handles; returns those that it has had.
pub fn replace(handles: Handles) -> Handles {
    KEPT_HANDLES.try_with(|kept| kept.replace(handles)).unwrap_or_default()
}

/// Takes those handles of the calling thread whose graphs are gone.
pub fn take_left() -> Handles {
    KEPT_HANDLES.with_borrow_mut(|kept| {
        let (left, others) = std::mem::take(&mut kept.0).into_iter().partition(|(key, _)| key.is_left());
        kept.0 = others;
        Handles(left)
    })
}

/// A handle that an operation uses, or makes.
struct InUse<H: 'static> {
    key: HandleKey,
    handle: Option<Box<dyn Any>>,
    of: PhantomData<H>,
}

/// Also if the operation unwinds: the handle is kept, and one that could not be made is made by the
/// next operation that asks.
impl<H> Drop for InUse<H> {
    fn drop(&mut self) {
        let handle = self.handle.take();
        KEPT_HANDLES.with_borrow_mut(|kept| match (kept.place(&self.key), handle) {
            (Some(place), Some(handle)) => kept.0[place].1 = Some(handle),
            (Some(place), None) => drop(kept.0.remove(place)),
            // There always is one. Dropped here, it would be dropped under the borrow.
            (None, handle) => forget(handle),
        });
    }
}

/// Calls `call` with a handle of the calling thread, whose innermost operation has a stream. Makes
/// the handle first, with the device current, if there is none.
pub fn with<H: 'static, R>(
    number: usize,
    make: impl FnOnce() -> Result<H, Source>,
    call: impl FnOnce(&mut H) -> R,
) -> Result<R, Error> {
    let owner = current::captured(|capture| {
        capture.has_handles.set(true);
        Arc::downgrade(capture.graph)
    });
    let key = HandleKey(TypeId::of::<H>(), number, owner);
    let found = KEPT_HANDLES.with_borrow_mut(|kept| match kept.place(&key) {
        Some(place) => kept.0[place].1.take().map(Some),
        None => {
            kept.0.push((key.clone(), None));
            Some(None)
        }
    });
    let Some(handle) = found else { return Err(in_use::<H>()) };
    let mut own = InUse::<H> { key, handle, of: PhantomData };
    if own.handle.is_none() {
        current_again::<H>()?;
        let made = make().map_err(|source| not_made::<H>(source))?;
        own.handle = Some(Box::new(made));
        current_again::<H>()?;
    }
    let handle = own.handle.as_mut().and_then(|handle| handle.downcast_mut());
    Ok(call(handle.expect("the key has its type")))
}

#[cold]
fn in_use<H>() -> Error {
    let name = type_name::<H>();
    Error::new(
        ErrorKind::BorrowConflict,
        format!("the handle {name} of this worker is in use: do not ask for it where it is made or used"),
    )
}

#[cold]
fn not_made<H>(source: Source) -> Error {
    let kind = source.downcast_ref().map_or(ErrorKind::OperationFailed, Error::kind);
    let message = format!("the handle {} could not be made: {source}", type_name::<H>());
    Error::with_source(kind, message, source)
}

/// The operation may have made another device current, and so may the making of a handle.
fn current_again<H>() -> Result<(), Error> {
    current::reenter().map_err(|refusal| {
        let kind = if refusal.is_lost() { ErrorKind::DeviceLost } else { ErrorKind::DeviceUnavailable };
        let message = format!("the device of the handle {} cannot be made current: {refusal}", type_name::<H>());
        Error::with_source(kind, message, refusal)
    })
}
