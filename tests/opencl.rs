//! GPUs, over OpenCL: a back end that is not CUDA's, on a device that runs real kernels. The device
//! is the processor, by PoCL, so no test needs a GPU.
//!
//! `scripts/opencl.sh` gets PoCL and sets `SERIATIM_TEST_OPENCL`, the path of a driver's library.
//! Without it the tests say 'skipped'.

#![cfg(unix)]

#[path = "opencl/arrays.rs"]
mod arrays;
#[path = "opencl/backend.rs"]
mod backend;
#[path = "opencl/calls.rs"]
mod calls;
#[path = "opencl/cells.rs"]
mod cells;
mod common;
#[path = "opencl/faults.rs"]
mod faults;
#[path = "opencl/kernels.rs"]
mod kernels;
#[path = "opencl/library.rs"]
mod library;
#[path = "opencl/memory.rs"]
mod memory;
#[path = "opencl/operation.rs"]
mod operation;
#[path = "opencl/programs.rs"]
mod programs;
#[path = "opencl/queue.rs"]
mod queue;
