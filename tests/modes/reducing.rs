//! Reductions: nothing is lost, nothing is counted twice, and an ordered one has the same bits
//! however many workers there are.

use crate::common::*;
use seriatim::{CancelToken, Engine, ErrorKind, Kind, Reduce, Reduction, Write};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, Barrier};

/// Both sorts of reductions of a sum.
fn sums(engine: &Engine) -> Vec<Reduction<u64>> {
    let add = |sum: &mut u64, part: u64| *sum += part;
    let ordered = [1, 2, 3, 7, 8].map(|copies| engine.ordered_reduction(copies, || 0, add).unwrap());
    ordered.into_iter().chain([engine.reduction(|| 0, add)]).collect()
}

#[test]
fn reads_and_writes_come_behind_all_parts_before_them() {
    on_every_engine(|engine| {
        for sum in sums(&engine) {
            let mut expected = 0;
            for round in 0..40_u64 {
                for part in 0..round % 9 {
                    engine.op("add").run(Reduce(&sum), move |sum| *sum += part).unwrap();
                    expected += part;
                }
                if round % 5 == 2 {
                    engine.op("double").run(Write(&sum), |sum| *sum *= 2).unwrap();
                    expected *= 2;
                }
                if round % 11 == 10 {
                    engine.op("reset").run(Write(&sum), |sum| *sum = 0).unwrap();
                    expected = 0;
                }
                engine.op("look").run(&sum, move |sum| assert_eq!(*sum, expected)).unwrap();
                if round % 13 == 0 {
                    assert_eq!(*sum.read().unwrap(), expected);
                }
            }
            assert_eq!(*sum.read().unwrap(), expected);
        }
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn parts_are_added_at_once() {
    for ordered in [true, false] {
        let engine = Engine::builder().cpu_workers(2).build().unwrap();
        let add = |sum: &mut u64, part: u64| *sum += part;
        let sum = if ordered { engine.ordered_reduction(2, || 0, add).unwrap() } else { engine.reduction(|| 0, add) };
        let both = Arc::new(Barrier::new(2));
        for _ in 0..2 {
            let both = Arc::clone(&both);
            engine
                .op("add")
                .run(Reduce(&sum), move |sum| {
                    both.wait();
                    *sum += 1;
                })
                .unwrap();
        }
        assert_eq!(*sum.read().unwrap(), 2);
    }
}

/// Sums of numbers whose order shows in the last bits, with reads and writes in between.
fn bits(engine: &Engine, copies: usize) -> Vec<u64> {
    let sum = engine.ordered_reduction(copies, || 0.0_f64, |sum, part| *sum += part).unwrap();
    let seen = engine.value(Vec::new());
    let mut random = 1_u64;
    for number in 0..600 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let part = (random >> 12) as f64 * 2.0_f64.powi((random % 90) as i32 - 45);
        engine.op("add").run(Reduce(&sum), move |sum| *sum += part).unwrap();
        if random % 37 == 0 {
            engine.op("look").run((&sum, Write(&seen)), |(sum, seen)| seen.push(sum.to_bits())).unwrap();
        }
        if number % 211 == 210 {
            engine.op("scale").run(Write(&sum), |sum| *sum /= 3.0).unwrap();
        }
    }
    let total = sum.read().unwrap().to_bits();
    let mut seen = seen.read().unwrap().clone();
    seen.push(total);
    seen
}

#[test]
fn an_ordered_reduction_has_the_same_bits_on_any_number_of_workers() {
    for copies in [1, 3, 8, 16] {
        let first = bits(&Engine::builder().kind(Kind::Naive).build().unwrap(), copies);
        assert!(first.len() > 5);
        for kind in [Kind::Pooled, Kind::PerDevice] {
            for workers in [1, 2, 3, 8] {
                let engine = Engine::builder().kind(kind).cpu_workers(workers).build().unwrap();
                assert_eq!(bits(&engine, copies), first, "{kind}, {workers} workers, {copies} copies");
            }
        }
    }
}

#[test]
fn a_failed_part_fails_what_reads_the_value() {
    on_every_engine(|engine| {
        for sum in sums(&engine) {
            let y = engine.value(0);
            for number in 0..10 {
                let add = move |sum: &mut u64| {
                    *sum += 1;
                    if number == 4 {
                        Err("no part")
                    } else {
                        Ok(())
                    }
                };
                engine.op("add").run(Reduce(&sum), add).unwrap();
            }
            engine.op("look").run((&sum, Write(&y)), |(sum, y)| *y = *sum).unwrap();
            let error = y.read().unwrap_err();
            assert!(error.to_string().contains("no part"), "{error}");
            assert_eq!(*y.read().unwrap(), 0, "it was read in spite of a failure");
            engine.op("reset").run(Write(&sum), |sum| *sum = 0).unwrap();
            engine.op("add").run(Reduce(&sum), |sum| *sum += 1).unwrap();
            assert_eq!(*sum.read().unwrap(), 1);
            let _ = engine.wait_for_all();
        }
    });
}

#[test]
fn what_is_cancelled_or_panics_fails_as_a_write_does() {
    on_every_engine(|engine| {
        for sum in sums(&engine) {
            engine.op("panic").run(Reduce(&sum), |_| -> () { panic!("in a part") }).unwrap();
            assert_eq!(sum.read().unwrap_err().kind(), ErrorKind::OperationPanicked);
            assert_eq!(*sum.read().unwrap(), 0);
            let (token, x) = (CancelToken::new(), engine.new_variable());
            let held = hold(&engine, &[], &[x]);
            let late = engine.op("late").read(x).token(&token);
            late.run(Reduce(&sum), |sum| *sum += 1).unwrap();
            token.cancel();
            held.complete();
            assert_eq!(sum.read().unwrap_err().kind(), ErrorKind::Cancelled);
            assert_eq!(*sum.read().unwrap(), 0);
            let _ = engine.wait_for_all();
        }
    });
}

#[test]
fn a_panic_of_what_combines_fails_what_reads() {
    on_every_engine(|engine| {
        let sum = engine.reduction(|| 0, |_: &mut i32, part| assert!(part < 5, "too much"));
        engine.op("add").run(Reduce(&sum), |sum| *sum += 7).unwrap();
        engine.op("look").run(&sum, |_| ()).unwrap();
        assert_eq!(engine.wait_for_all().unwrap_err().kind(), ErrorKind::OperationPanicked);
        engine.op("add").run(Reduce(&sum), |sum| *sum += 7).unwrap();
        assert_eq!(sum.read().unwrap_err().kind(), ErrorKind::OperationPanicked);
        drop(sum.read().unwrap());
    });
}

#[test]
fn an_operation_names_a_reduction_once() {
    on_every_engine(|engine| {
        for sum in sums(&engine) {
            let twice = engine.op("twice").run((Reduce(&sum), &sum), |_| ());
            assert_eq!(twice.unwrap_err().kind(), ErrorKind::BorrowConflict);
            // Two copies are two values; one copy is one.
            let parts = engine.op("parts").run((Reduce(&sum), Reduce(&sum)), |(one, other)| {
                *one += 1;
                *other += 1;
            });
            let total = *sum.read().unwrap();
            assert_eq!(total, if parts.is_ok() { 2 } else { 0 });
        }
    });
}

#[test]
fn several_threads_reduce() {
    on_every_engine(|engine| {
        for sum in sums(&engine) {
            let looks = Arc::new(AtomicUsize::new(0));
            std::thread::scope(|scope| {
                for thread in 0..3_u64 {
                    let (engine, sum, looks) = (&engine, &sum, &looks);
                    scope.spawn(move || {
                        for number in 1..=100 {
                            engine.op("add").run(Reduce(sum), |sum| *sum += 1).unwrap();
                            if number % 20 == thread {
                                let looks = Arc::clone(looks);
                                // All of this thread's own parts are in it.
                                let look = move |sum: &u64| {
                                    assert!(*sum >= number && *sum <= 300);
                                    looks.fetch_add(1, SeqCst);
                                };
                                engine.op("look").run(sum, look).unwrap();
                            }
                        }
                    });
                }
            });
            assert_eq!(*sum.read().unwrap(), 300);
            assert_eq!(looks.load(SeqCst), 15);
        }
    });
}

#[test]
fn graphs_operators_and_scopes_reduce() {
    on_every_engine(|engine| {
        for sum in sums(&engine) {
            let seen = engine.value(0);
            let (graph, ()) = engine
                .capture(|c| {
                    for part in 1..=4_u64 {
                        c.op("add").run(Reduce(&sum), move |sum| *sum += part)?;
                    }
                    c.op("look").run((&sum, Write(&seen)), |(sum, seen)| *seen = *sum)
                })
                .unwrap();
            let step = engine.op("step").operator_on(Reduce(&sum), |sum| *sum += 100).unwrap();
            for round in 1..=5 {
                engine.push(&step, seriatim::Context::cpu(0), 0).unwrap();
                graph.replay().unwrap();
                assert_eq!(*seen.read().unwrap(), round * 110);
            }
            engine.scope(|s| s.op("child").run(Reduce(&sum), |sum| *sum += 1)).unwrap();
            assert_eq!(*sum.read().unwrap(), 551);
            // The graph and the operator keep the values.
            drop(sum);
            graph.replay().unwrap();
            engine.push(&step, seriatim::Context::cpu(0), 0).unwrap();
            engine.wait_for_all().unwrap();
        }
    });
}

#[test]
fn copies_go_with_the_reduction() {
    struct Part(Arc<AtomicUsize>);
    impl Drop for Part {
        fn drop(&mut self) {
            self.0.fetch_sub(1, SeqCst);
        }
    }
    on_every_engine(|engine| {
        let alive = Arc::new(AtomicUsize::new(0));
        for round in 0..10 {
            let of = Arc::clone(&alive);
            let identity = move || {
                of.fetch_add(1, SeqCst);
                Part(Arc::clone(&of))
            };
            let sum = engine.ordered_reduction(5, identity, |_, _| ()).unwrap();
            for _ in 0..round {
                engine.op("add").run(Reduce(&sum), |_| ()).unwrap();
            }
            if round % 2 == 0 {
                engine.op("look").run(&sum, |_| ()).unwrap();
            }
        }
        engine.wait_for_all().unwrap();
        assert_eq!(alive.load(SeqCst), 0);
    });
}

#[test]
fn a_number_of_copies_that_cannot_be_is_refused() {
    on_every_engine(|engine| {
        for copies in [0, (1 << 16) + 1, usize::MAX] {
            let identity = || -> u64 { panic!("nothing is made") };
            let error = engine.ordered_reduction(copies, identity, |_, _| ()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadSetting);
            assert!(error.to_string().contains(&format!("cannot have {copies} copies")), "{error}");
        }
        let most = engine.ordered_reduction(1 << 16, || 0, |sum: &mut u64, part| *sum += part).unwrap();
        engine.op("add").run(Reduce(&most), |sum| *sum += 1).unwrap();
        assert_eq!(*most.read().unwrap(), 1);
    });
}

#[test]
fn the_variable_comes_behind_all_parts() {
    on_every_engine(|engine| {
        for sum in sums(&engine) {
            let added = Arc::new(AtomicUsize::new(0));
            for _ in 0..30 {
                let added = Arc::clone(&added);
                engine.op("add").run(Reduce(&sum), move |_| _ = added.fetch_add(1, SeqCst)).unwrap();
            }
            let of = Arc::clone(&added);
            engine.op("behind").write(sum.variable()).push(move |_| assert_eq!(of.load(SeqCst), 30)).unwrap();
            engine.wait_for_all().unwrap();
            assert_eq!(engine.version(sum.variable()).unwrap(), 1);
        }
    });
}

#[test]
fn an_operation_reduces_a_list() {
    on_every_engine(|engine| {
        let (sums, x) = (sums(&engine), engine.value(1));
        for part in 1..=20 {
            let all: Vec<Reduce<_>> = sums.iter().map(Reduce).collect();
            engine.op("add").run((all, &x), move |(all, x)| all.into_iter().for_each(|sum| *sum += part * x)).unwrap();
        }
        let all: Vec<&Reduction<u64>> = sums.iter().collect();
        engine.op("look").run(all, |all| assert!(all.iter().all(|sum| **sum == 210))).unwrap();
        let twice = engine.op("twice").run(vec![Write(&sums[0]), Write(&sums[0])], |_| ());
        assert_eq!(twice.unwrap_err().kind(), ErrorKind::BorrowConflict);
        engine.wait_for_all().unwrap();
    });
}
