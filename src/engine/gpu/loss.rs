//! What becomes of a device that fails: it is *lost*, once and for the life of the process.
//!
//! The first thread that finds it out sets `Gpu::lost` (`devices.rs`), by [`Core::refused`] or
//! [`Core::lose`]: a worker, the watcher, or any other that calls the driver. In the child of a
//! fork `admit.rs` sets it. Any thread reads it. The watcher (`watch.rs`) then counts what was
//! queued as completed, and hands out what was parked. An operation that comes after a lost write
//! fails with an error that names what may have caused it: `turn.rs` marks the variable, each with
//! a failure of its own. One that comes after lost reads runs. The processor's work goes on.

use crate::device::raw::{DriverError as Refusal, RawStream};
use crate::engine::core::Core;
use crate::engine::diagnose::shown;
use crate::engine::gpu::devices::Gpu;
use crate::error::{Error, ErrorKind, Fault};
use std::sync::Arc;

/// The most operations that the message names.
const NAMED: usize = 8;

/// How often a call that an order rests on is asked for again, if the driver refuses it.
pub const AGAIN: usize = 16;

impl Gpu {
    /// Waits for a stream of the naive engine. A call that is refused is asked again: what comes
    /// next must not begin before the work is done. In the end the device counts as lost.
    ///
    /// # Safety
    /// The stream is the device's, which the calling thread has entered.
    pub unsafe fn finish(&self, stream: RawStream) -> Result<(), Refusal> {
        // SAFETY: by the contract.
        let outcome = insist(AGAIN, || unsafe { self.backend.finish(stream) });
        outcome.map_err(|refusal| lost_by(refusal, "it could not be waited for"))
    }
}

/// The loss of a device that goes on refusing a call: `what` says which.
pub fn lost_by(refusal: Refusal, what: &str) -> Refusal {
    match refusal.is_lost() {
        true => refusal,
        false => Refusal::lost(format!("{what}: {refusal}")),
    }
}

/// Makes a call of the driver again while it is refused and nothing is lost, `times` times at most.
pub fn insist<T>(times: usize, call: impl FnMut() -> Result<T, Refusal>) -> Result<T, Refusal> {
    insist_until(times, Refusal::is_lost, call)
}

/// Makes a call again while it is refused and the refusal is not final, `times` times at most.
pub fn insist_until<T, E>(
    times: usize,
    is_final: impl Fn(&E) -> bool,
    mut call: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let mut outcome = call();
    for _ in 0..times {
        if outcome.as_ref().err().is_none_or(&is_final) {
            break;
        }
        outcome = call();
    }
    outcome
}

/// The names of what is queued on a device, the oldest of each stream first. Before them `waits`:
/// an operation that has no ticket, and whose stream is waited for.
fn suspects(gpu: &Gpu, waits: Option<&str>) -> String {
    let of_lines: Vec<Vec<&str>> = gpu.lines.iter().map(|line| line.suspects()).collect();
    let longest = of_lines.iter().map(Vec::len).max().unwrap_or(0);
    let in_turn = (0..longest).flat_map(|place| of_lines.iter().filter_map(move |line| line.get(place).copied()));
    // An asynchronous operation may also have put the work on a stream of the engine.
    let waits = waits.filter(|name| !of_lines.iter().flatten().any(|queued| queued == name));
    let all = waits.into_iter().chain(in_turn);
    let mut names: Vec<String> = all.take(NAMED).map(|name| format!("'{}'", shown(name))).collect();
    let more = of_lines.iter().map(Vec::len).sum::<usize>() + usize::from(waits.is_some()) - names.len();
    if more > 0 {
        names.push(format!("{more} more"));
    }
    if names.is_empty() {
        "nothing was queued there".to_owned()
    } else {
        names.join(", ")
    }
}

impl Core {
    /// What an operation fails with if the driver refuses a call. Says that the device is lost if
    /// it is.
    #[cold]
    pub(super) fn refused(&self, gpu: &Gpu, refusal: &Refusal) -> Fault {
        self.refused_while(gpu, refusal, None)
    }

    /// As [`Core::refused`], where an operation that has no ticket waits for its stream: one of the
    /// naive engine, or one that ends after a stream.
    #[cold]
    pub(super) fn refused_while(&self, gpu: &Gpu, refusal: &Refusal, waits: Option<&str>) -> Fault {
        let source = Some(refusal.clone().into());
        if !refusal.is_lost() {
            let message = format!("{} refused a call for {}: {refusal}", gpu.backend.name(), gpu.context());
            return Fault::new(ErrorKind::DeviceUnavailable, message, source);
        }
        self.lose_while(gpu, refusal, waits);
        Fault::new(ErrorKind::DeviceLost, format!("{} is lost: {refusal}", gpu.context()), source)
    }

    /// Says that a device is lost.
    #[cold]
    pub(in crate::engine) fn lose(&self, gpu: &Gpu, refusal: &Refusal) {
        self.lose_while(gpu, refusal, None);
    }

    /// As [`Core::lose`], where an operation that has no ticket waits for its stream.
    #[cold]
    fn lose_while(&self, gpu: &Gpu, refusal: &Refusal, waits: Option<&str>) {
        if gpu.lost.get().is_none() {
            let message = format!(
                "{} is lost: {refusal}; queued there and not known to be done: {}. Start the process anew to use it",
                gpu.context(),
                suspects(gpu, waits)
            );
            // Before anybody can find the device lost.
            self.state.fail();
            let error = Error::with_source(ErrorKind::DeviceLost, message, refusal.clone());
            self.failures.record_first(error, |failure| gpu.lost.set(Arc::clone(failure)).is_ok());
        }
        gpu.wake_watcher();
    }
}
