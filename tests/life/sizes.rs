//! Sizes at the edge: long chains, deep nesting, wide operations, closures and names of any kind.

use crate::common::*;
use seriatim::{Completion, Context, Engine, ErrorKind, Kind, Name, Property, RunContext, Variable};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[test]
fn a_million_operations_in_a_row_are_released_without_recursion() {
    let _watchdog = Watchdog::new(300, "a million operations in a row");
    const LONG: u64 = 1_000_000;
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(1).build().unwrap();
        let x = engine.new_variable();
        let value = Arc::new(AtomicU64::new(0));
        let first = hold(&engine, &[], &[x]);
        for number in 0..LONG {
            let value = Arc::clone(&value);
            let next = move |_: &RunContext<'_>| {
                assert_eq!(value.load(Relaxed), number);
                value.store(number + 1, Relaxed);
            };
            let builder = engine.op("next").writes([x]);
            if number % 1000 == 0 {
                // A few that end by a completion, which must not nest either.
                let asynchronous = move |run: &RunContext<'_>, completion: Completion| {
                    next(run);
                    completion.complete();
                };
                builder.push_async(asynchronous).unwrap();
            } else {
                builder.push(next).unwrap();
            }
        }
        first.complete();
        engine.wait_for_all().unwrap();
        assert_eq!((value.load(Relaxed), engine.version(x).unwrap()), (LONG, LONG + 1));
    }
}

#[test]
fn a_long_row_of_readers_is_released_without_recursion() {
    let _watchdog = Watchdog::new(300, "a long row of readers");
    on_every_engine(|engine| {
        let ran = Arc::new(AtomicUsize::new(0));
        let x = engine.new_variable();
        let first = hold(&engine, &[], &[x]);
        (0..50_000).for_each(|_| engine.op("read").reads([x]).push(counting(&ran)).unwrap());
        engine.op("write").writes([x]).push(counting(&ran)).unwrap();
        first.complete();
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), 50_001);
    });
}

/// Pushes an operation that pushes the next, to a depth.
fn nest(engine: &Engine, x: Variable, property: Property, depth: u64, sum: &Arc<AtomicU64>) {
    if depth == 0 {
        return;
    }
    let (own, sum) = (engine.clone(), Arc::clone(sum));
    let builder = engine.op("nested").property(property);
    // Every other one uses a variable, and so has to wait for the one around it.
    let builder = if depth % 2 == 0 { builder.writes([x]) } else { builder };
    let body = move |_: &RunContext<'_>| {
        sum.fetch_add(1, Relaxed);
        nest(&own, x, property, depth - 1, &sum);
    };
    builder.push(body).unwrap();
}

#[test]
fn operations_nest_ten_thousand_levels_deep() {
    let _watchdog = Watchdog::new(120, "nested pushes");
    on_every_engine(|engine| {
        for property in [Property::Normal, Property::CpuPrioritized, Property::CopyToGpu] {
            let (x, sum) = (engine.new_variable(), Arc::new(AtomicU64::new(0)));
            nest(&engine, x, property, 10_000, &sum);
            engine.wait_for_all().unwrap();
            assert_eq!(sum.load(Relaxed), 10_000);
        }
    });
}

#[test]
fn operations_that_run_on_their_pusher_nest_ten_thousand_levels_deep() {
    // In a process of its own: a stack overflow ends it.
    run_child_well(&mut child("nested async"));
}

pub fn nest_on_the_pusher() {
    on_every_engine(|engine| {
        // Without a variable, so that each could run at once, inside the one that pushes it.
        fn nest_async(engine: &Engine, depth: u64, sum: &Arc<AtomicU64>) {
            if depth > 0 {
                let (own, sum) = (engine.clone(), Arc::clone(sum));
                let body = move |_: &RunContext<'_>, completion: Completion| {
                    sum.fetch_add(1, Relaxed);
                    nest_async(&own, depth - 1, &sum);
                    completion.complete();
                };
                engine.op("nested").property(Property::Async).push_async(body).unwrap();
            }
        }
        let (x, sum) = (engine.new_variable(), Arc::new(AtomicU64::new(0)));
        nest_async(&engine, 10_000, &sum);
        nest(&engine, x, Property::Async, 10_000, &sum);
        engine.wait_for_all().unwrap();
        assert_eq!(sum.load(Relaxed), 20_000);
    });
}

#[test]
fn ten_thousand_waits_that_were_given_up_do_not_lie_on_the_stack() {
    // As above. Each wait is behind the one before, and ready when that ends.
    run_child_well(&mut child("waits given up"));
}

pub fn give_up_waits() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let held = hold(&engine, &[], &[x]);
        for _ in 0..10_000 {
            let error = engine.wait_until_unused_timeout(x, Duration::ZERO).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
        }
        held.complete();
        engine.wait_until_unused(x).unwrap();
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn operations_fan_out_from_inside_operations() {
    on_every_engine(|engine| {
        let (sum, total) = (Arc::new(AtomicUsize::new(0)), engine.new_variable());
        let own = engine.clone();
        let count = counting(&sum);
        let tree = move |_: &RunContext<'_>| {
            (0..100).try_for_each(|_| {
                let (inner, count) = (own.clone(), count.clone());
                own.op("branch").push(move |_| {
                    (0..20).try_for_each(|leaf| {
                        let builder = inner.op("leaf");
                        let builder = if leaf % 2 == 0 { builder.writes([total]) } else { builder.reads([total]) };
                        builder.push(count.clone())
                    })
                })
            })
        };
        engine.op("root").push(tree).unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!((sum.load(SeqCst), engine.version(total).unwrap()), (2_000, 1_000));
    });
}

#[test]
fn an_operation_may_use_thousands_of_variables() {
    let _watchdog = Watchdog::new(120, "wide operations");
    on_every_engine(|engine| {
        let wide: Vec<Variable> = (0..5_000).map(|_| engine.new_variable()).collect();
        let order = Arc::new(Mutex::new(Vec::new()));
        let note = |number: usize| {
            let order = Arc::clone(&order);
            move |_: &RunContext<'_>| order.lock().unwrap().push(number)
        };
        // Around each size class, and beyond the largest.
        let mut number = 0;
        let mut expected = vec![0; wide.len()];
        for width in [1, 3, 4, 8, 9, 20, 21, 27, 28, 59, 60, 123, 2_043, 2_044, 5_000, 5_000] {
            let reads = wide[..width].iter().rev().copied();
            let writes = wide[..width].iter().step_by(2).copied();
            engine.op("wide").reads(reads).writes(writes).push(note(number)).unwrap();
            engine.op("behind").writes([wide[width - 1]]).push(note(number + 1)).unwrap();
            (0..width).step_by(2).for_each(|index| expected[index] += 1);
            expected[width - 1] += 1;
            number += 2;
        }
        engine.wait_for_all().unwrap();
        let versions: Vec<u64> = wide.iter().map(|variable| engine.version(*variable).unwrap()).collect();
        assert_eq!(versions, expected);
        // The first variable is written by every wide operation, so those are in a row; each has
        // its follower behind it.
        let order = order.lock().unwrap();
        let position = |number: usize| order.iter().position(|other| *other == number).expect("it ran");
        assert_eq!(order.len(), number);
        for wide in (0..number).step_by(2) {
            assert!(position(wide) < position(wide + 1));
            assert!(wide == 0 || position(wide - 2) < position(wide));
        }
    });
}

#[test]
fn closures_of_any_size_and_alignment_are_kept_where_they_belong() {
    #[repr(align(128))]
    #[derive(Clone, Copy)]
    struct Aligned([u8; 128]);

    #[repr(align(32))]
    #[derive(Clone, Copy)]
    struct Half([u8; 32]);

    on_every_engine(|engine| {
        let x = engine.new_variable();
        let ran = Arc::new(AtomicUsize::new(0));
        // None, one that fits exactly, one byte more, large, over-aligned.
        engine.op("empty").writes([x]).push(nothing).unwrap();
        macro_rules! sizes {
            ($($size:literal)*) => {$({
                let (bytes, count) = (std::array::from_fn::<u8, $size, _>(|index| index as u8), counting(&ran));
                let body = move |run: &RunContext<'_>| {
                    assert!(bytes.iter().enumerate().all(|(index, byte)| *byte == index as u8));
                    count(run);
                };
                engine.op("sized").writes([x]).push(body.clone()).unwrap();
                engine.op("sized").writes([x]).push_async(move |run, completion| { body(run); completion.complete() }).unwrap();
            })*};
        }
        sizes!(1 48 55 56 57 64 65 200 4096);
        let (aligned, count) = (Aligned([7; 128]), counting(&ran));
        let body = move |run: &RunContext<'_>| {
            assert_eq!((&raw const aligned).addr() % 128, 0);
            assert_eq!(aligned.0, [7; 128]);
            count(run);
        };
        engine.op("over-aligned").writes([x]).push(body).unwrap();
        let (half, count) = (Half([9; 32]), counting(&ran));
        let body = move |run: &RunContext<'_>| {
            assert_eq!((&raw const half).addr() % 32, 0);
            assert_eq!(half.0, [9; 32]);
            count(run);
        };
        engine.op("aligned and in place").writes([x]).push(body).unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!((ran.load(SeqCst), engine.version(x).unwrap()), (20, 21));
    });
}

#[test]
fn every_closure_is_dropped_exactly_once() {
    struct Witness(Arc<AtomicUsize>);
    impl Drop for Witness {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    on_every_engine(|engine| {
        let dropped = Arc::new(AtomicUsize::new(0));
        let witness = || Witness(Arc::clone(&dropped));
        let [x, gone] = [engine.new_variable(), engine.new_variable()];
        engine.delete_variable(|_| (), Context::cpu(0), gone).unwrap();
        // Run, failed, skipped, refused; small, large and boxed; synchronous, asynchronous and
        // reusable.
        let mut pushed = 0;
        for ballast in [0, 400, 1000] {
            for variable in [x, gone] {
                let (small, large, boxed) = (witness(), (witness(), [0u8; 400]), (witness(), [0u8; 1000]));
                let outcome = match ballast {
                    0 => engine.op("op").writes([variable]).push(move |_| drop(small)),
                    400 => engine.op("op").writes([variable]).push(move |_| drop(large.0)),
                    _ => engine.op("op").writes([variable]).push(move |_| drop(boxed.0)),
                };
                assert_eq!(outcome.is_ok(), variable == x);
                let own = witness();
                let body = move |_: &RunContext<'_>, completion: Completion| {
                    drop(own);
                    completion.complete();
                };
                assert_eq!(engine.op("op").writes([variable]).push_async(body).is_ok(), variable == x);
                pushed += 4; // all of `small`, `large` and `boxed` are dropped, two of them here
            }
        }
        engine.op("fails").writes([x]).push(|_| Err("so the next is skipped")).unwrap();
        let own = witness();
        engine.op("skipped").writes([x]).push(move |_| drop(own)).unwrap();
        let own = witness();
        let step = engine
            .op("step")
            .writes([x])
            .operator(move |_| assert_eq!(own.0.load(SeqCst), own.0.load(SeqCst)))
            .unwrap();
        (0..10).for_each(|_| engine.push(&step, Context::cpu(0), 0).unwrap());
        engine.wait_for_all().unwrap_err();
        assert_eq!(dropped.load(SeqCst), pushed + 1, "the operator is kept by its handle");
        engine.delete_operator(step.clone());
        let completion = hold(&engine, &[], &[x]);
        engine.push(&step, Context::cpu(0), 0).unwrap();
        engine.delete_operator(step);
        assert_eq!(dropped.load(SeqCst), pushed + 1, "the operator is kept by its use");
        completion.complete();
        engine.wait_for_all().unwrap();
        assert_eq!(dropped.load(SeqCst), pushed + 2);
    });
}

#[test]
fn an_operator_may_be_pushed_again_while_it_is_in_flight() {
    on_every_engine(|engine| {
        let (ran, x) = (Arc::new(AtomicUsize::new(0)), engine.new_variable());
        let writes = engine.op("writes").writes([x]).operator(counting(&ran)).unwrap();
        let reads = engine.new_operator(counting(&ran), &[x, x], &[], Property::Normal, "reads").unwrap();
        let completion = hold(&engine, &[], &[x]);
        for number in 0..100 {
            engine.push(&writes, Context::cpu(number % 3), number as i32).unwrap();
            engine.push(&reads, Context::cpu(0), -1).unwrap();
        }
        drop((writes, reads));
        completion.complete();
        engine.wait_for_all().unwrap();
        assert_eq!((ran.load(SeqCst), engine.version(x).unwrap()), (200, 101));
    });
}

#[test]
fn names_reach_the_operation_whatever_they_are_made_of() {
    let long = "x".repeat(10_000);
    on_every_engine(|engine| {
        for name in ["", "plain", "with 'quotes' and\nlines", "naïve ✔", &long] {
            let interned = Name::from(name.to_owned());
            assert_eq!(
                (interned.as_str(), Name::from(name.to_owned()).as_str().as_ptr()),
                (name, interned.as_str().as_ptr())
            );
            let own = name.to_owned();
            engine.op(name.to_owned()).push(move |run| assert_eq!(run.name(), own)).unwrap();
            engine.op(interned).push(|_| Err("named")).unwrap();
            let error = engine.wait_for_all().unwrap_err();
            assert_eq!(error.operation(), Some(name));
        }
        assert_eq!(Name::default().as_str(), "");
    });
}
