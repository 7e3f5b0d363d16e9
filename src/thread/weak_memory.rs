//! A weak reference from a thread's context to the memory of its engine, which is dereferenced
//! without a count. Used by `thread/context.rs`, whose
//! [`ThreadContext`](crate::thread::context::ThreadContext) holds one, and by `thread/lookup.rs`.
//! Only the context's thread uses it, and nothing changes it; any thread may free the memory.

use crate::pool::memory::Memory;
use std::ops::Deref;
use std::sync::{Arc, Weak};

/// A weak reference to the memory of an engine. It does not keep the memory: dropping the engine
/// frees it, also while other threads still have a context for it. A thread that uses its context
/// is inside a call that holds the engine, so the memory is there.
pub struct WeakMemory {
    /// The memory's number, which stays readable when the memory is gone.
    pub id: u32,
    memory: *const Memory,
    weak: Weak<Memory>,
}

impl WeakMemory {
    pub fn new(memory: &Arc<Memory>) -> WeakMemory {
        WeakMemory { id: memory.id, memory: Arc::as_ptr(memory), weak: Arc::downgrade(memory) }
    }

    /// Whether the memory is gone, or is being dropped.
    pub fn is_over(&self) -> bool {
        self.weak.strong_count() == 0
    }

    /// The memory, if it is there; it then stays as long as the returned reference.
    pub fn upgrade(&self) -> Option<Arc<Memory>> {
        self.weak.upgrade()
    }
}

impl Deref for WeakMemory {
    type Target = Memory;

    #[inline(always)]
    fn deref(&self) -> &Memory {
        // SAFETY: a context is used only inside calls that hold the engine, or by the context's own
        // drop, which has upgraded `weak`.
        unsafe { &*self.memory }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::thread::context::ThreadContext;
    use std::sync::Barrier;

    #[test]
    fn memory_goes_while_threads_that_used_it_live_and_end() {
        for round in 0..300 {
            let memory = Arc::new(Memory::new().unwrap());
            let known = Arc::downgrade(&memory);
            // Some threads end while the memory is dropped, and some live until it has gone; in
            // every third round all do.
            let stay = if round % 3 == 0 { 4 } else { 2 };
            let (together, over) = (Barrier::new(5), Barrier::new(stay + 1));
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let (own, together, over) = (Arc::clone(&memory), &together, &over);
                    scope.spawn(move || {
                        let local = ThreadContext::of(&own);
                        // Enough blocks for magazines on their way to the reclaimer, and in it.
                        for _ in 0..3 {
                            // SAFETY: the blocks are used by no thread and have no accesses, so
                            // they are as good as spent.
                            unsafe {
                                let blocks: Vec<_> = (0..200).map(|_| local.allocate(0)).collect();
                                blocks.into_iter().for_each(|block| {
                                    local.retire(block);
                                });
                                local.defer(|| ());
                            }
                        }
                        drop(own);
                        together.wait();
                        if thread < stay {
                            over.wait();
                        }
                    });
                }
                together.wait();
                drop(memory);
                // Only the end of a thread that is under way keeps the memory. The threads go on
                // before this fails: otherwise the test would hang.
                let kept = known.strong_count();
                over.wait();
                assert!(stay < 4 || kept == 0, "in round {round} threads that have used it keep it");
            });
        }
    }
}
