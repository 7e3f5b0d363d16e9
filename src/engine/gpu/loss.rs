//! What becomes of a device that fails: it is *lost*, once and for the life of the process.
//!
//! Whoever gets the driver's answer says so ([`Core::refused`]). The watcher then counts what was
//! queued as completed, and hands out what was parked. An operation that comes after a lost write
//! fails with the device's failure, which names what may have caused it (`turn.rs` marks the
//! variable); one that comes after lost reads runs. The processor's work goes on.

use crate::device::backend::DriverError as Refusal;
use crate::engine::core::{Core, FAILED};
use crate::engine::diagnose::shown;
use crate::engine::gpu::devices::Gpu;
use crate::error::{Error, ErrorKind, Fault};
use crate::sync::Ordering::*;

/// The most operations that the message names.
const NAMED: usize = 8;

impl Core {
    /// What an operation fails with if the driver refuses a call. Says that the device is lost if
    /// it is.
    #[cold]
    pub(super) fn refused(&self, gpu: &Gpu, refusal: &Refusal) -> Fault {
        let source = Some(refusal.clone().into());
        if !refusal.is_lost() {
            let message = format!("{} refused a call for {}: {refusal}", gpu.backend.name(), gpu.context());
            return Fault::new(ErrorKind::DeviceUnavailable, message, source);
        }
        self.lose(gpu, refusal);
        Fault::new(ErrorKind::DeviceLost, format!("{} is lost: {refusal}", gpu.context()), source)
    }

    /// Says that a device is lost.
    #[cold]
    pub(super) fn lose(&self, gpu: &Gpu, refusal: &Refusal) {
        gpu.lost.get_or_init(|| {
            let mut suspects: Vec<&str> = gpu.lines.iter().flat_map(|line| line.suspects()).collect();
            let more = suspects.len().saturating_sub(NAMED);
            suspects.truncate(NAMED);
            let mut names: Vec<String> = suspects.into_iter().map(|name| format!("'{}'", shown(name))).collect();
            if more > 0 {
                names.push(format!("{more} more"));
            }
            let queued = if names.is_empty() { "nothing was queued there".to_owned() } else { names.join(", ") };
            let message = format!(
                "{} is lost: {refusal}; queued there and not known to be done: {queued}. Start the process anew to use it",
                gpu.context()
            );
            // Before anybody can find the device lost.
            self.state.fetch_or(FAILED, Release);
            self.failures.record(Error::with_source(ErrorKind::DeviceLost, message, refusal.clone()), 0)
        });
        gpu.wake_watcher();
    }
}
