//! A stand-in for the CUDA driver, for tests on machines without a GPU: the part of the driver's
//! interface that an engine needs. README.md says what it does and what it does not.

#![cfg(all(target_os = "linux", target_pointer_width = "64"))]
#![allow(non_snake_case, clippy::missing_safety_doc)]

mod clocks;
mod control;
mod driver;
mod held;
mod planted;
mod random;
mod run;
mod world;
