//! What an engine asks of the system, and what it says where the system refuses. Each case is a
//! process of its own, since it gives up rights or has the limits of a process changed.

#![cfg(target_os = "linux")]

use crate::common::*;
use seriatim::{Builder, Context, Engine, ErrorKind, IdlePolicy, Kind, Property, RunContext};
use std::fs::read_to_string;

/// Bytes of this process that are locked.
fn locked() -> usize {
    let status = read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse::<usize>().unwrap() * 1024
}

fn set_limit(what: libc::__rlimit_resource_t, most: libc::rlim_t) {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: reads the limit.
    assert_eq!(unsafe { libc::setrlimit(what, &raw const limit) }, 0, "a limit may always be lowered");
}

/// Gives up what the superuser may do. Nobody else may lock memory or have priorities but for what
/// the limits allow.
fn become_nobody() {
    // SAFETY: changes the rights of this process, which no other test shares.
    unsafe {
        if libc::getuid() == 0 {
            assert_eq!(libc::setgid(65534), 0);
            assert_eq!(libc::setuid(65534), 0);
        }
    }
}

fn locking(kind: Kind) -> Builder {
    Engine::builder().kind(kind).cpu_workers(1).priority_workers(1).lock_memory(true)
}

fn memory_is_locked() {
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        let before = locked();
        let engine = match locking(kind).build() {
            Ok(engine) => engine,
            Err(error) => return println!("the system locks nothing: {error}"),
        };
        let first = locked();
        assert!(first > before, "{kind}: the first blocks");
        engine.prepare().unwrap();
        let prepared = locked();
        // 1,024 blocks of 128 bytes or more, and 128 larger ones.
        assert!(prepared - before >= 1024 * 128 + 64 * 256, "{kind}: {before}, then {prepared}");
        let (x, held) = (engine.new_variable(), Gate::new());
        if kind != Kind::Naive {
            let gate = held.clone();
            engine.op("holds").writes([x]).push(move |_| gate.pass()).unwrap();
            (0..5_000).for_each(|_| engine.op("behind").writes([x]).push(nothing).unwrap());
            assert!(locked() > prepared, "{kind}: those of a backlog");
            held.open();
        }
        engine.wait_for_all().unwrap();
        assert_eq!(engine.warnings().iter().filter(|warning| warning.contains("lock")).count(), 0);
        drop(engine);
        assert_eq!(locked(), before, "{kind}: an engine that has ended");
        let usual = Engine::builder().kind(kind).cpu_workers(1).build().unwrap();
        usual.prepare().unwrap();
        assert_eq!(locked(), before, "{kind}: by default");
    }
}

fn memory_is_refused() {
    become_nobody();
    // The first blocks are 64 kB, and those of `prepare` more.
    set_limit(libc::RLIMIT_MEMLOCK, 128 * 1024);
    let engine = locking(Kind::PerDevice).build().unwrap();
    let say = ["bytes of the engine's blocks", "Cannot allocate memory", "RLIMIT_MEMLOCK"];
    for _ in 0..2 {
        assert_says(&engine.prepare().unwrap_err(), ErrorKind::MemoryLockRefused, &say);
    }
    assert!(engine.warnings().iter().any(|warning| say.iter().all(|part| warning.contains(part))));
    // It works, without the locks.
    let x = engine.new_variable();
    (0..1_000).for_each(|_| engine.op("step").writes([x]).push(nothing).unwrap());
    engine.wait_for_all().unwrap();
    assert_eq!(engine.version(x).unwrap(), 1_000);
    drop(engine);
    set_limit(libc::RLIMIT_MEMLOCK, 0);
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        let error = locking(kind).build().unwrap_err();
        assert_says(&error, ErrorKind::MemoryLockRefused, &[say[0], "Operation not permitted", say[2]]);
    }
}

/// Engines of all kinds that lock memory, one that runs and one that is stopped of each; `None` if
/// the system locks nothing.
fn running_and_stopped() -> Option<Vec<Engine>> {
    let kinds = [Kind::Naive, Kind::Pooled, Kind::PerDevice];
    let engines: Vec<Engine> =
        kinds.iter().chain(&kinds).map(|kind| locking(*kind).build().ok()).collect::<Option<_>>()?;
    engines.iter().for_each(|engine| engine.prepare().unwrap());
    engines[kinds.len()..].iter().for_each(|engine| engine.stop().unwrap());
    Some(engines)
}

fn memory_is_locked_in_a_fork() {
    let Some(engines) = running_and_stopped() else { return println!("the system locks nothing") };
    let before = locked();
    fork_and(|| {
        assert_eq!(locked(), before, "the child has the same blocks");
        for engine in &engines {
            engine.start().unwrap();
            engine.prepare().unwrap();
            assert!(engine.warnings().iter().all(|warning| !warning.contains("lock")));
        }
    });
    assert_eq!(locked(), before, "the parent's stay as they were");
    drop(engines);
    assert_eq!(locked(), 0, "all that was locked belonged to the engines");
}

fn memory_is_refused_in_a_fork() {
    let Some(engines) = running_and_stopped() else { return println!("the system locks nothing") };
    let before = locked();
    become_nobody();
    set_limit(libc::RLIMIT_MEMLOCK, 0);
    fork_and(|| {
        assert_eq!(locked(), 0);
        for engine in &engines {
            let say = ["bytes of the engine's blocks", "RLIMIT_MEMLOCK"];
            let is_said = || engine.warnings().iter().any(|warning| say.iter().all(|part| warning.contains(part)));
            assert!(is_said(), "before anything makes more blocks");
            engine.start().unwrap();
            for _ in 0..2 {
                assert_says(&engine.prepare().unwrap_err(), ErrorKind::MemoryLockRefused, &say);
            }
            // It works, without the locks.
            let x = engine.new_variable();
            engine.op("step").writes([x]).push(nothing).unwrap();
            engine.wait_for_var(x).unwrap();
        }
    });
    assert_eq!(locked(), before, "the parent's stay as they were");
    assert!(engines.iter().all(|engine| engine.warnings().iter().all(|warning| !warning.contains("lock"))));
}

/// Policy and priority of a thread.
fn scheduling(thread: i32) -> (i32, i32) {
    // SAFETY: the call fills the parameter.
    unsafe {
        let mut parameter: libc::sched_param = std::mem::zeroed();
        assert_eq!(libc::sched_getparam(thread, &raw mut parameter), 0);
        (libc::sched_getscheduler(thread) & !libc::SCHED_RESET_ON_FORK, parameter.sched_priority)
    }
}

/// The numbers of all threads of engines.
fn workers() -> Vec<i32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let is_worker =
        |path: &std::path::PathBuf| read_to_string(path.join("comm")).is_ok_and(|name| name.starts_with("seriatim-"));
    tasks.filter(is_worker).map(|path| path.file_name().unwrap().to_str().unwrap().parse().unwrap()).collect()
}

const USUAL: (i32, i32) = (libc::SCHED_OTHER, 0);

fn workers_have_a_priority() {
    for kind in [Kind::Pooled, Kind::PerDevice] {
        let builder = Engine::builder().kind(kind).cpu_workers(2).priority_workers(1).waiters_help(false);
        let engine = builder.clone().fifo_priority(7).idle(IdlePolicy::Park).build().unwrap();
        match engine.prepare() {
            Ok(()) => {}
            Err(error) => return println!("the system gives no priority: {error}"),
        }
        let found = workers();
        assert!(found.len() >= 3, "{kind}: {found:?}");
        for worker in found {
            assert_eq!(scheduling(worker), (libc::SCHED_FIFO, 7), "{kind}");
        }
        assert_eq!(scheduling(0), USUAL, "{kind}: the calling thread");
        let starts = |_: &RunContext<'_>| {
            assert_eq!(scheduling(0), (libc::SCHED_FIFO, 7));
            std::thread::spawn(|| assert_eq!(scheduling(0), USUAL)).join().map_err(|_| "the priority was inherited")
        };
        engine.op("starts a thread").push(starts).unwrap();
        engine.wait_for_all().unwrap();
        // A thread that was joined is listed until the system has done with it.
        let none_is_left = || eventually("no thread is left", || workers().is_empty());
        engine.stop().unwrap();
        none_is_left();
        engine.start().unwrap();
        assert!(workers().into_iter().all(|worker| scheduling(worker) == (libc::SCHED_FIFO, 7)), "{kind}: again");
        drop(engine);
        none_is_left();
        let engine = builder.build().unwrap();
        engine.prepare().unwrap();
        assert!(workers().into_iter().all(|worker| scheduling(worker) == USUAL), "{kind}: by default");
        drop(engine);
        none_is_left();
    }
}

fn a_priority_is_refused() {
    become_nobody();
    set_limit(libc::RLIMIT_RTPRIO, 0);
    for kind in [Kind::Pooled, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(2).fifo_priority(99).build().unwrap();
        let say =
            ["SCHED_FIFO with priority 99", "worker 0 of 2 of 'seriatim-", "Operation not permitted", "RLIMIT_RTPRIO"];
        let x = engine.new_variable();
        let (graph, rate) =
            engine.capture(|c| c.op("step").writes([x]).push(nothing).map(|()| c.parameter(1))).unwrap();
        let (operator, context) = (engine.op("step").operator(|_| ()).unwrap(), Context::cpu(0));
        let mut capture = engine.begin_capture();
        let refused = [
            engine.prepare(),
            engine.op("step").writes([x]).push(nothing),
            engine.op("step").writes([x]).push_async(|_, completion| completion.complete()),
            engine.op("step").cost_key(1).push(nothing),
            engine.push_sync(|_| (), context, &[], &[x], Property::Normal, 0, "step"),
            engine.push(&operator, context, 0),
            engine.delete_variable(|_| (), context, x),
            graph.replay(),
            rate.set(2),
            capture.make_private(x),
            engine.stop().and_then(|()| engine.start()),
        ];
        for (call, refused) in refused.into_iter().enumerate() {
            let error = refused.err().unwrap_or_else(|| panic!("{kind}: call {call} went well"));
            assert_says(&error, ErrorKind::PriorityRefused, &say);
        }
        // A thread that was joined is listed until the system has done with it.
        eventually("no thread without the priority is left", || workers().is_empty());
        engine.wait_for_all().unwrap();
        assert_eq!(engine.version(x).unwrap(), 0, "nothing was pushed");
    }
}

#[test]
fn what_the_system_is_asked_for_is_had_or_is_an_error() {
    for task in [
        "memory is locked",
        "memory is refused",
        "memory is locked in a fork",
        "memory is refused in a fork",
        "workers have a priority",
        "a priority is refused",
    ] {
        println!("{}", run_child_well(&mut child(task)));
    }
}

#[test]
fn priorities_that_cannot_be_are_refused_at_once() {
    let build = |kind, priority| Engine::builder().kind(kind).fifo_priority(priority).build().map(|_| ());
    for (kind, priority) in [(Kind::PerDevice, 100), (Kind::Pooled, u32::MAX), (Kind::Naive, 1)] {
        let error = build(kind, priority).unwrap_err();
        assert_says(&error, ErrorKind::BadSetting, &["fifo_priority cannot be", "0 to 99"]);
    }
    build(Kind::Naive, 0).unwrap();
    let spinning = Engine::builder().fifo_priority(1).idle(IdlePolicy::Spin).build().unwrap();
    assert!(spinning.warnings().iter().any(|warning| warning.contains("under SCHED_FIFO")));
}

pub fn carry_out(task: &str) -> bool {
    match task {
        "memory is locked" => memory_is_locked(),
        "memory is refused" => memory_is_refused(),
        "memory is locked in a fork" => memory_is_locked_in_a_fork(),
        "memory is refused in a fork" => memory_is_refused_in_a_fork(),
        "workers have a priority" => workers_have_a_priority(),
        "a priority is refused" => a_priority_is_refused(),
        _ => return false,
    }
    true
}
