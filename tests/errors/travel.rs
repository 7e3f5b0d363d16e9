//! Failures travel along variables, and are taken once.

use crate::common::*;
use crate::helpers::*;
use seriatim::{Context, Engine, Kind, Property, RunContext, Variable};
use std::error::Error;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::Arc;

#[test]
fn an_error_travels_through_readers_and_writers_and_is_cleared_everywhere_by_the_first_wait() {
    on_every_engine(|engine| {
        let ran = Arc::new(AtomicUsize::new(0));
        let [a, b, c, d, clean] = variables(&engine);
        for taker in [a, b, c, d] {
            ran.store(0, SeqCst);
            let before = versions(&engine, [a, b, c, d, clean]);
            engine.op("fails").writes([a, b]).push(|_| Err("the source")).unwrap();
            engine.op("reads it").reads([a]).writes([c]).push(counting(&ran)).unwrap();
            engine.op("passes it on").reads([c, clean]).writes([d]).push(counting(&ran)).unwrap();
            engine.op("overwrites it").writes([b]).push(counting(&ran)).unwrap();
            engine.op("only reads").reads([d]).push(counting(&ran)).unwrap();
            engine.op("is not concerned").writes([clean]).push(counting(&ran)).unwrap();
            settle(&engine);
            assert_eq!(ran.load(SeqCst), 1, "all but one are skipped");
            let steps = versions(&engine, [a, b, c, d, clean])
                .iter()
                .zip(before)
                .map(|(now, then)| now - then)
                .collect::<Vec<_>>();
            assert_eq!(steps, [1, 2, 1, 1, 1], "failed and skipped operations step versions");
            engine.wait_for_var(clean).expect("it is not marked");
            let error = engine.wait_for_var(taker).unwrap_err();
            assert_eq!(
                error.operation(),
                Some("fails"),
                "the error of the operation that failed, not of a skipped one"
            );
            assert_failed(Err(error), "the source");
            [a, b, c, d].into_iter().for_each(|v| engine.wait_for_var(v).expect("it was taken"));
            engine.op("works again").reads([a, c]).writes([b, d]).push(counting(&ran)).unwrap();
            engine.wait_for_all().unwrap();
            assert_eq!(ran.load(SeqCst), 2);
        }
    });
}

#[test]
fn a_no_skip_operation_runs_and_passes_the_mark_on() {
    on_every_engine(|engine| {
        let ran = Arc::new(AtomicUsize::new(0));
        let [x, y, z] = variables(&engine);
        engine.op("fails").writes([x]).push(|_| Err("bad")).unwrap();
        engine.op("runs").reads([x]).writes([y]).property(Property::NoSkip).push(counting(&ran)).unwrap();
        engine.op("runs").writes([x]).property(Property::NoSkip).push(counting(&ran)).unwrap();
        engine.op("is skipped").reads([y]).writes([z]).push(counting(&ran)).unwrap();
        engine.op("is skipped").reads([x]).push(counting(&ran)).unwrap();
        settle(&engine);
        assert_eq!(ran.load(SeqCst), 2);
        assert_failed(engine.wait_for_var(z), "bad");
        engine.wait_for_all().unwrap();
        // One that fails itself leaves its own error.
        engine.op("fails").writes([x]).push(|_| Err("older")).unwrap();
        engine.op("fails too").reads([x]).writes([y]).property(Property::NoSkip).push(|_| Err("newer")).unwrap();
        settle(&engine);
        assert_failed(engine.wait_for_var(y), "newer");
        assert_failed(engine.wait_for_all(), "older");
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn a_deletion_runs_on_a_marked_variable() {
    on_every_engine(|engine| {
        let ran = Arc::new(AtomicUsize::new(0));
        let x = engine.new_variable();
        engine.op("fails").writes([x]).push(|_| Err("the last write")).unwrap();
        engine.delete_variable(counting(&ran), Context::cpu(0), x).unwrap();
        assert_failed(engine.wait_for_all(), "the last write");
        assert_eq!(ran.load(SeqCst), 1);
        // A deletion's own error is not lost either.
        let x = engine.new_variable();
        engine.delete_variable(|_| Err("cannot free"), Context::cpu(0), x).unwrap();
        assert_failed(engine.wait_for_all(), "cannot free");
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn a_new_variable_in_a_marked_one_s_place_is_clean() {
    on_every_engine(|engine| {
        for _ in 0..200 {
            let x = engine.new_variable();
            engine.wait_for_var(x).expect("new variables carry no marks");
            engine.op("fails").writes([x]).push(|_| Err("old")).unwrap();
            engine.delete_variable(|_| (), Context::cpu(0), x).unwrap();
        }
        assert_failed(engine.wait_for_all(), "old");
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn waiting_for_everything_returns_the_first_error_in_push_order_and_clears_all() {
    on_every_engine(|engine| {
        let count = 300;
        let [gate, clean] = variables(&engine);
        let outputs: Vec<Variable> = (0..count).map(|_| engine.new_variable()).collect();
        let ran = Arc::new(AtomicUsize::new(0));
        // The first to be pushed is the last to fail.
        let first = hold(&engine, &[], &[gate]);
        for (number, output) in outputs.iter().enumerate() {
            let reads = if number == 0 { [gate] } else { [clean] };
            engine.op("fails").reads(reads).writes([*output]).push(move |_| Err(format!("number {number}"))).unwrap();
        }
        eventually("all others have failed", || {
            outputs[1..].iter().all(|output| engine.version(*output).unwrap() == 1)
        });
        first.complete();
        assert_failed(engine.wait_for_all(), "number 0");
        engine.wait_for_all().unwrap();
        for output in &outputs {
            engine.wait_for_var(*output).expect("all are cleared");
            engine.op("runs").writes([*output]).push(counting(&ran)).unwrap();
        }
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), count);
    });
}

#[test]
fn what_was_taken_from_a_variable_is_not_returned_again() {
    on_every_engine(|engine| {
        let [x, y] = variables(&engine);
        engine.op("first").writes([x]).push(|_| Err("first")).unwrap();
        engine.op("second").writes([y]).push(|_| Err("second")).unwrap();
        assert_failed(engine.wait_for_var(x), "first");
        assert_failed(engine.wait_for_all(), "second");
        engine.wait_for_var(y).unwrap();
    });
}

/// Both depend on the failed operation, were pushed before the wait, and come to run after it.
#[test]
fn what_the_waiting_thread_pushed_before_its_wait_is_skipped_and_what_others_pushed_runs() {
    on_every_engine(|engine| {
        let [x, late] = variables(&engine);
        let held = hold(&engine, &[], &[late]);
        let [own, other] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
        engine.op("fails").writes([x]).push(|_| Err("no paper")).unwrap();
        let push = |count: &Arc<AtomicUsize>| engine.op("reads").reads([x, late]).push(counting(count)).unwrap();
        push(&own);
        std::thread::scope(|scope| scope.spawn(|| push(&other)).join()).unwrap();
        assert_failed(engine.wait_for_var(x), "no paper");
        held.complete();
        engine.wait_for_all().unwrap();
        assert_eq!((own.load(SeqCst), other.load(SeqCst)), (0, 1), "on {}", engine.kind());
    });
}

#[test]
fn a_failing_operation_without_variables_to_change_is_not_lost() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        engine.op("nothing").push(|_| Err("nothing changed")).unwrap();
        engine.op("only reads").reads([x]).push(|_| Err("nothing changed either")).unwrap();
        settle(&engine);
        engine.wait_for_var(x).expect("a reader marks nothing");
        assert_failed(engine.wait_for_all(), "nothing changed");
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn an_error_survives_a_stop_and_a_start() {
    on_every_engine(|engine| {
        let [x, y] = variables(&engine);
        engine.op("fails").writes([x]).push(|_| Err("kept")).unwrap();
        engine.op("fails").writes([y]).push(|_| Err("kept as well")).unwrap();
        engine.stop().unwrap();
        assert_failed(engine.wait_for_var(x), "kept");
        engine.start().unwrap();
        assert_failed(engine.wait_for_all(), "kept as well");
    });
}

#[test]
fn one_of_several_threads_that_wait_gets_the_error() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        for _ in 0..50 {
            let completion = hold(&engine, &[], &[x]);
            let waiters: Vec<_> = (0..4)
                .map(|_| {
                    let engine = engine.clone();
                    std::thread::spawn(move || engine.wait_for_var(x).is_err())
                })
                .collect();
            completion.fail("for one of you");
            let errors = waiters.into_iter().map(|waiter| waiter.join().unwrap()).filter(|error| *error).count();
            assert_eq!(errors, 1);
            engine.wait_for_all().unwrap();
        }
    });
}

#[test]
fn many_operations_fail_at_once_on_many_workers() {
    // The original corrupts memory here.
    let _watchdog = Watchdog::new(300, "many failures at once");
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        for round in 0..4 {
            let engine = Engine::builder().kind(kind).cpu_workers(8).build().unwrap();
            let shared: Vec<Variable> = (0..16).map(|_| engine.new_variable()).collect();
            let bodies = Arc::new(AtomicUsize::new(0));
            let pusher = |seed: u64| {
                let (engine, shared, bodies) = (engine.clone(), shared.clone(), Arc::clone(&bodies));
                move || {
                    let mut random = Random(seed);
                    for number in 0..1_000 {
                        let bodies = Arc::clone(&bodies);
                        let read = random.pick(&shared);
                        let writes = [random.pick(&shared), random.pick(&shared)];
                        let fail = move |_: &RunContext<'_>| {
                            bodies.fetch_add(1, SeqCst);
                            match number % 3 {
                                0 => Err(format!("number {number}")),
                                1 => resume_unwind(Box::new("panic")),
                                _ => Ok(()),
                            }
                        };
                        engine.op("fails").reads([read]).writes(writes).push(fail).unwrap();
                        engine.op("fails alone").push(|_| panic_quietly("alone")).unwrap();
                        if random.chance(10) {
                            let _ = engine.wait_for_var(random.pick(&shared));
                        }
                    }
                }
            };
            let threads: Vec<_> = (0..4).map(|thread| std::thread::spawn(pusher(round * 4 + thread))).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            engine.wait_for_all().unwrap_err();
            engine.wait_for_all().unwrap();
            shared.iter().for_each(|variable| engine.wait_for_var(*variable).unwrap());
            assert!(bodies.load(SeqCst) > 0);
            let again = Arc::new(AtomicUsize::new(0));
            shared.iter().for_each(|v| engine.op("works").writes([*v]).push(counting(&again)).unwrap());
            engine.wait_for_all().unwrap();
            assert_eq!(again.load(SeqCst), shared.len());
        }
    }
}

#[test]
fn failures_that_nobody_takes_stay_cheap() {
    // A program that fails in a loop and never waits should get slow no more than any other.
    let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
    // The least of twenty times: other processes may take the core in most of them.
    let fail_many = |count: usize| {
        let times = (0..20).map(|_| {
            let start = std::time::Instant::now();
            (0..count / 20).for_each(|_| engine.op("fails").push(|_| Err("again")).unwrap());
            start.elapsed().as_secs_f64() / (count / 20) as f64
        });
        times.fold(f64::INFINITY, f64::min)
    };
    let early = fail_many(2_000);
    fail_many(16_000);
    let late = fail_many(2_000);
    engine.wait_for_all().unwrap_err();
    assert!(late < early * 10.0 + 20e-6, "{:.1} µs each at first, {:.1} µs later", early * 1e6, late * 1e6);
}

#[test]
fn failures_beyond_those_that_are_kept_are_counted_and_cleared() {
    const KEPT: usize = 1_000;
    on_every_engine(|engine| {
        let variables: Vec<Variable> = (0..KEPT + 500).map(|_| engine.new_variable()).collect();
        for round in 0..2 {
            variables.iter().for_each(|v| engine.op("fails").writes([*v]).push(|_| Err("no")).unwrap());
            engine.op("last").writes([engine.new_variable()]).push(nothing).unwrap();
            if round == 0 {
                // Whether it is kept or counted, a failure is taken through its variable.
                variables.iter().for_each(|v| engine.wait_for_var(*v).map_or((), |()| panic!("it has failed")));
                engine.wait_for_all().unwrap();
            } else {
                let error = engine.wait_for_all().unwrap_err();
                let source = error.source().expect("the first error's, which was kept");
                assert_eq!((source.to_string().as_str(), error.operation()), ("no", Some("fails")));
                let told = error.to_string();
                assert!(told.starts_with("operation 'fails' failed: no") && told.contains("(and 500 more"), "{told}");
            }
            let again = Arc::new(AtomicUsize::new(0));
            variables.iter().for_each(|v| engine.op("works").writes([*v]).push(counting(&again)).unwrap());
            engine.wait_for_all().unwrap();
            assert_eq!(again.load(SeqCst), variables.len());
        }
    });
}
