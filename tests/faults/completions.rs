//! Completions that fail, are dropped or are forgotten, among panics and under load. What
//! forgetting one means follows from what the engine promises: its operation has not ended, so it
//! is in flight for ever. Waits with a time limit say so and name it; what does not depend on it
//! goes on; and whatever runs everything to its end first, such as the end of the engine, does not
//! return.

use crate::common::*;
use seriatim::{Completion, Engine, ErrorKind, Kind, RunContext, Variable};
use std::mem::forget;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{mpsc, Arc};
use std::time::{Duration, Instant};

/// How an operation of the mixture ends.
const WAYS: usize = 7;

/// Pushes an operation that ends in a way of its own, here or on the thread behind `elsewhere`.
fn push_one(engine: &Engine, x: Variable, way: usize, ended: &Arc<AtomicUsize>, elsewhere: &mpsc::Sender<Completion>) {
    let (count, elsewhere) = (counting(ended), elsewhere.clone());
    let body = move |run: &RunContext<'_>, completion: Completion| {
        count(run);
        match way {
            0 => completion.complete(),
            1 => completion.fail("as it was meant to"),
            2 => drop(completion),
            3 => resume_unwind(Box::new("as it was meant to")),
            4 => drop(elsewhere.send(completion)),
            5 => {
                drop(elsewhere.send(completion));
                resume_unwind(Box::new("after it was given away"));
            }
            _ => {
                completion.complete();
                resume_unwind(Box::new("after it was completed"));
            }
        }
    };
    engine
        .op(["complete", "fail", "drop", "panic", "send", "send panic", "late"][way])
        .writes([x])
        .push_async(body)
        .unwrap();
}

#[test]
fn a_forgotten_completion_among_failures_holds_up_its_own_variable_and_no_other() {
    let _watchdog = Watchdog::new(100, "a forgotten completion among failures");
    on_every_engine(|engine| {
        let [stuck, other] = [engine.new_variable(), engine.new_variable()];
        let behind = Arc::new(AtomicUsize::new(0));
        engine.op("forgets").writes([stuck]).push_async(|_, completion| forget(completion)).unwrap();
        engine.op("behind it").reads([stuck]).writes([other]).push(counting(&behind)).unwrap();
        // Under load of every other kind, on variables of their own.
        let ended = Arc::new(AtomicUsize::new(0));
        let (send, receive) = mpsc::channel::<Completion>();
        let completer = std::thread::spawn(move || receive.into_iter().for_each(Completion::complete));
        let pushers: Vec<_> = (0..3)
            .map(|thread| {
                let (engine, ended, send) = (engine.clone(), Arc::clone(&ended), send.clone());
                std::thread::spawn(move || {
                    let own: Vec<Variable> = (0..4).map(|_| engine.new_variable()).collect();
                    let mut random = Random(thread);
                    let (mut good, mut bad) = (0, 0);
                    for number in 0..700 {
                        let x = random.pick(&own);
                        push_one(&engine, x, number % WAYS, &ended, &send);
                        // What failed is taken, so that what comes next runs.
                        match engine.wait_for_var(x) {
                            Ok(()) => good += 1,
                            Err(error) => {
                                assert!(
                                    matches!(
                                        error.kind(),
                                        ErrorKind::OperationFailed
                                            | ErrorKind::OperationPanicked
                                            | ErrorKind::CompletionDropped
                                    ),
                                    "{error}"
                                );
                                bad += 1;
                            }
                        }
                    }
                    (good, bad)
                })
            })
            .collect();
        for pusher in pushers {
            // Three ways of seven fail; those that panic once they have given the completion away
            // have not failed their variable.
            assert_eq!(pusher.join().unwrap(), (400, 300));
        }
        drop(send);
        completer.join().unwrap();
        assert_eq!(ended.load(SeqCst), 2_100);
        // Only the forgotten one is left, and what is behind it.
        let short = Duration::from_millis(5);
        let of_all = engine.wait_for_all_timeout(short).unwrap_err();
        assert_says(&of_all, ErrorKind::TimedOut, &["running 'forgets'", "'behind it'"]);
        let of_stuck = engine.wait_for_var_timeout(stuck, short).unwrap_err();
        assert_says(&of_stuck, ErrorKind::TimedOut, &["running 'forgets'"]);
        let of_other = engine.wait_for_var_timeout(other, short).unwrap_err();
        assert_says(&of_other, ErrorKind::TimedOut, &["'behind it'", "while 'forgets'"]);
        assert_eq!((behind.load(SeqCst), engine.version(stuck).unwrap()), (0, 0));
        // Its end never comes: the test gives the engine up with its threads.
        forget(engine);
    });
}

#[test]
fn an_engine_with_a_forgotten_completion_does_not_end_but_the_process_does() {
    run_child_well(&mut child("forgotten and dropped"));
}

pub fn forgotten_and_dropped() {
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(2).build().unwrap();
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        engine.op("forgets").writes([x]).push_async(|_, completion| forget(completion)).unwrap();
        // A fork waits its second for it, then goes on: the parent works, the child's engine
        // refuses.
        let begin = Instant::now();
        fork_and(|| {
            assert_eq!(engine.op("child").writes([y]).push(nothing).unwrap_err().kind(), ErrorKind::Stopped);
            let other = Engine::builder().kind(kind).cpu_workers(1).build().unwrap();
            other.op("works").push(nothing).unwrap();
            other.wait_for_all().unwrap();
        });
        assert!(begin.elapsed() < Duration::from_secs(30));
        engine.op("parent").writes([y]).push(nothing).unwrap();
        engine.wait_for_var_timeout(y, Duration::from_secs(30)).unwrap();
        // While it tries to stop, pushes are refused and waits have their limits: neither hangs.
        let stopped = Arc::new(AtomicBool::new(false));
        let (stopper, seen) = (engine.clone(), Arc::clone(&stopped));
        std::thread::spawn(move || {
            drop(stopper.stop());
            seen.store(true, SeqCst);
        });
        eventually("the stop has begun", || engine.op("late").push(nothing).is_err());
        let timed = engine.wait_for_all_timeout(Duration::from_millis(100)).unwrap_err();
        assert_says(&timed, ErrorKind::TimedOut, &["running 'forgets'"]);
        engine.wait_for_var_timeout(y, Duration::from_secs(30)).unwrap();
        assert!(!stopped.load(SeqCst), "it is in flight for ever");
        // The end of another such engine, by its last handle.
        let engine = Engine::builder().kind(kind).cpu_workers(2).build().unwrap();
        let (x, ran, ended) = (engine.new_variable(), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        engine.op("forgets").writes([x]).push_async(|_, completion| forget(completion)).unwrap();
        (0..100).for_each(|_| engine.op("beside").push(counting(&ran)).unwrap());
        let seen = Arc::clone(&ended);
        std::thread::spawn(move || {
            drop(engine);
            seen.store(true, SeqCst);
        });
        eventually("everything else has run", || ran.load(SeqCst) == 100);
        std::thread::sleep(Duration::from_millis(200));
        assert!(!ended.load(SeqCst), "it is in flight for ever");
    }
    // And here the process ends, with all those threads in the middle of their waits.
}
