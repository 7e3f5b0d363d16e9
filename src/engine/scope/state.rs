//! What the threads of one scope share: how many children are left, whether the thread that joins
//! them sleeps, which of them are ready, and what has failed.
//!
//! Used by the other files of `scope/`, and by `wait/for_scope.rs`. The thread that opens a scope
//! has its state, and so has each child and each invitation. Any of these may be the last to let
//! go. A thread keeps the states of its scopes for the next ones ([`ScopeState::begin`]), and uses
//! one again when nobody else has it.

use crate::engine::scope::ready::ReadyRow;
use crate::error::Failure;
use crate::sync::thread::{self, Thread};
use crate::sync::{thread_local, AtomicBool, AtomicPtr, AtomicUsize, Ordering::*, MODELLED};
use crate::util::spin::note_wake;
use crossbeam_utils::CachePadded;
use std::cell::Cell;
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// In the word: the thread that joins is asleep, or about to be.
const SLEEPS: usize = 1;
/// In the word: one child.
const ONE_CHILD: usize = 2;

/// The most states that a thread keeps. One with a longer row is not kept.
const MOST_STATES: usize = 64;
const LONG_ROW: u32 = 1 << 14;
/// So many of them, from the last one on, are looked at for one that nobody else has.
const LOOKED_THROUGH: usize = 8;
/// So many scopes further out are looked at for a thread that sleeps.
const FURTHER_OUT: usize = 8;

thread_local! {
    /// The states that the thread has kept.
    static KEPT_STATES: Cell<Vec<Arc<ScopeState>>> = const { Cell::new(Vec::new()) };
}

/// One scope, as the threads that use it share it.
pub struct ScopeState {
    /// The children that have not ended, each [`ONE_CHILD`], and [`SLEEPS`].
    word: CachePadded<AtomicUsize>,
    pub ready: ReadyRow,
    /// What children have failed with, or were skipped for.
    failed: AtomicPtr<Heard>,
    /// Children that were dropped without a call, and not for a failure.
    uncalled: AtomicUsize,
    /// Whether the scope has ended before its children, which happens in the child of a fork.
    gone: AtomicBool,
    /// The thread that opens and joins.
    thread: Thread,
    /// The scopes further out, from the nearest on; null where there is none. This one was opened
    /// inside a child of the first, which was opened inside a child of the second. So they are
    /// there for as long as this one is open.
    outer: [*const ScopeState; FURTHER_OUT],
}

// SAFETY: `outer` does not change while threads share this, and is followed only while the scope is
// open (`sleeping_outside`). All else is shared by design.
unsafe impl Send for ScopeState {}
// SAFETY: as above.
unsafe impl Sync for ScopeState {}

/// A failure of which a scope has heard.
struct Heard {
    failure: Arc<Failure>,
    next: *mut Heard,
}

impl ScopeState {
    fn new(outer: [*const ScopeState; FURTHER_OUT]) -> ScopeState {
        ScopeState {
            word: CachePadded::new(AtomicUsize::new(0)),
            ready: ReadyRow::new(),
            failed: AtomicPtr::new(null_mut()),
            uncalled: AtomicUsize::new(0),
            gone: AtomicBool::new(false),
            thread: thread::current(),
            outer,
        }
    }

    /// The state of a scope that the calling thread opens, inside a child of `outer` if that is not
    /// null.
    ///
    /// # Safety
    /// `outer` is open, and stays so for as long as this one is.
    pub unsafe fn begin(outer: *const ScopeState) -> Arc<ScopeState> {
        // SAFETY: by the contract.
        let outer = unsafe { outer.as_ref() }.map_or([null(); FURTHER_OUT], ScopeState::outside_of);
        let mut kept = KEPT_STATES.try_with(Cell::take).unwrap_or_default();
        let free = kept.iter().rev().take(LOOKED_THROUGH).position(|state| Arc::strong_count(state) == 1);
        let found = free.map(|back| kept.swap_remove(kept.len() - 1 - back));
        let _ = KEPT_STATES.try_with(|place| place.set(kept));
        // Acquire, in `get_mut`: threads that have let go of it have done with it.
        let free = found.and_then(|mut state| {
            Arc::get_mut(&mut state)?.reset(outer);
            Some(state)
        });
        free.unwrap_or_else(|| Arc::new(ScopeState::new(outer)))
    }

    /// What is outside of a scope that is opened inside a child of this one.
    fn outside_of(&self) -> [*const ScopeState; FURTHER_OUT] {
        std::array::from_fn(|at| if at == 0 { self } else { self.outer[at - 1] })
    }

    fn reset(&mut self, outer: [*const ScopeState; FURTHER_OUT]) {
        self.outer = outer;
        self.word.store(0, Relaxed);
        self.ready.reset();
        self.uncalled.store(0, Relaxed);
        self.gone.store(false, Relaxed);
        self.drop_failures();
    }

    /// Keeps the state for a later scope of the calling thread, which has opened this one.
    pub fn keep(state: Arc<ScopeState>) {
        if MODELLED || state.ready.length() > LONG_ROW {
            return;
        }
        let _ = KEPT_STATES.try_with(|place| {
            let mut kept = place.take();
            if kept.len() < MOST_STATES {
                kept.push(state);
            }
            place.set(kept);
        });
    }

    /// Counts a child that is about to be pushed. For the thread that opened the scope, or one that
    /// runs a descendant of it.
    pub fn add_child(&self) {
        // Relaxed: the scope cannot end meanwhile.
        self.word.fetch_add(ONE_CHILD, Relaxed);
    }

    /// Counts a child that has ended, and calls the thread that joins if it was the last one.
    pub fn end_child(&self) {
        // Release: pairs with the acquires in `is_over` and `falls_asleep`, so the thread that
        // joins sees what the child did. Acquire: as in `call`.
        let before = self.word.fetch_sub(ONE_CHILD, AcqRel);
        if before == ONE_CHILD | SLEEPS {
            self.call();
        }
    }

    /// Whether no child is left.
    pub fn is_over(&self) -> bool {
        self.word.load(Acquire) < ONE_CHILD
    }

    /// The thread that joins says that it is asleep: from now on it is called. It must look at the
    /// list once more before it parks. `false`: no child is left.
    pub fn falls_asleep(&self) -> bool {
        // AcqRel: if a call comes before this exchange, the thread sees what it was called for.
        self.word.fetch_or(SLEEPS, AcqRel) >= ONE_CHILD
    }

    /// Whether it is asleep, and was not called.
    pub fn is_asleep(&self) -> bool {
        self.word.load(Acquire) & SLEEPS != 0
    }

    /// The thread that joins is awake by itself.
    pub fn gets_up(&self) {
        self.word.fetch_and(!SLEEPS, AcqRel);
    }

    /// Calls the thread that joins, if it is asleep: behind a child that was put into the list. An
    /// exchange in any case: either the thread finds the child after its own, or this one finds it
    /// asleep.
    pub fn call(&self) {
        // AcqRel: as in `falls_asleep`.
        if self.word.fetch_and(!SLEEPS, AcqRel) & SLEEPS != 0 {
            self.thread.unpark();
            // It may have yielded this very core.
            note_wake();
        }
    }

    /// The nearest scope further out whose thread is asleep.
    ///
    /// # Safety
    /// The scope is open, and stays so during the call.
    pub unsafe fn sleeping_outside(&self) -> Option<Arc<ScopeState>> {
        for outer in self.outer.into_iter().take_while(|outer| !outer.is_null()) {
            // SAFETY: this scope is open, so these are, too, and the thread of an open scope has an
            // `Arc` of its state.
            unsafe {
                if (*outer).is_asleep() {
                    Arc::increment_strong_count(outer);
                    return Some(Arc::from_raw(outer));
                }
            }
        }
        None
    }

    /// Whether the scope was opened inside a child of `other`, or of a scope that was, and so on.
    /// The scope need not be open.
    pub fn is_inside(&self, other: &ScopeState) -> bool {
        self.outer.iter().any(|outer| std::ptr::eq(*outer, other))
    }

    /// Hears of a failure of a child, or of one that a child was skipped for.
    #[cold]
    pub fn hear(&self, failure: &Arc<Failure>) {
        let heard = Box::into_raw(Box::new(Heard { failure: Arc::clone(failure), next: null_mut() }));
        let mut head = self.failed.load(Relaxed);
        loop {
            // SAFETY: ours until the exchange succeeds.
            unsafe { (*heard).next = head };
            // Release: pairs with the acquire in `take_failures`.
            match self.failed.compare_exchange(head, heard, Release, Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// A child was dropped without a call; or, with `false`, that was because its push was refused.
    #[cold]
    pub fn count_uncalled(&self, is_one: bool) {
        // Relaxed: seen by the thread that joins, as all that a child did.
        if is_one {
            self.uncalled.fetch_add(1, Relaxed);
        } else {
            self.uncalled.fetch_sub(1, Relaxed);
        }
    }

    /// Whether children were not called because the engine was told of the shutdown.
    pub fn has_uncalled(&self) -> bool {
        self.uncalled.load(Relaxed) > 0
    }

    /// The scope ends before its children: no other thread is left, and what they have borrowed
    /// ends.
    pub fn leave_children(&self) {
        // Relaxed: one thread.
        self.gone.store(true, Relaxed);
    }

    /// Whether the scope has ended before its children. They are not called then, as nothing is in
    /// that process, and not dropped.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Relaxed)
    }

    /// Takes all failures, in no order.
    pub fn take_failures(&self) -> impl Iterator<Item = Arc<Failure>> {
        // Acquire: pairs with the release in `hear`. The list is taken as a whole, so there is no
        // ABA.
        let mut next = match self.failed.load(Relaxed).is_null() {
            true => null_mut(),
            false => self.failed.swap(null_mut(), Acquire),
        };
        std::iter::from_fn(move || {
            if next.is_null() {
                return None;
            }
            // SAFETY: made from a box, and taken out of view, so ours.
            let heard = unsafe { Box::from_raw(next) };
            next = heard.next;
            Some(heard.failure)
        })
    }

    fn drop_failures(&mut self) {
        self.take_failures().for_each(drop);
    }
}

impl Drop for ScopeState {
    fn drop(&mut self) {
        self.drop_failures();
    }
}
