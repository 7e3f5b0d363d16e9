//! Inside an operation, a value may be borrowed as the operation has declared it.

use crate::common::*;
use seriatim::{Capture, Completion, Context, Data, Engine, Error, ErrorKind, RunContext};
use std::sync::{Arc, Mutex};

type Found = Vec<Result<(), Error>>;

/// Three values, of which the operations below declare that they read the first and change the
/// second, and a place for outcomes.
#[derive(Clone)]
struct Values {
    read: Data<u32>,
    written: Data<u32>,
    other: Data<u32>,
    found: Arc<Mutex<Found>>,
}

impl Values {
    fn new(engine: &Engine) -> Values {
        let [read, written, other] = [(); 3].map(|()| Data::new(engine, 0));
        Values { read, written, other, found: Arc::default() }
    }

    /// Borrows all of them, in every way.
    fn borrow(&self) -> Found {
        let Values { read, written, other, .. } = self;
        vec![
            read.read().map(drop),
            read.write().map(drop),
            written.read().map(drop),
            written.write().map(drop),
            other.read().map(drop),
            other.write().map(drop),
        ]
    }

    fn note(&self) {
        *self.found.lock().unwrap() = self.borrow();
    }

    /// What was found by the operation `name`.
    #[track_caller]
    fn check(&self, name: &str) {
        let found = std::mem::take(&mut *self.found.lock().unwrap());
        let kinds: Vec<_> = found.iter().map(|outcome| outcome.as_ref().map_err(Error::kind).copied()).collect();
        let refused = Err(ErrorKind::UndeclaredAccess);
        assert_eq!(kinds, [Ok(()), refused, Ok(()), Ok(()), refused, refused], "{name}");
        let says = |at: usize, variable: seriatim::Variable, what: &str| {
            let (operation, variable) = (format!("operation '{name}'"), format!("{variable:?}"));
            let error = found[at].as_ref().unwrap_err();
            assert_says(error, ErrorKind::UndeclaredAccess, &[&operation, &variable, what]);
        };
        says(1, self.read.variable(), "declared to read");
        says(4, self.other.variable(), "not declared");
        says(5, self.other.variable(), "not declared");
    }
}

/// Runs it again and again: `inline_below` learns what it costs, and then it runs inside its push.
const ROUNDS: usize = 40;

#[test]
fn an_operation_borrows_what_it_has_declared() {
    on_every_engine(|engine| {
        let v = Values::new(&engine);
        for _ in 0..ROUNDS {
            let own = v.clone();
            engine.op("plain").reads([&v.read]).writes([&v.written]).push(move |_| own.note()).unwrap();
            engine.wait_for_all().unwrap();
            v.check("plain");
        }
        let own = v.clone();
        let step = engine.op("operator").reads([&v.read]).writes([&v.written]).operator(move |_| own.note()).unwrap();
        for _ in 0..ROUNDS {
            engine.push(&step, Context::cpu(0), 0).unwrap();
            engine.wait_for_all().unwrap();
            v.check("operator");
        }
    });
}

#[test]
fn an_asynchronous_one_does_while_its_closure_is_called_even_after_its_end() {
    on_every_engine(|engine| {
        let v = Values::new(&engine);
        // Few variables, and more than are kept in place.
        for more in [0, 20] {
            let more: Vec<_> = (0..more).map(|_| engine.new_variable()).collect();
            let own = v.clone();
            let start = move |_: &RunContext<'_>, completion: Completion| {
                own.note();
                own.check("asynchronous");
                completion.complete();
                own.note();
            };
            let builder = engine.op("asynchronous").reads([&v.read]).writes([&v.written]).reads(more);
            builder.push_async(start).unwrap();
            engine.stop().unwrap();
            engine.start().unwrap();
            v.check("asynchronous");
        }
    });
}

#[test]
fn each_operation_of_a_graph_does() {
    on_every_engine(|engine| {
        let v = Values::new(&engine);
        let own = v.clone();
        let record = |c: &mut Capture| {
            let [first, second] = [own.clone(), own.clone()];
            // Another one declares what these have not.
            c.op("before").writes([&own.read, &own.other]).push(nothing)?;
            c.op("in a graph").reads([&own.read]).writes([&own.written]).push(move |_| {
                first.note();
                first.check("in a graph");
            })?;
            c.op("asynchronous").reads([&own.read]).writes([&own.written]).push_async(move |_, completion| {
                second.note();
                completion.complete();
            })
        };
        let (graph, ()) = engine.capture(record).unwrap();
        let (empty, ()) = engine.capture(|_| Ok(())).unwrap();
        for _ in 0..3 {
            graph.replay().unwrap();
            empty.replay().unwrap();
            engine.wait_for_all().unwrap();
            v.check("asynchronous");
        }
        let own = v.clone();
        let record =
            |c: &mut Capture| c.op("plain graph").reads([&v.read]).writes([&v.written]).push(move |_| own.note());
        engine.capture(record).unwrap().0.replay().unwrap();
        engine.wait_for_all().unwrap();
        v.check("plain graph");
    });
}

#[test]
fn the_innermost_of_the_values_engine_counts() {
    on_every_engine(|engine| {
        let v = Values::new(&engine);
        let other = Engine::builder().kind(seriatim::Kind::Naive).build().unwrap();
        for _ in 0..ROUNDS {
            let (own, inner, foreign) = (v.clone(), engine.clone(), other.clone());
            let outer = move |_: &RunContext<'_>| {
                // An operation of another engine, inside of this one.
                let values = own.clone();
                foreign.op("elsewhere").push(move |_| values.note()).unwrap();
                own.check("outer");
                // One of this engine, which declares nothing and may run inside its push.
                let values = own.clone();
                let nothing = move |_: &RunContext<'_>| {
                    let found = values.borrow();
                    assert!(found.iter().all(|outcome| outcome.is_err()), "{found:?}");
                };
                inner.op("inner").push(nothing).unwrap();
                own.note();
            };
            engine.op("outer").reads([&v.read]).writes([&v.written]).push(outer).unwrap();
            engine.wait_for_all().unwrap();
            v.check("outer");
        }
        assert!(v.borrow().iter().all(Result::is_ok), "outside, nothing is declared");
    });
}

#[test]
fn a_deletion_may_change_what_it_deletes() {
    on_every_engine(|engine| {
        let v = Values::new(&engine);
        let own = v.clone();
        let last = move |_: &RunContext<'_>| {
            let found = own.borrow();
            let errors: Vec<_> = found.iter().map(|outcome| outcome.is_err()).collect();
            assert_eq!(errors, [true, true, false, false, true, true]);
        };
        engine.delete_variable(last, Context::cpu(0), v.written.variable()).unwrap();
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn a_deleted_variable_is_not_the_one_that_has_its_place() {
    on_every_engine(|engine| {
        let gone = Data::new(&engine, 0);
        let gone_index = gone.variable().into_raw().0;
        engine.delete_variable(|_| (), Context::cpu(0), gone.variable()).unwrap();
        engine.wait_for_all().unwrap();
        // Places come back once nobody can look at them.
        let mut places = std::iter::repeat_with(|| Data::new(&engine, 0)).take(1 << 20);
        let after = places.find(|data| data.variable().into_raw().0 == gone_index).expect("the place is used again");
        for round in 0..ROUNDS {
            let found = Arc::new(Mutex::new(None));
            let (values, own) = ([gone.clone(), after.clone()], Arc::clone(&found));
            let look =
                move || *own.lock().unwrap() = Some(values.map(|data| data.write().map(drop).map_err(|e| e.kind())));
            let own = Mutex::new(look);
            let op = engine.op("uses the place").writes([&after]);
            match round % 2 {
                0 => op.push(move |_: &RunContext<'_>| own.into_inner().unwrap()()).unwrap(),
                _ => op
                    .push_async(move |_: &RunContext<'_>, completion: Completion| {
                        own.into_inner().unwrap()();
                        completion.complete();
                    })
                    .unwrap(),
            }
            engine.wait_for_all().unwrap();
            assert_eq!(found.lock().unwrap().take(), Some([Err(ErrorKind::UndeclaredAccess), Ok(())]));
        }
        let found = Arc::new(Mutex::new(None));
        let (values, own) = ([gone.clone(), after.clone()], Arc::clone(&found));
        let (graph, ()) = engine
            .capture(|c| {
                c.op("captured").write(&after).push(move |_| {
                    *own.lock().unwrap() =
                        Some(values.each_ref().map(|data| data.write().map(drop).map_err(|e| e.kind())));
                })
            })
            .unwrap();
        graph.replay().unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(found.lock().unwrap().take(), Some([Err(ErrorKind::UndeclaredAccess), Ok(())]));
        // A deletion that is pushed does not end what was declared before it.
        let (last, held) = (after.clone(), hold(&engine, &[], &[after.variable()]));
        engine.op("last").writes([&after]).push(move |_: &RunContext<'_>| last.write().map(drop)).unwrap();
        engine.delete_variable(|_| (), Context::cpu(0), after.variable()).unwrap();
        held.complete();
        engine.wait_for_all().unwrap();
    });
}
