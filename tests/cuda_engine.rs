//! The whole of what orders work on a GPU: the engine, its back end for CUDA and cudarc, over a
//! stand-in for the driver (`cuda-standin/`). Nothing between is a model, and no test needs a GPU.

#![cfg(all(feature = "cuda", target_os = "linux", target_pointer_width = "64"))]

#[path = "cuda_engine/array.rs"]
mod array;
#[path = "cuda_engine/array_programs.rs"]
mod array_programs;
#[path = "cuda_engine/arrays.rs"]
mod arrays;
#[path = "cuda-standin/client.rs"]
mod client;
mod common;
#[path = "cuda_engine/counts.rs"]
mod counts;
#[path = "cuda_engine/current.rs"]
mod current;
#[path = "cuda_engine/faults.rs"]
mod faults;
#[path = "cuda_engine/foreign.rs"]
mod foreign;
#[path = "cuda_engine/lifecycle.rs"]
mod lifecycle;
#[path = "cuda_engine/memory.rs"]
mod memory;
#[path = "cuda_engine/operation.rs"]
mod operation;
#[path = "cuda_engine/oracle.rs"]
mod oracle;
#[path = "cuda_engine/orders.rs"]
mod orders;
#[path = "cuda_engine/plan.rs"]
mod plan;
#[path = "cuda_engine/profile.rs"]
mod profile;
#[path = "cuda_engine/programs.rs"]
mod programs;
#[path = "cuda_engine/pushers.rs"]
mod pushers;
#[path = "cuda_engine/refusals.rs"]
mod refusals;
#[path = "cuda_engine/seeds.rs"]
mod seeds;
#[path = "cuda_engine/sweep.rs"]
mod sweep;
#[path = "cuda_engine/sweep_programs.rs"]
mod sweep_programs;
#[path = "cuda_engine/teeth.rs"]
mod teeth;
#[path = "cuda_engine/typed.rs"]
mod typed;

/// Not a test of its own: carries out what a test asks of a child process.
#[test]
fn a_child_process_does_its_task() {
    if common::task().as_deref() == Some("fork") {
        lifecycle::fork_after_use();
    }
}
