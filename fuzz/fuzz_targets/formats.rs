//! Bytes are read as files of every format of arrays: see `tensor/tests/formats/check.rs` for what
//! must hold. Archives are read a second time with right checksums, so that changes inside of their
//! entries are more than an error.
//!
//! `FUZZ_SEEDS=FOLDER` has it write valid files to start from.

#![no_main]

#[path = "bytes.rs"]
#[allow(dead_code)] // Only the planted mistake is wanted here.
mod bytes;
#[path = "../../tensor/tests/formats/check.rs"]
mod check;
#[path = "../../tensor/tests/formats/files.rs"]
#[allow(dead_code)] // What only the integration test uses.
mod files;
#[path = "../../tensor/tests/formats/memory.rs"]
mod memory;
#[path = "../../tensor/tests/formats/mend.rs"]
mod mend;

use check::{check, runtime, FORMATS};
use libfuzzer_sys::fuzz_target;
use seriatim_tensor::{Format, Runtime};
use std::sync::OnceLock;

#[global_allocator]
static COUNTING: memory::Counting = memory::Counting;

fn one_runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(runtime)
}

fn write_seeds() {
    let Some(folder) = std::env::var_os("FUZZ_SEEDS") else { return };
    for (name, _, bytes) in files::files(one_runtime()) {
        std::fs::write(std::path::Path::new(&folder).join(name), bytes).expect("a seed is written");
    }
}

fuzz_target!(init: write_seeds(), |input: &[u8]| {
    let has_mistake = bytes::has_planted_mistake();
    for format in FORMATS {
        check(one_runtime(), format, input, has_mistake);
    }
    let mended = mend::mend(input);
    if mended != input {
        check(one_runtime(), Format::Npz, &mended, has_mistake);
    }
});
