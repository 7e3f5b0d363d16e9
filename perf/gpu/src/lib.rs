//! What runs on a machine with a GPU: checks, random programs, a table of figures, two examples.
//!
//! The same code runs over three devices: CUDA; a stand-in for CUDA's driver, which has no times;
//! and the processor, by [`seriatim::gpu::Immediate`], which the examples take where there is no
//! GPU. [README](../README.md) says how it is run.
//!
//! | file | what is in it |
//! |---|---|
//! | `device.rs` | the three devices, and what is queued on their streams |
//! | `mix.rs` | the kernel of the measurements, and what it computes |
//! | `tiles/` | operations on tiles of a matrix: on the processor, queued, by the vendor's libraries |
//! | `algebra.rs` | those operations pushed to an engine |
//! | `digits_gpu.rs`, `pipeline_gpu.rs` | the examples |
//! | `driver.rs` | bare calls of the driver |
//! | `found.rs` | whether there is a device at all |
//! | `standin.rs` | the kernels, for the stand-in |
//! | `lab.rs`, `measure.rs` | what a row of the table is made with |
//! | `rows/` | the rows |
//! | `checks.rs`, `programs.rs` | what must hold on a GPU; random programs |
//! | `rival.rs` | another program that is measured beside, by a protocol of lines |
//! | `calls.rs` | how many calls of the driver the programs of that protocol take, ours and its |
//! | `record.rs` | the file of JSON, and the page |

pub mod algebra;
pub mod device;
pub mod digits_gpu;
pub mod measure;
pub mod mix;
pub mod pipeline_gpu;
pub mod rival;
pub mod tiles;

#[cfg(feature = "cuda")]
pub mod calls;
#[cfg(feature = "cuda")]
pub mod checks;
#[cfg(feature = "cuda")]
#[path = "../../../tests/cuda-standin/client.rs"]
mod client;
#[cfg(feature = "cuda")]
pub mod driver;
#[cfg(feature = "cuda")]
pub mod found;
#[cfg(feature = "cuda")]
pub mod lab;
#[cfg(feature = "cuda")]
pub mod programs;
#[cfg(feature = "cuda")]
pub mod record;
#[cfg(feature = "cuda")]
pub mod rows;
#[cfg(feature = "cuda")]
pub mod standin;
