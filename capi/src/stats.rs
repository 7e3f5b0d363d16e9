//! The numbers of an engine that runs, in structs that may grow: the caller says how large its own
//! is.

use crate::engine::SeriatimEngine;
use crate::error::{guard, Failure, SeriatimStatus};
use crate::input::{bad, borrow, null};
use std::time::Duration;

/// What an engine has done so far and has to do now. `size` is set by the caller, to
/// `sizeof(SeriatimStats)`: later versions may have more fields behind these. Times are of all
/// workers together.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SeriatimStats {
    /// The size of the struct, as the caller knows it; on return how much of it was written.
    pub size: u64,
    /// The time since the engine was made.
    pub time: u64,
    /// How many operations were pushed, waits that had to queue included.
    pub pushed: u64,
    /// How many have completed, failed and skipped ones included.
    pub completed: u64,
    /// How many are pushed and not complete.
    pub in_flight: u64,
    /// How many of these do not run, and wait for nothing but a thread or a device.
    pub ready: u64,
    /// How many of these run.
    pub running: u64,
    /// How many workers there are: `seriatim_worker_stats()` tells of each.
    pub workers: u64,
    /// How long workers were busy.
    pub busy: u64,
    /// How long workers were idle: they looked for work, slept, or had no thread.
    pub idle: u64,
    /// How often workers took operations from other threads.
    pub steals: u64,
    /// How often workers have parked.
    pub parks: u64,
    /// How many of the parks were ended for work.
    pub wake_ups: u64,
    /// Blocks for operations that were made, free ones included.
    pub blocks: u64,
    /// The bytes of these blocks.
    pub block_bytes: u64,
    /// The most threads that have used the engine at once.
    pub threads: u64,
    /// The most variables that there were at once.
    pub variables: u64,
}

/// What one worker has done. `size` is set by the caller, to `sizeof(SeriatimWorkerStats)`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SeriatimWorkerStats {
    /// The size of the struct, as the caller knows it; on return how much of it was written.
    pub size: u64,
    /// How long it was busy.
    pub busy: u64,
    /// How long it was idle: it looked for work, slept, or had no thread.
    pub idle: u64,
    /// How often it took operations from another thread.
    pub steals: u64,
    /// How often it has parked.
    pub parks: u64,
    /// How many of the parks were ended for work.
    pub wake_ups: u64,
}

/// Looks at what an engine has done and has to do. Set `out->size` before. A field that the library
/// does not know stays as it is. The call looks at each worker and, while anything is in flight, at
/// every block that the engine has ever made: ask some times a second.
///
/// # Errors
/// `SERIATIM_STATUS_BAD_ARGUMENT` for a size that has no room for itself.
///
/// # Safety
/// `engine` is a live handle. `out` points to as many bytes as `out->size` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_stats(engine: *const SeriatimEngine, out: *mut SeriatimStats) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        let engine = &unsafe { borrow(engine, "engine") }?.0;
        // SAFETY: by the contract.
        let size = unsafe { room(out.cast()) }?;
        let stats = engine.stats();
        let mut all = SeriatimStats {
            size: written::<SeriatimStats>(size),
            time: nanoseconds(stats.time),
            pushed: stats.pushed,
            completed: stats.completed,
            in_flight: stats.in_flight,
            ready: stats.ready,
            running: stats.running,
            workers: stats.workers.len() as u64,
            blocks: stats.pool.blocks,
            block_bytes: stats.pool.bytes,
            threads: stats.pool.threads,
            variables: stats.pool.variables,
            ..SeriatimStats::default()
        };
        for worker in &stats.workers {
            all.busy += nanoseconds(worker.busy);
            all.idle += nanoseconds(worker.idle);
            all.steals += worker.steals;
            all.parks += worker.parks;
            all.wake_ups += worker.wake_ups;
        }
        // SAFETY: by the contract, and `size` is that of the place.
        unsafe { write(&all, out, size) };
        Ok(())
    })
}

/// Looks at what the worker of this number has done, counted from 0 through all workers of the
/// engine: those of the processor, of priorities, of I/O, and of GPUs that were used. Set
/// `out->size` before.
///
/// # Errors
/// `SERIATIM_STATUS_BAD_ARGUMENT` if there is no such worker, or for a size that has no room for
/// itself.
///
/// # Safety
/// `engine` is a live handle. `out` points to as many bytes as `out->size` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_worker_stats(
    engine: *const SeriatimEngine,
    worker: usize,
    out: *mut SeriatimWorkerStats,
) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        let engine = &unsafe { borrow(engine, "engine") }?.0;
        // SAFETY: by the contract.
        let size = unsafe { room(out.cast()) }?;
        let workers = engine.stats().workers;
        let Some(found) = workers.get(worker) else {
            return Err(bad(format!("there is no worker {worker}: the engine has {}, from 0 on", workers.len())));
        };
        let stats = SeriatimWorkerStats {
            size: written::<SeriatimWorkerStats>(size),
            busy: nanoseconds(found.busy),
            idle: nanoseconds(found.idle),
            steals: found.steals,
            parks: found.parks,
            wake_ups: found.wake_ups,
        };
        // SAFETY: by the contract, and `size` is that of the place.
        unsafe { write(&stats, out, size) };
        Ok(())
    })
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The size that the caller gives a struct, which is its first field.
///
/// # Safety
/// `out` is null, or points to that field.
unsafe fn room(out: *const u64) -> Result<u64, Failure> {
    if out.is_null() {
        return Err(null("out"));
    }
    // SAFETY: by the contract.
    let size = unsafe { out.read() };
    if size < size_of::<u64>() as u64 {
        return Err(bad(format!("a size of {size} bytes has no room for itself: set it to that of the struct")));
    }
    Ok(size)
}

/// How much is written of a struct of type `T` that has so many bytes for the caller.
fn written<T>(size: u64) -> u64 {
    size.min(size_of::<T>() as u64)
}

/// Writes as much of a struct as the caller's has.
///
/// # Safety
/// So many bytes from `out` on may be written to.
unsafe fn write<T: Copy>(from: &T, out: *mut T, size: u64) {
    let bytes = written::<T>(size) as usize;
    // SAFETY: both have as many bytes.
    unsafe { std::ptr::copy_nonoverlapping(std::ptr::from_ref(from).cast::<u8>(), out.cast::<u8>(), bytes) };
}
