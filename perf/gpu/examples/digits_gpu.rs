//! Reads handwritten digits with the linear algebra on a GPU: `src/digits_gpu.rs`.
//!
//! ```text
//! cargo run --release -p seriatim-gpu-bench --example digits_gpu                  # on the processor
//! cargo run --release -p seriatim-gpu-bench --features cuda --example digits_gpu -- cuda
//! ```

use seriatim_gpu_bench::device::{Device, Which};
use seriatim_gpu_bench::digits_gpu::{Digits, RIGHT};
use std::path::PathBuf;

/// Where the images are, unless a second argument says otherwise.
const IMAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../digits/data/digits.csv.gz");

fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let which = Which::named(arguments.first().map_or("processor", String::as_str))?;
    let images = PathBuf::from(arguments.get(1).map_or(IMAGES, String::as_str));
    let device = Device::open(which)?;
    println!("tiles by {}", device.tiles.as_ref().map_err(Clone::clone)?.name());
    let digits = Digits::new(&device, &images, 125)?;
    for run in ["the first run", "the second"] {
        let outcome = digits.run()?;
        println!(
            "{run}: {:.1} ms with all copies, {} operations, {} of 297 right (the reference has {RIGHT}), \
             {:.1e} of the largest score from the processor's",
            outcome.seconds * 1e3,
            outcome.operations,
            outcome.right,
            outcome.difference
        );
        outcome.check()?;
    }
    Ok(())
}
