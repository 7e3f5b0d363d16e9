//! The variable protocol: pushes from several threads, completions racing with them, one and two variables.

#![cfg(loom)]

use loom::thread;
use loom_tests::{explore, Program};
use seriatim::internals::access::Mode::{self, Delete, Read, Write};

const MODES: [Mode; 2] = [Read, Write];

/// Two threads push `ops`, dealt out in turn; each runs what it makes ready.
fn two_pushers(vars: usize, ops: &[&[(usize, Mode)]]) {
    let program = Program::new(vars, ops);
    let other = program.clone();
    let count = ops.len();
    let pusher = thread::spawn(move || {
        for op in (1..count).step_by(2) {
            let _ = other.push(op);
        }
    });
    for op in (0..count).step_by(2) {
        let _ = program.push(op);
    }
    pusher.join().unwrap();
    program.check();
}

#[test]
fn every_pair_on_one_variable() {
    for first in MODES {
        for second in MODES {
            explore(&format!("pair {first:?} {second:?}"), 3, 20, move || {
                two_pushers(1, &[&[(0, first)], &[(0, second)]]);
            });
        }
    }
}

#[test]
fn every_triple_on_one_variable() {
    for first in MODES {
        for second in MODES {
            for third in MODES {
                explore(&format!("triple {first:?} {second:?} {third:?}"), 2, 100, move || {
                    two_pushers(1, &[&[(0, first)], &[(0, second)], &[(0, third)]]);
                });
            }
        }
    }
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
        explore(&format!("two variables, {name}"), 2, 500, move || two_pushers(2, &ops));
    }
}

#[test]
fn crossed_operations_with_a_third_behind_them() {
    explore("two variables, three operations", 2, 2000, || {
        two_pushers(2, &[&[(0, Read), (1, Write)], &[(0, Write), (1, Read)], &[(1, Write)]]);
    });
}

#[test]
fn three_pushers_of_one_write_each() {
    explore("three pushers", 1, 500, || {
        let program = Program::new(1, &[&[(0, Write)], &[(0, Write)], &[(0, Read)]]);
        let pushers: Vec<_> = (1..3)
            .map(|op| {
                let program = program.clone();
                thread::spawn(move || {
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
fn a_deletion_is_the_last_use() {
    for mode in MODES {
        explore(&format!("delete against {mode:?}"), 3, 20, move || {
            let program = Program::new(1, &[&[(0, Delete)], &[(0, mode)]]);
            let other = program.clone();
            let pusher = thread::spawn(move || {
                let _ = other.push(1);
            });
            let _ = program.push(0);
            pusher.join().unwrap();
            let trace = program.trace();
            assert_eq!(trace.runs[0], 1);
            // The other one came before it and ran, or after it and was cancelled.
            assert_eq!(trace.runs[1] + trace.cancelled[1], 1, "{trace:?}");
            assert_eq!(trace.writes[0].last(), Some(&0));
            assert_eq!(trace.spent, [1, 1]);
            assert!(program.is_closed(0), "a late swing has moved the tail of a deleted variable");
        });
    }
}

#[test]
fn a_deletion_of_one_of_two_variables() {
    explore("delete against an operation on two variables", 2, 200, || {
        let program = Program::new(2, &[&[(1, Delete)], &[(0, Write), (1, Write)], &[(0, Write)]]);
        let other = program.clone();
        let pusher = thread::spawn(move || {
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

#[test]
fn a_late_swing_does_not_disturb_a_deleted_variable() {
    explore("write and delete against write", 2, 500, || {
        let program = Program::new(1, &[&[(0, Write)], &[(0, Delete)], &[(0, Write)]]);
        let other = program.clone();
        let pusher = thread::spawn(move || {
            let _ = other.push(2);
        });
        let _ = program.push(0);
        let _ = program.push(1);
        pusher.join().unwrap();
        let trace = program.trace();
        assert_eq!((trace.runs[0], trace.runs[1]), (1, 1));
        assert_eq!(trace.runs[2] + trace.cancelled[2], 1, "{trace:?}");
        assert!(program.is_closed(0), "the tail of a deleted variable has moved: {trace:?}");
    });
}
