//! Bytes become a sequence of calls of the C interface: well-formed ones, whose operations note
//! what they see, and wrong ones, as far as the header says what becomes of them. A sequential
//! model says what every call must return, what every operation must see, and that every deleter is
//! called exactly once.

#![no_main]

#[path = "bytes.rs"]
mod bytes;
#[path = "c_interface/calls.rs"]
mod calls;
#[path = "c_interface/engines.rs"]
mod engines;
#[path = "c_interface/machine.rs"]
mod machine;
#[path = "c_interface/misuse.rs"]
mod misuse;
#[path = "c_interface/model.rs"]
mod model;
#[path = "c_interface/operations.rs"]
mod operations;
#[path = "c_interface/pushes.rs"]
mod pushes;
#[path = "c_interface/waits.rs"]
mod waits;
#[path = "c_interface/wanted.rs"]
mod wanted;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| machine::run(input));
