//! Operations of a scope with a priority, a token or a deadline.

use crate::common::*;
use seriatim::{CancelToken, Engine, ErrorKind, Kind, RunContext, StartLimits, Write};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::Mutex;
use std::time::{Duration, Instant};

#[test]
fn among_ready_operations_the_urgent_ones_run_first() {
    let engine = Engine::builder().kind(Kind::Pooled).cpu_workers(1).waiters_help(false).build().unwrap();
    let (held, order) = (engine.new_variable(), Mutex::new(Vec::new()));
    engine
        .scope(|s| {
            // The worker is busy until all are ready.
            let (go, gone) = std::sync::mpsc::channel::<()>();
            s.op("first").write(held).push(move |_| gone.recv().expect("it is told"))?;
            for priority in [1, 3, -1, 0, 2] {
                s.op("then").priority(priority).push({
                    let order = &order;
                    move |_| order.lock().unwrap().push(priority)
                })?;
            }
            go.send(()).expect("it is there");
            Ok(())
        })
        .unwrap();
    assert_eq!(order.into_inner().unwrap(), [3, 2, 1, 0, -1]);
}

#[test]
fn what_is_cancelled_is_skipped_and_the_scope_says_so() {
    on_every_engine(|engine| {
        let (token, ran) = (CancelToken::new(), AtomicUsize::new(0));
        let step = |_: &RunContext<'_>| _ = ran.fetch_add(1, SeqCst);
        engine.scope(|s| s.op("in time").token(&token).push(step)).unwrap();
        token.cancel();
        let outcome = engine.scope(|s| {
            s.op("free").push(step)?;
            s.op("cancelled").priority(1).token(&token).push(step)?;
            s.op("free").push(step)
        });
        assert_says(&outcome.unwrap_err(), ErrorKind::Cancelled, &["cancelled"]);
        assert_eq!(ran.load(SeqCst), 3);
        engine.wait_for_all().expect("the scope has taken the error");
    });
}

#[test]
fn what_is_late_is_skipped_with_what_uses_its_part() {
    on_every_engine(|engine| {
        let (past, mut x, mut y) = (Instant::now() - Duration::from_millis(1), 1, 1);
        let outcome = engine.scope(|s| {
            let (x, y) = (s.part(&mut x), s.part(&mut y));
            s.op("in time").deadline(past + Duration::from_secs(600)).run(Write(&x), |x| *x = 2)?;
            s.op("late").deadline(past).run(Write(&x), |x| *x = 3)?;
            s.op("behind").limits(StartLimits::default()).run_with((&x, Write(&y)), |_, (x, y)| *y = *x)
        });
        assert_says(&outcome.unwrap_err(), ErrorKind::DeadlineExceeded, &["late"]);
        assert_eq!((x, y), (2, 1));
    });
}

#[test]
fn operations_inside_an_operation_are_cancelled_as_well() {
    on_every_engine(|engine| {
        let (token, ran) = (CancelToken::new(), std::sync::Arc::new(AtomicUsize::new(0)));
        let (inside, of, counted) = (engine.clone(), token.clone(), std::sync::Arc::clone(&ran));
        engine
            .op("outer")
            .push(move |_| {
                let mut sum = 0;
                let outcome = inside.scope(|s| {
                    let sum = s.part(&mut sum);
                    for step in 0..10 {
                        let (of, counted) = (&of, &counted);
                        s.op("step").priority(step).token(of).run(Write(&sum), move |sum| {
                            *sum += 1;
                            if counted.fetch_add(1, SeqCst) == 4 {
                                of.cancel();
                            }
                        })?;
                    }
                    Ok(())
                });
                assert_eq!((outcome.unwrap_err().kind(), sum), (ErrorKind::Cancelled, 5));
            })
            .unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), 5);
    });
}
