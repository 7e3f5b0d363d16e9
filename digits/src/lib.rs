//! What the program `digits` computes: the images, the plan of its operations, and what each does
//! to its tiles. `perf/gpu/` runs the same plan with its tiles on a device.
//!
//! | file | what is in it |
//! |---|---|
//! | `data.rs` | reading the images |
//! | `plan.rs` | the list of operations: what each reads, what it changes, how urgent it is |
//! | `kernels.rs` | what an operation does to its tiles |
//! | `tile.rs` | dense blocks of numbers, parts of them, products |
//! | `triangle.rs` | Cholesky factors and triangular solves of one tile |
//! | `lanes.rs` | loops for the processor's vector units, the exponential among them |
//! | `job.rs` | running the plan: with the engine, as plain calls, and with empty bodies |
//! | `check.rs` | is the answer right? |

pub mod check;
pub mod data;
pub mod job;
pub mod kernels;
mod lanes;
pub mod plan;
pub mod tile;
pub mod triangle;
