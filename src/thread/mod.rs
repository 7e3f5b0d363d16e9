//! The state of a thread for each engine that it uses: its context, its side of pushing, and how
//! both end with the thread or with the engine. And whether an engine keeps the thread.

pub mod context;
pub mod kept;
pub mod lookup;
pub mod pusher;
pub mod teardown;
pub mod weak_memory;
