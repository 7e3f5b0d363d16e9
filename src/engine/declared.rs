//! The declared variables of an operation that has a block, for the check of its borrows (trait
//! [`Current`]).
//!
//! Used by `execute.rs`, `inline/asynchronous.rs` and `gpu/call.rs`, around the call of a closure,
//! on the thread that calls it: [`Enlisted`] if it is synchronous, [`Copied`] if it is
//! asynchronous. Operations without a block have the same: `Inside` in `inline/fast_path.rs`, and
//! `CurrentNode` in `replay/runner.rs`.
//!
//! No other thread touches any of it: a borrow asks on the same thread, through
//! `operation/current.rs`. `SPARE_LIST` is a list that each thread keeps for all engines.

use crate::operation::block::Block;
use crate::operation::current::{Current, May};
use crate::pool::memory::Memory;
use crate::sync::thread_local;
use crate::util::array_vec::ArrayVec;
use std::cell::Cell;

/// A synchronous operation: its block stays its own while its closure is called.
pub struct Enlisted<'a> {
    memory: &'a Memory,
    block: *mut Block,
}

impl<'a> Enlisted<'a> {
    /// # Safety
    /// The block is that of an operation of this memory's engine, and is not reused while this is
    /// used.
    pub unsafe fn new(memory: &'a Memory, block: *mut Block) -> Enlisted<'a> {
        Enlisted { memory, block }
    }
}

/// The variables of an operation, and whether it changes each.
///
/// # Safety
/// The block is that of an operation, and is not reused meanwhile.
unsafe fn uses(block: *mut Block) -> impl Iterator<Item = (u32, bool)> {
    // SAFETY: by the contract. The fields that are read of an access are written by its push only.
    unsafe {
        (0..(*block).count).map(move |index| {
            let access = Block::access(block, index);
            ((*access).variable, (*access).mode().changes())
        })
    }
}

impl Current for Enlisted<'_> {
    fn name(&self) -> &'static str {
        // SAFETY: by the contract of `new`.
        unsafe { Block::name(self.block) }
    }

    fn may(&self, engine: u32, index: u32) -> Option<May> {
        if self.memory.id != engine {
            return None;
        }
        // SAFETY: by the contract of `new`.
        Some(May::of(unsafe { uses(self.block) }.find(|(variable, _)| *variable == index).map(|(_, writes)| writes)))
    }

    fn generation(&self, index: u32) -> u32 {
        // SAFETY: the operation has declared a variable of this index.
        unsafe { self.memory.table.generation(index) }
    }
}

/// How many variables are kept in [`Copied`] itself. Further ones go to a list that the thread
/// keeps for the next time.
const INLINE: usize = 8;

thread_local! {
    static SPARE_LIST: Cell<Vec<(u32, bool)>> = const { Cell::new(Vec::new()) };
}

/// An asynchronous operation. The declared variables are copied, as the block may be another
/// operation's before the closure has returned.
pub struct Copied<'a> {
    memory: &'a Memory,
    name: &'static str,
    few: ArrayVec<(u32, bool), INLINE>,
    many: Vec<(u32, bool)>,
}

impl<'a> Copied<'a> {
    /// # Safety
    /// The block is that of an operation of this memory's engine, and the operation has not ended.
    pub unsafe fn of(memory: &'a Memory, block: *mut Block) -> Copied<'a> {
        // SAFETY: by the contract.
        let (name, uses) = unsafe { (Block::name(block), uses(block)) };
        let mut copied = Copied { memory, name, few: ArrayVec::new(), many: Vec::new() };
        for of in uses {
            if !copied.few.add(of) {
                copied.add_to_many(of);
            }
        }
        copied
    }
}

impl Copied<'_> {
    #[cold]
    #[inline(never)]
    fn add_to_many(&mut self, of: (u32, bool)) {
        if self.many.is_empty() {
            self.many = SPARE_LIST.try_with(Cell::take).unwrap_or_default();
            self.many.clear();
        }
        self.many.push(of);
    }
}

impl Current for Copied<'_> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn may(&self, engine: u32, index: u32) -> Option<May> {
        if self.memory.id != engine {
            return None;
        }
        Some(May::of(
            self.few.iter().chain(&self.many).find(|(variable, _)| *variable == index).map(|(_, writes)| *writes),
        ))
    }

    fn generation(&self, index: u32) -> u32 {
        // SAFETY: the operation has declared a variable of this index.
        unsafe { self.memory.table.generation(index) }
    }
}

impl Drop for Copied<'_> {
    fn drop(&mut self) {
        if !self.many.is_empty() {
            let many = std::mem::take(&mut self.many);
            let _ = SPARE_LIST.try_with(|spare| spare.set(many));
        }
    }
}
