//! Which device is current on a thread that calls closures of the program.
//!
//! A worker enters its device once, before its first operation. The program's code that it runs may
//! make another one current, as a library does that loads itself, and not put it back. Every call
//! of the driver by the engine rests on the right one, and so do the closures that come next.
//! [`Core::make_current`] sees to it after each closure (`call.rs`, `replay/device_graph.rs`). No
//! closure of the program can be spared that: what it calls may use any library, in safe code, and
//! only the driver knows what is current.
//! Destructors of closures that were not called, and those of a graph or a pipeline, are rare: they
//! set a flag by [`mistrust`] (`call.rs`, `replay/node_block.rs`, `replay/pipelined.rs`). A worker
//! looks before its next operation (`queue.rs`); the watcher, which may drop a graph or a
//! pipeline's closure too, behind each operation that it ends (`foreign.rs`). Which device a thread
//! has entered, and the flag, are its own: no other thread touches them.
//!
//! At its end a worker drops the handles of libraries that it has kept for operations
//! ([`Core::drop_worker_handles`]), and those of graphs that are gone before it captures another
//! (`replay/device_graph.rs`). They are kept in `src/device/handles.rs`.

use crate::device::handles::{self, Handles};
use crate::device::raw::DriverError;
use crate::engine::core::Core;
use crate::engine::gpu::devices::Gpu;
use crate::engine::gpu::loss::{insist, lost_by, AGAIN};
use crate::engine::nesting::{enter, leave};
use crate::error::Fault;
use crate::operation::closure::drop_quietly;
use crate::sync::Ordering::Relaxed;
use crate::thread::context::ThreadContext;
use std::cell::Cell;
use std::sync::Arc;

std::thread_local! {
    /// The address of the device that this worker has entered, once it has; else 0. And whether
    /// another one may be current, since the program's code was called.
    static ENTERED: (Cell<usize>, Cell<bool>) = const { (Cell::new(0), Cell::new(false)) };
}

/// Makes the device current on the calling worker, which belongs to it for as long as it runs. If
/// the driver refuses, the call is made again, as in `call.rs`.
pub fn enter_once(gpu: &Gpu) -> Result<(), DriverError> {
    let address = std::ptr::from_ref(gpu).addr();
    ENTERED.with(|(entered, mistrusted)| {
        if entered.get() != address {
            insist(AGAIN, || gpu.backend.enter(gpu.number))?;
            entered.set(address);
        } else if mistrusted.get() {
            insist(AGAIN, || gpu.backend.reenter(gpu.number))?;
        }
        mistrusted.set(false);
        Ok(())
    })
}

/// Notes that the calling thread has run code of the program that may have made another device
/// current.
pub fn mistrust() {
    // A thread that is at its end runs no operation any more.
    let _ = ENTERED.try_with(|(_, mistrusted)| mistrusted.set(true));
}

/// Whether the calling thread has noted that since it was taken last.
pub fn take_mistrust() -> bool {
    ENTERED.with(|(_, mistrusted)| mistrusted.replace(false))
}

impl Core {
    /// Drops the handles of libraries that the calling worker has kept, which is at its end.
    pub fn drop_worker_handles(&self) {
        let own = handles::replace(Handles::default());
        let address = ENTERED.with(|(entered, _)| entered.get());
        let is_own = |gpu: &&Arc<Gpu>| Arc::as_ptr(gpu).addr() == address;
        if let Some(gpu) = self.gpus.used().find(is_own).filter(|_| !own.is_empty()) {
            // Relaxed: the engine starts again, and replays, when this thread has been joined.
            gpu.handles_dropped.fetch_add(1, Relaxed);
            self.drop_handles(self.local(), gpu, own);
        }
    }

    /// Drops the handles that the calling thread keeps for graphs that are gone. The devices have
    /// done what these have launched.
    pub(in crate::engine) fn drop_left_handles(&self, gpu: &Gpu) {
        let left = handles::take_left();
        if !left.is_empty() {
            self.drop_handles(self.local(), gpu, left);
        }
    }

    /// Drops handles with the device current. Those of a lost device are forgotten: its driver
    /// takes no more calls.
    pub(super) fn drop_handles(&self, local: &ThreadContext, gpu: &Gpu, mut handles: Handles) {
        if gpu.lost.get().is_some() {
            return;
        }
        // If the device cannot be entered, nothing of it can be given back.
        let _ = gpu.entered(|| {
            while let Some(handle) = handles.pop() {
                enter(local);
                drop_quietly(handle);
                leave(local);
                gpu.backend.reenter(gpu.number)?;
            }
            Ok(())
        });
    }

    /// Makes the device current again on the calling thread, which has entered it, if a closure has
    /// made another one current. A call that is refused is made again. In the end the device counts
    /// as lost: the thread could not use it any more.
    pub(in crate::engine) fn make_current(&self, gpu: &Gpu) -> Result<(), Fault> {
        if gpu.lost.get().is_some() {
            // The driver takes no more calls.
            return Ok(());
        }
        insist(AGAIN, || gpu.backend.reenter(gpu.number)).map_err(|refusal| {
            let what = "a closure may have made another device current, and it could not be made current again";
            self.refused(gpu, &lost_by(refusal, what))
        })
    }
}
