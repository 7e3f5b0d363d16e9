//! Every way of a push takes a token, and what becomes of each when it is cancelled.

use crate::common::*;
use crate::rules::assert_cancelled;
use seriatim::gpu::Immediate;
use seriatim::{CancelToken, Context, Data, Engine, Error, ErrorKind, Kind, Property, StartLimits, Write};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A push of an operation that counts its runs, on the variable.
type Way = fn(&Engine, seriatim::Variable, &Arc<AtomicUsize>, StartLimits) -> Result<(), Error>;

/// The ways that end without more, each with its name.
const WAYS: [(&str, Way); 9] = [
    ("push", |engine, x, ran, limits| limited(engine, x, limits, |op| op.push(counting(ran)))),
    ("large", |engine, x, ran, limits| {
        let (ballast, count) = ([1_u8; 600], counting(ran));
        limited(engine, x, limits, |op| {
            op.push(move |run| {
                std::hint::black_box(&ballast);
                count(run);
            })
        })
    }),
    ("push_async", |engine, x, ran, limits| {
        let count = counting(ran);
        limited(engine, x, limits, |op| {
            op.push_async(move |run, completion| {
                count(run);
                completion.complete();
            })
        })
    }),
    ("compute", |engine, x, ran, limits| {
        let count = counting(ran);
        limited(engine, x, limits, |op| op.compute(move |run| count(run)).map(drop))
    }),
    ("try_compute", |engine, x, ran, limits| {
        let count = counting(ran);
        limited(engine, x, limits, |op| {
            op.try_compute(move |run| {
                count(run);
                Ok::<(), Error>(())
            })
            .map(drop)
        })
    }),
    ("run", |engine, x, ran, limits| {
        let (value, ran) = (engine.value(0), Arc::clone(ran));
        limited(engine, x, limits, |op| {
            op.run(Write(&value), move |value| {
                *value += 1;
                ran.fetch_add(*value, SeqCst);
            })
        })
    }),
    ("push_future", |engine, x, ran, limits| {
        let ran = Arc::clone(ran);
        limited(engine, x, limits, |op| op.push_future(async move { _ = ran.fetch_add(1, SeqCst) }))
    }),
    ("operator", |engine, x, ran, limits| {
        let operator = engine.op("operation").write(x).operator(counting(ran))?;
        engine.push_limited(&operator, Context::cpu(0), 0, limits)
    }),
    ("async operator", |engine, x, ran, limits| {
        let count = counting(ran);
        let builder = engine.op("operation").write(x);
        let operator = builder.async_operator(move |run, completion| {
            count(run);
            completion.complete();
        })?;
        engine.push_limited(&operator, Context::cpu(2), 3, limits)
    }),
];

/// Gives a builder these limits, which have a token.
fn limited(
    engine: &Engine,
    x: seriatim::Variable,
    limits: StartLimits,
    push: impl FnOnce(seriatim::LimitedBuilder<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    push(engine.op("operation").write(x).limits(limits))
}

#[test]
fn every_way_starts_within_its_limits_and_not_beyond_them() {
    on_every_engine(|engine| {
        for (name, way) in WAYS {
            let (x, token, ran) = (engine.new_variable(), CancelToken::new(), Arc::new(AtomicUsize::new(0)));
            let later = Instant::now() + Duration::from_secs(600);
            way(&engine, x, &ran, (&token).into()).unwrap();
            way(&engine, x, &ran, StartLimits::from(&token).deadline(later)).unwrap();
            way(&engine, x, &ran, StartLimits::new()).unwrap();
            engine.wait_for_all().unwrap();
            assert_eq!(ran.load(SeqCst), 3, "{name}");
            let held = hold(&engine, &[], &[x]);
            way(&engine, x, &ran, StartLimits::from(&token).deadline(later)).unwrap();
            token.cancel();
            held.complete();
            assert_cancelled(engine.wait_for_var(x), "operation");
            way(&engine, x, &ran, (&token).into()).unwrap();
            assert_cancelled(engine.wait_for_var(x), "operation");
            way(&engine, x, &ran, Instant::now().checked_sub(Duration::from_millis(1)).unwrap().into()).unwrap();
            assert_says(
                &engine.wait_for_var(x).unwrap_err(),
                ErrorKind::DeadlineExceeded,
                &["operation 'operation' failed: its turn came", "after its deadline"],
            );
            way(&engine, x, &ran, StartLimits::new()).unwrap();
            engine.wait_for_all().unwrap();
            assert_eq!(ran.load(SeqCst), 4, "{name}");
            assert_eq!(engine.version(x).unwrap(), 8, "{name}");
        }
    });
}

#[test]
fn a_result_is_the_error() {
    on_every_engine(|engine| {
        let token = CancelToken::new();
        let (x, held) = (engine.new_variable(), CancelToken::new());
        let gate = hold(&engine, &[], &[x]);
        let sum = engine.op("sum").read(x).token(&token).compute(|_| 42).unwrap();
        let parsed = engine.op("parsed").read(x).token(&held).try_compute(|_| "12".parse::<u32>()).unwrap();
        token.cancel();
        gate.complete();
        let error = sum.wait().unwrap_err();
        assert_says(&error, ErrorKind::Cancelled, &["operation 'sum' failed"]);
        assert_eq!(parsed.wait().unwrap(), 12);
        // The result has taken it.
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn a_value_stays_as_it_was_and_is_marked() {
    on_every_engine(|engine| {
        let (x, y, token) = (engine.value(1), engine.value(10), CancelToken::new());
        engine.op("add").token(&token).run((&x, Write(&y)), |(x, y)| *y += x).unwrap();
        engine.wait_for_all().unwrap();
        token.cancel();
        engine.op("add").token(&token).run_with((&x, Write(&y)), |run, (_, y)| *y = run.name().len()).unwrap();
        engine.op("use").run((Write(&x), &y), |(x, y)| *x = *y).unwrap();
        assert_eq!(x.read().unwrap_err().kind(), ErrorKind::Cancelled);
        assert_eq!((*x.read().unwrap(), *y.read().unwrap()), (1, 11));
    });
}

#[test]
fn where_an_operation_runs_changes_nothing() {
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(2).gpus(Immediate::new(1)).build().unwrap();
        let contexts = [Context::cpu(0), Context::cpu(1), Context::gpu(0)];
        for (context, property) in contexts.into_iter().flat_map(|c| PROPERTIES.into_iter().map(move |p| (c, p))) {
            let (x, token, ran) = (engine.new_variable(), CancelToken::new(), Arc::new(AtomicUsize::new(0)));
            let push = |asynchronous: bool| {
                let count = counting(&ran);
                let op = engine.op("placed").write(x).context(context).property(property).priority(1).token(&token);
                match asynchronous {
                    false => op.push(count).unwrap(),
                    true => op
                        .push_async(move |run, completion| {
                            count(run);
                            completion.complete();
                        })
                        .unwrap(),
                }
            };
            [false, true].into_iter().for_each(push);
            engine.wait_for_all().unwrap();
            assert_eq!(ran.load(SeqCst), 2, "{kind:?} {context} {property:?}");
            token.cancel();
            for asynchronous in [false, true] {
                push(asynchronous);
                assert_cancelled(engine.wait_for_var(x), "placed");
            }
            engine.wait_for_all().unwrap();
            assert_eq!(ran.load(SeqCst), 2, "{kind:?} {context} {property:?}");
        }
    }
}

const PROPERTIES: [Property; 8] = [
    Property::Normal,
    Property::CopyFromGpu,
    Property::CpuPrioritized,
    Property::GpuPrioritized,
    Property::Async,
    Property::NoSkip,
    Property::Short,
    Property::Io,
];

/// The closure is long, and only the skipped calls of it are short.
#[test]
fn skipped_calls_do_not_make_a_closure_run_in_its_push() {
    let engine = Engine::builder().cpu_workers(1).waiters_help(false).inline_below(Duration::from_micros(20)).build();
    let engine = engine.unwrap();
    let (token, own) = (CancelToken::new(), std::thread::current().id());
    let here = Arc::new(AtomicUsize::new(0));
    let push = |token: &CancelToken| {
        let (sync, starts) = (Arc::clone(&here), Arc::clone(&here));
        let body = move |here: &AtomicUsize| {
            spin(Duration::from_millis(1));
            here.fetch_add(usize::from(std::thread::current().id() == own), SeqCst);
        };
        engine.op("long").token(token).push(move |_| body(&sync)).unwrap();
        let start = move |_: &seriatim::RunContext<'_>, completion: seriatim::Completion| {
            body(&starts);
            completion.complete();
        };
        engine.op("long").token(token).push_async(start).unwrap();
    };
    token.cancel();
    (0..1_000).for_each(|_| push(&token));
    engine.wait_for_all().unwrap_err();
    push(&CancelToken::new());
    engine.wait_for_all().unwrap();
    assert_eq!(here.load(SeqCst), 0, "it ran in its push");
}

#[test]
fn borrows_are_compared_with_what_is_declared_as_without_limits() {
    on_every_engine(|engine| {
        let (x, y, token) = (Data::new(&engine, 1), Data::new(&engine, 2), CancelToken::new());
        let (from, to) = (x.clone(), y.clone());
        let add = move |_: &seriatim::RunContext<'_>| {
            *to.write()? += *from.read()?;
            Ok::<(), Error>(())
        };
        engine.op("declared").read(&x).write(&y).token(&token).push(add.clone()).unwrap();
        engine.wait_for_all().unwrap();
        engine.op("undeclared").read(&x).token(&token).push(add).unwrap();
        assert_eq!(engine.wait_for_all().unwrap_err().kind(), ErrorKind::UndeclaredAccess);
        assert_eq!(*y.read().unwrap(), 3);
    });
}
