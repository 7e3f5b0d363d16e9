//! Engines: made, stopped, started, deleted.

use crate::call::{cost_key, SeriatimFunction};
use crate::error::{guard, Failure, SeriatimStatus};
use crate::input::{bad, borrow, list, null, produce_handle, reclaim, text};
use crate::text::give;
use seriatim::{Builder, Engine, Settings};
use std::ffi::c_char;
use std::time::Duration;

/// An engine. Several handles may be the same engine: see `seriatim_engine_clone()`.
pub struct SeriatimEngine(pub(crate) Engine);

/// A setting: its name and its value, as an environment variable has them. The names are those of
/// the environment variables, with or without `SERIATIM_` in front:
///
/// - `ENGINE`: `per-device` (default), `pooled`, or `naive`, which runs each operation in its push
///   and has no threads.
/// - `CPU_WORKERS`: threads for the processor, 1 to 1024; default: one less than there are cores,
///   at least 1.
/// - `PRIORITY_WORKERS`: threads for prioritised operations, 1 to 1024; default 4.
/// - `GPU_WORKERS`: threads for each GPU, 1 to 16, beside its one copy worker; default 2. Asked for
///   in a build without GPUs, they are a warning.
/// - `GPU_AHEAD`: how many operations are queued on a stream of a GPU at most before one is done, 1
///   to 1024; default 64.
/// - `GPU_MEMORY`: the most bytes that the engine's buffers on each GPU come to; default 0, for no
///   limit.
/// - `PIN`: whether workers are pinned to cores, `on` (default) or `off`.
/// - `CORES`: the cores to pin to, such as `0,2-5`; default: those of the calling thread.
/// - `MOVE_CALLERS`: whether a thread that has waited on a pinned worker's core is moved to another
///   one, instead of the worker, `on` or `off` (default).
/// - `IDLE`: what idle workers do, `spin-then-park` (default), `spin` or `park`.
/// - `SPIN_FOR`: microseconds that a worker looks for work before it parks, with `spin-then-park`;
///   default 400. After a pause that was longer, it looks for 25 µs at most.
/// - `BOUND`: operations in flight at most; default 0, for no bound.
/// - `WHEN_FULL`: what a push does at the bound, `block` (default), `help` (runs ready operations
///   meanwhile) or `would-block` (fails with `SERIATIM_STATUS_ENGINE_FULL`).
/// - `WAITERS_HELP`: whether a thread that waits without a limit runs ready operations meanwhile,
///   `on` (default) or `off`. A thread that holds a lock which operations take must not wait then.
/// - `INLINE_BELOW`: nanoseconds; operations whose functions have lately taken less run inside
///   their push if nothing holds them up. Default 0, for none; 300 is a good start for functions
///   that do almost nothing. What is learned is kept for each function. Of an asynchronous
///   operation the time counts until its function returns, and not until its completion is used. Do
///   not set it if a function may wait for something that a pushing thread does after the push: it
///   would wait for ever. No effect with a bound.
/// - `NESTED_THREADS`: threads that one operation may use itself, 1 to 1024; default 1.
/// - `FORK_PATIENCE`: milliseconds that a `fork` of the process waits for operations in flight,
///   default 100. If they take longer, the engine is of no use in the child, and says so.
/// - `LOCK_MEMORY`: whether the memory of the engine's blocks is locked (`mlock`), `on` or `off`
///   (default). If the system refuses, making the engine or preparing it is
///   `SERIATIM_STATUS_MEMORY_LOCK_REFUSED`. The child of a `fork` locks it again.
/// - `FIFO_PRIORITY`: the priority of all workers under `SCHED_FIFO`, 1 to 99; default 0, for none.
///   If the system refuses, preparing or starting the engine, or the first push that needs the
///   workers, is `SERIATIM_STATUS_PRIORITY_REFUSED`; making it, on a system without the policy. A
///   worker then takes its core from all threads without a priority, while it looks for work too.
/// - `INFO`: whether the engine says on standard error what it starts and stops, `on` or `off`
///   (default).
/// - `PUBLISH`: a folder; what `seriatim_stats()` says is then published once a second to other
///   processes, at a Unix socket there, which the program `seriatim-top` shows. Default: none.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SeriatimSetting {
    /// The name.
    pub key: *const c_char,
    /// The value.
    pub value: *const c_char,
}

/// Makes an engine with `count` settings; the last one counts if a name comes twice, and those that
/// are not named have their defaults. `settings` may be null if `count` is 0. The engine's threads
/// start when they are first needed.
///
/// # Errors
/// `SERIATIM_STATUS_BAD_SETTING`; the text lists what is valid.
/// `SERIATIM_STATUS_ENGINES_EXHAUSTED`. `SERIATIM_STATUS_MEMORY_LOCK_REFUSED` and
/// `SERIATIM_STATUS_PRIORITY_REFUSED` for settings that the system does not follow.
///
/// # Safety
/// `settings` points to `count` settings, whose texts end with a zero byte. `out` may be written
/// to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_engine_new(
    settings: *const SeriatimSetting,
    count: usize,
    out: *mut *mut SeriatimEngine,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    let make = || Ok(SeriatimEngine(unsafe { apply(Engine::builder(), settings, count) }?.build()?));
    // SAFETY: by the contract.
    guard(|| unsafe { produce_handle(out, make) })
}

/// A builder with these settings.
///
/// # Safety
/// As for [`seriatim_engine_new`].
pub(crate) unsafe fn apply(
    mut builder: Builder,
    settings: *const SeriatimSetting,
    count: usize,
) -> Result<Builder, Failure> {
    // SAFETY: by the contract.
    for setting in unsafe { list(settings, count, "settings") }? {
        // SAFETY: by the contract.
        let (key, value) =
            unsafe { (text(setting.key, "the key of a setting")?, text(setting.value, "the value of a setting")?) };
        builder = builder.set(key, value)?;
    }
    Ok(builder)
}

/// Makes an engine with the settings of the environment. A variable that starts with `SERIATIM_`
/// and is not a setting is refused.
///
/// # Errors
/// `SERIATIM_STATUS_BAD_SETTING`; the text lists what is valid.
/// `SERIATIM_STATUS_ENGINES_EXHAUSTED`. `SERIATIM_STATUS_MEMORY_LOCK_REFUSED` and
/// `SERIATIM_STATUS_PRIORITY_REFUSED` for settings that the system does not follow.
///
/// # Safety
/// `out` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_engine_from_environment(out: *mut *mut SeriatimEngine) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { produce_handle(out, || Ok(SeriatimEngine(Engine::from_env()?))) })
}

/// A handle to the engine of the process, which is made from the environment when it is first asked
/// for, and which never ends: wait for it before `main` returns, or what is in flight then is lost.
///
/// # Errors
/// As `seriatim_engine_from_environment()`, each time it is called.
///
/// # Safety
/// `out` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_engine_global(out: *mut *mut SeriatimEngine) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { produce_handle(out, || Ok(SeriatimEngine(Engine::global()?.clone()))) })
}

/// Another handle to the same engine, so that parts of a program can own it together.
///
/// # Errors
/// Only those of every function.
///
/// # Safety
/// `engine` is a live handle. `out` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_engine_clone(
    engine: *const SeriatimEngine,
    out: *mut *mut SeriatimEngine,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { produce_handle(out, || Ok(SeriatimEngine(borrow(engine, "engine")?.0.clone()))) })
}

/// Deletes a handle; a null pointer is fine. With the last one the engine ends: it runs what is in
/// flight, asynchronous operations included, then ends its threads, and only then does the call
/// return. Inside one of the engine's own operations, where that would wait for itself, the call
/// returns at once and the engine ends by itself. Errors that nobody has waited for go to the hook
/// of `seriatim_builder_on_error()`, or to standard error.
///
/// # Errors
/// Only those of every function.
///
/// # Safety
/// `engine` is null or a live handle, which no call is using any more and which is not used again.
/// An operation that deletes the handle with which it was pushed may run inside that very push:
/// give it a clone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_engine_delete(engine: *mut SeriatimEngine) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        unsafe { reclaim(engine) };
        Ok(())
    })
}

/// Does now what a first push would do else: brings all threads up, waits until they look for work,
/// and gives the calling thread memory for 1,024 usual operations and 128 larger ones, with pages
/// that have been touched. The thread's first push then takes about as long as a later one. Another
/// thread that is to push calls it as well. `seriatim_engine_start()` is for an engine that was
/// stopped; this one does not start it.
///
/// # Errors
/// `SERIATIM_STATUS_THREAD_REFUSED`, `SERIATIM_STATUS_PRIORITY_REFUSED`,
/// `SERIATIM_STATUS_MEMORY_LOCK_REFUSED`, `SERIATIM_STATUS_STOPPED`.
/// `SERIATIM_STATUS_WAIT_INSIDE_OPERATION` inside an operation of the same engine.
///
/// # Safety
/// `engine` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_engine_prepare(engine: *const SeriatimEngine) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { borrow(engine, "engine") }?.0.prepare().map_err(Failure::from))
}

/// Says how long calls of a function take, in nanoseconds, so that the first of them is placed as
/// later ones are: see `INLINE_BELOW` and `SERIATIM_PROPERTY_SHORT`, without which this has no
/// effect. Operators of the function are meant as well. Cast an asynchronous function to
/// `SeriatimFunction`: it is not called. What is said counts like 32 measurements, or like 8 if it
/// is above the limit: calls are measured later as ever, so a word that is wrong by a factor of two
/// is corrected within 72 measurements. One call in 14 is measured, or each if something is
/// unusual.
///
/// # Errors
/// `SERIATIM_STATUS_NULL_POINTER` for a null function.
///
/// # Safety
/// `engine` is a live handle. The function is not called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_engine_expect_cost(
    engine: *const SeriatimEngine,
    function: SeriatimFunction,
    nanoseconds: u64,
) -> SeriatimStatus {
    guard(|| {
        let key = cost_key(function.ok_or_else(|| null("function"))?);
        // SAFETY: by the contract.
        unsafe { borrow(engine, "engine") }?.0.expect_cost_of(key, Duration::from_nanos(nanoseconds));
        Ok(())
    })
}

/// Runs what is in flight, then ends the threads. Pushes are refused until
/// `seriatim_engine_start()`, but for those of operations that still run. Stopping twice is
/// harmless.
///
/// # Errors
/// `SERIATIM_STATUS_WAIT_INSIDE_OPERATION` inside an operation of the same engine.
///
/// # Safety
/// `engine` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_engine_stop(engine: *const SeriatimEngine) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { borrow(engine, "engine") }?.0.stop().map_err(Failure::from))
}

/// Starts a stopped engine. Starting twice is harmless.
///
/// # Errors
/// `SERIATIM_STATUS_THREAD_REFUSED`, `SERIATIM_STATUS_PRIORITY_REFUSED`: the engine is then still
/// stopped.
/// `SERIATIM_STATUS_WAIT_INSIDE_OPERATION` inside an operation of the same engine.
/// `SERIATIM_STATUS_STOPPED` in the child of a `fork` that could not wait for the engine: make
/// another.
///
/// # Safety
/// `engine` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_engine_start(engine: *const SeriatimEngine) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { borrow(engine, "engine") }?.0.start().map_err(Failure::from))
}

/// Changes how many threads one operation may use itself, 1 to 1024, for operations that begin from
/// now on: what `seriatim_run_context_nested_threads()` says.
///
/// # Errors
/// `SERIATIM_STATUS_BAD_SETTING`; nothing changes then.
///
/// # Safety
/// `engine` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_engine_set_nested_threads(
    engine: *const SeriatimEngine,
    threads: usize,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { borrow(engine, "engine") }?.0.set_nested_threads(threads).map_err(Failure::from))
}

/// Says that the process is about to end: from now on operations complete without running, but for
/// deletions. Deleters run as ever.
///
/// # Errors
/// Only those of every function.
///
/// # Safety
/// `engine` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_engine_notify_shutdown(engine: *const SeriatimEngine) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        unsafe { borrow(engine, "engine") }?.0.notify_shutdown();
        Ok(())
    })
}

/// The value of a setting that the engine has, as `SeriatimSetting` would set it, to be freed with
/// `seriatim_string_free()`.
///
/// # Errors
/// `SERIATIM_STATUS_BAD_SETTING` for an unknown name; the text lists those that are known.
///
/// # Safety
/// `engine` is a live handle. `key` ends with a zero byte. `out` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_engine_setting(
    engine: *const SeriatimEngine,
    key: *const c_char,
    out: *mut *mut c_char,
) -> SeriatimStatus {
    let find = || {
        // SAFETY: by the contract.
        let (engine, key) = unsafe { (borrow(engine, "engine")?, text(key, "the key of a setting")?) };
        value(engine.0.settings(), key).ok_or_else(|| match Engine::builder().set(key, "") {
            Err(unknown) => unknown.into(),
            Ok(_) => bad(format!("{key} cannot be read")),
        })
    };
    // SAFETY: by the contract.
    guard(|| unsafe { give(out, find) })
}

fn value(settings: &Settings, key: &str) -> Option<String> {
    let switch = |on| if on { "on" } else { "off" }.to_owned();
    Some(match key.strip_prefix("SERIATIM_").unwrap_or(key) {
        "ENGINE" => settings.kind.to_string(),
        "CPU_WORKERS" => settings.cpu_workers.to_string(),
        "PRIORITY_WORKERS" => settings.priority_workers.to_string(),
        "GPU_WORKERS" => settings.gpu_workers.to_string(),
        "GPU_AHEAD" => settings.gpu_ahead.to_string(),
        "GPU_MEMORY" => settings.gpu_memory.to_string(),
        "PIN" => switch(settings.pin),
        "CORES" => settings.cores.iter().map(usize::to_string).collect::<Vec<_>>().join(","),
        "MOVE_CALLERS" => switch(settings.move_callers),
        "IDLE" => settings.idle.to_string(),
        "SPIN_FOR" => settings.spin_for.as_micros().to_string(),
        "BOUND" => settings.bound.to_string(),
        "WHEN_FULL" => settings.when_full.to_string(),
        "WAITERS_HELP" => switch(settings.waiters_help),
        "INLINE_BELOW" => settings.inline_below.as_nanos().to_string(),
        "NESTED_THREADS" => settings.nested_threads.to_string(),
        "FORK_PATIENCE" => settings.fork_patience.as_millis().to_string(),
        "LOCK_MEMORY" => switch(settings.lock_memory),
        "FIFO_PRIORITY" => settings.fifo_priority.to_string(),
        "INFO" => switch(settings.info),
        "PUBLISH" => settings.publish.as_ref().map_or_else(String::new, |folder| folder.display().to_string()),
        _ => return None,
    })
}

/// What did not go as the settings asked and was not worth an error, such as pins that the system
/// refused, or workers for GPUs that this build does not have: a line each, in a text to be freed
/// with `seriatim_string_free()`.
///
/// # Errors
/// Only those of every function.
///
/// # Safety
/// `engine` is a live handle. `out` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_engine_warnings(
    engine: *const SeriatimEngine,
    out: *mut *mut c_char,
) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { give(out, || Ok(borrow(engine, "engine")?.0.warnings().join("\n"))) })
}
