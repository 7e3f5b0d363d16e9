//! The cell of a result: the operation has the [`Promise`], and the program has what it
//! [awaits](Awaited).
//!
//! A cell lies in a block of the pool in place of a closure, or in a box if the result is large. It
//! goes back when both sides are gone, on the thread of the later one. The promise is kept once, by
//! the thread that runs or ends the operation; a promise that is dropped says so. The other side
//! belongs to one thread at a time, which looks, stores a waker, or goes away.
//!
//! `state` orders the two sides. The outcome is written before [`SET`], and read after it. A waker
//! is stored, then [`SET`] is looked at; [`SET`] is stored, then the waker is called: see
//! `util/waker_cell.rs`. Each side says at last that it is gone, and the second frees the cell.

use crate::engine::core::Core;
use crate::engine::push::admission::cut_off;
use crate::error::{Error, ErrorKind, Failure, HearsFailure, Stamp};
use crate::operation::access::ACCESSES_OFFSET;
use crate::operation::block::Block;
use crate::operation::closure::{drop_quietly, is_inline};
use crate::operation::layout::{class_for, Layout};
use crate::sync::{AtomicU8, Ordering::*};
use crate::util::waker_cell::WakerCell;
use std::cell::UnsafeCell;
use std::mem::size_of;
use std::ptr::NonNull;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// The outcome is there, unless it was taken.
const SET: u8 = 1;
/// The promise is gone.
const PROMISE_GONE: u8 = 1 << 1;
/// The side that awaits is gone.
const AWAITED_GONE: u8 = 1 << 2;

/// What has become of an operation.
pub enum Outcome<T> {
    Value(T),
    /// It has failed, or has inherited the failure. The stamp is that of the wait, if the operation
    /// is a wait.
    Failed(Arc<Failure>, Option<Stamp>),
    /// It was not called, and has inherited no failure.
    Skipped,
}

struct OutcomeCell<T> {
    core: Arc<Core>,
    state: AtomicU8,
    waker: WakerCell,
    outcome: UnsafeCell<Option<Outcome<T>>>,
}

/// The operation's side of a cell.
pub struct Promise<T: Send>(NonNull<OutcomeCell<T>>);

/// The program's side of a cell.
pub struct Awaited<T: Send>(NonNull<OutcomeCell<T>>);

// SAFETY: a side owns its half of the cell, and `T: Send`: the result goes from one to the other,
// and is dropped on the thread of either.
unsafe impl<T: Send> Send for Promise<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Awaited<T> {}
// SAFETY: a shared reference only asks whether the outcome is there, by an atomic.
unsafe impl<T: Send> Sync for Awaited<T> {}

/// Both sides of a new cell.
///
/// Takes a block of the calling thread, which must not be inside a push.
pub fn promise<T: Send>(core: &Arc<Core>) -> (Promise<T>, Awaited<T>) {
    let cell = OutcomeCell {
        core: Arc::clone(core),
        state: AtomicU8::new(0),
        waker: WakerCell::new(),
        outcome: UnsafeCell::new(None),
    };
    let place = if const { is_inline::<OutcomeCell<T>>() } {
        // SAFETY: the thread is not inside a push, so it holds nothing that it read from a tail.
        // The block is ours, and large enough for the cell.
        unsafe {
            let class = class_for(0, size_of::<OutcomeCell<T>>(), false, Layout::Plain);
            let block = core.local().allocate(class);
            Block::renew(block, 0, false);
            let place = block.byte_add(ACCESSES_OFFSET).cast::<OutcomeCell<T>>();
            place.write(cell);
            NonNull::new_unchecked(place)
        }
    } else {
        NonNull::from(Box::leak(Box::new(cell)))
    };
    (Promise(place), Awaited(place))
}

/// One side is gone: says so, and frees the cell if the other one is gone already.
///
/// # Safety
/// The caller is that side, and does not touch the cell again.
unsafe fn leave<T: Send>(place: NonNull<OutcomeCell<T>>, own: u8, other: u8) {
    // SAFETY: the cell is there until both sides have left.
    let before = unsafe { place.as_ref() }.state.fetch_or(own, AcqRel);
    // AcqRel: the side that leaves first releases what it has done with the cell, and the other
    // one acquires that.
    if before & other == 0 {
        return;
    }
    // SAFETY: both sides have left, so the cell is this thread's alone. It was made so by
    // `promise`: in a block whose closure would begin there, or in a box.
    let OutcomeCell { core, waker, outcome, .. } = unsafe {
        if const { is_inline::<OutcomeCell<T>>() } {
            let cell = place.as_ptr().read();
            cell.core.local().retire(place.as_ptr().byte_sub(ACCESSES_OFFSET).cast());
            cell
        } else {
            *Box::from_raw(place.as_ptr())
        }
    };
    // What the program does in its destructors comes last.
    drop_quietly((outcome, waker));
    drop(core);
}

impl<T: Send> Promise<T> {
    fn cell(&self) -> &OutcomeCell<T> {
        // SAFETY: the cell is there until this side has left.
        unsafe { self.0.as_ref() }
    }

    /// Keeps the promise, and wakes who awaits it.
    pub fn keep(self, outcome: Outcome<T>) {
        self.settle(outcome);
    }

    /// Keeps the promise of a wait, which has inherited this failure.
    pub fn keep_inherited(self, inherited: Option<(&Arc<Failure>, Stamp)>)
    where
        T: Default,
    {
        self.keep(match inherited {
            None => Outcome::Value(T::default()),
            Some((failure, stamp)) => Outcome::Failed(Arc::clone(failure), Some(stamp)),
        });
    }

    fn settle(&self, outcome: Outcome<T>) {
        let cell = self.cell();
        // SAFETY: `SET` is not there yet, so the outcome is the promise's. It is settled once.
        unsafe { *cell.outcome.get() = Some(outcome) };
        // Release: pairs with the acquire in `is_set`.
        cell.state.fetch_or(SET, Release);
        cell.waker.wake();
    }
}

impl<T: Send> HearsFailure for Promise<T> {
    fn hear(self: Box<Self>, failure: &Arc<Failure>) {
        self.keep(Outcome::Failed(Arc::clone(failure), None));
    }
}

impl<T: Send> Drop for Promise<T> {
    fn drop(&mut self) {
        // Relaxed: only this side stores that bit.
        if self.cell().state.load(Relaxed) & SET == 0 {
            self.settle(Outcome::Skipped);
        }
        // SAFETY: this is the end of this side.
        unsafe { leave(self.0, PROMISE_GONE, AWAITED_GONE) }
    }
}

impl<T: Send> Awaited<T> {
    fn cell(&self) -> &OutcomeCell<T> {
        // SAFETY: the cell is there until this side has left.
        unsafe { self.0.as_ref() }
    }

    pub fn core(&self) -> &Arc<Core> {
        &self.cell().core
    }

    /// Whether the outcome is there, or was taken.
    pub fn is_set(&self) -> bool {
        // Acquire: pairs with the release in `settle`, for the outcome and all that the operation
        // has done.
        self.cell().state.load(Acquire) & SET != 0
    }

    /// Takes the outcome, if it is there. Nothing is there afterwards.
    pub fn take(&mut self) -> Option<Outcome<T>> {
        // SAFETY: with `SET` the outcome is this side's, which this call has to itself.
        self.is_set().then(|| unsafe { (*self.cell().outcome.get()).take() }).flatten()
    }

    /// Takes the outcome; or has it wake a task, in place of the one before. An error if it will
    /// never come, in the child of a `fork`.
    pub fn poll(&mut self, waker: &Waker) -> Poll<Result<Outcome<T>, Error>> {
        if let Some(outcome) = self.take() {
            return Poll::Ready(Ok(outcome));
        }
        self.wake_later(waker);
        match self.take() {
            Some(outcome) => Poll::Ready(Ok(outcome)),
            None if self.core().is_cut_off() => Poll::Ready(Err(cut_off())),
            None => Poll::Pending,
        }
    }

    /// Has the outcome wake a task. The caller looks afterwards.
    pub fn wake_later(&self, waker: &Waker) {
        self.cell().waker.store(waker);
    }

    /// Forgets whom to wake; says whether that was in time.
    pub fn forget_waker(&self) -> bool {
        self.cell().waker.forget()
    }
}

impl<T: Send> Drop for Awaited<T> {
    fn drop(&mut self) {
        self.cell().waker.forget();
        // SAFETY: this is the end of this side.
        unsafe { leave(self.0, AWAITED_GONE, PROMISE_GONE) }
    }
}

impl<T> Outcome<T> {
    /// The result for the program. A failure counts as taken by a wait, as of now if it has no
    /// stamp. It is returned also if another wait has taken it.
    pub fn into_result(self, core: &Core) -> Result<T, Error> {
        match self {
            Outcome::Value(value) => Ok(value),
            Outcome::Failed(failure, stamp) => {
                let now = || {
                    let local = core.local();
                    Stamp::new(local.cache().number, local.next_sequence())
                };
                Err(failure.take(stamp.unwrap_or_else(now)).unwrap_or_else(|| failure.error.clone()))
            }
            Outcome::Skipped => Err(Error::new(
                ErrorKind::Stopped,
                "the operation was not called, because the engine was told of the shutdown: there is no result",
            )),
        }
    }
}
