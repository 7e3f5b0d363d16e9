//! Loans: operations that run inside their push on variables that they borrow, beside operations that are enlisted. First the protocol
//! alone, then the engine, as its users see it.

#![cfg(loom)]

use loom::sync::mpsc::channel;
use loom_tests::{explore, explore_once, spawn, Guarded, Program, Trace};
use seriatim::internals::access::Mode::{self, Delete, Read, Write};
use seriatim::internals::chain::Enlisted;
use seriatim::{Engine, ErrorKind, Kind, RunContext};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;

type Ops = &'static [&'static [(usize, Mode)]];

/// Two threads push `ops`, dealt out in turn. The main thread tries loans first, the other too if `both`.
fn two_pushers(program: &Arc<Program>, count: usize, both: bool) -> Trace {
    let other = program.clone();
    let pusher = spawn(move || {
        for op in (1..count).step_by(2) {
            if both {
                other.lend_or_push(op);
            } else {
                let _ = other.push(op);
            }
        }
    });
    for op in (0..count).step_by(2) {
        program.lend_or_push(op);
    }
    pusher.join().unwrap();
    program.trace()
}

fn explore_both_ways(name: &str, preemptions: usize, floor: usize, vars: usize, ops: Ops) {
    for both in [false, true] {
        let who = if both { "both borrow" } else { "one borrows" };
        explore(&format!("{name}, {who}"), preemptions, floor, move || {
            let program = Program::new(vars, ops);
            let trace = two_pushers(&program, ops.len(), both);
            program.check();
            // Who borrows has no block, and no other block is lost but the last ones.
            for op in 0..ops.len() {
                assert!(trace.lent[op] + trace.spent[op] <= 1, "{trace:?}");
            }
        });
    }
}

#[test]
fn one_variable() {
    const W: (usize, Mode) = (0, Write);
    const R: (usize, Mode) = (0, Read);
    let cases: [(&str, Ops); 6] = [
        ("write, write", &[&[W], &[W]]),
        ("read, write", &[&[R], &[W]]),
        ("write, read, write", &[&[W], &[R], &[W]]),
        ("read, read, write", &[&[R], &[R], &[W]]),
        ("read, write, read", &[&[R], &[W], &[R]]),
        ("write, write, read, read", &[&[W], &[W], &[R], &[R]]),
    ];
    for (name, ops) in cases {
        explore_both_ways(&format!("one variable lent, {name}"), if ops.len() > 3 { 3 } else { 4 }, 20, 1, ops);
    }
}

#[test]
fn a_read_runs_beside_a_loan_to_a_read_and_nothing_else_beside_a_loan() {
    explore("beside a loan", 1, 2, || {
        for (lent, other) in [(Read, Read), (Read, Write), (Write, Read), (Write, Write)] {
            let program = Program::new(1, &[&[(0, lent)], &[(0, other)], &[(0, lent)], &[(0, other)]]);
            // First on the birth access, which is a write, then on the access of an operation.
            for (op, beside) in [(0, 1), (2, 3)] {
                let inside = || {
                    let ready = program.push(beside) == Enlisted::Ready;
                    assert_eq!(ready, lent == Read && other == Read, "{other:?} beside a loan to {lent:?}");
                };
                assert!(program.lend_around(op, inside));
            }
            program.check();
        }
    });
}

#[test]
fn a_helper_that_is_late_does_not_open_a_loan_to_a_write() {
    explore("a late helper against a loan to a write", 3, 1000, || {
        // A read that runs; an operation behind it, which a helper links and lets its pusher run before it says `R`; then the loan.
        let program =
            Program::new(2, &[&[(1, Read)], &[(0, Write), (1, Read)], &[(0, Read)], &[(1, Write)], &[(1, Read)]]);
        let theirs = program.clone();
        let mut helper = None;
        program.lend_around(0, || {
            helper = Some(spawn(move || {
                let _ = theirs.push(2);
            }));
            let _ = program.push(1);
        });
        let beside = || assert_ne!(program.push(4), Enlisted::Ready, "a read beside a loan to a write");
        if !program.lend_around(3, beside) {
            let _ = program.push(4);
        }
        helper.expect("the first variables are idle").join().unwrap();
        program.check();
    });
}

#[test]
fn crossed_on_two_variables() {
    let cases: [(&str, Ops); 3] = [
        ("write-write against write-write", &[&[(0, Write), (1, Write)], &[(0, Write), (1, Write)]]),
        ("read-write against write-read", &[&[(0, Read), (1, Write)], &[(0, Write), (1, Read)]]),
        ("read-write against read-write", &[&[(0, Read), (1, Write)], &[(0, Read), (1, Write)]]),
    ];
    for (name, ops) in cases {
        explore_both_ways(&format!("two variables lent, {name}"), 3, 100, 2, ops);
    }
}

#[test]
fn crossed_with_a_third_behind_them() {
    explore_once("two variables lent, three operations", 2, 1000, || {
        let program = Program::new(2, &[&[(0, Write), (1, Write)], &[(0, Write), (1, Read)], &[(1, Write)]]);
        two_pushers(&program, 3, false);
        program.check();
    });
}

#[test]
fn three_threads_on_one_variable() {
    explore_once("three threads, one variable lent", 3, 1000, || {
        let program = Program::new(1, &[&[(0, Write)], &[(0, Read)], &[(0, Read)]]);
        let pushers: Vec<_> = (1..3)
            .map(|op| {
                let program = program.clone();
                spawn(move || {
                    program.lend_or_push(op);
                })
            })
            .collect();
        program.lend_or_push(0);
        for pusher in pushers {
            pusher.join().unwrap();
        }
        program.check();
    });
}

#[test]
fn no_tail_leads_to_a_block_that_is_detached() {
    explore("detached blocks, lent", 3, 500, || {
        let program = Program::detaching(1, &[&[(0, Write)], &[(0, Write)], &[(0, Read)]]);
        two_pushers(&program, 3, false);
        program.check();
    });
}

#[test]
fn a_deletion_comes_after_a_loan_or_there_is_none() {
    for first in [Read, Write] {
        explore(&format!("a loan to a {first:?} against a deletion"), 3, 50, move || {
            let program = Program::new(1, &[&[(0, first)], &[(0, Delete)], &[(0, first)]]);
            let trace = two_pushers(&program, 3, false);
            assert_eq!((trace.runs[1], trace.writes[0].last()), (1, Some(&1)), "{trace:?}");
            for op in [0, 2] {
                assert_eq!(trace.runs[op] + trace.cancelled[op], 1, "{trace:?}");
            }
            assert!(program.is_closed(0), "{trace:?}");
        });
    }
}

fn naive() -> Engine {
    Engine::builder().kind(Kind::Naive).build().expect("the settings are valid")
}

#[test]
fn two_pushers_of_an_engine_do_not_overlap_and_are_counted() {
    explore("loans of an engine, two pushers", 3, 200, || {
        let engine = naive();
        let x = engine.new_variable();
        let value = Guarded::new();
        let (theirs, cell) = (engine.clone(), value.clone());
        let other = spawn(move || theirs.op("").writes([x]).push(move |_| cell.step()).unwrap());
        let cell = value.clone();
        engine.op("").writes([x]).push(move |_| cell.step()).unwrap();
        other.join().unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(value.get(), 2);
        assert_eq!(engine.version(x).unwrap(), 2);
    });
}

#[test]
fn a_wait_returns_after_the_loan_of_another_thread() {
    explore("a wait beside a loan", 2, 500, || {
        let engine = naive();
        let x = engine.new_variable();
        let value = Guarded::new();
        let (theirs, cell) = (engine.clone(), value.clone());
        let other = spawn(move || theirs.op("").writes([x]).push(move |_| cell.step()).unwrap());
        engine.wait_for_var(x).unwrap();
        let cell = value.clone();
        if engine.version(x).unwrap() == 1 {
            assert_eq!(cell.get(), 1);
        }
        engine.wait_for_all().unwrap();
        other.join().unwrap();
        assert_eq!(value.get(), 1);
    });
}

#[test]
fn after_a_wait_for_everything_no_variable_is_lent() {
    for writes in [true, false] {
        explore(&format!("wait for everything beside a loan, writes: {writes}"), 2, 1000, move || {
            let engine = naive();
            let x = engine.new_variable();
            let theirs = engine.clone();
            let (say, runs) = channel();
            let other = spawn(move || {
                let op = theirs.op("");
                let op = if writes { op.writes([x]) } else { op.reads([x]) };
                op.push(move |_| say.send(()).unwrap()).unwrap();
            });
            runs.recv().unwrap();
            engine.wait_for_all().unwrap();
            assert_eq!(engine.version(x).unwrap(), u64::from(writes), "what it has changed is not counted");
            assert!(engine.wait_for_var_timeout(x, Duration::ZERO).is_ok(), "it is lent");
            other.join().unwrap();
        });
    }
}

#[test]
fn a_failure_on_a_loan_reaches_who_comes_behind_it() {
    explore("a failure on a loan", 2, 500, || {
        let engine = naive();
        let x = engine.new_variable();
        // Not the model's: they order nothing.
        let (failed, late) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (theirs, sets) = (engine.clone(), failed.clone());
        let other = spawn(move || {
            let fail = move |_: &RunContext<'_>| {
                sets.store(true, Relaxed);
                Err::<(), _>("no")
            };
            theirs.op("").writes([x]).push(fail).unwrap();
        });
        let behind = late.clone();
        engine.op("").writes([x]).push(move |_| behind.store(failed.load(Relaxed), Relaxed)).unwrap();
        other.join().unwrap();
        engine.op("").writes([x]).push::<_, ()>(|_| panic!("runs in spite of a mark")).unwrap();
        let error = engine.wait_for_var(x).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OperationFailed, "{error}");
        assert!(engine.wait_for_var(x).is_ok());
        assert_eq!(engine.version(x).unwrap(), 3);
        assert!(!late.load(Relaxed), "an operation behind a failure has run");
    });
}

#[test]
fn a_variable_comes_home_beside_a_push_and_a_loan() {
    for mode in [Read, Write] {
        explore(&format!("coming home, {mode:?}"), 3, 100, move || {
            let program = Program::new(1, &[&[(0, Write)], &[(0, mode)], &[(0, Write)], &[(0, Read)]]);
            // Away, before there is another thread.
            assert_eq!(program.push(0), Enlisted::Ready);
            let other = program.clone();
            let pusher = spawn(move || {
                other.lend_at_home_or_push(2);
                let _ = other.push(3);
            });
            program.come_home_or_push(1);
            pusher.join().unwrap();
            program.check();
        });
    }
}

#[test]
fn who_is_alone_and_a_newcomer_do_not_overlap() {
    explore("alone, and a newcomer", 2, 200, || {
        let engine = naive();
        let x = engine.new_variable();
        let value = Guarded::new();
        let push = |engine: &Engine, value: &Guarded| {
            let cell = value.clone();
            engine.op("").writes([x]).push(move |_| cell.step()).unwrap();
        };
        // Counted among those who look, and alone.
        push(&engine, &value);
        let (theirs, cell) = (engine.clone(), value.clone());
        let other = spawn(move || {
            let body = move |_: &RunContext<'_>| cell.step();
            theirs.op("").writes([x]).push(body).unwrap();
        });
        push(&engine, &value);
        push(&engine, &value);
        other.join().unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(value.get(), 4);
        assert_eq!(engine.version(x).unwrap(), 4);
    });
}

#[test]
fn who_is_alone_again_sees_what_the_other_has_done() {
    explore("alone again", 3, 200, || {
        let engine = naive();
        let x = engine.new_variable();
        let value = Guarded::new();
        let (theirs, cell) = (engine.clone(), value.clone());
        let other = spawn(move || {
            theirs.op("").writes([x]).push(move |_| cell.step()).unwrap();
        });
        for reads in [false, true, false] {
            let cell = value.clone();
            let op = if reads { engine.op("").reads([x]) } else { engine.op("").writes([x]) };
            op.push(move |_| if reads { assert!(cell.get() > 0) } else { cell.step() }).unwrap();
        }
        other.join().unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(value.get(), 3);
    });
}

#[test]
fn what_is_pushed_behind_its_own_loan_by_who_is_alone_is_not_lost() {
    explore("a push behind one's own loan", 2, 1, || {
        let engine = naive();
        let x = engine.new_variable();
        let value = Guarded::new();
        let (inner, first, second) = (engine.clone(), value.clone(), value.clone());
        let body = move |_: &RunContext<'_>| {
            inner.op("").writes([x]).push(move |_| second.step()).unwrap();
            first.step();
        };
        engine.op("").writes([x]).push(body).unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(value.get(), 2);
    });
}
