//! Tickets: how an operation finds out, without a lock, when it may run. `README.md` beside this
//! file has the whole argument.
//!
//! A push gives each access of an operation a *ticket*: the numbers of writes and of reads that
//! were pushed to the variable before. The thread that takes the operation out of a [`log`] tests
//! its tickets ([`run`]). If one has not come, it parks the operation on the operation that the
//! ticket waits for. The thread that ends an operation counts it on its variables, and gets back
//! what has parked there.
//!
//! A thread owns the variables that it alone pushes to, and counts their uses by plain loads and
//! stores; it looks at no other operation ([`owner`]). Variables that several threads only read are
//! counted in the same way, by each thread for itself. Variables that several threads write are
//! common: each operation is linked behind the one before it, and gets its tickets from that
//! operation ([`common`], [`linking`]). An operation may use all kinds.
//!
//! The tickets follow Lamport's bakery (1974) and ticket locks, with one count for each variable.

pub mod common;
pub mod end_phased;
pub mod hazards;
pub mod hold;
pub mod journals;
pub mod linking;
pub mod links;
pub mod log;
pub mod owner;
pub mod phases;
mod placing;
pub mod pull;
pub mod ring;
pub mod run;
mod segment;
pub mod watch;
pub mod word;
