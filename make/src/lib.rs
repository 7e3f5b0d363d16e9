//! Builds what a `build.ninja` describes, with the engine as the scheduler: each file that is made
//! is a variable, each edge an asynchronous operation, and commands hold no worker. The program is
//! `seriatim-make`; this library is what its tests look into.
//!
//! | file | what is in it |
//! |---|---|
//! | `options.rs` | the command line |
//! | `lexer.rs`, `manifest.rs`, `eval.rs` | a manifest: words, statements, variables and rules |
//! | `graph.rs` | files, edges, pools |
//! | `build_log.rs`, `deps_log.rs`, `hash.rs` | the logs, which `ninja` reads and writes as well |
//! | `depfile.rs`, `dyndep.rs` | dependencies that commands tell, before or after |
//! | `scan.rs`, `state.rs`, `plan.rs` | what is out of date, and what is to be done |
//! | `pass.rs`, `decide.rs` | edges as operations of the engine |
//! | `runner.rs`, `queue.rs`, `finish.rs`, `process.rs`, `mail.rs` | commands that run |
//! | `status.rs`, `terminal.rs`, `trace.rs` | what a person sees |
//! | `build.rs`, `tools.rs` | from beginning to end |
//!
//! It runs where the system is Unix-like.

#![deny(missing_docs)]
#![cfg(unix)]

pub mod build;
pub mod build_log;
pub mod decide;
pub mod depfile;
pub mod deps_log;
pub mod dyndep;
pub mod error;
pub mod eval;
pub mod finish;
pub mod graph;
pub mod hash;
pub mod lexer;
pub mod mail;
pub mod manifest;
pub mod options;
pub mod pass;
pub mod path;
pub mod plan;
pub mod process;
pub mod queue;
pub mod runner;
pub mod scan;
pub mod state;
pub mod status;
pub mod system;
pub mod terminal;
pub mod tools;
pub mod trace;
