//! An error that nobody waited for is told when the engine ends.

use crate::common::*;
use seriatim::{Builder, Engine, ErrorKind};
use std::sync::{Arc, Mutex};

type Told = Arc<Mutex<Vec<(ErrorKind, String)>>>;

/// A builder whose hook notes what it is told.
fn noting(builder: Builder) -> (Builder, Told) {
    let told = Told::default();
    let here = Arc::clone(&told);
    (builder.on_error(move |error| here.lock().unwrap().push((error.kind(), error.to_string()))), told)
}

#[test]
fn what_nobody_waited_for_is_told_once_in_order_when_the_engine_ends() {
    with_every_builder(|builder| {
        let (builder, told) = noting(builder);
        let engine = builder.build().unwrap();
        let [x, y, z] = [(); 3].map(|()| engine.new_variable());
        engine.op("taken").writes([x]).push(|_| Err("somebody waits for it")).unwrap();
        assert_failed(engine.wait_for_var(x), "somebody waits");
        engine.op("first").writes([x]).push(|_| Err("the first")).unwrap();
        engine.op("skipped").reads([x]).writes([y]).push(nothing).unwrap();
        engine.op("second").writes([z]).push_async(|_, completion| completion.fail("the second")).unwrap();
        let clone = engine.clone();
        drop(engine);
        clone.stop().unwrap();
        assert_eq!(told.lock().unwrap().len(), 0, "there is a handle, and the engine can be started again");
        drop(clone);
        let told = told.lock().unwrap();
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].1.contains("operation 'first' failed: the first"), "{told:?}");
        assert!(told[1].1.contains("operation 'second' failed: the second"), "{told:?}");
    });
}

#[test]
fn of_many_errors_the_rest_is_counted_and_a_panic_of_the_hook_stays_inside() {
    with_every_builder(|builder| {
        let calls = Told::default();
        let here = Arc::clone(&calls);
        let builder = builder.on_error(move |error| {
            here.lock().unwrap().push((error.kind(), error.to_string()));
            std::panic::resume_unwind(Box::new("the hook panics"));
        });
        let engine = builder.build().unwrap();
        for _ in 0..20 {
            engine.op("fails").push(|_| Err("as it was meant to")).unwrap();
        }
        drop(engine);
        let calls = calls.lock().unwrap();
        assert_eq!(calls.len(), 17);
        assert!(calls[16].1.contains("4 more operations failed"), "{calls:?}");
    });
}

#[test]
fn without_a_hook_standard_error_says_it() {
    let said = run_child_well(&mut child("an engine ends with an error"));
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("nobody waited")).collect();
    assert_eq!(lines.len(), 1, "{said}");
    assert!(lines[0].contains("operation 'parse' failed: invalid digit"), "{said}");
}

#[test]
fn the_last_handle_dropped_inside_an_operation_warns_of_what_may_be_lost() {
    let said = run_child_well(&mut child("the last handle is dropped inside"));
    assert!(said.contains("last handle was dropped inside one of its operations"), "{said}");
    let said = run_child_well(&mut child("the last handle is dropped inside, and nothing else is in flight"));
    assert!(!said.contains("last handle"), "{said}");
}

pub fn carry_out(task: &str) -> bool {
    match task {
        "an engine ends with an error" => {
            let engine = Engine::new().unwrap();
            engine.op("parse").push(|_| "12a".parse::<u32>().map(|_| ())).unwrap();
        }
        "the last handle is dropped inside" => drop_inside(true),
        "the last handle is dropped inside, and nothing else is in flight" => drop_inside(false),
        _ => return false,
    }
    true
}

fn drop_inside(with_more: bool) {
    let engine = Engine::builder().cpu_workers(1).build().unwrap();
    let x = engine.new_variable();
    let (gate, done) = (Gate::new(), Gate::new());
    let (inside, over) = (gate.clone(), done.clone());
    let handle = engine.clone();
    let drops = move |_: &seriatim::RunContext<'_>| {
        inside.pass();
        drop(handle);
        over.open();
    };
    engine.op("drops").writes([x]).push(drops).unwrap();
    if with_more {
        engine.op("queued").writes([x]).push(nothing).unwrap();
    }
    drop(engine);
    gate.open();
    done.pass();
}
