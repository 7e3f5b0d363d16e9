//! Tickets: dependencies are counts. `README.md` beside this file has the whole argument.
//!
//! A push writes into an operation how far each of its variables must have come: so many writes,
//! and so many reads, which are its *tickets*. Who takes the operation out of a [`log`] tests the
//! tickets ([`run`]); if one has not come, it parks the operation on what that one waits for. Who
//! ends an operation counts it on its variables, and gets back what has parked.
//!
//! A thread owns the variables that it alone pushes to, and counts their uses by plain loads and
//! stores; it looks at no other operation ([`owner`]). So it does with those that several threads
//! only read. Those that several threads write are common: each operation is linked behind the one
//! before it, and its tickets follow from that one's ([`common`]). An operation may use all kinds.
//!
//! After the tickets of Lamport's bakery (1974) and of ticket locks, one count for each variable.

pub mod common;
pub mod journals;
pub mod linking;
pub mod links;
pub mod log;
pub mod owner;
mod placing;
pub mod pull;
pub mod ring;
pub mod run;
mod segment;
pub mod word;
