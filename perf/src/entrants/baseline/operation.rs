//! Operations, and the block that stands for one pushed operation until it has run.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, Ordering};

use super::variable::Var;

/// What an operation runs and touches. `Body` is a boxed `FnOnce` for an operation pushed once, a
/// boxed `Fn` for a reusable one.
pub(super) struct Operation<Body: ?Sized> {
    pub(super) reads: Vec<Var>,
    pub(super) writes: Vec<Var>,
    pub(super) body: Box<Body>,
}

pub(super) type TemporaryOperation = Operation<dyn FnOnce() + Send>;
pub(super) type ReusableOperation = Operation<dyn Fn() + Send + Sync>;

/// Where a block's operation is kept.
pub(super) enum Source {
    /// It belongs to the block and goes with it.
    Temporary(Box<TemporaryOperation>),
    /// It belongs to the engine, which keeps it until its workers have been joined.
    Reusable(NonNull<ReusableOperation>),
}

/// One pushed operation: how many of its variables still keep it waiting, and what it will run.
pub(super) struct OperationBlock {
    wait: AtomicI32,
    pub(super) priority: i32,
    pub(super) source: Source,
}

// SAFETY: the block is a counter, a number and an operation. A temporary operation is `Send` by its
// type. A reusable one is only read through its pointer, and everything in it is `Sync`.
unsafe impl Send for OperationBlock {}

/// One share of a block's wait count. All shares together own the block: the one that is given up
/// last gets it back.
///
/// This is a counted pointer whose count is set once for all shares, as the original does, instead
/// of being raised for every share by a locked instruction.
pub(super) struct Claim(NonNull<OperationBlock>);

// SAFETY: a claim gives access to the block's atomic counter from any thread, and to the rest only
// for the last claim, which then owns the block; the block is `Send`.
unsafe impl Send for Claim {}

/// The shares of a new block that have not been handed out.
pub(super) struct Claims {
    block: NonNull<OperationBlock>,
    left: usize,
}

impl Claims {
    /// Allocates the block, with a share for each of `accesses` variables and one for the pusher.
    pub(super) fn new(source: Source, priority: i32, accesses: usize) -> Claims {
        let shares = accesses + 1;
        let wait = i32::try_from(shares).expect("an operation with more than two billion variables");
        let block = Box::new(OperationBlock { wait: AtomicI32::new(wait), priority, source });
        Claims { block: NonNull::from(Box::leak(block)), left: shares }
    }

    /// Hands out one share.
    pub(super) fn issue(&mut self) -> Claim {
        assert!(self.left > 0, "more shares than the wait count covers");
        self.left -= 1;
        Claim(self.block)
    }
}

impl Claim {
    /// Gives the share up. The last to do so receives the block, which is then ready to run.
    pub(super) fn release(self) -> Option<Box<OperationBlock>> {
        // SAFETY: the block is freed only by the release that takes the count to zero. This share
        // is part of the count, and `self` is consumed, so that has not happened yet.
        let block = unsafe { self.0.as_ref() };
        // Release: what this thread did before, for the operation's variables and its body.
        // Acquire: the same of all the others, for the last one, which goes on to run it.
        let before = block.wait.fetch_sub(1, Ordering::AcqRel);
        assert!(before > 0, "an operation was granted a variable twice");
        if before == 1 {
            // SAFETY: the count covered every share that `Claims` handed out, and all are given up:
            // nobody else can reach the block, which `Claims::new` took from a `Box`.
            Some(unsafe { Box::from_raw(self.0.as_ptr()) })
        } else {
            None
        }
    }
}
