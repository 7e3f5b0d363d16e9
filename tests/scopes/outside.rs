//! Scopes outside of operations: any variables, any engine.

use crate::common::*;
#[cfg(unix)]
use crate::inside::{expect_good_end, fork_and_leave};
use seriatim::{Data, Engine, Error, ErrorKind, Kind, RunContext, Write};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MANY: usize = if cfg!(miri) { 20 } else { 1000 };

#[test]
fn operations_borrow_from_the_stack_and_have_ended_when_the_scope_returns() {
    on_every_engine(|engine| {
        let (from, mut to) = (vec![1_u64; MANY], vec![0_u64; MANY]);
        let doubled = engine.scope(|s| {
            for (from, to) in from.iter().zip(&mut to) {
                s.op("double").push(move |_| *to = 2 * from)?;
            }
            Ok(2 * from.len())
        });
        assert_eq!((doubled.unwrap(), to), (2 * MANY, vec![2; MANY]));
        assert_eq!(engine.scope(|_| Ok(7)).unwrap(), 7, "none is pushed");
    });
}

#[test]
fn large_closures_and_what_they_own_are_dropped_before_the_scope_returns() {
    struct Dropped<'a>(&'a AtomicUsize);
    impl Drop for Dropped<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    on_every_engine(|engine| {
        let (dropped, ran) = (AtomicUsize::new(0), AtomicUsize::new(0));
        engine
            .scope(|s| {
                for number in 0..MANY {
                    let (own, count, bytes) = (Dropped(&dropped), &ran, [number as u8; 600]);
                    s.op("large").push(move |_| {
                        let _ = &own;
                        count
                            .fetch_add(usize::from(bytes.iter().all(|byte| *byte == number as u8)), SeqCst)
                            .lt(&MANY)
                            .then_some(())
                            .ok_or("too many")
                    })?;
                }
                Ok(())
            })
            .unwrap();
        assert_eq!((dropped.into_inner(), ran.into_inner()), (MANY, MANY));
    });
}

#[test]
fn operations_of_a_scope_are_in_order_with_all_others_on_their_variables() {
    on_every_engine(|engine| {
        let x = engine.value(1_u64);
        let mut seen = [0; 3];
        engine.op("before").run(Write(&x), |x| *x += 1).unwrap();
        let [first, second, third] = &mut seen;
        engine
            .scope(|s| {
                s.op("first").run(&x, move |x| *first = *x)?;
                s.op("triple").run(Write(&x), |x| *x *= 3)?;
                engine.op("between").run(Write(&x), |x| *x += 10)?;
                let (second, third) = (s.part(second), s.part(third));
                s.op("second").run((&x, Write(&second)), |(x, second)| *second = *x)?;
                s.op("third").run((&second, Write(&third)), |(second, third)| *third = second + 1)
            })
            .unwrap();
        assert_eq!(seen, [2, 16, 17]);
        let (y, mut sum) = (Data::new(&engine, 5_u64), 0);
        engine
            .scope(|s| {
                s.op("raw").reads([y.variable()]).writes([x.variable()]).push(|_| {
                    sum = *y.read()?;
                    Ok::<(), Error>(())
                })
            })
            .unwrap();
        assert_eq!(sum, 5);
    });
}

#[test]
fn parts_of_one_array_are_lent_in_slices_and_tuples() {
    on_every_engine(|engine| {
        let mut cells: Vec<u64> = (0..12).collect();
        let mut sums = [0; 2];
        engine
            .scope(|s| {
                let parts: Vec<_> = cells.chunks_mut(4).map(|cells| s.part(cells)).collect();
                let sums: Vec<_> = sums.iter_mut().map(|sum| s.part(sum)).collect();
                for round in 1..=3 {
                    s.op("all").run(Write(&parts[..]), move |mut parts| {
                        parts.iter_mut().flatten().for_each(|cell| *cell += round);
                    })?;
                    s.op("one").run((&parts[0], Write(&parts[2])), |(from, to)| to[0] += from[0])?;
                }
                s.op("sums").run((&parts[..], Write(&sums[..])), |(parts, mut sums)| {
                    sums[0] = parts.iter().flatten().sum();
                    sums[1] = parts[2][0];
                })
            })
            .unwrap();
        // The first cell is 1, 3 and 6 after each round.
        assert_eq!(sums, [66 + 12 * 6 + 10, 8 + 6 + 10]);
    });
}

#[test]
fn a_part_that_is_lent_twice_once_to_be_changed_is_refused() {
    on_every_engine(|engine| {
        let mut x = 1;
        let outcome = engine.scope(|s| {
            let x = s.part(&mut x);
            s.op("reads twice").run((&x, &x), |(one, other)| assert_eq!(one, other))?;
            s.op("aliases").run((&x, Write(&x)), |(one, other)| *other += one)
        });
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::BorrowConflict);
        assert_eq!(x, 1);
    });
}

#[test]
fn the_error_is_the_body_s_or_that_of_the_first_that_failed_and_it_is_taken() {
    on_every_engine(|engine| {
        let ran = AtomicUsize::new(0);
        let outcome = engine.scope(|s| {
            s.op("well").push(|_| _ = ran.fetch_add(1, SeqCst))?;
            s.op("first").push(|_| Err::<(), _>("the first"))?;
            s.op("second").push(|_| panic!("the second"))?;
            s.op("well too").push(|_| _ = ran.fetch_add(1, SeqCst))
        });
        assert_says(&outcome.unwrap_err(), ErrorKind::OperationFailed, &["first", "the first"]);
        assert_eq!(ran.load(SeqCst), 2, "they are joined all the same");
        engine.wait_for_all().expect("the errors were taken");
        let outcome = engine.scope(|s| s.op("panics").push(|_| panic!("on purpose")));
        assert_says(&outcome.unwrap_err(), ErrorKind::OperationPanicked, &["panics", "on purpose"]);
        let outcome = engine.scope(|s| {
            s.op("fails").push(|_| Err::<(), _>("left to others"))?;
            Err::<(), Error>(engine.version(seriatim::Variable::from_raw((0, 0))).unwrap_err())
        });
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::ForeignVariable);
        assert_failed(engine.wait_for_all(), "left to others");
    });
}

#[test]
fn what_comes_behind_a_failure_is_skipped_and_the_failure_is_the_scope_s() {
    on_every_engine(|engine| {
        let (mut x, ran) = (0, AtomicUsize::new(0));
        let outcome = engine.scope(|s| {
            let x = s.part(&mut x);
            s.op("fails").run(Write(&x), |x| {
                *x = 1;
                Err::<(), _>("no further")
            })?;
            s.op("skipped").run(Write(&x), |_| _ = ran.fetch_add(1, SeqCst))?;
            s.op("skipped too").run(&x, |_| _ = ran.fetch_add(1, SeqCst))
        });
        assert_failed(outcome, "no further");
        assert_eq!((x, ran.into_inner()), (1, 0));
        engine.wait_for_all().expect("it was taken");
    });
}

#[test]
fn a_body_that_panics_is_joined_and_its_panic_goes_on() {
    on_every_engine(|engine| {
        let mut done = [false; 8];
        let caught = catch_unwind(AssertUnwindSafe(|| {
            engine.scope(|s| {
                for done in &mut done {
                    s.op("late").push(move |_| {
                        std::thread::sleep(std::time::Duration::from_millis(1));
                        *done = true;
                    })?;
                }
                if s.op("unused").push(|_| ()).is_ok() {
                    panic!("in the body");
                }
                Ok(())
            })
        }));
        assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "in the body");
        assert_eq!(done, [true; 8]);
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn a_scope_in_the_body_of_another_may_use_its_parts() {
    on_every_engine(|engine| {
        let (mut x, mut y) = (0, 0);
        engine
            .scope(|outer| {
                let x = outer.part(&mut x);
                outer.op("one").run(Write(&x), |x| *x += 1)?;
                engine.scope(|inner| {
                    let y = inner.part(&mut y);
                    inner.op("two").run((Write(&x), Write(&y)), |(x, y)| {
                        *x += 1;
                        *y = *x;
                    })
                })?;
                outer.op("three").run(Write(&x), |x| *x += 1)
            })
            .unwrap();
        assert_eq!((x, y), (3, 2));
    });
}

#[test]
fn refusals_say_why_and_the_closure_is_dropped() {
    on_every_engine(|engine| {
        let [x, gone] = [(); 2].map(|()| engine.new_variable());
        engine.delete_variable(|_| (), seriatim::Context::default(), gone).unwrap();
        let other = Engine::builder().kind(Kind::Naive).build().unwrap().new_variable();
        let ran = AtomicUsize::new(0);
        let value = engine.value(1);
        let guard = value.write().unwrap();
        engine
            .scope(|s| {
                let push = |variable| s.op("refused").writes([variable]).push(|_| _ = ran.fetch_add(1, SeqCst));
                assert_eq!(push(gone).unwrap_err().kind(), ErrorKind::VariableDeleted);
                assert_eq!(push(other).unwrap_err().kind(), ErrorKind::ForeignVariable);
                assert_says(&push(value.variable()).unwrap_err(), ErrorKind::BorrowConflict, &["guard"]);
                push(x)
            })
            .expect("refusals that the body takes are no error");
        assert_eq!(ran.into_inner(), 1);
        drop(guard);
        engine.stop().unwrap();
        let outcome = engine.scope(|s| s.op("late").push(|_| ()));
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Stopped);
        engine.start().unwrap();
        engine.scope(|s| s.op("again").push(|_| ())).unwrap();
    });
}

#[test]
fn after_the_notice_of_a_shutdown_operations_are_dropped_and_the_scope_says_so() {
    on_every_engine(|engine| {
        let ran = AtomicUsize::new(0);
        engine.notify_shutdown();
        let outcome = engine.scope(|s| s.op("skipped").push(|_| _ = ran.fetch_add(1, SeqCst)));
        assert_says(&outcome.unwrap_err(), ErrorKind::Stopped, &["shutdown"]);
        assert_eq!(ran.into_inner(), 0);
    });
}

#[test]
fn a_scope_waits_also_for_operations_that_others_hold_up() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let held = hold(&engine, &[], &[x]);
        let mut done = false;
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|threads| {
            let (engine, over, done) = (&engine, &over, &mut done);
            let waits = threads.spawn(move || {
                engine.scope(|s| s.op("behind").writes([x]).push(|_| *done = true)).unwrap();
                over.store(true, SeqCst);
            });
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!over.load(SeqCst), "it does not wait");
            held.complete();
            waits.join().unwrap();
        });
        assert!(done);
    });
}

#[test]
fn parts_leave_no_variables_behind() {
    let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
    let highest = || engine.new_variable().into_raw().0;
    let before = highest();
    for _ in 0..MANY {
        let mut x = 0;
        engine
            .scope(|s| {
                let x = s.part(&mut x);
                s.op("step").run(Write(&x), |x| *x += 1)
            })
            .unwrap();
    }
    assert!(highest() - before < 300, "slots are not used again");
}

/// In the child of a fork the scope ends with an error, and what its operations have borrowed ends
/// as well. One becomes ready afterwards, on the thread itself.
#[test]
#[cfg(all(unix, not(miri)))]
fn what_becomes_ready_behind_a_scope_that_a_fork_ended_is_left_alone() {
    run_child_well(&mut child("scope ends before its child"));
}

#[cfg(unix)]
pub fn ends_before_its_child() {
    struct Touches<'a>(&'a AtomicUsize);
    impl Drop for Touches<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let _watchdog = Watchdog::new(60, "a scope that a fork ends");
    for builder in builders() {
        let engine = builder.fork_patience(Duration::from_millis(5)).build().unwrap();
        let (x, owed, parent) = (engine.new_variable(), Arc::new(Mutex::new(None)), std::process::id());
        let place = Arc::clone(&owed);
        let owes = move |_: &RunContext<'_>, completion| *place.lock().unwrap() = Some(completion);
        engine.op("owes").writes([x]).push_async(owes).unwrap();
        eventually("the completion is there", || owed.lock().unwrap().is_some());
        let complete = || owed.lock().unwrap().take().unwrap().complete();
        let touched = AtomicUsize::new(0);
        let outcome = engine.scope(|s| {
            let touches = Touches(&touched);
            s.op("behind").reads([x]).push(move |_| drop(touches))?;
            fork_and_leave();
            if std::process::id() == parent {
                complete();
            }
            Ok(())
        });
        if std::process::id() != parent {
            let ends = outcome.is_err_and(|error| error.kind() == ErrorKind::Stopped);
            complete();
            let is_left_alone = touched.load(SeqCst) == 0;
            // SAFETY: ends the process, without the parent's destructors.
            unsafe { libc::_exit(i32::from(!ends) + 2 * i32::from(!is_left_alone)) };
        }
        outcome.unwrap();
        assert_eq!(touched.into_inner(), 1);
        expect_good_end();
    }
}

#[cfg(not(unix))]
pub fn ends_before_its_child() {}
