//! What a program hears of the threads that an engine keeps, and how they are called. Workers call
//! it at their start and their end, by way of `worker_host.rs`, and so do the watchers of
//! devices (`gpu/watch.rs`). The names are asked for before there are threads, and once: by
//! `core.rs`, on the thread that builds the engine, and for the threads of a device by
//! `gpu/admit.rs`, on the one that uses it first. `core.rs` has the hooks, which do not change.
//! `api/hooks.rs` takes them, and engines of clones of one builder share them, so several threads
//! may call one at once.
//!
//! No hook is called under a lock or a pin of the engine: it may push.

#![forbid(unsafe_code)]

use crate::error::Fault;
use crate::platform::standard_error::tell;
use crate::sync::thread_local;
use std::cell::Cell;
use std::fmt;
use std::panic::{catch_unwind, AssertUnwindSafe, RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

thread_local! {
    /// Whether the calling thread is inside of a hook that names threads.
    static NAMES: Cell<bool> = const { Cell::new(false) };
}

type Told = Arc<dyn Fn(&str) + Send + Sync>;
type Namer = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// The hooks of the threads of an engine. The default has none.
#[derive(Clone, Default)]
pub struct ThreadHooks {
    start: Option<Told>,
    stop: Option<Told>,
    name: Option<Namer>,
}

// The hooks are only ever called, and a panic of one is caught.
impl UnwindSafe for ThreadHooks {}
impl RefUnwindSafe for ThreadHooks {}

impl ThreadHooks {
    pub fn set_start(&mut self, hook: impl Fn(&str) + Send + Sync + 'static) {
        self.start = Some(Arc::new(hook));
    }

    pub fn set_stop(&mut self, hook: impl Fn(&str) + Send + Sync + 'static) {
        self.stop = Some(Arc::new(hook));
    }

    pub fn set_name(&mut self, hook: impl Fn(&str) -> String + Send + Sync + 'static) {
        self.name = Some(Arc::new(hook));
    }

    /// The calling thread, which is the engine's, begins.
    pub fn begin(&self) {
        call(self.start.as_ref(), "on_thread_start");
    }

    /// The calling thread, which is the engine's, is about to end.
    pub fn end(&self) {
        call(self.stop.as_ref(), "on_thread_stop");
    }

    /// The name for a thread that is called `usual` if the program does not say otherwise. Also if
    /// the hook itself has the engine ask for names: it would come back here without end.
    pub fn name(&self, usual: String) -> String {
        let Some(hook) = self.name.as_ref().filter(|_| !NAMES.with(|names| names.replace(true))) else { return usual };
        // A name ends at a zero, for the system.
        let name = guarded("thread_names", || hook(&usual)).map_or(usual, |name| name.replace('\0', ""));
        NAMES.with(|names| names.set(false));
        name
    }
}

fn call(hook: Option<&Told>, what: &str) {
    if let Some(hook) = hook {
        let thread = std::thread::current();
        guarded(what, || hook(thread.name().unwrap_or_default()));
    }
}

/// What a hook returns; `None` if it panics, which has no caller to go to.
fn guarded<T>(what: &str, hook: impl FnOnce() -> T) -> Option<T> {
    let outcome = catch_unwind(AssertUnwindSafe(hook));
    if outcome.is_err() {
        tell(&format!("seriatim: the hook {what} has panicked: the thread goes on without it"));
    }
    outcome.map_err(|payload| drop(Fault::panicked(payload))).ok()
}

impl fmt::Debug for ThreadHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has = |is_there, name| if is_there { name } else { "" };
        let names =
            [has(self.start.is_some(), "start"), has(self.stop.is_some(), "stop"), has(self.name.is_some(), "names")];
        f.debug_set().entries(names.iter().filter(|name| !name.is_empty())).finish()
    }
}
