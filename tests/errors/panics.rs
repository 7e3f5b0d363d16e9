//! Panics of destructors.

use crate::common::*;
use crate::helpers::*;
use seriatim::{Completion, Context, Engine, Error, ErrorKind, Property, RunContext};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Mutex};

#[test]
fn a_closure_that_panics_in_its_destructor_fails_its_operation() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let ran = Arc::new(AtomicBool::new(false));
        let (bomb, seen) = (Bomb(1), Arc::clone(&ran));
        let body = move |_: &RunContext<'_>| {
            let _ = &bomb;
            seen.store(true, SeqCst);
        };
        engine.op("explodes").writes([x]).push(body).unwrap();
        assert_says(&engine.wait_for_var(x).unwrap_err(), ErrorKind::OperationPanicked, &["'explodes'"]);
        assert!(ran.load(SeqCst));
        // A large one, and one that is boxed.
        let (bomb, ballast) = (Bomb(1), [0u8; 200]);
        engine.op("explodes").writes([x]).push(move |_| use_up((bomb, ballast))).unwrap();
        assert_says(&engine.wait_for_var(x).unwrap_err(), ErrorKind::OperationPanicked, &["'explodes'"]);
        let (bomb, ballast) = (Bomb(1), [0u8; 1000]);
        engine.op("explodes").writes([x]).push(move |_| use_up((bomb, ballast))).unwrap();
        assert_says(&engine.wait_for_var(x).unwrap_err(), ErrorKind::OperationPanicked, &["'explodes'"]);
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn a_skipped_closure_is_dropped_even_if_that_panics() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let witness = Arc::new(());
        let failing = hold(&engine, &[], &[x]);
        for _ in 0..3 {
            let (bomb, own) = (Bomb(2), Arc::clone(&witness));
            engine.op("skipped").writes([x]).push(move |_| use_up((own, bomb))).unwrap();
            let (bomb, own) = (Bomb(2), Arc::clone(&witness));
            let asynchronous = move |_: &RunContext<'_>, _: Completion| use_up((own, bomb));
            engine.op("skipped").writes([x]).push_async(asynchronous).unwrap();
        }
        failing.fail("the source");
        settle(&engine);
        assert_eq!(Arc::strong_count(&witness), 1, "skipped closures are dropped");
        assert_failed(engine.wait_for_all(), "the source");
        engine.wait_for_all().unwrap();
        assert_eq!(engine.version(x).unwrap(), 7);
    });
}

#[test]
fn a_wait_in_the_destructor_of_a_skipped_closure_is_an_error_and_no_deadlock() {
    run_child_well(&mut child("wait in a destructor"));
}

struct Waits(Engine, Arc<Mutex<Vec<Result<(), Error>>>>);

impl Drop for Waits {
    fn drop(&mut self) {
        self.1.lock().unwrap().push(self.0.wait_for_all());
    }
}

pub fn wait_in_a_destructor() {
    let _watchdog = Watchdog::new(90, "a wait in the destructor of a skipped closure");
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let outcomes = Arc::new(Mutex::new(Vec::new()));
        let failing = hold(&engine, &[], &[x]);
        let waits = Waits(engine.clone(), Arc::clone(&outcomes));
        engine.op("skipped").writes([x]).push(move |_| drop(waits)).unwrap();
        failing.fail("the source");
        settle(&engine);
        let outcome = outcomes.lock().unwrap().pop().expect("the closure was dropped");
        assert_says(&outcome.unwrap_err(), ErrorKind::WaitInsideOperation, &[]);
        engine.wait_for_all().unwrap_err();
    });
}

#[test]
fn a_wait_in_the_destructor_of_an_error_is_an_error_and_no_deadlock() {
    run_child_well(&mut child("wait in the destructor of an error"));
}

struct Failed(Waits);

impl std::fmt::Debug for Failed {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str("Failed")
    }
}

impl std::fmt::Display for Failed {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "it has failed beside {} others", self.0 .1.lock().unwrap().len())
    }
}

impl std::error::Error for Failed {}

pub fn wait_in_the_destructor_of_an_error() {
    let _watchdog = Watchdog::new(90, "a wait in the destructor of an error");
    on_every_engine(|engine| {
        let outcomes = Arc::new(Mutex::new(Vec::new()));
        let fails = || {
            let error = Failed(Waits(engine.clone(), Arc::clone(&outcomes)));
            move |_: &RunContext<'_>| Err(error)
        };
        let x = engine.new_variable();
        engine.op("fails").writes([x]).push(fails()).unwrap();
        drop(engine.wait_for_all().unwrap_err());
        // The mark was told, so this runs; it takes the mark away.
        engine.op("succeeds").writes([x]).push(nothing).unwrap();
        settle(&engine);
        // One that is in the way of another, on a variable that is deleted.
        engine.op("fails").writes([x]).push(fails()).unwrap();
        drop(engine.wait_for_all().unwrap_err());
        engine.op("fails again").writes([x]).push(fails()).unwrap();
        drop(engine.wait_for_all().unwrap_err());
        engine.delete_variable(|_| (), Context::cpu(0), x).unwrap();
        settle(&engine);
        // Beyond those that are kept, one that another takes the place of.
        (0..1_000).for_each(|_| engine.op("kept").push(|_| Err("kept")).unwrap());
        settle(&engine);
        let y = engine.new_variable();
        engine.op("is only counted").writes([y]).push(fails()).unwrap();
        engine.op("fails").writes([y]).property(Property::NoSkip).push(|_| Err("instead")).unwrap();
        settle(&engine);
        // One that is only counted, of an operation that writes nothing; and the same in a graph.
        engine.op("is only counted").push(fails()).unwrap();
        settle(&engine);
        let error = Mutex::new(Some(Failed(Waits(engine.clone(), Arc::clone(&outcomes)))));
        let takes = move |_: &RunContext<'_>| error.lock().unwrap().take().map_or(Ok(()), Err);
        let (graph, ()) = engine.capture(|c| c.op("is only counted").push(takes)).unwrap();
        graph.replay().unwrap();
        settle(&engine);
        let outcomes = std::mem::take(&mut *outcomes.lock().unwrap());
        assert_eq!(outcomes.len(), 6);
        for outcome in outcomes {
            assert_says(&outcome.unwrap_err(), ErrorKind::WaitInsideOperation, &[]);
        }
        drop(engine.wait_for_all());
    });
}
