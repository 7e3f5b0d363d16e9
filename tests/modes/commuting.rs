//! Operations that commute: one at a time, in any order, and in their place among all others.

use crate::common::*;
use seriatim::{CancelToken, Commute, Completion, Engine, ErrorKind, Value, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{mpsc, Arc, Barrier};
use std::time::Duration;

/// A sum that notices if two operations change it at once.
#[derive(Default)]
struct Guarded {
    sum: u64,
    is_busy: AtomicBool,
}

impl Guarded {
    fn add(&mut self, part: u64) {
        assert!(!self.is_busy.swap(true, SeqCst), "two operations commute at once");
        let sum = self.sum;
        for _ in 0..part % 50 {
            std::hint::spin_loop();
        }
        self.sum = sum + part;
        self.is_busy.store(false, SeqCst);
    }
}

#[test]
fn one_commutes_at_a_time_and_none_is_lost() {
    on_every_engine(|engine| {
        let sum = engine.commutative(Guarded::default());
        for part in 1..=500 {
            engine.op("add").run(Commute(&sum), move |sum| sum.add(part)).unwrap();
        }
        assert_eq!(sum.read().unwrap().sum, 500 * 501 / 2);
        assert_eq!(engine.version(sum.variable()).unwrap(), 500);
    });
}

#[test]
fn reads_and_writes_keep_their_place_among_those_that_commute() {
    on_every_engine(|engine| {
        let sum = engine.commutative(Guarded::default());
        let mut expected = 0;
        for round in 0..60_u64 {
            for part in 0..round % 5 {
                engine.op("add").run(Commute(&sum), move |sum| sum.add(part)).unwrap();
                expected += part;
            }
            if round % 7 == 3 {
                engine.op("double").run(Write(&sum), |sum| sum.sum *= 2).unwrap();
                expected *= 2;
            }
            for _ in 0..round % 3 {
                engine.op("look").run(&sum, move |sum| assert_eq!(sum.sum, expected)).unwrap();
            }
            expected %= 1 << 40;
            engine.op("cut").run(Write(&sum), |sum| sum.sum %= 1 << 40).unwrap();
        }
        engine.wait_for_all().unwrap();
        assert_eq!(sum.read().unwrap().sum, expected);
    });
}

/// Reads of one phase do not wait for each other, but for the one that begins it.
#[test]
fn reads_behind_those_that_commute_run_at_once() {
    let engine = Engine::builder().cpu_workers(2).build().unwrap();
    let sum = engine.commutative(0);
    engine.op("add").run(Commute(&sum), |sum| *sum += 1).unwrap();
    engine.op("first").run(&sum, |sum| assert_eq!(*sum, 1)).unwrap();
    let both = Arc::new(Barrier::new(2));
    for _ in 0..2 {
        let both = Arc::clone(&both);
        engine.op("look").run(&sum, move |_| _ = both.wait()).unwrap();
    }
    engine.wait_for_all().unwrap();
}

#[test]
fn one_whose_input_is_late_holds_nobody_up() {
    on_every_engine(|engine| {
        let (input, sum) = (engine.value(1), engine.commutative(Vec::new()));
        let held = hold(&engine, &[], &[input.variable()]);
        engine.op("late").run((&input, Commute(&sum)), |(input, sum)| sum.push(*input)).unwrap();
        for part in 2..10 {
            engine.op("early").run(Commute(&sum), move |sum| sum.push(part)).unwrap();
        }
        eventually("the others run", || engine.version(sum.variable()).unwrap() == 8);
        held.complete();
        assert_eq!(sum.read().unwrap().last(), Some(&1));
        assert_eq!(sum.read().unwrap().iter().sum::<i32>(), 45);
    });
}

/// Begins an asynchronous operation that commutes on a value, and returns what ends it.
fn begin<T: Send>(engine: &Engine, value: &Value<T>) -> Completion {
    let (send, receive) = mpsc::channel();
    let begin = move |_: &seriatim::RunContext<'_>, completion| send.send(completion).unwrap();
    engine.op("begin").commutes([value]).push_async(begin).unwrap();
    receive.recv_timeout(Duration::from_secs(60)).unwrap()
}

#[test]
fn an_asynchronous_operation_commutes_until_it_is_completed() {
    on_every_engine(|engine| {
        let x = engine.commutative(0);
        let begun = begin(&engine, &x);
        let ran = Arc::new(AtomicUsize::new(0));
        for _ in 0..5 {
            let ran = Arc::clone(&ran);
            engine.op("add").run(Commute(&x), move |x| _ = (ran.fetch_add(1, SeqCst), *x += 1)).unwrap();
        }
        let y = engine.value(0);
        engine.op("beside").run(Write(&y), |y| *y = 1).unwrap();
        assert_eq!(*y.read().unwrap(), 1);
        assert_eq!(ran.load(SeqCst), 0, "one commutes beside an asynchronous operation");
        begun.complete();
        assert_eq!(*x.read().unwrap(), 5);
    });
}

#[test]
fn one_that_waits_for_a_variable_holds_no_other() {
    on_every_engine(|engine| {
        let [x, y, z] = [0; 3].map(|zero| engine.commutative(zero));
        let begun = begin(&engine, &y);
        for _ in 0..3 {
            let all = (Commute(&x), Commute(&y), Commute(&z));
            engine.op("all").run(all, |(x, y, z)| (*x, *y, *z) = (*x + 1, *y + 1, *z + 1)).unwrap();
        }
        engine.op("below").run(Commute(&x), |x| *x += 10).unwrap();
        engine.op("above").run(Commute(&z), |z| *z += 10).unwrap();
        let version = |value: &Value<i32>| engine.version(value.variable()).unwrap();
        eventually("x and z are free", || version(&x) == 1 && version(&z) == 1);
        assert_eq!(version(&y), 0);
        begun.complete();
        assert_eq!([&x, &y, &z].map(|value| *value.read().unwrap()), [13, 3, 13]);
    });
}

/// Where there are no workers, all of it parks in the order of the pushes, and is called in that.
#[test]
fn what_is_put_aside_comes_in_turn() {
    let engine = Engine::builder().kind(seriatim::Kind::Naive).build().unwrap();
    let x = engine.commutative(Vec::new());
    let begun = begin(&engine, &x);
    for number in 0..20 {
        engine.op("append").run(Commute(&x), move |x| x.push(number)).unwrap();
    }
    begun.complete();
    assert!(x.read().unwrap().iter().copied().eq(0..20));
}

/// What is called where it had parked, and finds another variable in its way, lets the next one go
/// on. On the naive engine all of it parks in the order of the pushes.
#[test]
fn one_that_is_called_and_cannot_go_on_calls_the_next() {
    on_every_engine(|engine| {
        let [x, y] = [0; 2].map(|zero| engine.commutative(zero));
        let of_y = begin(&engine, &y);
        engine.op("both").run((Commute(&x), Commute(&y)), |(x, y)| (*x, *y) = (1, *y + 1)).unwrap();
        for _ in 0..3 {
            engine.op("next").run(Commute(&y), |y| *y += 1).unwrap();
        }
        let of_x = begin(&engine, &x);
        of_y.complete();
        let version = |value: &Value<i32>| engine.version(value.variable()).unwrap();
        // Where there are workers, 'both' may have had x before.
        eventually("y goes on without x", || version(&y) >= 4);
        of_x.complete();
        assert_eq!([&x, &y].map(|value| *value.read().unwrap()), [1, 4]);
    });
}

#[test]
fn operations_that_commute_on_several_variables_never_wait_for_each_other() {
    on_every_engine(|engine| {
        let values: Vec<_> = (0..6).map(|_| engine.commutative(Guarded::default())).collect();
        for number in 0..600_usize {
            let [a, b] = [number % 6, (number * number + 1) % 6];
            if a == b {
                engine.op("one").run(Commute(&values[a]), |a| a.add(1)).unwrap();
            } else {
                let both = (Commute(&values[a]), Commute(&values[b]));
                engine.op("two").run(both, |(a, b)| (a.add(1), b.add(0)).0).unwrap();
            }
        }
        assert_eq!(values.iter().map(|value| value.read().unwrap().sum).sum::<u64>(), 600);
    });
}

#[test]
fn several_threads_push_what_commutes_and_what_reads() {
    on_every_engine(|engine| {
        let values: Vec<_> = (0..3).map(|_| engine.commutative(Guarded::default())).collect();
        std::thread::scope(|scope| {
            for thread in 0..3_usize {
                let (engine, values) = (&engine, &values);
                scope.spawn(move || {
                    for number in 0..200_usize {
                        let (a, b) = (&values[(thread + number) % 3], &values[(thread * number + 1) % 3]);
                        match number % 5 {
                            0 if a.variable() != b.variable() => {
                                engine.op("mixed").run((a, Commute(b)), |(_, b)| b.add(1))
                            }
                            1 if a.variable() != b.variable() => {
                                engine.op("both").run((Commute(a), Commute(b)), |(a, b)| (a.add(1), b.add(0)).0)
                            }
                            2 => engine.op("write").run(Write(a), |a| a.add(1)),
                            3 => engine
                                .op("read")
                                .run(a, |a| _ = a.sum)
                                .and_then(|()| engine.op("one").run(Commute(b), |b| b.add(1))),
                            _ => engine.op("one").run(Commute(a), |a| a.add(1)),
                        }
                        .unwrap();
                    }
                });
            }
        });
        engine.wait_for_all().unwrap();
        assert_eq!(values.iter().map(|value| value.read().unwrap().sum).sum::<u64>(), 600);
    });
}

#[test]
fn waits_wait_for_all_that_commutes() {
    on_every_engine(|engine| {
        let x = engine.commutative(0);
        for round in 1..=20 {
            for _ in 0..5 {
                let slow = |x: &mut u64| (spin(Duration::from_micros(20)), *x += 1).1;
                engine.op("add").run(Commute(&x), slow).unwrap();
            }
            match round % 4 {
                0 => engine.wait_for_var(x.variable()).unwrap(),
                1 => engine.wait_for_var_timeout(x.variable(), Duration::from_secs(60)).unwrap(),
                2 => engine.wait_until_unused(x.variable()).unwrap(),
                _ => engine.wait_for_all().unwrap(),
            }
            assert_eq!(engine.version(x.variable()).unwrap(), 5 * round);
        }
    });
}

#[test]
fn a_failure_marks_the_value_as_that_of_a_write_does() {
    on_every_engine(|engine| {
        let (x, y) = (engine.commutative(0), engine.value(0));
        let begun = begin(&engine, &x);
        engine.op("fail").run(Commute(&x), |_| Err::<(), _>("broken")).unwrap();
        engine.op("look").run((&x, Write(&y)), |(_, y)| *y = 1).unwrap();
        begun.complete();
        let error = engine.wait_for_var(y.variable()).unwrap_err();
        assert!(error.to_string().contains("broken"), "{error}");
        // Taken, so what is pushed from now on runs, and clears the mark.
        engine.op("add").run(Commute(&x), |x| *x += 1).unwrap();
        assert_eq!(*x.read().unwrap(), 1);
        engine.op("panic").run(Commute(&x), |_| -> () { panic!("in the middle") }).unwrap();
        assert_eq!(x.read().unwrap_err().kind(), ErrorKind::OperationPanicked);
        assert_eq!(*x.read().unwrap(), 1);
        let _ = engine.wait_for_all();
    });
}

#[test]
fn what_is_cancelled_lets_the_others_go_on() {
    on_every_engine(|engine| {
        let (x, y) = (engine.commutative(0), engine.commutative(0));
        let token = CancelToken::new();
        let begun = begin(&engine, &x);
        for _ in 0..3 {
            let both = (Commute(&x), Commute(&y));
            engine.op("cancelled").commutes([&x, &y]).token(&token).push(|_| ()).unwrap();
            engine.op("own").run(both, |(x, y)| (*x, *y) = (*x + 1, *y + 1)).unwrap();
        }
        token.cancel();
        begun.complete();
        let error = x.read().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        let _ = engine.wait_for_all();
        engine.op("after").run(Commute(&x), |x| *x = 7).unwrap();
        assert_eq!(*x.read().unwrap(), 7);
    });
}

#[test]
fn values_go_when_all_that_commutes_has_ended() {
    on_every_engine(|engine| {
        let dropped = Arc::new(AtomicUsize::new(0));
        struct Count(Arc<AtomicUsize>, u32);
        impl Drop for Count {
            fn drop(&mut self) {
                assert_eq!(self.1, 20);
                self.0.fetch_add(1, SeqCst);
            }
        }
        for round in 0..30 {
            let x = engine.commutative(Count(Arc::clone(&dropped), 0));
            for _ in 0..20 {
                engine.op("add").run(Commute(&x), |x| x.1 += 1).unwrap();
            }
            drop(x);
            if round % 7 == 0 {
                engine.wait_for_all().unwrap();
            }
            // Perhaps in the slot of one that has gone.
            let plain = engine.value(round);
            engine.op("plain").run(Write(&plain), |x| *x += 1).unwrap();
            assert_eq!(*plain.read().unwrap(), round + 1);
        }
        engine.wait_for_all().unwrap();
        assert_eq!(dropped.load(SeqCst), 30);
    });
}

#[test]
fn a_stop_waits_for_what_is_put_aside() {
    on_every_engine(|engine| {
        let x = engine.commutative(0);
        let begun = begin(&engine, &x);
        for _ in 0..10 {
            engine.op("add").run(Commute(&x), |x| *x += 1).unwrap();
        }
        let later = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            begun.complete();
        });
        engine.stop().unwrap();
        later.join().unwrap();
        assert_eq!(engine.version(x.variable()).unwrap(), 11);
        engine.start().unwrap();
        assert_eq!(x.into_inner().unwrap(), 10);
    });
}

#[test]
fn operators_priorities_and_scopes_commute_too() {
    on_every_engine(|engine| {
        let (x, z) = (engine.commutative(0), engine.value(0));
        let step = engine.op("step").operator_on((Commute(&x), &z), |(x, _)| *x += 1).unwrap();
        for number in 0..20 {
            engine.push(&step, seriatim::Context::cpu(0), number % 3 - 1).unwrap();
            engine.op("urgent").priority(number % 3).run(Commute(&x), |x| *x += 1).unwrap();
            engine.op("short").short().run(Commute(&x), |x| *x += 1).unwrap();
            engine.op("by name").profiled().commutes([&x]).reads([&x]).push(|_| ()).unwrap();
        }
        let parts = engine.scope(|s| {
            for _ in 0..10 {
                s.op("child").run(Commute(&x), |x| *x += 1)?;
            }
            Ok(10)
        });
        assert_eq!(parts.unwrap() + 60, *x.read().unwrap());
        engine.start_profiling();
        for _ in 0..10 {
            engine.op("profiled").run(Commute(&x), |x| *x += 1).unwrap();
            engine.op("look").run(&x, |_| ()).unwrap();
        }
        assert_eq!(*x.read().unwrap(), 80);
        engine.stop_profiling();
    });
}

#[test]
fn in_a_graph_what_commutes_runs_as_it_was_recorded() {
    on_every_engine(|engine| {
        let x = engine.commutative(Vec::new());
        let (graph, ()) = engine
            .capture(|c| {
                for number in 0..10 {
                    c.op("append").run(Commute(&x), move |x| x.push(number))?;
                }
                c.op("look").run(&x, |x| assert_eq!(x.len() % 11, 10))
            })
            .unwrap();
        for round in 0..5 {
            graph.replay().unwrap();
            engine.op("beside").run(Commute(&x), move |x| x.push(100 + round)).unwrap();
        }
        let expected: Vec<i32> = (0..5).flat_map(|round| (0..10).chain([100 + round])).collect();
        assert_eq!(*x.read().unwrap(), expected);
    });
}

/// What an operation that commutes pushes inside itself waits for it.
#[test]
fn operations_push_what_commutes_with_them() {
    on_every_engine(|engine| {
        let x = engine.commutative(0);
        for _ in 0..20 {
            let (inner, y) = (engine.clone(), x.clone());
            engine
                .op("outer")
                .run(Commute(&x), move |x| {
                    *x += 1;
                    let before = *x;
                    inner.op("inner").run(Commute(&y), |y| *y += 1).unwrap();
                    assert_eq!(*x, before, "it commutes beside its pusher");
                })
                .unwrap();
        }
        engine.wait_for_all().unwrap();
        assert_eq!(*x.read().unwrap(), 40);
    });
}
