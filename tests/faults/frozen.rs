//! Pushers and workers that lose their core for long, at any instruction: nobody waits for them.

use crate::common::*;
use crate::freezer::*;
use seriatim::{Context, Engine, ErrorKind, IdlePolicy, Kind, RunContext, Variable};
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
    /// During which the operations of all pushes that had returned ran: those of others, and those
    /// that the frozen thread had pushed before.
    ran: usize,
    /// Of these the ones during which the operation of the frozen push ran too: it was committed.
    committed: usize,
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
    let done = Arc::new(AtomicBool::new(false));
    let [returns, ran, rests]: [Arc<[AtomicUsize; PUSHERS]>; 3] = Default::default();
    // Whether pushers that are not frozen are to rest.
    let rest = Arc::new(AtomicBool::new(false));
    let (send, receive) = mpsc::channel();
    let pushers: Vec<_> = (0..PUSHERS)
        .map(|own| {
            let (engine, shared, push, send) = (engine.clone(), shared.clone(), push.clone(), send.clone());
            let (done, rest) = (Arc::clone(&done), Arc::clone(&rest));
            let [returns, ran, rests] = [&returns, &ran, &rests].map(Arc::clone);
            std::thread::spawn(move || {
                send.send((own, this_thread(false))).unwrap();
                let mut random = Random(own as u64);
                while !done.load(Relaxed) {
                    let (read, write) = (random.pick(&shared), random.pick(&shared));
                    let runs = Arc::clone(&ran);
                    let body = move |_: &RunContext<'_>| _ = runs[own].fetch_add(1, SeqCst);
                    push(own, &|| engine.op("step").reads([read]).writes([write]).push(body.clone()).unwrap());
                    returns[own].fetch_add(1, SeqCst);
                    let in_flight = || sum(&returns).saturating_sub(sum(&ran));
                    while in_flight() > BACKLOG && !is_one_frozen() && !done.load(Relaxed) {
                        std::thread::yield_now();
                    }
                    while rest.load(SeqCst) && !done.load(Relaxed) {
                        rests[own].store(1, SeqCst);
                        std::thread::yield_now();
                    }
                    rests[own].store(0, SeqCst);
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
        let passed = have_got_on();
        *(if passed { &mut freezes.passed } else { &mut freezes.stalled }) += 1;
        if passed && engine.kind() != Kind::Naive {
            rest.store(true, SeqCst);
            let all_rest = || (0..PUSHERS).all(|own| own == victim || rests[own].load(SeqCst) == 1);
            eventually("the others rest", all_rest);
            let loads = |counts: &[AtomicUsize; PUSHERS]| std::array::from_fn(|own| counts[own].load(SeqCst));
            let (since, returned): (_, [usize; PUSHERS]) = (Instant::now(), loads(&returns));
            let have_run = |ran: [usize; PUSHERS]| (0..PUSHERS).all(|own| ran[own] >= returned[own]);
            while !have_run(loads(&ran)) && since.elapsed() < patience {
                std::thread::sleep(Duration::from_micros(20));
            }
            let ran = loads(&ran);
            assert!(have_run(ran), "a frozen push holds up operations: {returned:?} pushed, {ran:?} have run");
            freezes.ran += 1;
            freezes.committed += usize::from(ran[victim] > returned[victim]);
            rest.store(false, SeqCst);
        }
        assert_eq!(returns[victim].load(SeqCst), before[victim], "a frozen thread returns from nothing");
        drop(frozen);
        spin(Duration::from_micros(random.below(100) as u64));
    }
    done.store(true, SeqCst);
    pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
    engine.wait_for_all().unwrap();
    assert_eq!(sum(&ran), sum(&returns), "every operation has run");
    freezes
}

fn sum(counts: &[AtomicUsize; PUSHERS]) -> usize {
    counts.iter().map(|count| count.load(SeqCst)).sum()
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
        println!(
            "{kind}: {} freezes at {} different instructions; all ran during {}, the frozen operation during {}",
            freezes.passed,
            freezes.places.len(),
            freezes.ran,
            freezes.committed
        );
        assert_eq!(freezes.stalled, 0, "on the {kind} engine, others waited for a frozen pusher");
        assert!(freezes.ran == freezes.passed || kind == Kind::Naive);
        assert!(freezes.places.len() > 1 || cfg!(not(target_arch = "x86_64")), "always at the same instruction");
    }
}

#[test]
fn a_pusher_that_stops_while_it_wakes_a_worker_delays_only_its_own_operation() {
    println!("{}", run_child_well(&mut child("frozen wakers")));
}

/// One thread wakes the worker by each of its pushes, and is frozen in some of them. Another one
/// then pushes to a variable of its own, and behind the frozen push. Waits that help run what they
/// wait for. Without such waits the operations would be late if the thread stood between the
/// exchange by which it calls the worker and the system call: the next push meets a worker that
/// looks. So what is late then is only told.
pub fn frozen_wakers() {
    let _watchdog = Watchdog::new(100, "frozen wakers");
    for (kind, helps) in [Kind::Pooled, Kind::PerDevice].into_iter().flat_map(|kind| [(kind, true), (kind, false)]) {
        let builder = Engine::builder().kind(kind).cpu_workers(1).waiters_help(helps).idle(IdlePolicy::Park);
        let engine = builder.build().unwrap();
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        let (done, pushing) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (send, receive) = mpsc::channel();
        let waker = std::thread::spawn({
            let (engine, done, pushing) = (engine.clone(), Arc::clone(&done), Arc::clone(&pushing));
            move || {
                send.send(this_thread(false)).unwrap();
                let (ran, mut pushed) = (Arc::new(AtomicUsize::new(0)), 0);
                while !done.load(Relaxed) {
                    pushing.store(true, SeqCst);
                    section(|| engine.op("wakes").write(x).push(counting(&ran)).unwrap());
                    pushing.store(false, SeqCst);
                    pushed += 1;
                    eventually("it runs", || ran.load(SeqCst) == pushed || done.load(Relaxed));
                    // The worker sleeps by then.
                    std::thread::sleep(Duration::from_micros(100));
                }
            }
        });
        let target = receive.recv().unwrap();
        let (mut random, mut freezes, mut stuck) = (Random(5), 0, Vec::new());
        let (mut places, begin) = (HashSet::new(), Instant::now());
        while begin.elapsed() < Duration::from_secs(2) || freezes < LEAST {
            while !pushing.load(SeqCst) && begin.elapsed() < Duration::from_secs(60) {
                std::hint::spin_loop();
            }
            spin(Duration::from_nanos(random.below(20_000) as u64));
            let Some(frozen) = freeze(target) else { continue };
            freezes += 1;
            places.insert(frozen.place);
            let ran = Arc::new(AtomicUsize::new(0));
            engine.op("another").write(y).push(counting(&ran)).unwrap();
            engine.op("behind").read(x).push(counting(&ran)).unwrap();
            if helps {
                engine.wait_for_var(y).unwrap();
                engine.wait_for_var(x).unwrap();
            }
            let since = Instant::now();
            while ran.load(SeqCst) < 2 && since.elapsed() < Duration::from_millis(500) {
                std::thread::sleep(Duration::from_micros(50));
            }
            if ran.load(SeqCst) < 2 {
                stuck.push(frozen.place);
            }
            assert!(stuck.is_empty() || !helps, "{kind}: a wait has returned before its operation has run");
            drop(frozen);
            eventually("all has run", || ran.load(SeqCst) == 2);
        }
        done.store(true, SeqCst);
        waker.join().unwrap();
        engine.wait_for_all().unwrap();
        println!("{kind}, waits help: {helps}: {freezes} freezes at {} instructions, stuck {stuck:x?}", places.len());
    }
}

#[test]
fn a_frozen_push_does_not_make_the_memory_of_others_grow() {
    let operations = by_length("100000", "1000000");
    println!("{}", run_child_well(child("memory beside a frozen push").env("TEST_CHILD_OPERATIONS", operations)));
}

/// Variables that several threads have pushed to in turns, for good.
fn common_variable(engine: &Engine) -> Variable {
    let x = engine.new_variable();
    for _ in 0..20 {
        std::thread::scope(|scope| _ = scope.spawn(|| engine.op("turn").write(x).push(|_| ()).unwrap()));
        engine.op("turn").write(x).push(|_| ()).unwrap();
    }
    engine.wait_for_all().unwrap();
    x
}

/// It does not as long as others push to variables of their own, or the frozen push is one to a
/// variable of its thread's own. A push to a common variable pins its thread: what others push to
/// common variables meanwhile is not used again (150 bytes an operation), which has no bound.
pub fn memory_beside_a_frozen_push() {
    let _watchdog = Watchdog::new(600, "memory beside a frozen push");
    let operations: usize = std::env::var("TEST_CHILD_OPERATIONS").unwrap().parse().unwrap();
    let freezes = 4;
    // 64 MiB for ten million, and what a thread that comes late takes.
    let most = operations * 64 / 10_000 + 4096;
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        for (victims, others) in [(false, false), (true, false), (false, true), (true, true)] {
            let engine = Engine::builder().kind(kind).cpu_workers(1).build().unwrap();
            // Not the same one: what the frozen thread has in hand holds up what comes behind it.
            let [victims_on, others_on] =
                [victims, others].map(
                    |is_common| {
                        if is_common {
                            common_variable(&engine)
                        } else {
                            engine.new_variable()
                        }
                    },
                );
            let done = Arc::new(AtomicBool::new(false));
            let (send, receive) = mpsc::channel();
            let victim = std::thread::spawn({
                let (engine, done) = (engine.clone(), Arc::clone(&done));
                move || {
                    send.send(this_thread(false)).unwrap();
                    let (ran, mut pushed) = (Arc::new(AtomicUsize::new(0)), 0);
                    while !done.load(Relaxed) {
                        section(|| engine.op("frozen").write(victims_on).push(counting(&ran)).unwrap());
                        pushed += 1;
                        while pushed > ran.load(SeqCst) + 100 && !done.load(Relaxed) {
                            std::thread::yield_now();
                        }
                    }
                }
            });
            let target = receive.recv().unwrap();
            let (ran, mut pushed) = (Arc::new(AtomicUsize::new(0)), 0);
            let mut push = |count: usize| {
                for _ in 0..count {
                    engine.op("other").write(others_on).push(counting(&ran)).unwrap();
                    pushed += 1;
                    while pushed > ran.load(SeqCst) + 500 {
                        std::thread::yield_now();
                    }
                }
            };
            push(100_000);
            let mut grown = Vec::new();
            while grown.len() < freezes {
                spin(Duration::from_micros(50));
                let Some(frozen) = freeze(target) else { continue };
                let before = resident_memory();
                push(operations);
                grown.push(resident_memory().saturating_sub(before) >> 10);
                drop(frozen);
            }
            done.store(true, SeqCst);
            victim.join().unwrap();
            engine.wait_for_all().unwrap();
            let text = format!("{kind}, frozen on common: {victims}, others on common: {others}: {grown:?} kiB");
            println!("{text}");
            assert!(victims && others || grown.iter().all(|grown| *grown <= most), "{text} for {operations} each");
        }
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
