//! Bytes become a program of the oracle (see `tests/oracle.rs`), which runs on an engine and is
//! checked against a serial replay.
//!
//! The programs are small, so that many run in a second, and most of them run on engines that
//! earlier inputs have used: an engine's threads cost more than a program.

#![no_main]

#[path = "bytes.rs"]
mod bytes;
#[path = "../../tests/oracle/check.rs"]
#[allow(dead_code)] // What only the integration test uses; so below.
mod check;
#[path = "../../tests/common/mod.rs"]
mod common;
#[path = "oracle/decode.rs"]
mod decode;
#[path = "oracle/engines.rs"]
mod engines;
#[path = "../../tests/oracle/graphs.rs"]
mod graphs;
#[path = "../../tests/oracle/order.rs"]
mod order;
#[path = "../../tests/oracle/plan.rs"]
mod plan;
#[path = "../../tests/oracle/program.rs"]
#[allow(dead_code)]
mod program;
#[path = "../../tests/oracle/run.rs"]
#[allow(dead_code)]
mod run;
#[path = "../../tests/oracle/world.rs"]
mod world;

use libfuzzer_sys::fuzz_target;
use plan::{Mode, Plan};

fuzz_target!(|input: &[u8]| {
    let (program, fresh) = decode::program(input);
    let mut plan = Plan::new(program.clone());
    if bytes::has_planted_mistake() {
        forget_a_read(&mut plan);
    }
    let outcome = run::execute_plan(&engines::engine(&program.shape, fresh), plan);
    if let Err(violation) = check::check(&outcome) {
        panic!("{violation}\nin this program:\n{program:#?}");
    }
});

/// The planted mistake: one operation does not tell the engine that it reads a variable.
fn forget_a_read(plan: &mut Plan) {
    let forgetful =
        |node: &&mut plan::Node| node.operator.is_none() && node.claims.iter().any(|(_, mode)| *mode == Mode::Read);
    if let Some(node) = plan.nodes.iter_mut().find(forgetful) {
        let read = node.claims.iter().find(|(_, mode)| *mode == Mode::Read).map(|(variable, _)| *variable);
        node.template.reads.retain(|variable| Some(*variable) != read);
    }
}
