//! The primitives of the engine under loom. `sync/shuttle.rs` has the same list for shuttle,
//! `sync/mod.rs` for std, and `sim/src/lib.rs` for the simulated machine (its types are in
//! `sim/src/atomics.rs`). A primitive that is added has to be added to all four, but for the
//! channel by which `platform/futex.rs` sleeps here. The only state is a thread's token: the thread
//! itself waits for it, and any other that unparks it notifies it.

pub use loom::hint::spin_loop;
pub use loom::sync::atomic::{fence, AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicU8, AtomicUsize, Ordering};
pub use loom::sync::mpsc::{channel, Receiver, Sender};
pub use loom::sync::{Mutex, MutexGuard};

/// Loom's own macro takes no constant initialisers.
macro_rules! per_thread {
    ($($(#[$attribute:meta])* static $name:ident: $type:ty = const { $init:expr };)*) => {
        $(loom::thread_local! { $(#[$attribute])* static $name: $type = $init })*
    };
}
pub(crate) use per_thread as thread_local;

pub mod thread {
    //! Threads that park like std's. Loom's own threads forget that they were unparked if they wait
    //! for a mutex meanwhile.

    use loom::sync::Notify;
    pub use loom::thread::{yield_now, Builder, JoinHandle, ThreadId};
    use std::sync::Arc;
    use std::time::Duration;

    #[derive(Clone)]
    pub struct Thread {
        id: ThreadId,
        token: Arc<Notify>,
    }

    loom::thread_local! {
        static CURRENT: Thread = Thread { id: loom::thread::current().id(), token: Arc::default() }
    }

    pub fn current() -> Thread {
        CURRENT.with(Thread::clone)
    }

    impl Thread {
        pub fn id(&self) -> ThreadId {
            self.id
        }

        pub fn unpark(&self) {
            self.token.notify();
        }
    }

    /// May return for no reason, like std's.
    pub fn park() {
        current().token.wait();
    }

    /// Time does not pass in a model: a thread that would wait for it lets the others go first.
    pub fn park_timeout(_: Duration) {
        yield_now();
    }
}
