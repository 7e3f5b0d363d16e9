//! What a thread's state and the memory of its engine are to each other.

use crate::pool::memory::Memory;
use std::ops::Deref;
use std::sync::{Arc, Weak};

/// How a thread knows the memory of an engine that it uses. It does not keep it: dropping the
/// engine frees it, also while other threads still have a state. The thread that uses a state is
/// inside a call that has the engine.
pub struct Bond {
    /// The memory's number, also when it is gone.
    pub id: u32,
    memory: *const Memory,
    weak: Weak<Memory>,
}

impl Bond {
    pub fn new(memory: &Arc<Memory>) -> Bond {
        Bond { id: memory.id, memory: Arc::as_ptr(memory), weak: Arc::downgrade(memory) }
    }

    /// Whether the memory is gone, or going.
    pub fn is_over(&self) -> bool {
        self.weak.strong_count() == 0
    }

    /// The memory, which then stays, if it is there.
    pub fn upgrade(&self) -> Option<Arc<Memory>> {
        self.weak.upgrade()
    }
}

impl Deref for Bond {
    type Target = Memory;

    #[inline(always)]
    fn deref(&self) -> &Memory {
        // SAFETY: used inside calls only that have the engine, or by the end of a state, which has
        // upgraded `weak`.
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
            // Some end while the memory goes, and some are there until it has gone; now and then
            // all.
            let stay = if round % 3 == 0 { 4 } else { 2 };
            let (together, over) = (Barrier::new(5), Barrier::new(stay + 1));
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let (own, together, over) = (Arc::clone(&memory), &together, &over);
                    scope.spawn(move || {
                        let local = ThreadContext::of(&own);
                        // Enough for magazines on their way to the reclaimer, and in it.
                        for _ in 0..3 {
                            // SAFETY: used by nobody, and without accesses, so as good as spent.
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
                // Only an end that is under way keeps it. They go on before this fails, or it would
                // hang.
                let kept = known.strong_count();
                over.wait();
                assert!(stay < 4 || kept == 0, "in round {round} threads that have used it keep it");
            });
        }
    }
}
