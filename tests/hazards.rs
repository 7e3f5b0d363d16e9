//! Interleavings that once hung, starved or leaked, kept so that they do not come back.

use seriatim::{Context, Engine, ErrorKind, Kind, Property, RunContext, Variable};
#[cfg(target_os = "linux")]
use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{mpsc, Arc};
use std::thread;
use std::time::{Duration, Instant};

const KINDS: [Kind; 3] = [Kind::Naive, Kind::Pooled, Kind::PerDevice];

/// Runs `work` on a thread of its own and fails if it takes longer than a machine under load could.
fn in_time(what: &str, work: impl FnOnce() + Send + 'static) {
    let (done, finished) = mpsc::channel();
    let worker = thread::spawn(move || {
        work();
        let _ = done.send(());
    });
    match finished.recv_timeout(Duration::from_secs(60)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what} hangs"),
        _ => worker.join().expect("the work does not panic"),
    }
}

#[test]
fn stop_waits_for_a_closure_that_pushes_after_its_completion() {
    for kind in KINDS {
        in_time("stop", move || {
            let engine = Engine::builder().kind(kind).cpu_workers(1).waiters_help(false).build().unwrap();
            let (inner, ran) = (engine.clone(), Arc::new(AtomicBool::new(false)));
            let seen = Arc::clone(&ran);
            let (begun, beginning) = mpsc::channel();
            let start = move || {
                inner.op("start").push_async({
                    let inner = inner.clone();
                    move |_, done| {
                        done.complete();
                        begun.send(()).unwrap();
                        thread::sleep(Duration::from_millis(50));
                        // Refused or run, but neither lost nor a deadlock.
                        let pushed = inner.op("next").push(move |_| seen.store(true, SeqCst));
                        assert!(pushed.is_ok());
                    }
                })
            };
            let pusher = thread::spawn(start);
            beginning.recv().unwrap();
            engine.stop().unwrap();
            assert!(ran.load(SeqCst), "what was pushed during the stop ran before its end");
            pusher.join().unwrap().unwrap();
        });
    }
}

#[test]
fn waiters_learn_of_what_ends_inside_a_closure_that_goes_on() {
    for kind in KINDS {
        in_time("wait_for_all", move || {
            let engine = Engine::builder().kind(kind).cpu_workers(1).waiters_help(false).build().unwrap();
            let (inner, outer) = (engine.clone(), engine.clone());
            let (go, gone) = mpsc::channel::<()>();
            let pusher = thread::spawn(move || {
                outer.op("start").push_async(move |_, done| {
                    done.complete();
                    let nap = inner.op("nap").property(Property::Async);
                    nap.push(|_| thread::sleep(Duration::from_millis(100))).unwrap();
                    gone.recv().unwrap();
                })
            });
            thread::sleep(Duration::from_millis(30));
            engine.wait_for_all().unwrap();
            go.send(()).unwrap();
            pusher.join().unwrap().unwrap();
        });
    }
}

#[test]
fn an_operation_that_pushes_itself_again_starves_nobody() {
    fn again(engine: &Engine, stop: &Arc<AtomicBool>) {
        if stop.load(Relaxed) {
            return;
        }
        let (own, stop) = (engine.clone(), Arc::clone(stop));
        engine.op("again").push(move |_| again(&own, &stop)).unwrap();
    }
    for kind in [Kind::Pooled, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(1).build().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        again(&engine, &stop);
        let seen = Arc::clone(&stop);
        engine.op("end it").push(move |_| seen.store(true, Relaxed)).unwrap();
        let begin = Instant::now();
        while !stop.load(Relaxed) {
            if begin.elapsed() > Duration::from_secs(60) {
                stop.store(true, Relaxed);
                panic!("{kind}: the second operation never runs");
            }
            thread::yield_now();
        }
    }
}

#[cfg(target_os = "linux")]
fn resident_kib() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4
}

#[cfg(target_os = "linux")]
#[test]
fn threads_that_end_with_an_engine_of_their_own_leave_nothing_behind() {
    thread_local! {
        static OWN: Engine = Engine::builder().kind(Kind::Naive).build().unwrap();
    }
    let round = || {
        for _ in 0..300 {
            let own = || {
                OWN.with(|engine| {
                    let x = engine.new_variable();
                    engine.op("use").writes([x]).push(|_| ()).unwrap();
                    engine.wait_for_all().unwrap();
                });
            };
            thread::spawn(own).join().unwrap();
        }
    };
    round();
    let before = resident_kib();
    (0..3).for_each(|_| round());
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 36_000, "900 threads left {grown} KiB behind");
}

#[cfg(target_os = "linux")]
#[test]
fn threads_that_use_an_engine_at_their_very_end_leave_nothing_behind() {
    struct UsesAtTheEnd(Engine, Variable);
    impl Drop for UsesAtTheEnd {
        fn drop(&mut self) {
            self.0.op("at the end").writes([self.1]).push(|_| ()).unwrap();
        }
    }
    thread_local! {
        static LATE: RefCell<Vec<UsesAtTheEnd>> = const { RefCell::new(Vec::new()) };
    }
    let shared = Engine::builder().kind(Kind::Naive).build().unwrap();
    let round = || {
        for _ in 0..300 {
            let own = Engine::builder().kind(Kind::Naive).build().unwrap();
            let (first, engines) = (own.clone(), [own.clone(), shared.clone(), own.clone(), shared.clone()]);
            let uses = move || {
                // First, and so dropped after the engines' own thread-locals.
                LATE.with_borrow_mut(|late| {
                    late.extend(engines.map(|engine| {
                        let x = engine.new_variable();
                        UsesAtTheEnd(engine, x)
                    }));
                });
                first.op("first").push(|_| ()).unwrap();
            };
            thread::spawn(uses).join().unwrap();
            own.wait_for_all().unwrap();
        }
        shared.wait_for_all().unwrap();
    };
    round();
    let before = resident_kib();
    (0..3).for_each(|_| round());
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < 36_000, "900 threads left {grown} KiB behind");
}

#[test]
fn a_handle_that_no_engine_made_is_refused() {
    for kind in KINDS {
        for below in [Duration::ZERO, Duration::from_secs(1)] {
            let engine = Engine::builder().kind(kind).inline_below(below).build().unwrap();
            a_made_up_handle_is_refused(&engine);
        }
    }
}

fn a_made_up_handle_is_refused(engine: &Engine) {
    let x = engine.new_variable();
    let (place, generation) = x.into_raw();
    let body = |_: &RunContext<'_>| ();
    // Once it is known to be short, it runs inside its push.
    for _ in 0..100 {
        engine.op("before").reads([x]).push(body).unwrap();
        engine.wait_for_all().unwrap();
    }
    // A place that was never handed out, and the generation that x has once it is deleted.
    for forged in [(place + 1, 0), (place + 1, 1), (place, generation + 1), (place + 1_000_000, 1)] {
        let forged = Variable::from_raw(forged);
        let refusals = [
            engine.version(forged).map(|_| ()),
            engine.op("use").writes([forged]).push(body),
            engine.op("use").reads([x, forged]).push(body),
            engine.wait_for_var(forged),
            engine.delete_variable(|_| (), Context::cpu(0), forged),
        ];
        assert!(refusals.iter().all(|refusal| refusal.as_ref().is_err_and(|e| e.kind() == ErrorKind::VariableDeleted)));
    }
    engine.wait_for_all().unwrap();
    assert_eq!(engine.version(x).unwrap(), 0);
}

#[test]
fn what_was_pushed_before_a_wait_does_not_run_on_the_failure_that_the_wait_took() {
    for kind in KINDS {
        let engine = Engine::builder().kind(kind).cpu_workers(2).build().unwrap();
        for _ in 0..500 {
            let x = engine.new_variable();
            let ran = Arc::new(AtomicBool::new(false));
            let seen = Arc::clone(&ran);
            engine.op("fail").writes([x]).push(|_| Err("no")).unwrap();
            engine.op("read").reads([x]).push(move |_| seen.store(true, SeqCst)).unwrap();
            assert!(engine.wait_for_var(x).is_err());
            engine.wait_for_all().unwrap();
            assert!(!ran.load(SeqCst), "{kind}: the read is behind the failure, and before the wait");
            engine.delete_variable(|_| (), Context::cpu(0), x).unwrap();
        }
    }
}

#[test]
fn after_a_wait_for_everything_no_variable_is_pending() {
    for kind in KINDS {
        in_time("waiting", move || {
            let engine = Engine::builder().kind(kind).cpu_workers(1).waiters_help(false).build().unwrap();
            let x = engine.new_variable();
            let begin = Instant::now();
            for round in 0..20_000 {
                if begin.elapsed() > Duration::from_secs(2) {
                    break; // On a busy core each round may take milliseconds.
                }
                engine.op("write").writes([x]).push(|_| ()).unwrap();
                engine.wait_for_all().unwrap();
                engine
                    .wait_for_var_timeout(x, Duration::ZERO)
                    .unwrap_or_else(|error| panic!("{kind}, round {round}: {error}"));
            }
        });
    }
}

#[test]
fn of_two_deletions_one_is_refused_and_the_place_is_given_away_once() {
    const ROUNDS: usize = 20_000;
    for kind in KINDS {
        in_time("deletions", move || {
            let engine = Engine::builder().kind(kind).cpu_workers(1).build().unwrap();
            // The variables of a round, and the number of the round that a thread may begin.
            let variables: Vec<Variable> = (0..ROUNDS).map(|_| engine.new_variable()).collect();
            let arrived = [AtomicUsize::new(0), AtomicUsize::new(0)];
            let (deleted, last, begin) = (AtomicUsize::new(0), AtomicUsize::new(ROUNDS), Instant::now());
            let delete_all = |own: usize| {
                for (round, x) in variables.iter().enumerate() {
                    // On a busy core each round may take milliseconds. The first thread says which
                    // is the last, before it begins that.
                    if own == 0 && begin.elapsed() > Duration::from_secs(2) {
                        last.fetch_min(round + 1, SeqCst);
                    }
                    arrived[own].store(round + 1, SeqCst);
                    while arrived[1 - own].load(SeqCst) <= round {
                        thread::yield_now();
                    }
                    if round >= last.load(SeqCst) {
                        return;
                    }
                    match engine.delete_variable(|_| (), Context::cpu(0), *x) {
                        Ok(()) => _ = deleted.fetch_add(1, SeqCst),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::VariableDeleted),
                    }
                }
            };
            thread::scope(|scope| {
                scope.spawn(|| delete_all(0));
                delete_all(1);
            });
            engine.wait_for_all().unwrap();
            assert_eq!(deleted.load(SeqCst), last.load(SeqCst), "{kind}");
            // Twice as many as there were: each place is given out once.
            let again: HashSet<String> = (0..2 * ROUNDS).map(|_| format!("{:?}", engine.new_variable())).collect();
            assert_eq!(again.len(), 2 * ROUNDS, "{kind}: a place belongs to two variables");
        });
    }
}
