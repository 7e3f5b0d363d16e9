//! Common variables with more pushers than loom can explore, and blocks that are used again.

#![cfg(shuttle)]

use loom_tests::pushers::Role::Runs;
use loom_tests::pushers::{Program, Reuse, Uses, REUSED};
use loom_tests::schedules;
use seriatim::internals::access::Mode::{Read, Write};
use std::sync::atomic::Ordering::SeqCst;

/// Three variables, crossed in all ways: each thread pushes three of the operations.
const CIRCLES: &[Uses] = &[
    &[(0, Write), (1, Write)],
    &[(1, Write), (2, Write)],
    &[(0, Write), (2, Write)],
    &[(0, Read), (1, Write)],
    &[(1, Read), (2, Write)],
    &[(0, Write), (2, Read)],
    &[(0, Write)],
    &[(1, Read)],
    &[(0, Read), (2, Read)],
    &[(1, Write), (2, Write)],
    &[(0, Write), (1, Read)],
    &[(2, Write)],
];

#[test]
fn four_push_and_run_on_three_variables() {
    schedules("four pushers of common variables", 4, 20_000, || {
        let program = Program::new(3, CIRCLES.len(), 4, CIRCLES);
        program.open();
        program.act(Reuse::ByPins, [Runs(&[0, 4, 8]), Runs(&[1, 5, 9]), Runs(&[2, 6, 10]), Runs(&[3, 7, 11])]);
        program.check();
        program.check_order();
        program.outcome()
    });
    assert!(REUSED.load(SeqCst) > 0, "no block was used again");
}
