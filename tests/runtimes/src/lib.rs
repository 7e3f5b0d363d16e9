//! The engine's futures under runtimes of others: see `tests/`. The library itself has none, and
//! `tests/futures.rs` of the repository uses an executor of its own.
