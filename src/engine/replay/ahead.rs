//! The next replay of a graph, whose lanes start while the one before is under way.
//!
//! Called by `graph/overlap.rs`, by way of `replay/runner.rs`, and by `replay/mod.rs`. For the
//! engine the next replay is an operation that waits for the one before. When that has ended, the
//! next one becomes ready and begins, as ever: by then some of its operations may have run.

use crate::engine::execute::pushed;
use crate::engine::replay::program::Program;
use crate::operation::block::{Block, FLAG_GRAPH};
use crate::operation::completion::Completion;
use crate::tickets::behind::behind;
use std::ptr::null_mut;

impl Program {
    /// Whether the next replay was pushed and comes right behind the one of this round. If so,
    /// prepares the other round for it.
    ///
    /// # Safety
    /// The replay of this round has begun, and is not over before the call returns. No other thread
    /// calls this for it.
    pub unsafe fn prepare_next(&self, round: usize) -> bool {
        // SAFETY: by the contract. The replay of the other round is over, and its round is used by
        // nobody; so is the pace, until this replay is over.
        unsafe {
            let Some(next) = self.next_replay(round) else { return false };
            if !(*self.pace.get()).overlaps() {
                return false;
            }
            let replay = &mut *self.rounds[1 - round].get();
            (replay.stamp, replay.pushed) = pushed(next);
            if replay.pushed != 0 {
                replay.started = self.core.profiler.starting();
            }
            *self.next.get() = (next, 1 - round);
            true
        }
    }

    /// The next replay, if it was pushed and comes right behind the one of this round.
    ///
    /// # Safety
    /// The replay of this round has begun, and its completion is not used before the call returns.
    pub unsafe fn next_replay(&self, round: usize) -> Option<*mut Block> {
        // SAFETY: by the contract: the operation has begun and does not end.
        unsafe {
            let completion = (*self.rounds[round].get()).completion.as_ref()?;
            let block = completion.block();
            let priority = (*block).priority;
            // Only a replay of this graph has this flag, and changes the graph's own variable.
            behind(block, |next| (*next).flags & FLAG_GRAPH != 0 && (*next).priority == priority)
        }
    }

    /// If a replay that begins was started early: the round that it has, with its completion.
    ///
    /// # Safety
    /// It is the replay's turn.
    pub unsafe fn take_early(&self, completion: Completion) -> Result<usize, Completion> {
        // SAFETY: by the contract, the replay before is over, and no thread looks ahead from this
        // one before it has begun.
        unsafe {
            let (block, round) = *self.next.get();
            if block != completion.block() {
                return Err(completion);
            }
            *self.next.get() = (null_mut(), 0);
            let replay = &mut *self.rounds[round].get();
            replay.completion = Some(completion);
            if replay.pushed != 0 {
                // It runs since then, though its turn has come only now.
                let times = &mut *Block::times(block);
                (times.ready, times.start, times.started_on) = (replay.started.0, replay.started.0, replay.started.1);
            }
            Ok(round)
        }
    }
}
