//! One value is not lent twice, once to be changed: the push says so, and nothing is pushed.

use crate::common::*;
use seriatim::{Engine, Error, ErrorKind, Value, Write};
use std::sync::Arc;

/// Tries a push that names `x` twice: it is refused, its closure dropped, and nothing is pushed.
fn is_refused(engine: &Engine, x: &Value<usize>, push: impl FnOnce(Arc<()>) -> Result<(), Error>) {
    let (held, version) = (Arc::new(()), engine.version(x.variable()).unwrap());
    let error = push(Arc::clone(&held)).expect_err("it names a value twice");
    assert_says(&error, ErrorKind::BorrowConflict, &["twice", "Write()", &format!("{:?}", x.variable())]);
    assert_eq!(Arc::strong_count(&held), 1, "the closure is dropped");
    engine.wait_for_all().unwrap();
    assert_eq!(engine.version(x.variable()).unwrap(), version, "it was not pushed");
}

#[test]
fn a_value_is_not_lent_twice_once_to_be_changed() {
    on_every_engine(|engine| {
        let values: Vec<Value<usize>> = (0..30).map(|number| engine.value(number)).collect();
        let (x, y) = (&values[4], &values[20]);
        // The second time the thread owns the variables.
        for _ in 0..2 {
            is_refused(&engine, x, |held| engine.op("alias").run((x, Write(x)), move |(_, _)| drop(held)));
            is_refused(&engine, x, |held| engine.op("alias").run((Write(x), Write(x)), move |(_, _)| drop(held)));
            is_refused(&engine, x, |held| engine.op("alias").run([Write(x), Write(x)], move |_| drop(held)));
            is_refused(&engine, x, |held| {
                engine.op("alias").run((Some(x), y, Some(Write(x))), move |(_, _, _)| drop(held))
            });
            let clone = x.clone();
            is_refused(&engine, x, |held| engine.op("alias").run((Write(&clone), x), move |(_, _)| drop(held)));
            // Few, so many that the quick ways take the operation otherwise, and many.
            for length in [5, 8, 9, 25, 30] {
                let some = &values[..length];
                is_refused(&engine, x, |held| engine.op("alias").run((some, Write(x)), move |_| drop(held)));
                is_refused(&engine, x, |held| engine.op("alias").run((Write(some), x), move |_| drop(held)));
                is_refused(&engine, x, |held| engine.op("alias").run((x, Write(some)), move |_| drop(held)));
            }
            // Closures that are boxed.
            let bytes = [0_u8; 700];
            is_refused(&engine, x, |held| engine.op("alias").run((x, Write(x)), move |_| drop((held, bytes))));
            is_refused(&engine, x, |held| engine.op("alias").run_with((x, Write(x)), move |_, _| drop((held, bytes))));
            // With other claims before.
            is_refused(&engine, x, |held| engine.op("alias").write(y).read(x).run((x, Write(x)), move |_| drop(held)));
            is_refused(&engine, x, |held| {
                let record = |c: &mut seriatim::Capture| c.op("alias").run((x, Write(x)), move |_| _ = &held);
                engine.capture(record).map(drop)
            });
            is_refused(&engine, x, |held| engine.op("alias").operator_on((x, Write(x)), move |_| _ = &held).map(drop));
        }
    });
}

#[test]
fn a_value_is_lent_as_often_as_one_likes_to_be_read() {
    on_every_engine(|engine| {
        let values: Vec<Value<usize>> = (0..30).map(|number| engine.value(number)).collect();
        let sum = engine.value(0);
        for _ in 0..5 {
            let (x, all) = (&values[4], &values[..]);
            engine
                .op("sum")
                .run((x, [x, x], all, all, Write(&sum)), |(x, pair, all, again, sum)| {
                    *sum += x + pair.into_iter().sum::<usize>() + all[29] + again.iter().sum::<usize>();
                })
                .unwrap();
        }
        assert_eq!(*sum.read().unwrap(), 5 * (12 + 29 + 435));
    });
}

/// A variable that the operation has declared besides is ordered with it, and is no alias.
#[test]
fn a_raw_claim_of_a_value_is_no_alias() {
    on_every_engine(|engine| {
        let x = engine.value(0);
        engine.op("raw").write(&x).reads([&x, &x]).run(&x, |x| assert_eq!(*x, 0)).unwrap();
        engine.op("raw").read(&x).run(Write(&x), |x| *x += 1).unwrap();
        assert_eq!(*x.read().unwrap(), 1);
        assert_eq!(engine.version(x.variable()).unwrap(), 2);
    });
}
