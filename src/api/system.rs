//! The methods of `Builder` for what an engine asks of the system: memory that stays, real-time
//! priorities, and a socket for other processes. Programs call them, on the thread that has the
//! builder (`src/api/builder.rs`). `src/engine/settings.rs` checks the values,
//! `src/pool/locked.rs` locks memory, `src/worker/scheduling.rs` sets priorities, and
//! `src/engine/publish.rs` has the socket.

#![forbid(unsafe_code)]

use crate::api::builder::Builder;
use std::path::PathBuf;

impl Builder {
    /// Whether the memory of the engine's blocks is locked: the system then never takes its pages
    /// away, and each is there before it is used. Off by default. It works on Linux.
    ///
    /// Blocks hold operations, with their accesses and closures of up to 512 bytes. They are locked
    /// when they are made: some at once, those of [`prepare`](crate::Engine::prepare), and more
    /// when more operations are in flight than ever before. A [`bound`](Builder::bound) limits
    /// them. Not locked are the records of variables, the lists of workers, larger closures, and
    /// all memory of the program. For all of a process there is `mlockall`.
    ///
    /// The child of a `fork` inherits no locks. If the engine works there, its blocks are locked
    /// again before `fork` returns there, which copies them. A child that only starts another
    /// program has no use for that copy. `posix_spawn` makes none, nor does `std::process::Command`
    /// where it can. If the system refuses to lock memory in the child, that is an error there, as
    /// below.
    ///
    /// The system limits what a process may lock (`RLIMIT_MEMLOCK`, `ulimit -l`), unless it has
    /// `CAP_IPC_LOCK`.
    ///
    /// # Errors
    /// [`build`](Builder::build) returns [`MemoryLockRefused`](crate::ErrorKind::MemoryLockRefused)
    /// if the system locks nothing, or is none that could. If it refuses later, the push that
    /// needed the memory goes on without the lock. Then [`prepare`](crate::Engine::prepare) returns
    /// that error, and [`Engine::warnings`](crate::Engine::warnings) says how much is not locked.
    ///
    /// ```
    /// use seriatim::{Engine, ErrorKind};
    /// match Engine::builder().lock_memory(true).build() {
    ///     Ok(engine) => assert!(engine.settings().lock_memory),
    ///     Err(error) => assert_eq!(error.kind(), ErrorKind::MemoryLockRefused),
    /// }
    /// ```
    pub fn lock_memory(mut self, lock_memory: bool) -> Builder {
        self.settings.lock_memory = lock_memory;
        self
    }

    /// Publishes what [`Engine::stats`](crate::Engine::stats) says, once a second, to other
    /// processes: at a Unix socket in this folder, which is made if it is missing. Off by default.
    /// The program `seriatim-top` shows it in a terminal: `cargo run --release -p seriatim-perf
    /// --bin seriatim-top FOLDER` in the repository.
    ///
    /// The socket is called `PROCESS-ENGINE.sock`, with the numbers of both, and goes away with the
    /// engine. A program that may use the folder may read it; nothing can be told to the engine. A
    /// client gets a table as text, ended by a form feed: first of the engine's whole life, then
    /// of each second. A thread of its own publishes, which looks at the engine only while there
    /// are clients. The child of a `fork` does not publish.
    ///
    /// # Errors
    /// [`build`](Builder::build) returns [`BadSetting`](crate::ErrorKind::BadSetting) if the socket
    /// cannot be made, with what the system said, or on systems without such sockets;
    /// [`ThreadRefused`](crate::ErrorKind::ThreadRefused).
    ///
    /// ```
    /// # #[cfg(unix)] {
    /// let folder = std::env::temp_dir().join(format!("seriatim-{}", std::process::id()));
    /// let engine = seriatim::Engine::builder().publish(&folder).build()?;
    /// assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    /// drop(engine);
    /// assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    /// # std::fs::remove_dir(folder).unwrap();
    /// # }
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn publish(mut self, folder: impl Into<PathBuf>) -> Builder {
        self.settings.publish = Some(folder.into());
        self
    }

    /// The priority, 1 to 99, with which all workers of the engine run under the policy
    /// `SCHED_FIFO`; 0, the default, for none. It works on Linux, for a process with
    /// `RLIMIT_RTPRIO` (`ulimit -r`) or `CAP_SYS_NICE`.
    ///
    /// A worker with such a priority takes its core from all threads without one, and keeps it
    /// until it sleeps. So it is for workers that have cores of their own. A thread that shares a
    /// core with a worker waits while that one looks for work, for
    /// [`spin_for`](Builder::spin_for). With [`IdlePolicy::Spin`](crate::IdlePolicy::Spin) it waits
    /// almost for ever, and [`Engine::warnings`](crate::Engine::warnings) says so. Threads and
    /// processes that an operation starts do not inherit the priority. Threads that push and wait
    /// keep their own.
    ///
    /// # Errors
    /// [`build`](Builder::build) returns [`PriorityRefused`](crate::ErrorKind::PriorityRefused) on
    /// systems without the policy, and [`BadSetting`](crate::ErrorKind::BadSetting) for the naive
    /// engine, which has no workers. If the system refuses, the call that starts the workers
    /// returns `PriorityRefused`: [`prepare`](crate::Engine::prepare),
    /// [`start`](crate::Engine::start) or the first push that needs them, replays and deletions
    /// included.
    ///
    /// ```
    /// use seriatim::{Engine, ErrorKind};
    /// let engine = Engine::builder().fifo_priority(10).build();
    /// if let Err(error) = engine.and_then(|engine| engine.prepare()) {
    ///     assert_eq!(error.kind(), ErrorKind::PriorityRefused);
    /// }
    /// ```
    pub fn fifo_priority(mut self, fifo_priority: u32) -> Builder {
        self.settings.fifo_priority = fifo_priority;
        self
    }
}
