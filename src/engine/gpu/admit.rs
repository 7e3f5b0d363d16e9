//! Makes devices ready: asks the back end, makes streams and marks, starts the threads.
//!
//! Used by `push/mod.rs` before a push is pinned ([`find`]), and by `push/admission.rs` under its
//! pin ([`admit`]). What else names a device asks here too: `lease.rs`, `foreign.rs`,
//! `api/device_handle.rs`, `api/graph.rs`, `replay/assemble.rs`. Any thread may;
//! one at a time makes something, under the lock `Gpus::making`. The devices that it makes are kept
//! in `devices.rs`. The thread that stops an engine ends the threads of its devices here
//! (`engine/lifecycle.rs`), also for a fork; `engine/fork.rs` has the child forget the devices.

use crate::device::backend::{Backend, Class};
use crate::device::raw::DriverError;
use crate::device::timeline::{Timeline, MOST_LINES, MOST_TIMELINES};
use crate::device::Context;
use crate::engine::core::Core;
use crate::engine::gpu::buffers::Buffers;
use crate::engine::gpu::devices::{DeviceStream, Fleet, Gpu};
use crate::engine::gpu::spare_marks::SpareMarks;
use crate::engine::gpu::watch;
use crate::engine::settings::{Kind, Settings};
use crate::engine::thread_hooks::ThreadHooks;
use crate::error::{Error, ErrorKind};
use crate::sync::lock::Lock;
use crate::sync::{AtomicBool, AtomicU64, Ordering::*};
use crate::worker::group::{Group, GroupPlan};
use crate::worker::remote::Remote;
use std::sync::{Arc, OnceLock};

/// The groups of a device, by their names.
const COMPUTE: &str = "seriatim-gpu";
const COPIES: &str = "seriatim-copy";

/// The device of a context, made ready if it is used for the first time. From here on all
/// operations look at tickets.
pub fn find(core: &Core, context: Context) -> Result<&Arc<Gpu>, Error> {
    if core.gpus.forked.load(Relaxed) {
        let why =
            "the process was forked after a device was used, and no device survives that: use devices in the parent";
        return Err(unavailable(context, why));
    }
    let fleet = match core.gpus.fleet.get() {
        Some(fleet) => fleet,
        None => open(core, context)?,
    };
    let number = context.id() as usize;
    let Some(place) = fleet.gpus.get(number) else {
        let (name, count) = (fleet.backend.name(), fleet.gpus.len());
        return Err(unavailable(context, &format!("{name} has found {count} devices, numbered from 0")));
    };
    let gpu = match place.get() {
        Some(gpu) => gpu,
        None => {
            // Before the lock: the names are the program's to give.
            let names = ThreadNames::ask(&core.threads, &core.settings, number);
            make(core, fleet, place, (number, names)).map_err(|fault| unavailable(context, &fault.to_string()))?
        }
    };
    if let Some(failure) = gpu.lost.get() {
        return Err(failure.error.clone());
    }
    if !core.state.load(Relaxed).uses_devices() {
        // Before the operation gets its tickets: those behind it on a variable see the flag.
        core.state.use_devices();
    }
    Ok(gpu)
}

/// Makes sure that the threads of a device run. Called under the pin of a push: a stop waits until
/// the pin is gone before it ends threads.
pub fn admit(core: &Arc<Core>, context: Context) -> Result<(), Error> {
    let gpu = find(core, context)?;
    if core.settings.kind == Kind::Naive || gpu.copies.is_started() {
        return Ok(());
    }
    watch::start(core, gpu)?;
    core.start_group(&gpu.compute)?;
    core.start_group(&gpu.copies)
}

/// Makes sure that the threads of all devices run that were used and are not lost: for a graph,
/// whose operations run on some of them.
pub fn admit_used(core: &Arc<Core>) -> Result<(), Error> {
    let mut alive = core.gpus.used().filter(|gpu| gpu.lost.get().is_none());
    // One that is lost by now is none that the graph uses, or its replay was refused before.
    alive.try_for_each(|gpu| admit(core, gpu.context()).or_else(|error| gpu.lost.get().map(|_| ()).ok_or(error)))
}

/// What the threads of a device are called.
struct ThreadNames {
    watcher: String,
    compute: Vec<String>,
    copies: Vec<String>,
}

impl ThreadNames {
    /// Asks the program, whose hook may push, and so come here for another device.
    fn ask(hooks: &ThreadHooks, settings: &Settings, number: usize) -> ThreadNames {
        let of = |group, workers| (0..workers).map(|index| hooks.name(format!("{group}-{index}"))).collect();
        ThreadNames {
            watcher: hooks.name(format!("seriatim-watch-{number}")),
            compute: of(COMPUTE, settings.gpu_workers),
            copies: of(COPIES, 1),
        }
    }
}

/// The error of a context that cannot be used.
fn unavailable(context: Context, why: &str) -> Error {
    Error::new(ErrorKind::DeviceUnavailable, format!("{context} cannot be used: {why}; or use cpu(i) or cpu_pinned(i)"))
}

/// Asks the back end for its devices.
#[cold]
fn open(core: &Core, context: Context) -> Result<&Fleet, Error> {
    let _making = core.gpus.making.lock();
    if let Some(fleet) = core.gpus.fleet.get() {
        return Ok(fleet);
    }
    let backend = match &core.gpus.given.0 {
        Some(backend) => Arc::clone(backend),
        None => default_backend().map_err(|fault| unavailable(context, &fault.to_string()))?,
    };
    let count = backend.devices().map_err(|fault| unavailable(context, &fault.to_string()))?;
    let lines = Gpu::timelines(core.settings.gpu_workers);
    let most = MOST_TIMELINES / lines;
    Ok(core.gpus.fleet.get_or_init(|| Fleet::new(backend, count.min(most), lines)))
}

/// What drives devices if the program gives nothing.
#[cfg(feature = "cuda")]
fn default_backend() -> Result<Arc<dyn Backend>, DriverError> {
    Ok(crate::device::cuda::Cuda::open()?)
}

#[cfg(not(feature = "cuda"))]
fn default_backend() -> Result<Arc<dyn Backend>, DriverError> {
    Err(DriverError::refused(
        "this build has no GPU devices: build with the feature 'cuda', or give Builder::gpus a back end",
    ))
}

#[cold]
fn make<'a>(
    core: &Core,
    fleet: &'a Fleet,
    place: &'a OnceLock<Arc<Gpu>>,
    (number, names): (usize, ThreadNames),
) -> Result<&'a Arc<Gpu>, DriverError> {
    let _making = core.gpus.making.lock();
    if let Some(gpu) = place.get() {
        return Ok(gpu);
    }
    let backend = &fleet.backend;
    let previous = backend.enter(number)?;
    let made = make_entered(&core.settings, backend, number, names);
    // SAFETY: `enter` has returned it just now.
    unsafe { backend.leave(previous) };
    let made = Arc::new(made?);
    Ok(place.get_or_init(|| made))
}

/// Makes the streams and marks of a device which is current.
fn make_entered(
    settings: &Settings,
    backend: &Arc<dyn Backend>,
    number: usize,
    names: ThreadNames,
) -> Result<Gpu, DriverError> {
    let naive = settings.kind == Kind::Naive;
    let count = Gpu::timelines(settings.gpu_workers);
    debug_assert!(count <= MOST_LINES);
    let mut lines = Vec::new();
    let make_line = |local, class| {
        let stream = backend.stream(number, class)?;
        let made = Timeline::new(&**backend, number, (local, count), stream, settings.gpu_start);
        // SAFETY: the stream was made just now, and nobody else knows it.
        let timeline = made.inspect_err(|_| unsafe { backend.drop_stream(stream) })?;
        Ok(DeviceStream::new(timeline, class, settings.gpu_ahead as u64))
    };
    let classes = Gpu::classes(settings.gpu_workers).take(if naive { 0 } else { count });
    for (local, class) in classes.enumerate() {
        match make_line(local, class) {
            Ok(line) => lines.push(line),
            Err(fault) => {
                // SAFETY: nothing was queued, and nobody else knows them.
                lines.iter().for_each(|line: &DeviceStream| unsafe { line.timeline.release(&**backend) });
                return Err(fault);
            }
        }
    }
    let cores = if settings.pin { backend.cores(number) } else { Vec::new() };
    let group = |name, names: Vec<String>| {
        let group = Group::new(group_plan(settings, name, names.len(), cores.clone()));
        group.set_names(names);
        Arc::new(group)
    };
    Ok(Gpu {
        number,
        backend: Arc::clone(backend),
        lines: lines.into(),
        stream: if naive { Some(backend.stream(number, Class::Compute)?) } else { None },
        compute: group(COMPUTE, names.compute),
        copies: group(COPIES, names.copies),
        ahead: settings.gpu_ahead as u64,
        turns: Default::default(),
        watcher: Remote::new(),
        watcher_name: names.watcher,
        thread: Lock::default(),
        stops: AtomicBool::new(false),
        given: Default::default(),
        waiting: Default::default(),
        buffers: Buffers::new(match settings.gpu_memory {
            0 => usize::MAX,
            limit => limit,
        }),
        timing: OnceLock::new(),
        spare_marks: SpareMarks::new(),
        handles_dropped: AtomicU64::new(0),
        lost: OnceLock::new(),
    })
}

fn group_plan(settings: &Settings, name: &'static str, workers: usize, cores: Vec<usize>) -> GroupPlan {
    GroupPlan {
        name,
        workers,
        logged: false,
        shared: false,
        idle: settings.idle,
        spin_for: settings.spin_for,
        cores,
        move_callers: false,
        fifo_priority: settings.fifo_priority,
    }
}

/// For the child of a `fork`, in which nothing is in flight: no device survives that.
#[cfg(all(unix, not(any(loom, shuttle))))]
pub fn forget_devices(core: &Core) {
    use crate::error::Failure;

    if core.gpus.fleet.get().is_none() {
        // The driver was never asked, and may be asked here.
        return;
    }
    core.gpus.forked.store(true, Relaxed);
    for gpu in core.gpus.used() {
        // So that the child calls the driver for nothing, not even to give something back.
        let error = || Error::new(ErrorKind::DeviceUnavailable, format!("{} was used before a fork", gpu.context()));
        gpu.lost.get_or_init(|| Arc::new(Failure::new(error(), 0)));
        gpu.watcher.inbox.reset();
        [&gpu.compute, &gpu.copies].into_iter().for_each(|group| group.forget_helpers());
    }
}

/// Ends the threads of all devices. Nothing is in flight.
pub fn stop(core: &Core) {
    for gpu in core.gpus.used() {
        gpu.compute.stop();
        gpu.copies.stop();
        watch::stop(gpu);
    }
}
