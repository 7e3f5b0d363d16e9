//! GPUs, over a device that is a model (`gpu/model.rs`): order, errors, limits, stops and forks.

#[path = "gpu/adopted.rs"]
mod adopted;
#[path = "gpu/borrows.rs"]
mod borrows;
mod common;
#[path = "gpu/destructors.rs"]
mod destructors;
#[path = "gpu/device_graphs.rs"]
mod device_graphs;
#[path = "gpu/faults.rs"]
mod faults;
#[path = "gpu/foreign.rs"]
mod foreign;
#[path = "gpu/graph_copies.rs"]
mod graph_copies;
#[path = "gpu/graphs.rs"]
mod graphs;
#[path = "gpu/handles.rs"]
mod handles;
#[path = "gpu/hooked.rs"]
mod hooked;
#[path = "gpu/lifecycle.rs"]
mod lifecycle;
#[path = "gpu/limits.rs"]
mod limits;
#[path = "gpu/memory.rs"]
mod memory;
#[path = "gpu/memory_programs.rs"]
mod memory_programs;
#[path = "gpu/model.rs"]
mod model;
#[path = "gpu/model_graphs.rs"]
mod model_graphs;
#[path = "gpu/model_memory.rs"]
mod model_memory;
#[path = "gpu/order.rs"]
mod order;
#[path = "gpu/pinning.rs"]
mod pinning;
#[path = "gpu/pressure.rs"]
mod pressure;
#[path = "gpu/profile.rs"]
mod profile;
#[path = "gpu/programs.rs"]
mod programs;
#[path = "gpu/rules.rs"]
mod rules;
#[path = "gpu/streams.rs"]
mod streams;

use common::task;
use model::Model;
use seriatim::{Builder, Engine};
use std::sync::Arc;

/// Settings for an engine over the model: one worker for the processor, two for each device.
fn over(model: &Arc<Model>) -> Builder {
    Engine::builder().cpu_workers(1).pin(false).gpus(Arc::clone(model) as _).on_error(|_| ())
}

/// Not a test of its own: carries out what the tests ask of a child process.
#[test]
fn a_child_process_does_its_task() {
    #[cfg(unix)]
    match task().as_deref() {
        Some("fork") => lifecycle::fork_after_use(),
        Some("fork with handles") => handles::fork_with_handles(),
        #[cfg(target_os = "linux")]
        Some("watcher comes last") => destructors::watcher_comes_last(),
        Some("wait for room") => limits::wait_for_room(),
        _ => {}
    }
}
