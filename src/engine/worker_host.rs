//! What workers, and threads that wait and help, ask of the engine: the trait [`Host`] of
//! `src/worker/`, by which it stays free of operations.
//!
//! Used by `src/worker/`, on the thread that works. No state here. What is asked is done in
//! `execute.rs`, `tickets/run.rs`, `thread_hooks.rs` and `core.rs`.

use crate::engine::core::Core;
use crate::operation::block::Block;
use crate::thread::kept;
use crate::tickets::run;
use crate::worker::Host;
use std::sync::Arc;

impl Host for Core {
    #[inline]
    unsafe fn run(self: &Arc<Self>, block: *mut Block, worker: Option<usize>) {
        // SAFETY: by the contract.
        unsafe {
            if !self.run_plain(block, worker) && !self.run_measured(block, worker) {
                self.execute(self.local(), block, worker);
            }
        }
    }

    #[inline]
    unsafe fn settle(&self, block: *mut Block) -> bool {
        // SAFETY: by the contract.
        unsafe { run::settle(block, &self.memory.table) }
    }

    fn depth(&self) -> u32 {
        self.local().depth.get()
    }

    fn begin_worker(&self) {
        kept::begin(self.memory.id);
        self.threads.begin();
    }

    fn end_worker(&self) {
        self.drop_worker_handles();
        self.threads.end();
    }

    fn idle(&self) {
        self.flush(self.local());
    }
}
