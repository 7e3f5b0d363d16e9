//! The hooks of `Builder`: for errors that no wait has taken, and for the threads that an engine
//! keeps. Programs set them, on the thread that has the builder (`src/api/builder.rs`). The first
//! is called on the thread that closes the engine (`src/engine/lifecycle.rs`), the others as
//! `src/engine/thread_hooks.rs` says.

#![forbid(unsafe_code)]

use crate::api::builder::Builder;
use crate::engine::on_error::OnError;
use crate::error::Error;

impl Builder {
    /// Sets the hook that is told of the errors that no wait has taken. Without a hook, they are
    /// printed on standard error.
    ///
    /// The hook is called when the engine ends, that is when its last handle is dropped. There is
    /// one call for each operation that failed and whose error no wait has returned or passed over,
    /// in the order of the pushes. The thread that drops the handle calls it, or a thread of its
    /// own if that one is inside an operation of the engine. It is told of 16 errors at most; one
    /// more call then says how many others there are. [`Engine::stop`](crate::Engine::stop) calls
    /// nothing, as the errors can still be waited for. An engine that is never dropped, such as
    /// [`Engine::global`](crate::Engine::global), tells nobody. The child of a `fork` has the
    /// errors of before it as well, and tells them if it drops its handles, and the engine [works
    /// there](Builder::fork_patience). A panic of the hook is swallowed. A hook that holds a handle
    /// keeps its engine from ending.
    ///
    /// ```
    /// use std::sync::{Arc, Mutex};
    /// let told = Arc::new(Mutex::new(Vec::new()));
    /// let here = Arc::clone(&told);
    /// let engine = seriatim::Engine::builder()
    ///     .on_error(move |error| here.lock().unwrap().push(error.to_string()))
    ///     .build()?;
    /// engine.op("parse").push(|_| "12a".parse::<u32>().map(|_| ()))?;
    /// drop(engine);
    /// assert!(told.lock().unwrap()[0].contains("operation 'parse' failed"));
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn on_error(mut self, hook: impl Fn(&Error) + Send + Sync + 'static) -> Builder {
        self.on_error = OnError::new(hook);
        self
    }

    /// Sets a hook that each thread of the engine calls as it begins, with its name: to set a
    /// thread-local, its priority, or what a profiler calls it. These are the workers and, for each
    /// GPU, the thread that watches it; their usual names are `seriatim-cpu-0` and the like.
    /// Threads that push or wait are the program's. A stop ends the threads and a start makes new
    /// ones, as does the child of a `fork`.
    ///
    /// A worker runs no operation before its hook has returned. The hook must not wait for the
    /// engine, stop it or start it. If it panics, standard error says so and the thread goes on.
    /// Engines of clones of the builder share the hook.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    /// use std::sync::Arc;
    /// let (begun, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    /// let counts = (Arc::clone(&begun), Arc::clone(&ended));
    /// let engine = seriatim::Engine::builder()
    ///     .cpu_workers(2)
    ///     .on_thread_start(move |name| {
    ///         assert!(name.starts_with("seriatim-"));
    ///         counts.0.fetch_add(1, SeqCst);
    ///     })
    ///     .on_thread_stop(move |_| _ = counts.1.fetch_add(1, SeqCst))
    ///     .build()?;
    /// engine.prepare()?;
    /// drop(engine);
    /// assert_eq!(begun.load(SeqCst), ended.load(SeqCst));
    /// assert!(begun.load(SeqCst) >= 2);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn on_thread_start(mut self, hook: impl Fn(&str) + Send + Sync + 'static) -> Builder {
        self.threads.set_start(hook);
        self
    }

    /// Sets a hook that each thread of the engine calls when it ends, after its last operation,
    /// with its name: see [`on_thread_start`](Builder::on_thread_start). A stop, and the drop of
    /// the last handle, wait until it has returned.
    ///
    /// ```
    /// let engine = seriatim::Engine::builder().on_thread_stop(|name| println!("{name} ends")).build()?;
    /// engine.op("work").push(|_| ())?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn on_thread_stop(mut self, hook: impl Fn(&str) + Send + Sync + 'static) -> Builder {
        self.threads.set_stop(hook);
        self
    }

    /// Chooses the names of the engine's threads. The function gets the usual name, such as
    /// `seriatim-cpu-0`, and returns another one. It is called by the thread that starts them. A
    /// name has no zero byte, and Linux shows its first 15 bytes. If the function panics, the usual
    /// name stays.
    ///
    /// ```
    /// let engine = seriatim::Engine::builder()
    ///     .cpu_workers(1)
    ///     .thread_names(|usual| usual.replace("seriatim", "solver"))
    ///     .waiters_help(false)
    ///     .build()?;
    /// engine.op("who").push(|_| assert_eq!(std::thread::current().name(), Some("solver-cpu-0")))?;
    /// engine.wait_for_all()?;
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn thread_names(mut self, hook: impl Fn(&str) -> String + Send + Sync + 'static) -> Builder {
        self.threads.set_name(hook);
        self
    }
}
