//! Every kind of error is provoked, and says what went wrong, where and what to do.

use crate::common::*;
use crate::helpers::*;
use seriatim::{Context, Data, Engine, ErrorKind, Kind, Property, Variable, WhenFull};
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn a_failed_operation_is_named_with_its_error() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        engine.op("parse").writes([x]).push(|_| "12a".parse::<u32>().map(|_| ())).unwrap();
        let error = engine.wait_for_var(x).unwrap_err();
        assert_says(&error, ErrorKind::OperationFailed, &["operation 'parse' failed", "invalid digit"]);
        assert_eq!(error.operation(), Some("parse"));
        assert!(format!("{error:?}").contains("OperationFailed"));
        let error: &dyn std::error::Error = &error;
        assert!(error.to_string().contains("parse"));
    });
}

#[test]
fn a_panic_is_an_error_with_its_message() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let said = |push: &dyn Fn()| {
            push();
            let error = engine.wait_for_var(x).unwrap_err();
            assert_eq!(error.operation(), Some("panics"));
            assert_says(&error, ErrorKind::OperationPanicked, &["operation 'panics' panicked"]);
            error.to_string()
        };
        let op = || engine.op("panics").writes([x]);
        let text = said(&|| op().push(|_| panic_quietly("a literal")).unwrap());
        assert!(text.contains("a literal"));
        let text = said(&|| op().push(|_| -> () { resume_unwind(Box::new(format!("number {}", 7))) }).unwrap());
        assert!(text.contains("number 7"));
        let text = said(&|| op().push(|_| -> () { panic!("with the hook and {}", "arguments") }).unwrap());
        assert!(text.contains("with the hook and arguments"));
        let text = said(&|| op().push(|_| -> () { resume_unwind(Box::new(42)) }).unwrap());
        assert!(text.contains("no message"));
        let text = said(&|| op().push(|_| -> () { resume_unwind(Box::new(Bomb(3))) }).unwrap());
        assert!(text.contains("no message"));
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn an_error_that_panics_while_it_is_shown_is_a_panic_of_the_operation() {
    #[derive(Debug)]
    struct Unshowable;
    impl std::error::Error for Unshowable {}
    impl std::fmt::Display for Unshowable {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic_quietly("no words");
            Ok(())
        }
    }
    on_every_engine(|engine| {
        let x = engine.new_variable();
        engine.op("odd").writes([x]).push(|_| Err(Unshowable)).unwrap();
        assert_says(&engine.wait_for_var(x).unwrap_err(), ErrorKind::OperationPanicked, &["no words"]);
        engine.op("odd").writes([x]).push_async(|_, completion| completion.fail(Unshowable)).unwrap();
        assert_says(&engine.wait_for_var(x).unwrap_err(), ErrorKind::OperationPanicked, &["no words"]);
        // Outside the operation: the caller of `fail` is no place for that panic.
        hold(&engine, &[], &[x]).fail(Unshowable);
        assert_says(&engine.wait_for_var(x).unwrap_err(), ErrorKind::OperationPanicked, &["no words"]);
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn a_deleted_variable_is_refused_everywhere() {
    on_every_engine(|engine| {
        let [x, y] = variables(&engine);
        let step = engine.op("step").writes([x]).operator(|_| ()).unwrap();
        engine.delete_variable(|_| (), Context::cpu(0), x).unwrap();
        engine.wait_for_all().unwrap();
        let refused = [
            engine.op("late").reads([x]).push(nothing),
            engine.op("late").writes([y, x]).push(nothing),
            engine.op("late").reads([x]).push_async(|_, completion| completion.complete()),
            engine.push(&step, Context::cpu(0), 0),
            engine.op("late").writes([x]).operator(|_| ()).map(|_| ()),
            engine.op("late").writes([x]).async_operator(|_, _| ()).map(|_| ()),
            engine.delete_variable(|_| (), Context::cpu(0), x),
            engine.wait_for_var(x),
            engine.wait_for_var_timeout(x, Duration::from_secs(1)),
            engine.version(x).map(|_| ()),
        ];
        let name = format!("{x:?}");
        for outcome in refused {
            assert_says(
                &outcome.unwrap_err(),
                ErrorKind::VariableDeleted,
                &[&name, "was deleted", "before the deletion"],
            );
        }
        assert_eq!(engine.version(y).unwrap(), 0);
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn a_stray_handle_is_refused_and_never_followed() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let (place, generation) = x.into_raw();
        for raw in [
            (0, 0),
            (place, 0),
            (place, generation + 1),
            (place | 0xffff_ffff, 1),
            (place + 1000, 1),
            (u64::MAX, u32::MAX),
        ] {
            let stray = Variable::from_raw(raw);
            let kind = engine.version(stray).unwrap_err().kind();
            assert!([ErrorKind::VariableDeleted, ErrorKind::ForeignVariable].contains(&kind), "{raw:?}");
            assert_eq!(engine.op("stray").writes([stray, x]).push(nothing).unwrap_err().kind(), kind);
            assert_eq!(engine.wait_for_var(stray).unwrap_err().kind(), kind);
            assert_eq!(engine.delete_variable(|_| (), Context::cpu(0), stray).unwrap_err().kind(), kind);
        }
        engine.wait_for_all().unwrap();
        assert_eq!(engine.version(x).unwrap(), 0);
    });
}

#[test]
fn another_engines_variables_and_operators_are_refused() {
    on_every_engine(|engine| {
        let other = Engine::builder().kind(Kind::Naive).build().unwrap();
        let (own, foreign) = (engine.new_variable(), other.new_variable());
        let refused = [
            engine.op("mixed").reads([own]).writes([foreign]).push(nothing),
            engine.op("mixed").reads([foreign]).operator(|_| ()).map(|_| ()),
            engine.delete_variable(|_| (), Context::cpu(0), foreign),
            engine.wait_for_var(foreign),
            engine.version(foreign).map(|_| ()),
        ];
        for outcome in refused {
            let error = outcome.unwrap_err();
            assert_says(&error, ErrorKind::ForeignVariable, &["belongs to engine", "push to the engine that made it"]);
        }
        let step = other.op("step").operator(|_| ()).unwrap();
        let error = engine.push(&step, Context::cpu(0), 0).unwrap_err();
        assert_says(&error, ErrorKind::ForeignOperator, &["operator 'step'", "push it to the engine that made it"]);
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn devices_that_do_not_exist_are_refused() {
    on_every_engine(|engine| {
        let ran = Arc::new(AtomicUsize::new(0));
        let push = |context: Context| engine.op("where").context(context).push(counting(&ran));
        for context in [Context::cpu(1024), Context::cpu_pinned(u32::MAX), Context::gpu(1024)] {
            let error = push(context).unwrap_err();
            assert_says(&error, ErrorKind::UnknownDevice, &[&context.to_string(), "from 0 to 1023"]);
        }
        let error = push(Context::gpu(3)).unwrap_err();
        assert_says(&error, ErrorKind::DeviceUnavailable, &["gpu(3) cannot be used", "use cpu(i)"]);
        let x = engine.new_variable();
        let error = engine.delete_variable(|_| (), Context::gpu(0), x).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeviceUnavailable);
        engine.op("alive").writes([x]).push(nothing).expect("a refused deletion leaves the variable alive");
        let step = engine.op("where").operator(counting(&ran)).unwrap();
        assert_eq!(engine.push(&step, Context::gpu(0), 0).unwrap_err().kind(), ErrorKind::DeviceUnavailable);
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), 0);
    });
}

#[test]
fn a_full_engine_says_so_and_takes_more_when_there_is_room() {
    with_every_builder(|builder| {
        let engine = builder.bound(2).when_full(WhenFull::WouldBlock).build().unwrap();
        let x = engine.new_variable();
        let dropped = Arc::new(());
        for _ in 0..100 {
            let first = hold(&engine, &[], &[x]);
            engine.op("second").writes([x]).push(nothing).unwrap();
            let witness = Arc::clone(&dropped);
            let refused = engine.op("third").writes([x]).push(move |_| drop(witness));
            let say = ["2 operations are in flight", "as many as the bound allows", "wait, or raise it"];
            assert_says(&refused.unwrap_err(), ErrorKind::EngineFull, &say);
            assert_eq!(Arc::strong_count(&dropped), 1, "the refused closure is dropped");
            let refused = engine.delete_variable(|_| (), Context::cpu(0), x);
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::EngineFull);
            first.complete();
            engine.wait_for_var(x).unwrap();
            // The count goes down just after the variable is free.
            eventually("there is room", || engine.op("room").push(nothing).is_ok());
            engine.wait_for_all().unwrap();
            // Now there is room for two at once.
        }
        assert_eq!(engine.version(x).unwrap(), 200, "refused operations are no writes");
    });
}

#[test]
fn a_refused_push_gives_its_place_back_whatever_the_reason() {
    with_every_builder(|builder| {
        let engine = builder.bound(1).when_full(WhenFull::WouldBlock).build().unwrap();
        let [x, gone] = variables(&engine);
        engine.delete_variable(|_| (), Context::cpu(0), gone).unwrap();
        for _ in 0..10 {
            eventually("there is room", || engine.op("fits").writes([x]).push(nothing).is_ok());
            engine.wait_for_all().unwrap();
            engine.op("late").writes([gone]).push(nothing).unwrap_err();
            engine.op("nowhere").context(Context::gpu(0)).push(nothing).unwrap_err();
        }
        engine.stop().unwrap();
        assert_eq!(engine.op("stopped").push(nothing).unwrap_err().kind(), ErrorKind::Stopped);
        engine.start().unwrap();
        engine.op("fits").writes([x]).push(nothing).unwrap();
    });
}

#[test]
fn a_refused_closure_may_panic_in_its_destructor_without_losing_its_place() {
    with_every_builder(|builder| {
        let engine = builder.bound(1).when_full(WhenFull::WouldBlock).build().unwrap();
        let gone = engine.new_variable();
        engine.delete_variable(|_| (), Context::cpu(0), gone).unwrap();
        engine.wait_for_all().unwrap();
        for _ in 0..3 {
            let bomb = Bomb(1);
            let push = || {
                engine.op("late").writes([gone]).push(move |_| {
                    let _ = &bomb;
                })
            };
            // Whether the destructor's panic comes out of the push or is swallowed is not promised;
            // the place is.
            let _ = catch_unwind(AssertUnwindSafe(push));
            eventually("there is room", || engine.op("fits").push(nothing).is_ok());
            engine.wait_for_all().unwrap();
        }
    });
}

#[test]
fn a_stopped_engine_refuses_pushes_and_says_how_to_go_on() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let step = engine.op("step").writes([x]).operator(|_| ()).unwrap();
        engine.stop().unwrap();
        let refused = [
            engine.op("late").writes([x]).push(nothing),
            engine.op("late").property(Property::Async).push_async(|_, completion| completion.complete()),
            engine.push(&step, Context::cpu(0), 0),
            engine.delete_variable(|_| (), Context::cpu(0), x),
        ];
        for outcome in refused {
            assert_says(&outcome.unwrap_err(), ErrorKind::Stopped, &["the engine is stopped", "call start()"]);
        }
        engine.wait_for_var(x).expect("nothing is pending");
        engine.wait_for_all().expect("nothing is in flight");
        engine.start().unwrap();
        engine.push(&step, Context::cpu(0), 0).unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(engine.version(x).unwrap(), 1);
    });
}

#[test]
fn a_borrow_that_was_not_declared_is_an_error() {
    on_every_engine(|engine| {
        let data = Data::new(&engine, 1);
        let name = format!("{:?}", data.variable());
        let reader = data.read().unwrap();
        let error = data.write().unwrap_err();
        assert_says(
            &error,
            ErrorKind::BorrowConflict,
            &["cannot change", &name, "in use", "declare it with reads() or writes()"],
        );
        drop((reader, data.read().unwrap(), data.read().unwrap()));
        let writer = data.write().unwrap();
        let error = data.read().map(|_| ()).unwrap_err();
        assert_says(&error, ErrorKind::BorrowConflict, &["cannot read", &name, "being changed"]);
        // Inside an operation it fails the operation.
        let own = data.clone();
        engine.op("undeclared").push(move |_| own.write().map(|_| ())).unwrap();
        assert_says(&engine.wait_for_all().unwrap_err(), ErrorKind::UndeclaredAccess, &["'undeclared'", &name]);
        drop(writer);
        assert_eq!(*data.read().unwrap(), 1);
    });
}

#[test]
fn a_wait_that_runs_out_of_time_says_what_is_pending() {
    on_every_engine(|engine| {
        let [x, y] = variables(&engine);
        let first = hold(&engine, &[], &[x]);
        engine.op("behind").reads([x]).writes([y]).push(nothing).unwrap();
        let error = engine.wait_for_var_timeout(x, Duration::from_millis(2)).unwrap_err();
        assert_says(&error, ErrorKind::TimedOut, &[&format!("{x:?}"), "2ms", "running 'hold'", "behind it 'behind'"]);
        let error = engine.wait_for_var_timeout(y, Duration::from_millis(2)).unwrap_err();
        assert_says(&error, ErrorKind::TimedOut, &[&format!("{y:?}"), "pending 'behind'", "'hold'"]);
        let error = engine.wait_for_all_timeout(Duration::from_millis(2)).unwrap_err();
        assert_says(&error, ErrorKind::TimedOut, &["operations are in flight", "'hold'", "'behind'"]);
        first.complete();
        engine.wait_for_all_timeout(Duration::from_secs(60)).unwrap();
        engine.wait_for_var_timeout(y, Duration::from_secs(60)).unwrap();
    });
}

#[test]
fn a_wait_with_the_longest_of_all_timeouts_is_a_wait_without_one() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let completion = hold(&engine, &[], &[x]);
        let other = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            completion.complete();
        });
        engine.wait_for_var_timeout(x, Duration::MAX).unwrap();
        engine.wait_for_all_timeout(Duration::MAX).unwrap();
        other.join().unwrap();
    });
}

/// A wait with a limit does not help, whatever the limit is: an operation may take longer.
#[test]
fn a_wait_with_the_longest_of_all_timeouts_runs_no_operations() {
    for kind in [Kind::Pooled, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(1).build().unwrap();
        let x = engine.new_variable();
        let (completion, gate, ran) = (hold(&engine, &[], &[x]), Gate::new(), Arc::new(AtomicUsize::new(0)));
        let busy = gate.clone();
        engine.op("takes the only worker").push(move |_| busy.pass()).unwrap();
        gate.wait_for_someone();
        engine.op("other").push(counting(&ran)).unwrap();
        let other = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            completion.complete();
        });
        engine.wait_for_var_timeout(x, Duration::MAX).unwrap();
        assert_eq!(ran.load(SeqCst), 0, "{kind}: the wait has run an operation");
        gate.open();
        other.join().unwrap();
        engine.wait_for_all().unwrap();
    }
}
