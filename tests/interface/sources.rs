//! An operation's error keeps its kind and its source, whatever way it comes to the thread that
//! waits.

use crate::common::*;
use seriatim::gpu::DriverError;
use seriatim::{Data, Engine, Error, ErrorKind, RunContext, Variable};
use std::error::Error as _;
use std::io;

/// The error at the other end of everything that passes one on.
fn passed_on(engine: &Engine, fail: impl Fn(&Engine, Variable)) -> [Error; 3] {
    let [x, y] = [engine.new_variable(), engine.new_variable()];
    fail(engine, x);
    let of_itself = engine.wait_for_var(x).unwrap_err();
    fail(engine, x);
    engine.op("skipped").reads([x]).writes([y]).push(nothing).unwrap();
    let of_a_dependant = engine.wait_for_var(y).unwrap_err();
    engine.wait_for_all().unwrap();
    fail(engine, x);
    [of_itself, of_a_dependant, engine.wait_for_all().unwrap_err()]
}

fn refused() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionRefused, "no one listens")
}

#[test]
fn an_error_of_the_standard_library_is_the_source() {
    let ways: [fn(&Engine, Variable); 4] = [
        |engine, x| engine.op("connect").writes([x]).push(|_| Err(refused())).unwrap(),
        |engine, x| {
            let start = |_: &RunContext<'_>, completion: seriatim::Completion| completion.fail(refused());
            engine.op("connect").writes([x]).push_async(start).unwrap();
        },
        |engine, x| {
            let step = engine.op("connect").writes([x]).operator(|_| Err(refused())).unwrap();
            engine.push(&step, seriatim::Context::cpu(0), 0).unwrap();
        },
        |engine, x| {
            let record = |c: &mut seriatim::Capture| c.op("connect").writes([x]).push(|_| Err(refused()));
            engine.capture(record).unwrap().0.replay().unwrap();
        },
    ];
    on_every_engine(|engine| {
        for fail in ways {
            for error in passed_on(&engine, fail) {
                assert_says(&error, ErrorKind::OperationFailed, &["operation 'connect' failed: no one listens"]);
                let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
                assert_eq!(source.expect("the error itself").kind(), io::ErrorKind::ConnectionRefused);
            }
        }
    });
}

#[test]
fn an_error_of_the_crate_keeps_its_kind() {
    on_every_engine(|engine| {
        let data = Data::new(&engine, 1);
        let held = data.read().unwrap();
        let x = data.variable();
        let changes = data.clone();
        let change = move |_: &RunContext<'_>| changes.write().map(drop);
        engine.op("change").writes([x]).push(change).unwrap();
        let error = engine.wait_for_var(x).unwrap_err();
        assert_says(&error, ErrorKind::BorrowConflict, &["operation 'change' failed", "cannot change"]);
        assert_eq!(error.operation(), Some("change"));
        let source = error.source().and_then(|source| source.downcast_ref::<Error>()).expect("the error itself");
        assert_eq!((source.kind(), source.operation()), (ErrorKind::BorrowConflict, None));
        drop(held);
    });
}

#[test]
fn an_error_of_a_driver_is_the_source_of_one_of_the_crate() {
    let errors = [
        (DriverError::refused("the driver is busy"), ErrorKind::DeviceUnavailable),
        (DriverError::lost("the device is gone"), ErrorKind::DeviceLost),
    ];
    for (from, kind) in errors {
        let error = Error::from(from.clone());
        assert_says(&error, kind, &[&from.to_string()]);
        assert_eq!(error.source().and_then(|source| source.downcast_ref()), Some(&from));
    }
}

#[test]
fn a_panic_passed_on_by_another_operation_is_its_failure() {
    on_every_engine(|engine| {
        let other = Engine::new().unwrap();
        let inner = move |_: &RunContext<'_>| {
            other.op("inner").push(|_| -> () { std::panic::resume_unwind(Box::new("a text")) })?;
            other.wait_for_all()
        };
        engine.op("outer").push(inner).unwrap();
        let error = engine.wait_for_all().unwrap_err();
        let parts = ["operation 'outer' failed: operation 'inner' panicked: a text"];
        assert_says(&error, ErrorKind::OperationPanicked, &parts);
    });
}

#[test]
fn any_error_that_can_be_boxed_will_do() {
    on_every_engine(|engine| {
        type Boxed = Box<dyn std::error::Error + Send + Sync>;
        engine.op("boxed").push(|_| Err(Boxed::from(refused()))).unwrap();
        let error = engine.wait_for_all().unwrap_err();
        assert!(error.source().is_some_and(|source| source.is::<io::Error>()));
        engine.op("text").push(|_| Err(format!("number {}", 7))).unwrap();
        assert_failed(engine.wait_for_all(), "number 7");
        // What only panics needs no type.
        engine.op("silent").push(|_| std::panic::resume_unwind(Box::new("never"))).unwrap();
        assert_eq!(engine.wait_for_all().unwrap_err().kind(), ErrorKind::OperationPanicked);
    });
}

#[test]
fn an_error_whose_destructor_panics_takes_nothing_with_it() {
    #[derive(Debug)]
    struct Bomb;
    impl std::fmt::Display for Bomb {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a bomb")
        }
    }
    impl std::error::Error for Bomb {}
    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
    }
    on_every_engine(|engine| {
        let x = engine.new_variable();
        for _ in 0..10 {
            engine.op("fails").writes([x]).push(|_| Err(Bomb)).unwrap();
            engine.op("overwrites").writes([x]).push(nothing).unwrap();
            assert_failed(engine.wait_for_all(), "a bomb");
        }
    });
}
