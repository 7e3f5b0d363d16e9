//! The back end for CUDA over a stand-in for the driver (`cuda-standin/`): every call of the seam,
//! every error, and what there is where there is no driver. No test needs a GPU.

#![cfg(all(feature = "cuda", target_os = "linux", target_pointer_width = "64"))]

#[path = "cuda_backend/calls.rs"]
mod calls;
#[path = "cuda-standin/client.rs"]
mod client;
mod common;
#[path = "cuda_backend/faults.rs"]
mod faults;
#[path = "cuda_backend/handles.rs"]
mod handles;
#[path = "cuda_backend/opening.rs"]
mod opening;
#[path = "cuda_backend/order.rs"]
mod order;
#[path = "cuda_backend/standin.rs"]
mod standin;

use client::Standin;
use handles::Driver;
use seriatim::gpu::{Backend, Class, Previous, RawMark, RawStream};

/// The back end, on a thread that has entered its first device.
struct Entered {
    cuda: Driver,
    before: Previous,
}

impl Entered {
    fn new(_: &Standin) -> Entered {
        let cuda = Driver::open().expect("the stand-in is a driver");
        let before = cuda.enter(0).expect("there is a device");
        Entered { cuda, before }
    }

    fn stream(&self) -> RawStream {
        self.cuda.stream(0, Class::Compute).expect("the stand-in makes streams")
    }

    fn mark(&self) -> RawMark {
        self.cuda.mark(0).expect("the stand-in makes events")
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.cuda.leave(self.before);
    }
}

/// Not a test of its own: carries out what the tests ask of a child process.
#[test]
fn a_child_process_does_its_task() {
    if let Some(task) = common::task() {
        opening::carry_out(&task);
    }
}
