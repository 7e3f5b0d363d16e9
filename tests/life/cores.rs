//! Which cores threads run on: workers not on that of the thread which starts them, and not on that
//! of a thread that waits. The affinity of the program's threads is theirs.

use crate::common::cores::own_cores;
use crate::common::*;
use seriatim::{Builder, Engine, IdlePolicy, Kind, RunContext};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::Arc;
use std::time::{Duration, Instant};

type System = fn(usize) -> Answer;

thread_local! {
    /// What the system does when the calling thread changes its own affinity, call by call; and how
    /// many calls there were.
    static SYSTEM: Cell<(System, usize)> = const { Cell::new((|_| Answer::Obey, 0)) };
    /// The core that somebody else gives to the calling thread.
    static OTHER: Cell<usize> = const { Cell::new(0) };
}

enum Answer {
    Obey,
    Refuse,
    /// Somebody else changes it at the same time, to `OTHER`.
    Overrule,
}

/// Stands before the system's function of this name in the whole test binary.
///
/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_setaffinity(
    thread: libc::pid_t,
    size: usize,
    set: *const libc::cpu_set_t,
) -> libc::c_int {
    // SAFETY: passed on.
    let call = |set: *const libc::cpu_set_t| unsafe {
        libc::syscall(libc::SYS_sched_setaffinity, thread, size, set) as libc::c_int
    };
    if thread != 0 {
        return call(set);
    }
    let (answer, calls) = SYSTEM.get();
    SYSTEM.set((answer, calls + 1));
    match answer(calls) {
        Answer::Obey => call(set),
        Answer::Refuse => -1,
        Answer::Overrule => {
            call(set);
            let other = set_of(&[OTHER.get()]);
            call(&raw const other)
        }
    }
}

/// How often the calling thread's own affinity is changed meanwhile, by a system that answers so.
fn changes(answer: System, act: impl FnOnce()) -> usize {
    SYSTEM.set((answer, 0));
    act();
    SYSTEM.replace((|_| Answer::Obey, 0)).1
}

fn stand_on(core: usize) {
    may_run_on(&[core]);
}

/// The core that the calling thread runs on.
fn current() -> usize {
    // SAFETY: takes nothing and changes nothing.
    unsafe { libc::sched_getcpu() as usize }
}

fn set_of(cores: &[usize]) -> libc::cpu_set_t {
    // SAFETY: the set is plain bits.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        cores.iter().for_each(|core| libc::CPU_SET(*core, &mut set));
        set
    }
}

/// Lets the calling thread run on these cores; it stays where it is until the system moves it.
fn may_run_on(cores: &[usize]) {
    let set = set_of(cores);
    // SAFETY: the set is of the size that the call is told.
    let answer = unsafe { sched_setaffinity(0, std::mem::size_of_val(&set), &raw const set) };
    assert_eq!(answer, 0);
}

/// The cores that a thread of this process may use, 0 for the calling one.
fn may_use(thread: libc::pid_t) -> Vec<usize> {
    // SAFETY: the set is plain bits, of the size that the call is told.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(thread, std::mem::size_of_val(&set), &raw mut set), 0);
        (0..libc::CPU_SETSIZE as usize).filter(|core| libc::CPU_ISSET(*core, &set)).collect()
    }
}

/// The calling thread, for [`may_use`].
fn own_number() -> usize {
    // SAFETY: takes nothing and changes nothing.
    unsafe { libc::syscall(libc::SYS_gettid) as usize }
}

fn one_worker(all: &[usize]) -> Builder {
    Engine::builder().kind(Kind::PerDevice).cpu_workers(1).cores(all.iter().copied())
}

/// Starts the engine's worker, and says which thread it is.
fn worker_of(engine: &Engine) -> libc::pid_t {
    let number = Arc::new(AtomicUsize::new(0));
    while number.load(SeqCst) == 0 {
        let number = Arc::clone(&number);
        let body = move |run: &RunContext<'_>| {
            if run.worker().is_some() {
                number.store(own_number(), SeqCst);
            }
        };
        engine.op("").push(body).unwrap();
        engine.wait_for_all().unwrap();
    }
    number.load(SeqCst) as libc::pid_t
}

#[test]
fn workers_leave_the_core_of_the_thread_that_starts_them() {
    let all = own_cores();
    if all.len() < 2 {
        return; // There is no other core.
    }
    for core in &all {
        let (all, core) = (all.clone(), *core);
        let check = move || {
            stand_on(core);
            let builder = Engine::builder().kind(Kind::PerDevice).cpu_workers(all.len() - 1).cores(all.iter().copied());
            let engine = builder.waiters_help(false).build().unwrap();
            let here = Arc::new(AtomicUsize::new(0));
            for _ in 0..100 {
                let count = Arc::clone(&here);
                let body = move |run: &RunContext<'_>| {
                    assert!(run.worker().is_some());
                    count.fetch_add(usize::from(current() == core), SeqCst);
                };
                engine.op("").push(body).unwrap();
            }
            engine.wait_for_all().unwrap();
            assert_eq!(engine.warnings(), Vec::<String>::new());
            assert_eq!(here.load(SeqCst), 0, "operations ran on core {core}, where the pusher is");
        };
        std::thread::spawn(check).join().expect("no operation shares the pusher's core");
    }
}

/// Has a thread wait for a worker that is pinned to the core where it stands, again and again: they
/// must part, and the thread's affinity must not be touched unless `moves`.
fn waits_on_the_core_of_a_worker(helps: bool, moves: bool, wait: fn(&Engine)) {
    const ROUNDS: usize = 40;
    let all = own_cores();
    if all.len() < 2 {
        return; // There is no other core.
    }
    let check = move || {
        let engine = one_worker(&all).waiters_help(helps).move_callers(moves).build().unwrap();
        let worker = worker_of(&engine);
        let (mut shared, mut touched) = (0, 0);
        for _ in 0..ROUNDS {
            let [busy] = may_use(worker)[..] else { panic!("the worker is pinned to one core") };
            stand_on(busy);
            may_run_on(&all);
            for _ in 0..8 {
                engine.op("").push(|_| spin(Duration::from_micros(100))).unwrap();
            }
            touched += changes(|_| Answer::Obey, || wait(&engine));
            assert_eq!(may_use(0), all, "the thread may not run where it could before");
            shared += usize::from(may_use(worker) == [current()]);
            assert!(!moves || may_use(worker) == [busy], "the worker was moved");
        }
        assert!(moves || touched == 0, "the affinity of the calling thread was changed {touched} times");
        // The system may put it back, where other processes use the cores as well.
        assert!(shared < ROUNDS / 2, "in {shared} of {ROUNDS} rounds it was on the worker's core");
    };
    std::thread::spawn(check).join().expect("they part");
}

fn for_everything(engine: &Engine) {
    engine.wait_for_all().unwrap();
}

fn for_a_variable(engine: &Engine) {
    let variable = engine.new_variable();
    engine.op("").writes([variable]).push(|_| std::thread::sleep(Duration::from_millis(5))).unwrap();
    engine.wait_for_var(variable).unwrap();
}

#[test]
fn a_worker_leaves_its_core_to_a_thread_that_waits_and_helps() {
    waits_on_the_core_of_a_worker(true, false, for_everything);
}

#[test]
fn a_worker_leaves_its_core_to_a_thread_that_only_waits() {
    waits_on_the_core_of_a_worker(false, false, for_everything);
}

#[test]
fn a_worker_leaves_its_core_to_a_thread_that_waits_for_a_variable() {
    waits_on_the_core_of_a_worker(false, false, for_a_variable);
}

#[test]
fn a_thread_that_waits_leaves_the_core_of_a_worker_if_the_settings_say_so() {
    waits_on_the_core_of_a_worker(false, true, for_everything);
    waits_on_the_core_of_a_worker(false, true, for_a_variable);
}

/// Has a thread that is to be moved wait on a worker's core, until the system was asked to move it;
/// then `check`s.
fn moved_by(answer: System, check: fn(&Engine)) {
    let all = own_cores();
    if all.len() < 2 {
        return; // There is no other core.
    }
    let act = move || {
        let engine = one_worker(&all).waiters_help(false).move_callers(true).build().unwrap();
        let worker = worker_of(&engine);
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            assert!(Instant::now() < deadline, "it is never moved");
            OTHER.set(may_use(worker)[0]);
            stand_on(OTHER.get());
            may_run_on(&all);
            if changes(answer, || for_a_variable(&engine)) > 0 {
                break;
            }
        }
        check(&engine);
        may_run_on(&all);
    };
    std::thread::spawn(act).join().expect("it holds");
}

#[test]
fn an_affinity_that_somebody_changes_meanwhile_stays() {
    moved_by(
        |call| if call == 0 { Answer::Overrule } else { Answer::Obey },
        |_| assert_eq!(may_use(0), [OTHER.get()], "what somebody else has set was overwritten"),
    );
}

#[test]
fn an_affinity_that_the_system_does_not_give_back_is_a_warning() {
    moved_by(
        |call| if call == 0 { Answer::Obey } else { Answer::Refuse },
        |engine| {
            let warnings = engine.warnings();
            assert!(warnings.iter().any(|text| text.contains("did not give it back")), "{warnings:?}");
        },
    );
}

#[test]
fn spinning_workers_that_leave_no_core_to_the_caller_are_a_warning() {
    let all = own_cores();
    let builder = Engine::builder().kind(Kind::PerDevice).cores(all.iter().copied()).cpu_workers(all.len());
    let warnings = |builder: Builder| builder.build().unwrap().warnings();
    let crowded = warnings(builder.clone().idle(IdlePolicy::Spin));
    assert!(crowded.len() == 1 && crowded[0].contains("have none of their own"), "{crowded:?}");
    assert_eq!(warnings(builder.clone().idle(IdlePolicy::SpinThenPark)), [] as [String; 0]);
    assert_eq!(warnings(builder.clone().idle(IdlePolicy::Spin).pin(false)), [] as [String; 0]);
    if all.len() > 1 {
        let fewer = builder.idle(IdlePolicy::Spin).cpu_workers(all.len() - 1);
        assert_eq!(warnings(fewer), [] as [String; 0]);
    }
}

#[test]
fn a_worker_that_spins_beside_a_busy_thread_is_a_warning() {
    let check = || {
        let core = own_cores()[0];
        let engine = one_worker(&[core]).idle(IdlePolicy::Spin).build().unwrap();
        engine.op("").push(nothing).unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let busy = std::thread::spawn({
            let over = Arc::clone(&over);
            move || {
                stand_on(core);
                while !over.load(Relaxed) {
                    std::hint::spin_loop();
                }
            }
        });
        let part = "spins on core";
        eventually("the engine warns", || engine.warnings().iter().any(|text| text.contains(part)));
        over.store(true, Relaxed);
        busy.join().unwrap();
        assert_eq!(engine.warnings().iter().filter(|text| text.contains(part)).count(), 1, "it is said once");
    };
    std::thread::spawn(check).join().expect("it warns");
}
