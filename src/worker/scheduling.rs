//! The start of a worker asks the system for a thread and for a real-time priority; for its core
//! see `pinning.rs`. Used by `threads.rs` (`Group::start`), on the thread that starts the workers,
//! so that a refusal is that thread's error.

use crate::error::{Error, ErrorKind};
use crate::platform::scheduling::set_fifo;
use crate::sync::thread::JoinHandle;
use crate::worker::group::Group;

impl Group {
    /// The error of a worker whose thread the system refused to start.
    #[cold]
    pub(super) fn thread_refused(&self, index: usize, said: &std::io::Error) -> Error {
        Error::new(
            ErrorKind::ThreadRefused,
            format!(
                "the system refused to start worker {index} of {} of '{}' ({said}): ask for fewer workers, or raise the limit",
                self.workers.len(),
                self.plan.name
            ),
        )
    }

    /// Gives a worker's thread the real-time priority of the settings, if they ask for one.
    pub(super) fn prioritise(&self, index: usize, thread: &JoinHandle<()>) -> Result<(), Error> {
        let priority = self.plan.fifo_priority;
        if priority == 0 {
            return Ok(());
        }
        set_fifo(thread, priority).map_err(|said| {
            Error::new(
                ErrorKind::PriorityRefused,
                format!(
                    "the system refused SCHED_FIFO with priority {priority} to worker {index} of {} of '{}' ({said}): raise \
                     RLIMIT_RTPRIO (`ulimit -r`), give the program CAP_SYS_NICE, or leave fifo_priority at 0",
                    self.workers.len(),
                    self.plan.name
                ),
            )
        })
    }
}
