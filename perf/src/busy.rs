//! One process that keeps a core busy beside a measurement, as a compiler or a browser would.
//!
//! It is a child of the process that measures, which ends it and waits for it. So what it used
//! counts as processor time of that process's children, and with that of its parent's: it is no
//! disturbance for [`Quiet`](crate::machine::Quiet).

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What the driver is asked to be such a process.
pub const WORD: &str = "spin";

/// How long it looks for neither its parent nor the time, and how long it lives at most.
const A_WHILE: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(300);

/// A busy process, until this is dropped.
#[derive(Debug)]
pub struct Busy(Child);

impl Busy {
    /// Starts one, and waits until it is busy. `driver` is the program `seriatim-perf`.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(driver: &Path) -> Result<Busy, String> {
        let mut command = Command::new(driver);
        command.args([WORD, &std::process::id().to_string()]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut busy = Busy(command.spawn().map_err(|error| error.to_string())?);
        let said = busy.0.stdout.take().expect("a pipe").read_exact(&mut [0]);
        said.map_err(|error| format!("the busy process did not begin: {error}"))?;
        Ok(busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        // Without the wait its time would be nobody's.
        let _ = self.0.wait();
    }
}

/// Is busy until the process of that number is not the parent any more.
pub fn spin(parent: u32) {
    crate::record::say("busy");
    let start = Instant::now();
    while is_parent(parent) && start.elapsed() < LONGEST {
        let begun = Instant::now();
        while begun.elapsed() < A_WHILE {
            std::hint::spin_loop();
        }
    }
}

fn is_parent(process: u32) -> bool {
    #[cfg(unix)]
    {
        std::os::unix::process::parent_id() == process
    }
    // There it ends when it is ended, or after its time.
    #[cfg(not(unix))]
    {
        let _ = process;
        true
    }
}
