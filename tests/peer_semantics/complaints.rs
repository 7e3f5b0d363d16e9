//! What users of the original complained about: waits inside operations, memory, crashes at exit.

use crate::common::*;
use seriatim::{Context, Engine, ErrorKind, Kind};
use std::sync::{mpsc, Arc, Mutex, OnceLock};
use std::time::Duration;

#[test]
fn a_wait_inside_an_operation_is_an_error_and_no_deadlock() {
    let _watchdog = Watchdog::new(120, "a wait inside an operation");
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let errors = Arc::new(Mutex::new(Vec::new()));
        let waits = {
            let (engine, errors) = (engine.clone(), Arc::clone(&errors));
            move || {
                let outcomes = [
                    engine.wait_for_var(x),
                    engine.wait_for_all(),
                    engine.wait_for_var_timeout(x, Duration::from_secs(1)),
                    engine.wait_for_all_timeout(Duration::from_secs(1)),
                    engine.stop(),
                    engine.start(),
                ];
                errors.lock().unwrap().extend(outcomes.map(Result::unwrap_err));
            }
        };
        let waits_too = waits.clone();
        engine.op("waits").writes([x]).push(move |_| waits()).unwrap();
        let asynchronous = move |_: &seriatim::RunContext<'_>, completion: seriatim::Completion| {
            waits_too();
            completion.complete();
        };
        engine.op("waits").writes([x]).push_async(asynchronous).unwrap();
        engine.wait_for_all().unwrap();
        let errors = errors.lock().unwrap();
        assert_eq!(errors.len(), 12);
        for error in errors.iter() {
            assert_says(error, ErrorKind::WaitInsideOperation, &["operation cannot"]);
        }
    });
}

#[test]
fn an_operation_may_wait_for_another_engine() {
    let _watchdog = Watchdog::new(120, "a wait for another engine");
    on_every_engine(|engine| {
        let other = Engine::builder().cpu_workers(1).build().unwrap();
        let waits = move |_: &seriatim::RunContext<'_>| {
            let y = other.new_variable();
            other.op("inner").writes([y]).push(nothing)?;
            other.wait_for_var(y)?;
            other.wait_for_all()
        };
        engine.op("outer").push(waits).unwrap();
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn memory_grows_with_the_backlog_only_without_a_bound() {
    run_child_well(&mut child("memory"));
}

pub fn memory_under_a_bound() {
    // Everything is pushed behind one operation that takes its time: without a bound each push
    // would add a block.
    let grown_by = |bound: usize, when_full: seriatim::WhenFull| {
        let engine = Engine::builder().cpu_workers(1).bound(bound).when_full(when_full).build().unwrap();
        let x = engine.new_variable();
        let before = resident_memory();
        let (has_pushed, pushed) = mpsc::channel();
        let completion = hold(&engine, &[], &[x]);
        // At a bound the pushes wait for it.
        let time = if bound > 0 { Duration::from_millis(300) } else { Duration::from_secs(60) };
        let helper = std::thread::spawn(move || {
            let _ = pushed.recv_timeout(time);
            completion.complete();
        });
        (0..100_000).for_each(|_| engine.op("write").writes([x]).push(nothing).unwrap());
        let grown = resident_memory().saturating_sub(before);
        let _ = has_pushed.send(());
        helper.join().unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(engine.version(x).unwrap(), 100_001);
        grown
    };
    let bounded = grown_by(100, seriatim::WhenFull::Block).max(grown_by(100, seriatim::WhenFull::Help));
    assert!(bounded < 4 << 20, "{bounded} bytes more with a bound");
    let unbounded = grown_by(0, seriatim::WhenFull::Block);
    assert!(unbounded > 10 << 20, "only {unbounded} bytes more without a bound: this test shows nothing");
}

#[test]
fn the_process_may_exit_while_operations_run() {
    for task in ["exit", "return", "exit inside", "global"] {
        for kind in ["naive", "pooled", "per-device"] {
            run_child_well(child(task).env("TEST_CHILD_KIND", kind));
        }
    }
}

/// Gives an engine more than it can finish, and comes back while it runs.
fn keep_busy(engine: &Engine) {
    let x = engine.new_variable();
    let step = engine.op("step").operator(|_| spin(Duration::from_micros(20))).unwrap();
    for _ in 0..2_000 {
        if engine.kind() == Kind::Naive {
            // Its operations run on threads of the caller, here on one of their own that is cut
            // short.
            let (engine, step) = (engine.clone(), step.clone());
            std::thread::spawn(move || loop {
                let _ = engine.push(&step, Context::cpu(0), 0);
            });
            break;
        }
        engine.push(&step, Context::cpu(0), 0).unwrap();
        engine.op("write").writes([x]).push(nothing).unwrap();
    }
    std::thread::sleep(Duration::from_millis(2));
}

pub fn leave_while_running(task: &str) {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    let kind = std::env::var("TEST_CHILD_KIND").unwrap();
    if task == "global" {
        // SAFETY: this child process has no other thread yet that reads the environment.
        unsafe { std::env::set_var("SERIATIM_ENGINE", &kind) };
        keep_busy(Engine::global().unwrap());
        std::process::exit(0);
    }
    let engine = Engine::builder().kind(kind.parse().unwrap()).cpu_workers(3).build().unwrap();
    keep_busy(ENGINE.get_or_init(|| engine));
    match task {
        "exit" => std::process::exit(0),
        "exit inside" => {
            let engine = ENGINE.get().unwrap();
            let exit = |_: &seriatim::RunContext<'_>| -> () { std::process::exit(0) };
            engine.op("exit").priority(1).push(exit).unwrap();
            std::thread::sleep(Duration::from_secs(60));
            unreachable!("the operation ends the process");
        }
        // Returning ends the test, and with it the process.
        _ => {}
    }
}
