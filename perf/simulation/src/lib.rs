//! Seriatim on a simulated machine: the lines that move an operation, and what becomes of it on 2
//! to 64 cores.
//!
//! The library runs as it is, on the machine that `sim/` puts under it. Everything
//! here exists under `--cfg seriatim_simulation` only: run it with `perf/simulate.sh`.

#![cfg(seriatim_simulation)]
#![deny(missing_docs)]

pub mod budget;
pub mod page;
pub mod runs;
pub mod scaling;
pub mod words;

#[allow(dead_code)]
#[path = "../../src/metg"]
mod metg {
    pub mod kernel;
}
#[allow(dead_code)]
#[path = "../../src/program.rs"]
mod program;
#[allow(dead_code)]
#[path = "../../src/workloads.rs"]
mod workloads;
