//! A socket from which other processes read what an engine does, once a second
//! (`Builder::publish`, the program `seriatim-top`). Used by `api/engine.rs`: the engine's handles
//! share the socket, which goes away with the last one.
//!
//! A thread of its own publishes, which is no worker. It has no handle of the engine and waits for
//! nobody: a client that does not read is left. While there are no clients it looks at nothing.
//! It ends within [`NAP`] of the engine. The child of a `fork` has no such thread, and leaves the
//! socket to the parent. Only Unix-like systems have such sockets; elsewhere the setting is
//! refused.

#![forbid(unsafe_code)]

use crate::engine::core::Core;
use crate::engine::stats::Stats;
use crate::error::{Error, ErrorKind};
use crate::sync::thread;
use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The time between two looks of a client.
const INTERVAL: Duration = Duration::from_secs(1);
/// The time between two looks for clients.
const NAP: Duration = Duration::from_millis(100);
/// What ends the text of a look.
const END: char = '\u{c}';

/// The socket of an engine. Its drop takes it away.
pub struct Published {
    path: PathBuf,
    process: u32,
}

impl Drop for Published {
    fn drop(&mut self) {
        // In the child of a fork it is the parent's.
        if self.process == std::process::id() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Publishes an engine in a folder, which is made if it is missing.
pub fn start(core: &Arc<Core>, folder: &Path) -> Result<Published, Error> {
    let process = std::process::id();
    let path = folder.join(format!("{process}-{}.sock", core.memory.id));
    let refused = |said: std::io::Error| {
        let text = format!("publish: no socket can be made at '{}': {said}; choose another folder", path.display());
        Error::new(ErrorKind::BadSetting, text)
    };
    std::fs::create_dir_all(folder).map_err(refused)?;
    // An earlier process of this number may have left one.
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    let published = Published { path, process };
    let own = Arc::downgrade(core);
    let named = thread::Builder::new().name("seriatim-stats".to_owned());
    match named.spawn(move || publish(&own, &listener)) {
        Ok(_) => Ok(published),
        Err(said) => {
            let text = format!(
                "the system refused the thread that publishes the engine ({said}): raise the limit, or do not publish"
            );
            Err(Error::new(ErrorKind::ThreadRefused, text))
        }
    }
}

/// A process that reads, and what it was told last.
struct Client {
    stream: UnixStream,
    last: Option<Stats>,
}

fn publish(core: &Weak<Core>, listener: &UnixListener) {
    let mut clients: Vec<Client> = Vec::new();
    let mut told = Instant::now();
    loop {
        thread::park_timeout(NAP);
        let Some(core) = core.upgrade().filter(|core| !core.is_closed()) else { return };
        let known = clients.len();
        while let Ok((stream, _)) = listener.accept() {
            if stream.set_nonblocking(true).is_ok() {
                clients.push(Client { stream, last: None });
            }
        }
        // One that is new is told at once.
        let all = told.elapsed() >= INTERVAL;
        let first = if all { 0 } else { known };
        if first >= clients.len() {
            continue;
        }
        let now = core.stats();
        drop(core);
        let late = clients.split_off(first);
        clients.extend(late.into_iter().filter_map(|client| client.tell(&now)));
        if all {
            told = Instant::now();
        }
    }
}

impl Client {
    /// Tells what has happened since the last look. `None` if nobody reads any more, or not fast
    /// enough.
    fn tell(mut self, now: &Stats) -> Option<Client> {
        let since = self.last.as_ref().map_or_else(|| now.clone(), |last| now.since(last));
        self.stream.write_all(format!("{since}{END}").as_bytes()).ok()?;
        self.last = Some(now.clone());
        Some(self)
    }
}
