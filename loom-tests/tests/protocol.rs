//! The variable protocol: pushes from several threads, completions racing with them, one and two variables.

#![cfg(loom)]

use loom_tests::{explore, explore_once, spawn, Program};
use seriatim::internals::access::Mode::{self, Delete, Read, Write};
use std::sync::Arc;

const MODES: [Mode; 3] = [Read, Write, Delete];

/// Two threads push `ops`, dealt out in turn; each runs what it makes ready.
fn two_pushers(vars: usize, ops: &[&[(usize, Mode)]]) {
    let program = Program::new(vars, ops);
    push_by_two(&program, ops.len());
    program.check();
}

fn push_by_two(program: &Arc<Program>, count: usize) {
    let other = program.clone();
    let pusher = spawn(move || {
        for op in (1..count).step_by(2) {
            let _ = other.push(op);
        }
    });
    for op in (0..count).step_by(2) {
        let _ = program.push(op);
    }
    pusher.join().unwrap();
}

/// As [`two_pushers`], where one operation deletes the variable. What a thread pushes after it has pushed the deletion is cancelled; what the
/// other pushes runs before the deletion or is cancelled.
fn two_pushers_with_a_deletion(ops: &[&[(usize, Mode)]]) {
    let deletion = ops.iter().position(|op| op[0].1 == Delete).expect("one of them deletes");
    let program = Program::new(1, ops);
    let count = ops.len();
    push_by_two(&program, count);
    let trace = program.trace();
    assert_eq!((trace.runs[deletion], trace.writes[0].last()), (1, Some(&deletion)), "{trace:?}");
    for op in (0..count).filter(|op| *op != deletion) {
        assert_eq!(trace.runs[op] + trace.cancelled[op], 1, "{trace:?}");
        let same_thread = op % 2 == deletion % 2;
        assert!(!same_thread || (trace.runs[op] == 1) == (op < deletion), "{trace:?}");
    }
    assert!(trace.spent.iter().all(|spent| *spent == 1), "{trace:?}");
    assert!(program.is_closed(0), "a late swing has moved the tail of a deleted variable");
}

fn explore_modes(modes: &[Mode], preemptions: usize, floor: usize) {
    let deletions = modes.iter().filter(|mode| **mode == Delete).count();
    if deletions > 1 {
        return; // A handle can be deleted once.
    }
    let modes = modes.to_vec();
    explore(&format!("one variable, {modes:?}"), preemptions, floor, move || {
        let claims: Vec<[(usize, Mode); 1]> = modes.iter().map(|mode| [(0, *mode)]).collect();
        let ops: Vec<&[(usize, Mode)]> = claims.iter().map(|claim| &claim[..]).collect();
        match deletions {
            0 => two_pushers(1, &ops),
            _ => two_pushers_with_a_deletion(&ops),
        }
    });
}

#[test]
fn every_pair_on_one_variable() {
    for first in MODES {
        for second in MODES {
            explore_modes(&[first, second], 3, 500);
        }
    }
}

#[test]
fn every_triple_on_one_variable() {
    for first in MODES {
        for second in MODES {
            for third in MODES {
                explore_modes(&[first, second, third], 2, 100);
            }
        }
    }
}

#[test]
fn no_tail_leads_to_a_block_that_is_detached() {
    explore("detached blocks, one variable", 2, 20000, || {
        push_by_two(&Program::detaching(1, &[&[(0, Write)], &[(0, Write)], &[(0, Read)]]), 3);
    });
    explore("detached blocks, two variables", 2, 8000, || {
        push_by_two(&Program::detaching(2, &[&[(0, Write), (1, Read)], &[(0, Read), (1, Write)]]), 2);
    });
}

#[test]
fn crossed_reads_and_writes_on_two_variables() {
    let cross: [(&str, [&'static [(usize, Mode)]; 2]); 4] = [
        ("read-write against write-read", [&[(0, Read), (1, Write)], &[(0, Write), (1, Read)]]),
        ("write-write against write-write", [&[(0, Write), (1, Write)], &[(0, Write), (1, Write)]]),
        ("write-write against read-read", [&[(0, Write), (1, Write)], &[(0, Read), (1, Read)]]),
        ("read-write against read-write", [&[(0, Read), (1, Write)], &[(0, Read), (1, Write)]]),
    ];
    for (name, ops) in cross {
        explore(&format!("two variables, {name}"), 2, 8000, move || two_pushers(2, &ops));
    }
}

#[test]
fn crossed_operations_with_a_third_behind_them() {
    explore_once("two variables, three operations", 2, 100000, || {
        two_pushers(2, &[&[(0, Read), (1, Write)], &[(0, Write), (1, Read)], &[(1, Write)]]);
    });
}

#[test]
fn two_help_a_pusher_that_stalls() {
    explore("two helpers of one operation", 1, 500, || {
        const BOTH: &[(usize, Mode)] = &[(0, Write), (1, Write)];
        let program = Program::detaching(2, &[BOTH, &[(0, Write)], BOTH, &[(1, Write)]]);
        let meanwhile = || {
            let helpers = [2, 1].map(|op| {
                let program = program.clone();
                spawn(move || {
                    let _ = program.push(op);
                })
            });
            helpers.into_iter().for_each(|helper| helper.join().unwrap());
        };
        let _ = program.push_stalling(0, meanwhile);
        let _ = program.push(3);
        program.check();
    });
}

/// All operations are enlisted; then two threads run the first two, and each what it makes ready.
fn two_runners_reuse(name: &str, vars: usize, ops: &'static [&[(usize, Mode)]]) {
    explore(name, 3, 10, move || {
        let program = Program::reusing(vars, ops);
        for op in 0..ops.len() {
            assert_eq!(program.enlist(op), op < 2, "operation {op}");
        }
        let other = program.clone();
        let runner = spawn(move || other.run(1));
        program.run(0);
        runner.join().unwrap();
        program.check();
    });
}

#[test]
fn blocks_are_used_again_as_soon_as_they_are_spent() {
    // The third may be granted its first variable by one thread and its second by the other. That one may run it, the
    // fourth, and the fifth, before the first has told the fourth that it may read.
    let reads: &[&[_]] = &[&[(0, Write)], &[(1, Write)], &[(0, Read), (1, Read)], &[(0, Read)], &[(0, Write)]];
    two_runners_reuse("blocks used again, two writes behind which is a read", 2, reads);
    // One access of the second is spent by who completes it, the other by who completes the first.
    let ends: &[&[_]] = &[&[(0, Read)], &[(0, Read), (1, Read)], &[(0, Write)], &[(1, Write)]];
    two_runners_reuse("blocks used again, two reads that end together", 2, ends);
}

#[test]
fn three_pushers_of_one_write_each() {
    explore_once("three pushers", 1, 20000, || {
        let program = Program::new(1, &[&[(0, Write)], &[(0, Write)], &[(0, Read)]]);
        let pushers: Vec<_> = (1..3)
            .map(|op| {
                let program = program.clone();
                spawn(move || {
                    let _ = program.push(op);
                })
            })
            .collect();
        let _ = program.push(0);
        for pusher in pushers {
            pusher.join().unwrap();
        }
        let trace = program.check();
        assert_eq!(trace.writes[0].len(), 2);
    });
}

#[test]
fn a_deletion_of_one_of_two_variables() {
    explore("delete against an operation on two variables", 2, 3000, || {
        let program = Program::new(2, &[&[(1, Delete)], &[(0, Write), (1, Write)], &[(0, Write)]]);
        let other = program.clone();
        let pusher = spawn(move || {
            let _ = other.push(1);
        });
        let _ = program.push(0);
        let _ = program.push(2);
        pusher.join().unwrap();
        let trace = program.trace();
        assert_eq!((trace.runs[0], trace.runs[2]), (1, 1));
        assert_eq!(trace.runs[1] + trace.cancelled[1], 1, "{trace:?}");
        assert_eq!(trace.writes[1].last(), Some(&0));
    });
}
