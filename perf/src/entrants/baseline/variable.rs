//! The queue of one variable: a mutex around a list of the operations that wait for it.
//!
//! The list runs from the oldest waiting write to an empty block at its end, which the next
//! operation to wait fills in, hanging a new empty block behind it. A read that finds no write
//! waiting takes no place in the list; it is only counted. The thread that ends a write takes it
//! off the front together with the reads right behind it, and lets those go.

use std::ptr::NonNull;

use parking_lot::Mutex;

use super::operation::{Claim, OperationBlock};

/// The value of `State::pending_reads` while a write holds the variable.
const WRITE_TRIGGERED: i32 = -1;

/// A place in a variable's list.
struct VersionedBlock {
    next: Option<NonNull<VersionedBlock>>,
    /// The operation to grant the variable to; none once that is done, and none in the empty block
    /// at the end.
    trigger: Option<Claim>,
    write: bool,
}

impl VersionedBlock {
    fn empty() -> NonNull<VersionedBlock> {
        NonNull::from(Box::leak(Box::new(VersionedBlock { next: None, trigger: None, write: false })))
    }
}

struct State {
    /// Reads that hold the variable, or `WRITE_TRIGGERED`.
    pending_reads: i32,
    /// The empty block at the end of the list.
    head: NonNull<VersionedBlock>,
    /// The oldest write that has not ended, and so the front of the list. None means that reads may
    /// start at once.
    pending_write: Option<NonNull<VersionedBlock>>,
    version: u64,
}

// SAFETY: the list belongs to the state: its blocks are reached only under the mutex around the
// state, except for those that `complete_write` has taken off, which then belong to its caller. The
// claims in them are `Send`.
unsafe impl Send for State {}

pub(super) struct Variable {
    engine: u64,
    state: Mutex<State>,
}

/// A handle to a variable: something that operations read or change.
#[derive(Clone, Copy)]
pub struct Var(&'static Variable);

/// All variables of the process, so that leak checkers see that they are still reachable.
static VARIABLES: Mutex<Vec<Var>> = Mutex::new(Vec::new());

impl Var {
    pub(super) fn new(engine: u64) -> Var {
        let state = State { pending_reads: 0, head: VersionedBlock::empty(), pending_write: None, version: 0 };
        let variable = Var(Box::leak(Box::new(Variable { engine, state: Mutex::new(state) })));
        VARIABLES.lock().push(variable);
        variable
    }

    /// How many writes of it have ended.
    pub fn version(self) -> u64 {
        self.0.state.lock().version
    }

    pub(super) fn engine(self) -> u64 {
        self.0.engine
    }

    /// Whether no write is waiting or running.
    pub(super) fn ready_to_read(self) -> bool {
        self.0.state.lock().pending_write.is_none()
    }

    /// Enlists a read, or grants it at once when no write is before it.
    pub(super) fn append_read(self, claim: Claim) {
        {
            let mut state = self.0.state.lock();
            if state.pending_write.is_some() {
                let end = VersionedBlock::empty();
                // SAFETY: `head` is the last block of the list, alive and reached by nobody else
                // under the mutex.
                let place = unsafe { state.head.as_mut() };
                place.next = Some(end);
                place.trigger = Some(claim);
                state.head = end;
                return;
            }
            state.pending_reads += 1;
        }
        grant_to_pusher(claim);
    }

    /// Enlists a write, and grants it at once when nothing is before it.
    pub(super) fn append_write(self, claim: Claim) {
        let end = VersionedBlock::empty();
        {
            let mut state = self.0.state.lock();
            let mut head = state.head;
            // SAFETY: as in `append_read`.
            let place = unsafe { head.as_mut() };
            place.next = Some(end);
            place.write = true;
            state.head = end;
            if state.pending_write.is_some() {
                place.trigger = Some(claim);
                return;
            }
            state.pending_write = Some(head);
            if state.pending_reads != 0 {
                place.trigger = Some(claim);
                return;
            }
            state.pending_reads = WRITE_TRIGGERED;
        }
        grant_to_pusher(claim);
    }

    /// Ends a read; the last of a group lets the write behind it go.
    pub(super) fn complete_read(self, dispatch: impl FnOnce(Box<OperationBlock>)) {
        let trigger = {
            let mut state = self.0.state.lock();
            assert!(state.pending_reads > 0, "a read ended that had not begun");
            state.pending_reads -= 1;
            match state.pending_write {
                Some(mut write) if state.pending_reads == 0 => {
                    state.pending_reads = WRITE_TRIGGERED;
                    // SAFETY: the pending write is in the list, and the mutex is held.
                    unsafe { write.as_mut() }.trigger.take()
                }
                _ => None,
            }
        };
        if let Some(block) = trigger.and_then(Claim::release) {
            dispatch(block);
        }
    }

    /// Ends a write: takes it off the list together with the reads behind it, lets these go, or
    /// else the next write.
    pub(super) fn complete_write(self, mut dispatch: impl FnMut(Box<OperationBlock>)) {
        let (ended, end_of_reads, trigger) = {
            let mut state = self.0.state.lock();
            assert_eq!(state.pending_reads, WRITE_TRIGGERED, "a write ended that had not begun");
            state.version += 1;
            let ended = state.pending_write.expect("a write holds the variable");
            let mut reads = 0;
            let mut block = next(ended);
            // SAFETY: every block up to `head` is in the list, and the mutex is held.
            while block != state.head && !unsafe { block.as_ref() }.write {
                reads += 1;
                block = next(block);
            }
            let mut trigger = None;
            if block == state.head {
                state.pending_write = None;
                state.pending_reads = reads;
            } else {
                state.pending_write = Some(block);
                state.pending_reads = reads;
                if reads == 0 {
                    state.pending_reads = WRITE_TRIGGERED;
                    // SAFETY: as above.
                    trigger = unsafe { block.as_mut() }.trigger.take();
                }
            }
            (ended, block, trigger)
        };
        // Outside the mutex. The blocks from `ended` up to, not including, `end_of_reads` are off
        // the list.
        // SAFETY: nobody else can reach a block that is off the list, and it came from a `Box`.
        let mut block = unsafe { take(ended) }.next.expect("only the last block has none behind it");
        while block != end_of_reads {
            // SAFETY: as above.
            let read = unsafe { take(block) };
            block = read.next.expect("only the last block has none behind it");
            if let Some(ready) = read.trigger.and_then(Claim::release) {
                dispatch(ready);
            }
        }
        if let Some(ready) = trigger.and_then(Claim::release) {
            dispatch(ready);
        }
    }
}

/// Counts off a variable that was free when its operation asked. The pusher has a share of its own
/// until it has enlisted everywhere, so this is never the last.
fn grant_to_pusher(claim: Claim) {
    let ready = claim.release();
    debug_assert!(ready.is_none(), "the pusher still holds a share");
}

/// The block behind one that is not the last. The caller holds the mutex of the list that `block`
/// is in.
fn next(block: NonNull<VersionedBlock>) -> NonNull<VersionedBlock> {
    // SAFETY: only called by `complete_write`, under the mutex, for blocks in the list.
    unsafe { block.as_ref() }.next.expect("only the last block has none behind it")
}

/// Frees a block and returns what was in it.
///
/// # Safety
/// The block is off its list, and not used again.
unsafe fn take(block: NonNull<VersionedBlock>) -> VersionedBlock {
    // SAFETY: every block comes from `VersionedBlock::empty`, and the caller owns this one.
    *unsafe { Box::from_raw(block.as_ptr()) }
}
