//! Deletion of variables, and what races with it.

use crate::common::*;
use seriatim::{Context, Engine, Error, ErrorKind, Kind, RunContext, Variable};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[test]
fn a_deletion_runs_after_the_last_use() {
    on_every_engine(|engine| {
        let ran = Arc::new(AtomicUsize::new(0));
        let at_the_end = Arc::new(AtomicUsize::new(0));
        let x = engine.new_variable();
        let first = hold(&engine, &[], &[x]);
        for number in 0..200 {
            let builder = engine.op("use");
            let builder = if number % 3 == 0 { builder.writes([x]) } else { builder.reads([x]) };
            builder.push(counting(&ran)).unwrap();
        }
        let (seen, end) = (Arc::clone(&ran), Arc::clone(&at_the_end));
        engine.delete_variable(move |_| end.store(seen.load(SeqCst), SeqCst), Context::cpu(0), x).unwrap();
        assert_eq!(engine.op("late").reads([x]).push(nothing).unwrap_err().kind(), ErrorKind::VariableDeleted);
        assert_eq!(at_the_end.load(SeqCst), 0);
        first.complete();
        engine.wait_for_all().unwrap();
        assert_eq!(at_the_end.load(SeqCst), 200);
    });
}

#[test]
fn an_operation_may_delete_what_it_uses() {
    on_every_engine(|engine| {
        let deleted = Arc::new(AtomicUsize::new(0));
        let x = engine.new_variable();
        let (own, count) = (engine.clone(), counting(&deleted));
        let body = move |_: &RunContext<'_>| {
            own.delete_variable(count, Context::cpu(0), x)?;
            own.op("late")
                .reads([x])
                .push(nothing)
                .map_err(|error| {
                    assert_eq!(error.kind(), ErrorKind::VariableDeleted);
                })
                .expect_err("it is deleted");
            Ok::<(), Error>(())
        };
        engine.op("deletes").writes([x]).push(body).unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(deleted.load(SeqCst), 1);
    });
}

#[test]
fn places_of_deleted_variables_are_used_again_with_a_new_generation() {
    on_every_engine(|engine| {
        // A second thread that looks at variables, so that reuse has to wait for both.
        let other = std::thread::spawn({
            let engine = engine.clone();
            move || {
                let y = engine.new_variable();
                for _ in 0..200 {
                    engine.op("beside").writes([y]).push(nothing).unwrap();
                    engine.wait_for_var(y).unwrap();
                }
            }
        });
        let mut old = Vec::new();
        let mut most = 0;
        for round in 0..10_000 {
            let x = engine.new_variable();
            assert_eq!(engine.version(x).unwrap(), 0);
            most = most.max(x.into_raw().0 as u32);
            if round % 100 == 0 {
                old.push(x);
            }
            engine.op("use").writes([x]).push(nothing).unwrap();
            engine.delete_variable(|_| (), Context::cpu(0), x).unwrap();
            if round % 50 == 0 {
                engine.wait_for_all().unwrap();
            }
        }
        other.join().unwrap();
        assert!(most < 10_100, "10,000 variables, one at a time, used {most} places");
        engine.wait_for_all().unwrap();
        // How soon places come back beside another thread is for the scheduler to say; alone they
        // come back at once.
        for _ in 0..200 {
            let x = engine.new_variable();
            let place = x.into_raw().0 as u32;
            assert!(place <= most + 2, "place {place} is new, although {most} others are free");
            engine.delete_variable(|_| (), Context::cpu(0), x).unwrap();
            engine.wait_for_all().unwrap();
        }
        for x in old {
            assert_eq!(engine.version(x).unwrap_err().kind(), ErrorKind::VariableDeleted);
            assert_eq!(engine.op("late").writes([x]).push(nothing).unwrap_err().kind(), ErrorKind::VariableDeleted);
        }
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn of_several_deletions_one_succeeds() {
    on_every_engine(|engine| {
        for _ in 0..50 {
            let x = engine.new_variable();
            let ran = Arc::new(AtomicUsize::new(0));
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    let (engine, count) = (engine.clone(), counting(&ran));
                    std::thread::spawn(move || engine.delete_variable(count, Context::cpu(0), x).is_ok())
                })
                .collect();
            let succeeded = threads.into_iter().map(|thread| thread.join().unwrap()).filter(|ok| *ok).count();
            engine.wait_for_all().unwrap();
            assert_eq!((succeeded, ran.load(SeqCst)), (1, 1));
        }
    });
}

#[test]
fn a_push_that_races_with_a_deletion_runs_before_it_or_is_refused() {
    let _watchdog = Watchdog::new(120, "pushes that race with a deletion");
    on_every_engine(|engine| {
        let mut random = Random(5);
        for round in 0..60 {
            let blocked = round % 2 == 0;
            let [other, x] = [engine.new_variable(), engine.new_variable()];
            // Half of the time another variable of the operations is busy, so that refused ones
            // cannot complete at once.
            let holding = blocked.then(|| hold(&engine, &[], &[other]));
            let (accepted, ran, at_the_end) =
                (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let pushers: Vec<_> = (0..3)
                .map(|thread| {
                    let (engine, accepted, count) = (engine.clone(), Arc::clone(&accepted), counting(&ran));
                    std::thread::spawn(move || {
                        for number in 0..100_000 {
                            let builder = match (thread + number) % 4 {
                                0 => engine.op("reads").reads([x]),
                                1 => engine.op("writes").writes([x]),
                                2 => engine.op("reads both").reads([other, x]),
                                _ => engine.op("writes both").writes([x, other]),
                            };
                            match builder.push(count.clone()) {
                                Ok(()) => accepted.fetch_add(1, SeqCst),
                                Err(error) => {
                                    assert_eq!(error.kind(), ErrorKind::VariableDeleted);
                                    return;
                                }
                            };
                        }
                    })
                })
                .collect();
            spin(Duration::from_micros(random.below(400) as u64));
            let (seen, end) = (Arc::clone(&ran), Arc::clone(&at_the_end));
            engine.delete_variable(move |_| end.store(seen.load(SeqCst), SeqCst), Context::cpu(0), x).unwrap();
            pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
            if let Some(holding) = holding {
                holding.complete();
            }
            engine.wait_for_all().unwrap();
            let accepted = accepted.load(SeqCst);
            assert_eq!((ran.load(SeqCst), at_the_end.load(SeqCst)), (accepted, accepted), "round {round}");
            engine.delete_variable(|_| (), Context::cpu(0), other).unwrap();
        }
    });
}

#[test]
fn a_push_that_others_help_with_learns_of_a_deletion_all_the_same() {
    // A wide operation takes time to enlist, and pushes behind it help. If the pusher loses its
    // core meanwhile, a helper is first at the deleted variable: the pusher must learn of that
    // although it never sees it.
    let _watchdog = Watchdog::new(120, "helped pushes that race with a deletion");
    let done = Arc::new(AtomicBool::new(false));
    let disturb = {
        let done = Arc::clone(&done);
        move || {
            while !done.load(Relaxed) {
                std::thread::sleep(Duration::from_micros(50));
                spin(Duration::from_micros(100));
            }
        }
    };
    let disturbers = [(); 2].map(|()| std::thread::spawn(disturb.clone()));
    let mut random = Random(11);
    let mut usual = Duration::from_micros(500);
    let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
    let wide: Vec<Variable> = (0..1_999).map(|_| engine.new_variable()).collect();
    let begin = Instant::now();
    for round in 0..4_000 {
        if begin.elapsed() > Duration::from_secs(30) {
            break; // On a busy machine a round takes as long as the system lets its threads wait.
        }
        let last = engine.new_variable();
        let holding = hold(&engine, &[], &[wide[0]]);
        let started = Arc::new(AtomicUsize::new(0));
        let line_up = {
            let started = Arc::clone(&started);
            move || {
                started.fetch_add(1, SeqCst);
                while started.load(SeqCst) < 2 {
                    std::hint::spin_loop();
                }
            }
        };
        // While the wide operation is being enlisted, as long as that has taken so far.
        let delay = usual.mul_f64(random.below(1_000) as f64 / 1_000.0);
        let deleter = std::thread::spawn({
            let (engine, line_up, first) = (engine.clone(), line_up.clone(), wide[0]);
            move || {
                line_up();
                spin(delay);
                engine.delete_variable(|_| (), Context::cpu(0), last).unwrap();
                engine.op("behind").reads([first]).push(nothing).unwrap();
            }
        });
        let ran = Arc::new(AtomicUsize::new(0));
        line_up();
        let start = Instant::now();
        let pushed = engine.op("wide").reads(wide[1..].iter().copied()).writes([wide[0], last]).push(counting(&ran));
        usual = (usual * 7 + start.elapsed().min(usual * 2)) / 8;
        deleter.join().unwrap();
        holding.complete();
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), usize::from(pushed.is_ok()), "round {round}: {pushed:?}");
    }
    done.store(true, Relaxed);
    disturbers.into_iter().for_each(|disturber| disturber.join().unwrap());
}
