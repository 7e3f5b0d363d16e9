//! What cannot commute, and says so.

use crate::common::*;
use seriatim::{gpu::Immediate, Commute, Context, Engine, ErrorKind, Kind, Write};

fn refused(outcome: Result<(), seriatim::Error>, kind: ErrorKind, says: &str) {
    let error = outcome.expect_err("it is refused");
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(says), "{error}");
}

#[test]
fn what_was_not_made_for_it_does_not_commute() {
    on_every_engine(|engine| {
        let (x, y) = (engine.value(1), engine.commutative(1));
        let (kind, says) = (ErrorKind::CannotCommute, "make it by Engine::new_commutative_variable");
        refused(engine.op("add").run(Commute(&x), |x| *x += 1), kind, says);
        refused(engine.op("add").commutes([&y, &x]).push(nothing), kind, says);
        let step = engine.op("step").operator_on((&y, Commute(&x)), |_| ()).unwrap();
        refused(engine.push(&step, Context::cpu(0), 0), kind, says);
        refused(engine.capture(|c| c.op("add").run(Commute(&x), |_| ())).map(|_| ()), kind, says);
        // Pushed to before, and by another thread.
        engine.op("write").run(Write(&x), |x| *x += 1).unwrap();
        refused(engine.op("add").run(Commute(&x), |x| *x += 1), kind, says);
        std::thread::scope(|scope| {
            scope.spawn(|| refused(engine.op("add").run(Commute(&x), |x| *x += 1), kind, says));
        });
        // Nothing of it was pushed.
        engine.wait_for_all().unwrap();
        assert_eq!((*x.read().unwrap(), *y.read().unwrap()), (2, 1));
    });
}

#[test]
fn a_value_is_lent_once_also_to_commute() {
    on_every_engine(|engine| {
        let x = engine.commutative(1);
        let kind = ErrorKind::BorrowConflict;
        refused(engine.op("twice").run((Commute(&x), Commute(&x)), |_| ()), kind, "twice");
        refused(engine.op("twice").run((&x, Commute(&x)), |_| ()), kind, "twice");
        refused(engine.op("twice").run((Commute(&x), Write(&x)), |_| ()), kind, "twice");
        // Without a reference they are merged, and the strictest counts.
        engine.op("merged").commutes([&x, &x]).writes([&x]).reads([&x]).push(nothing).unwrap();
        engine.op("merged").reads([&x]).commutes([&x]).push(nothing).unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(engine.version(x.variable()).unwrap(), 2);
    });
}

#[test]
fn handles_that_lead_nowhere_are_told_as_ever() {
    let (engine, other) = (Engine::new().unwrap(), Engine::new().unwrap());
    let (gone, foreign) = (engine.new_commutative_variable(), other.new_commutative_variable());
    engine.delete_variable(|_| (), Context::cpu(0), gone).unwrap();
    refused(engine.op("add").commutes([gone]).push(nothing), ErrorKind::VariableDeleted, "was deleted");
    refused(engine.op("add").commutes([foreign]).push(nothing), ErrorKind::ForeignVariable, "belongs to engine");
}

#[test]
fn devices_read_and_write_what_commutes_and_do_not_commute() {
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(2).gpus(Immediate::new(1)).build().unwrap();
        let x = engine.commutative(0);
        let on_device = engine.op("add").context(Context::gpu(0)).run(Commute(&x), |x| *x += 1);
        refused(on_device, ErrorKind::CannotCommute, "only operations of the processor do");
        for _ in 0..20 {
            engine.op("add").run(Commute(&x), |x| *x += 1).unwrap();
            engine.op("add").run(Commute(&x), |x| *x += 1).unwrap();
            engine.op("look").context(Context::gpu(0)).run(&x, |x| assert_eq!(*x % 3, 2)).unwrap();
            engine.op("look").run(&x, |x| assert_eq!(*x % 3, 2)).unwrap();
            engine.op("write").context(Context::gpu(0)).run(Write(&x), |x| *x += 1).unwrap();
        }
        engine.wait_for_all().unwrap();
        assert_eq!(*x.read().unwrap(), 60);
    }
}
