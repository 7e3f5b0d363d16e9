//! Pushers and workers that lose their core for long, at any instruction: nobody waits for them.

use crate::common::*;
use crate::freezer::*;
use seriatim::{Context, Engine, ErrorKind, Kind, RunContext, Variable};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{mpsc, Arc, Mutex};
use std::time::{Duration, Instant};

/// Pushers at once, on the same variables.
const PUSHERS: usize = 3;
/// Every other pusher must return from so many pushes while one is frozen.
const PROGRESS: usize = 50;
/// So many freezes at least.
const LEAST: usize = 10;
/// Operations in flight at which the pushers wait for the workers, while nobody is frozen.
const BACKLOG: usize = 20_000;

/// What came of freezing pushers.
#[derive(Default, Debug)]
struct Freezes {
    /// That others got on during.
    passed: usize,
    /// That others did not get on during, in the time that they had.
    stalled: usize,
    /// The instructions at which threads were frozen.
    places: HashSet<usize>,
}

/// Lets several threads push to the same variables, and freezes one of them inside its push again
/// and again.
fn freeze_pushers(
    engine: &Engine,
    push: impl Fn(usize, &dyn Fn()) + Send + Clone + 'static,
    patience: Duration,
) -> Freezes {
    let shared: Vec<Variable> = (0..4).map(|_| engine.new_variable()).collect();
    let (done, ran) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let returns: Arc<[AtomicUsize; PUSHERS]> = Arc::default();
    let (send, receive) = mpsc::channel();
    let pushers: Vec<_> = (0..PUSHERS)
        .map(|own| {
            let (engine, shared, push, send) = (engine.clone(), shared.clone(), push.clone(), send.clone());
            let (done, ran, returns) = (Arc::clone(&done), Arc::clone(&ran), Arc::clone(&returns));
            std::thread::spawn(move || {
                send.send((own, this_thread(false))).unwrap();
                let mut random = Random(own as u64);
                while !done.load(Relaxed) {
                    let (read, write) = (random.pick(&shared), random.pick(&shared));
                    push(own, &|| engine.op("step").reads([read]).writes([write]).push(counting(&ran)).unwrap());
                    returns[own].fetch_add(1, SeqCst);
                    let in_flight = || pushes(&returns).saturating_sub(ran.load(SeqCst));
                    while in_flight() > BACKLOG && !is_one_frozen() && !done.load(Relaxed) {
                        std::thread::yield_now();
                    }
                }
            })
        })
        .collect();
    let mut targets: Vec<_> = (0..PUSHERS).map(|_| receive.recv().unwrap()).collect();
    targets.sort_unstable_by_key(|(own, _)| *own);
    let mut random = Random(1);
    let mut freezes = Freezes::default();
    let begin = Instant::now();
    let count = |freezes: &Freezes| freezes.passed + freezes.stalled;
    // Thousands are possible in that time, dozens on a machine that is busy with other things.
    while (begin.elapsed() < Duration::from_secs(3) || count(&freezes) < LEAST) && freezes.stalled < 3 {
        let victim = random.below(PUSHERS);
        // Seen to move, it has a core now, and the signal meets it at any instruction; otherwise it
        // would meet it at the one at which the scheduler took it off.
        let (moved, since) = (returns[victim].load(Relaxed), Instant::now());
        while returns[victim].load(Relaxed) == moved && since.elapsed() < Duration::from_millis(1) {
            std::hint::spin_loop();
        }
        let Some(frozen) = freeze(targets[victim].1) else {
            continue;
        };
        freezes.places.insert(frozen.place);
        let before: Vec<usize> = returns.iter().map(|count| count.load(SeqCst)).collect();
        let since = Instant::now();
        let have_got_on =
            || (0..PUSHERS).all(|own| own == victim || returns[own].load(SeqCst) >= before[own] + PROGRESS);
        while !have_got_on() && since.elapsed() < patience {
            std::thread::sleep(Duration::from_micros(20));
        }
        *(if have_got_on() { &mut freezes.passed } else { &mut freezes.stalled }) += 1;
        assert_eq!(returns[victim].load(SeqCst), before[victim], "a frozen thread returns from nothing");
        drop(frozen);
        spin(Duration::from_micros(random.below(100) as u64));
    }
    done.store(true, SeqCst);
    pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
    engine.wait_for_all().unwrap();
    assert_eq!(ran.load(SeqCst), pushes(&returns), "every operation has run");
    freezes
}

fn pushes(returns: &[AtomicUsize; PUSHERS]) -> usize {
    returns.iter().map(|count| count.load(SeqCst)).sum()
}

#[test]
fn a_pusher_that_loses_its_core_inside_a_push_holds_up_no_other_on_the_same_variables() {
    println!("{}", run_child_well(&mut child("frozen pushers")));
}

pub fn frozen_pushers() {
    let _watchdog = Watchdog::new(100, "frozen pushers");
    let kinds = [Kind::Naive, Kind::Pooled, Kind::PerDevice];
    for kind in kinds {
        let engine = Engine::builder().kind(kind).cpu_workers(2).build().unwrap();
        let push = |_, push: &dyn Fn()| section(push);
        let freezes = freeze_pushers(&engine, push, Duration::from_secs(15));
        println!("{kind}: {} freezes at {} different instructions", freezes.passed, freezes.places.len());
        assert_eq!(freezes.stalled, 0, "on the {kind} engine, others waited for a frozen pusher");
        assert!(freezes.places.len() > 1 || cfg!(not(target_arch = "x86_64")), "always at the same instruction");
    }
}

#[test]
fn a_lock_around_the_push_would_be_found() {
    println!("{}", run_child_well(&mut child("frozen behind a lock")));
}

/// The same with pushes under a lock, so that the test above is known to see one.
pub fn frozen_behind_a_lock() {
    let _watchdog = Watchdog::new(100, "frozen pushers that hold a lock");
    let engine = Engine::builder().kind(Kind::PerDevice).cpu_workers(2).build().unwrap();
    let lock = Arc::new(Mutex::new(()));
    let push = move |_, push: &dyn Fn()| {
        section(|| {
            let _held = lock.lock().unwrap();
            push();
        });
    };
    let freezes = freeze_pushers(&engine, push, Duration::from_millis(200));
    println!("behind a lock: {} freezes passed, {} stalled", freezes.passed, freezes.stalled);
    assert!(freezes.stalled > 0, "nobody waited for a frozen owner of a lock");
}

#[test]
fn a_worker_that_loses_its_core_holds_up_no_more_than_what_it_has_in_hand() {
    println!("{}", run_child_well(&mut child("frozen workers")));
}

/// The threads of an engine's workers.
fn workers_of(engine: &Engine, count: usize) -> Vec<Target> {
    let (send, receive) = mpsc::channel();
    let mut found = vec![None; count];
    while found.iter().any(Option::is_none) {
        for worker in 0..count {
            let send = send.clone();
            // Held a little, so that each finds one of its own.
            let body = move |run: &RunContext<'_>| {
                if let Some(worker) = run.worker() {
                    send.send((worker, this_thread(true))).unwrap();
                    std::thread::sleep(Duration::from_millis(1));
                }
            };
            engine.op("who").context(Context::cpu(worker as u32 + 1)).push(body).unwrap();
        }
        engine.wait_for_all().unwrap();
        receive.try_iter().for_each(|(worker, target)| found[worker] = Some(target));
    }
    found.into_iter().flatten().collect()
}

/// What is pushed while a worker is frozen must run, on the variables that it has nothing in hand
/// for. The per-device engine needs no help for that. The pooled one wakes one sleeper for all that
/// comes until somebody takes it; if that sleeper is the one that gets no core, it is up to the
/// threads that wait, which help.
pub fn frozen_workers() {
    const WORKERS: usize = 3;
    const FRESH: usize = 64;
    let _watchdog = Watchdog::new(100, "frozen workers");
    for kind in [Kind::Pooled, Kind::PerDevice] {
        let helps = kind == Kind::Pooled;
        let engine = Engine::builder().kind(kind).cpu_workers(WORKERS).waiters_help(helps).build().unwrap();
        let targets = workers_of(&engine, WORKERS);
        // Another thread keeps them busy.
        let (done, ran) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let load = std::thread::spawn({
            let (engine, done, ran) = (engine.clone(), Arc::clone(&done), Arc::clone(&ran));
            let shared: Vec<Variable> = (0..20).map(|_| engine.new_variable()).collect();
            move || {
                let (mut random, mut pushed) = (Random(3), 0);
                while !done.load(Relaxed) {
                    let builder = engine.op("load").reads([random.pick(&shared)]).writes([random.pick(&shared)]);
                    builder.push(counting(&ran)).unwrap();
                    pushed += 1;
                    while pushed > ran.load(SeqCst) + 200 && !done.load(Relaxed) {
                        std::thread::yield_now();
                    }
                    spin(Duration::from_micros(random.pick(&[0, 0, 0, 50])));
                }
                pushed
            }
        });
        let fresh: Vec<Variable> = (0..FRESH).map(|_| engine.new_variable()).collect();
        let (mut random, mut freezes, mut least) = (Random(4), 0, FRESH);
        let mut places = HashSet::new();
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(5) || freezes < LEAST {
            let Some(frozen) = freeze(targets[random.below(WORKERS)]) else { continue };
            let since = Instant::now();
            let got = Arc::new(AtomicUsize::new(0));
            for variable in &fresh {
                engine.op("fresh").writes([*variable]).push(counting(&got)).unwrap();
            }
            if helps {
                fresh.iter().for_each(|variable| engine.wait_for_var(*variable).unwrap());
            }
            // Of those that lie with a sleeper that does not get up, the last few may stay there
            // until more comes.
            eventually("others run what is pushed while a worker is frozen", || got.load(SeqCst) >= FRESH / 2);
            least = least.min(got.load(SeqCst));
            // Three of a second, the others short and at many places.
            if freezes < 3 {
                std::thread::sleep(Duration::from_secs(1).saturating_sub(since.elapsed()));
            }
            freezes += 1;
            places.insert(frozen.place);
            drop(frozen);
            eventually("all is well when it is back", || got.load(SeqCst) == FRESH);
        }
        println!(
            "{kind}: {freezes} freezes at {} instructions, at least {least} of {FRESH} run meanwhile",
            places.len()
        );
        done.store(true, SeqCst);
        let pushed = load.join().unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), pushed);
    }
}

#[test]
fn a_process_that_is_stopped_and_continued_again_and_again_loses_nothing() {
    let mut command = child("stopped and continued");
    let mut running =
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let pid = running.id() as libc::pid_t;
    let mut random = Random(8);
    let deadline = Instant::now() + Duration::from_secs(100);
    while running.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            running.kill().unwrap();
            panic!("the child process hangs; it said:\n{}", said(&running.wait_with_output().unwrap()));
        }
        for (signal, pause) in [(libc::SIGSTOP, random.between(1, 400)), (libc::SIGCONT, random.between(50, 300))] {
            // SAFETY: the child is not reaped before this loop ends, so the number is its own.
            assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
            std::thread::sleep(Duration::from_millis(pause as u64));
        }
    }
    let output = running.wait_with_output().unwrap();
    assert!(output.status.success(), "it ended with {}; it said:\n{}", output.status, said(&output));
}

pub fn under_load() {
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(2).build().unwrap();
        let shared: Vec<Variable> = (0..5).map(|_| engine.new_variable()).collect();
        let (ran, pushed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let end = Instant::now() + Duration::from_millis(1500);
        let pushers: Vec<_> = (0..3)
            .map(|own| {
                let (engine, shared) = (engine.clone(), shared.clone());
                let (ran, pushed) = (Arc::clone(&ran), Arc::clone(&pushed));
                std::thread::spawn(move || {
                    let mut random = Random(own);
                    while Instant::now() < end {
                        let builder = engine.op("step").reads([random.pick(&shared)]).writes([random.pick(&shared)]);
                        builder.push(counting(&ran)).unwrap();
                        pushed.fetch_add(1, SeqCst);
                        match random.below(200) {
                            0 => engine.wait_for_var(random.pick(&shared)).unwrap(),
                            1 => engine.wait_for_all().unwrap(),
                            // The stop may use the time up: an error, and nothing else.
                            2 => {
                                let wait = engine.wait_for_var_timeout(random.pick(&shared), Duration::from_millis(1));
                                wait.unwrap_or_else(|error| assert_eq!(error.kind(), ErrorKind::TimedOut));
                            }
                            _ => {}
                        }
                    }
                })
            })
            .collect();
        pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
        engine.stop().unwrap();
        assert_eq!(ran.load(SeqCst), pushed.load(SeqCst));
    }
}
