//! A bar on a terminal; nothing at all where standard error is a pipe or a file.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use digits::job::Job;

/// Often enough to look alive, seldom enough not to disturb what is being timed.
const REDRAW: Duration = Duration::from_millis(100);
const WIDTH: u64 = 40;

/// Draws from a thread of its own until it is finished or dropped. It only reads the job's counter:
/// operations never wait for the terminal.
#[derive(Debug)]
pub struct Progress(Option<(JoinHandle<()>, Arc<AtomicBool>)>);

impl Progress {
    /// Begins to draw, for a job whose plan will be run `runs` times.
    pub fn start(job: Arc<Job>, runs: u64) -> Progress {
        if !std::io::stderr().is_terminal() {
            return Progress(None);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let draw = move || {
            let total = runs * job.plan.tasks.len() as u64;
            while !seen.load(Ordering::Relaxed) {
                line(&bar(job.done(), total));
                std::thread::park_timeout(REDRAW);
            }
            line("");
        };
        // Without a thread to spare there is no bar, and nothing else is lost.
        let thread = std::thread::Builder::new().name("progress".to_owned()).spawn(draw).ok();
        Progress(thread.map(|thread| (thread, stop)))
    }

    /// Wipes the bar away.
    pub fn finish(self) {}
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((thread, stop)) = self.0.take() {
            stop.store(true, Ordering::Relaxed);
            thread.thread().unpark();
            // A panic there has been printed already, and costs no more than the bar.
            let _ = thread.join();
        }
    }
}

fn bar(done: u64, total: u64) -> String {
    let full = (WIDTH * done.min(total) / total.max(1)) as usize;
    format!("[{:-<width$}] {done} of {total} operations", "#".repeat(full), width = WIDTH as usize)
}

/// Replaces the line. A terminal that went away is no reason to stop.
fn line(text: &str) {
    let mut terminal = std::io::stderr();
    let _ = write!(terminal, "\r\x1b[K{text}").and_then(|()| terminal.flush());
}
