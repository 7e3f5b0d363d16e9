// The root has no state: it lists the modules and re-exports what programs see. The modules `gpu`,
// `testing` and `internals` are written out at its end.

//! Seriatim: a lock-free, allocation-pooled dependency engine for code that counts nanoseconds.
//!
//! A program pushes functions and says which variables each one reads and which it changes. The
//! engine runs them in parallel and keeps one promise: *two functions, of which at least one
//! changes a common variable, run in the order in which they were pushed.*
//!
//! ```
//! use seriatim::{Data, Engine, Error};
//!
//! let engine = Engine::new()?;
//! let x = Data::new(&engine, vec![1.0; 1000]);
//! let y = Data::new(&engine, vec![2.0; 1000]);
//!
//! let (from, to) = (x.clone(), y.clone());
//! engine.op("axpy").reads([&x]).writes([&y]).push(move |_| {
//!     let (from, mut to) = (from.read()?, to.write()?);
//!     to.iter_mut().zip(from.iter()).for_each(|(y, x)| *y += 3.0 * x);
//!     Ok::<(), Error>(())
//! })?;
//!
//! engine.wait_for_var(y.variable())?;
//! assert_eq!(y.read()?[0], 5.0);
//! # Ok::<(), Error>(())
//! ```
//!
//! A thread that waits runs what it waits for, and then any ready operations. If it holds a lock
//! that one of them takes, it waits for itself: hold no such lock in a wait.
//! [`Builder::waiters_help`] turns this help off.
//!
//! | to | see |
//! |---|---|
//! | push functions, wait, stop | [`Engine`] |
//! | choose workers, cores, idling, bounds | [`Engine::builder`], [`Settings`] for the defaults |
//! | lend values to operations, by type | [`Engine::value`], [`OperationBuilder::run`], [`Engine::tiles`] |
//! | change values in any order, add up in copies | [`Engine::commutative`], [`Commute`], [`Engine::reduction`], [`Reduce`] |
//! | borrow from the stack, nest parallelism | [`Engine::scope`], [`Scope`], [`ScopePart`] |
//! | carry values between operations, checked as it runs | [`Data`] |
//! | push the same operation often | [`Operator`] |
//! | get a result, wait with `await`, push a future | [`OperationBuilder::compute`], [`Pending`], [`Engine::ready`], [`OperationBuilder::push_future`] |
//! | replay many operations at once | [`Engine::capture`], [`Graph`], [`Parameter`], [`Instances`] |
//! | replay operations so that iterations overlap | [`Engine::capture_pipeline`], [`Pipeline`] |
//! | cancel operations that have not started, or set them a deadline | [`CancelToken`], [`StartLimits`] |
//! | end an operation later, on another thread | [`OperationBuilder::push_async`], [`Completion`] |
//! | run operations on GPUs, copy arrays | [`gpu`], [`Context::gpu`], [`RunContext::stream`], [`Engine::copy`] |
//! | learn why something failed | [`Error`], [`ErrorKind`], [`Builder::on_error`] |
//! | learn where time goes | [`Engine::start_profiling`], [`Profile`], [`Engine::dump_dot`] |
//! | watch an engine that runs | [`Engine::stats`], [`Stats`] |
//!
//! **Order.** Pushes from any number of threads have one total order, the same on every variable.
//! Each operation runs once, or is skipped because an operation that it depends on failed.
//!
//! **Cost.** A push takes time in proportion to the number of its variables. It takes no lock, and
//! in steady state it allocates nothing for closures of up to 512 bytes. [`design`] has the worst
//! case of every call, and the protocol with its proof.
//!
//! **Latency.** Build with `--release`. Call [`Engine::prepare`] on each thread that pushes, then
//! print [`Engine::warnings`]. [`Builder::pin`] says how many workers a machine has room for, and
//! [`IdlePolicy`] what a sleeping worker costs. [`Builder::inline_below`] is for closures that take
//! less time than the way to another core. `examples/latency.rs` measures a push and a wait.
//!
//! **Features.** All are off by default. `cuda` has the devices of CUDA's driver, which is looked
//! for when a program runs ([`gpu`]); it needs Rust 1.88. `serde` writes and reads a [`Profile`],
//! and writes [`Stats`]. `tracing` tells subscribers of that crate about operations: a span of the
//! target `seriatim`, level trace, around each call of a named operation's closure, and an event of
//! level error for each failure. `metrics` has `Engine::record_metrics`, which tells the recorder
//! of that crate what [`Engine::stats`] says.

#![deny(missing_docs, missing_debug_implementations)]
#![cfg_attr(
    any(loom, shuttle),
    allow(missing_docs, missing_debug_implementations, dead_code, clippy::declare_interior_mutable_const)
)]
#![cfg_attr(seriatim_simulation, allow(missing_docs, missing_debug_implementations))]

// A module imports only from its own folder and from those to its right: api → engine → graph →
// worker → thread → pool → variable → tickets → profile → operation → device → error → util →
// platform → sync. `tests/structure.rs` holds the source to it.
mod api;
mod device;
mod engine;
mod error;
mod graph;
mod operation;
mod platform;
mod pool;
mod profile;
mod sync;
mod thread;
mod tickets;
mod util;
mod variable;
mod worker;

pub use api::builder::Builder;
pub use api::capture::Capture;
pub use api::capture_builder::CaptureBuilder;
pub use api::data::{Data, Ref, RefMut};
pub use api::engine::Engine;
pub use api::graph::Graph;
pub use api::instances::Instances;
pub use api::keyed_builder::KeyedBuilder;
pub use api::limited_builder::LimitedBuilder;
#[doc(hidden)]
pub use api::listed::Listed;
pub use api::operation::OperationBuilder;
pub use api::operator::Operator;
pub use api::parameter::Parameter;
pub use api::pending::Pending;
pub use api::pipeline::Pipeline;
pub use api::scope::{Scope, ScopeBuilder};
pub use api::scope_limits::LimitedScopeBuilder;
pub use api::typed::each_iter::{EachIter, EachIterMut};
pub use api::typed::guard::{ReadGuard, WriteGuard};
pub use api::typed::part::ScopePart;
pub use api::typed::reduce::Reduce;
pub use api::typed::reduction::Reduction;
pub use api::typed::resources::{Anywhere, Commute, InScope, Resources, Write};
pub use api::typed::slices::{Each, EachMut};
pub use api::typed::value::Value;
pub use api::when::{WhenAllEnded, WhenFree};
pub use device::{Context, Device};
pub use engine::settings::{IdlePolicy, Kind, Settings, WhenFull};
pub use engine::stats::{PoolStats, Stats};
pub use error::{Error, ErrorKind};
#[doc(hidden)]
pub use operation::async_closure::AsyncFunction;
pub use operation::cancel_token::CancelToken;
pub use operation::closure::IntoOutcome;
pub use operation::completion::Completion;
pub use operation::context::RunContext;
pub use operation::name::Name;
pub use operation::property::Property;
pub use operation::start_limits::StartLimits;
pub use profile::{CriticalPath, DeviceSpan, Event, Overlap, Profile, StreamName, Summary, Times, Use};
pub use variable::handle::Variable;
pub use worker::counters::WorkerStats;

/// GPUs: arrays on them, streams of the program's own, and the seam to what drives them.
///
/// An operation of [`Context::gpu`] gets a [stream](RunContext::stream), puts its work there and
/// returns; it is done when the device has done that. The engine orders streams by marks, and no
/// thread waits. [`Engine::device`] gives a [`DeviceHandle`](gpu::DeviceHandle), with which
/// programs make [`DeviceData`](gpu::DeviceData) and [`PinnedData`](gpu::PinnedData).
/// [`Engine::copy`] copies from one to the other, and an [`AdoptedStream`](gpu::AdoptedStream)
/// brings a library's stream into the order of variables. What drives the devices is a
/// [`Backend`](gpu::Backend). The feature `cuda` has one, `Cuda`, which engines use unless
/// [`Builder::gpus`] gives them another. [`Immediate`](gpu::Immediate) is for tests where there is
/// no GPU, and has an example of a whole program. `docs/src/gpus.md` has the rules, costs and
/// errors.
pub mod gpu {
    pub use crate::api::adopted_stream::AdoptedStream;
    pub use crate::api::device_array::Array;
    pub use crate::api::device_data::DeviceData;
    pub use crate::api::device_handle::DeviceHandle;
    pub use crate::api::pinned_data::{PinnedData, PinnedRef, PinnedRefMut};
    pub use crate::api::typed::device_slice::{DeviceSlice, DeviceSliceMut};
    pub use crate::device::backend::{Backend, Class};
    pub use crate::device::clock::DeviceClock;
    #[cfg(feature = "cuda")]
    pub use crate::device::cuda::Cuda;
    pub use crate::device::graphs::DeviceGraphs;
    pub use crate::device::immediate::Immediate;
    pub use crate::device::memory::{DeviceMemory, MemoryKind, Plain};
    pub use crate::device::raw::{DriverError, Previous, RawGraph, RawMark, RawMemory, RawStream};
    pub use crate::engine::gpu::buffers::MemoryUsage;
}

/// How the engine works. No part of the interface.
#[cfg(doc)]
pub mod design {
    #[doc = include_str!("tickets/README.md")]
    pub mod tickets {}

    #[doc = include_str!("worker/README.md")]
    pub mod workers {}

    #[doc = include_str!("engine/README.md")]
    pub mod worst_cases {}
}

/// The programs of the README, of the guide and of `examples/`, which the tests of the
/// documentation compile and run.
#[cfg(doctest)]
mod programs {
    #[doc = include_str!("../README.md")]
    struct Readme;

    #[doc = concat!("```\n", include_str!("../examples/latency.rs"), "\n```")]
    struct LatencyExample;

    #[doc = include_str!("../docs/src/concepts.md")]
    struct Concepts;

    #[doc = include_str!("../docs/src/values.md")]
    struct Values;

    #[doc = concat!("```\n", include_str!("../examples/values.rs"), "\n```")]
    struct ValuesExample;

    #[doc = include_str!("../docs/src/modes.md")]
    struct AccessModes;

    #[doc = concat!("```\n", include_str!("../examples/modes.rs"), "\n```")]
    struct AccessModesExample;

    #[doc = include_str!("../docs/src/scopes.md")]
    struct Scopes;

    #[doc = concat!("```\n", include_str!("../examples/scopes.rs"), "\n```")]
    struct ScopesExample;

    #[doc = include_str!("../docs/src/choosing.md")]
    struct Choosing;

    #[doc = include_str!("../docs/src/latency.md")]
    struct Latency;

    #[doc = include_str!("../docs/src/watching.md")]
    struct Watching;

    #[doc = concat!("```\n", include_str!("../examples/pipeline.rs"), "\n```")]
    struct PipelineExample;

    #[doc = concat!("```\n", include_str!("../examples/graph.rs"), "\n```")]
    struct GraphExample;

    #[doc = concat!("```\n", include_str!("../examples/async_io.rs"), "\n```")]
    struct AsyncIoExample;

    #[doc = concat!("```\n", include_str!("../examples/futures.rs"), "\n```")]
    struct FuturesExample;

    #[doc = concat!("```\n", include_str!("../examples/errors.rs"), "\n```")]
    struct ErrorsExample;

    #[doc = concat!("```\n", include_str!("../examples/cancellation.rs"), "\n```")]
    struct CancellationExample;

    #[doc = include_str!("../docs/src/errors.md")]
    struct Errors;

    #[doc = include_str!("../docs/src/graphs.md")]
    struct Graphs;

    #[doc = include_str!("../docs/src/async.md")]
    struct Async;

    #[doc = include_str!("../docs/src/gpus.md")]
    struct Gpus;

    #[doc = include_str!("../docs/src/limits.md")]
    struct Limits;

    #[doc = include_str!("../docs/src/ports.md")]
    struct Ports;

    #[doc = include_str!("../docs/src/c.md")]
    struct C;

    #[doc = include_str!("../docs/src/cpp.md")]
    struct Cpp;

    #[doc = include_str!("../docs/src/python.md")]
    struct Python;

    #[doc = include_str!("../docs/src/from-mxnet.md")]
    struct FromMxnet;

    #[doc = include_str!("../docs/src/from-starpu.md")]
    struct FromStarpu;

    #[doc = include_str!("../docs/src/from-openmp.md")]
    struct FromOpenmp;

    #[doc = include_str!("../docs/src/from-taskflow.md")]
    struct FromTaskflow;
}

/// What the tests and the measurements of this repository look at. It is no part of the interface,
/// and changes without notice.
#[doc(hidden)]
pub mod testing {
    /// Returns how many locks this process's engines have taken so far.
    pub fn locks_taken() -> usize {
        crate::sync::lock::taken()
    }

    /// Returns how many list nodes the calling thread has visited so far in order to recycle, to
    /// reclaim and to hand on.
    pub fn steps_taken() -> u64 {
        crate::util::work_counter::taken()
    }

    /// Has the numbers of the streams of devices follow `start`.
    pub fn gpu_numbers_follow(builder: crate::Builder, start: u64) -> crate::Builder {
        builder.gpu_numbers_follow(start)
    }

    /// Makes replays of the graph spread over all lanes after this number of operations, whatever
    /// the clock says.
    pub fn spreads_after(capture: &mut crate::Capture, operations: u32) {
        capture.spreads_after(operations);
    }
}

/// The modules of the engine that the models in `loom-tests/` explore.
#[cfg(any(loom, shuttle))]
#[doc(hidden)]
pub mod internals {
    pub use crate::device::{timed_marks, timeline};
    pub use crate::engine::gpu::{rows, sleep, spare_marks, stage, under_way};
    pub use crate::engine::scope::{ready, registry, state as scope_state};
    pub use crate::engine::wait::{handover, wait_list, waker_list};
    pub mod error {
        pub use crate::error::{Beyond, Failure, Stamp};
    }
    pub use crate::graph::{edges, guided_loop, lanes, partition, plan};
    pub use crate::operation::{access, block, layout};
    #[cfg(loom)]
    pub use crate::platform::asymmetric_fence::begin_model;
    pub use crate::platform::asymmetric_fence::heavy;
    pub use crate::pool::{beside_epoch, magazine, magazine_list, memory, reclaim, stack, thread_cache};
    pub use crate::sync::thread;
    pub use crate::thread::context;
    pub mod tickets {
        pub use crate::tickets::{
            common, end_phased, hazards, hold, journals, linking, links, log, owner, phases, pull, ring, run, word,
        };
    }
    pub use crate::util::{poll_state, waker_cell};
    pub use crate::variable::{slot, table};
    pub use crate::worker::{group, handoff, inbox, local_queue, remote, stealable, thread_handle, Host};
}
