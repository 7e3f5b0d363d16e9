//! Chunks go to a GPU, are worked on, and come back; shows what overlaps: `src/pipeline_gpu.rs`.
//!
//! ```text
//! cargo run --release -p seriatim-gpu-bench --example pipeline_gpu                  # on the processor
//! cargo run --release -p seriatim-gpu-bench --features cuda --example pipeline_gpu -- cuda
//! ```

use seriatim_gpu_bench::device::{Device, Which};
use seriatim_gpu_bench::pipeline_gpu::{Pipeline, Shape};
use std::time::Duration;

fn main() -> Result<(), String> {
    let which = Which::named(&std::env::args().nth(1).unwrap_or_else(|| "processor".to_owned()))?;
    let device = Device::open(which)?;
    let shape = match which {
        Which::Cuda => Shape { chunks: 16, length: 1 << 21, spin: 1000 },
        Which::Processor | Which::Standin => Shape { chunks: 16, length: 1 << 14, spin: 64 },
    };
    let pipeline = Pipeline::new(&device, shape)?;
    let outcome = pipeline.measure(9, Duration::from_secs(10))?;
    println!("{} chunks of {} KiB, what came back is checked:", shape.chunks, shape.length / 128);
    print!("{}", outcome.drawn());
    match outcome.hidden() {
        Some(share) => println!("  at least {:.0} % of the copies' time lay under other work", share * 100.0),
        None => println!("  the copies took no time that can be told"),
    }
    let picture = pipeline.profiled()?;
    println!("one run by a profile, stream by stream:");
    print!("{}", picture.drawn());
    println!("  {}", picture.overlap);
    Ok(())
}
