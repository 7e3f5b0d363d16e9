//! After `prepare` a first push does what a later one does. Times only show it roughly: the code of
//! a push, and the closure's own, may be cold, and a neighbour may have the core. So instructions,
//! system calls and page faults are counted.

use crate::common::*;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use crate::stepping::{count, mark};
use seriatim::{Builder, Engine, ErrorKind, IdlePolicy, Kind, Variable};
use std::time::{Duration, Instant};

/// Pushes of which the first is compared with the last hundred.
const PUSHES: usize = 200;

fn builders_that_spin() -> [(&'static str, Builder); 3] {
    let builder = |kind| Engine::builder().kind(kind).cpu_workers(1).idle(IdlePolicy::Spin);
    [
        ("naive", builder(Kind::Naive)),
        ("pooled", builder(Kind::Pooled)),
        ("per-device", builder(Kind::PerDevice).priority_workers(1)),
    ]
}

fn fresh(builder: &Builder, prepares: bool) -> (Engine, Vec<Variable>) {
    let engine = builder.clone().build().unwrap();
    let variables = (0..PUSHES).map(|_| engine.new_variable()).collect();
    if prepares {
        engine.prepare().unwrap();
    }
    (engine, variables)
}

fn push(engine: &Engine, variable: Variable) {
    engine.op("step").writes([variable]).push(nothing).unwrap();
}

/// How long the first push of a fresh engine takes, and the median of those from the 100th to the
/// 200th.
fn first_and_later(builder: &Builder, prepares: bool) -> (Duration, Duration) {
    let (engine, variables) = fresh(builder, prepares);
    let timed = |variable: &Variable| {
        let start = Instant::now();
        push(&engine, *variable);
        start.elapsed()
    };
    let times: Vec<Duration> = variables.iter().map(timed).collect();
    let mut later = times[100..].to_vec();
    later.sort();
    engine.wait_for_all().unwrap();
    (times[0], later[50])
}

#[test]
fn the_first_push_after_it_is_many_times_as_quick_as_without() {
    const ENGINES: usize = 100;
    for (name, builder) in builders_that_spin() {
        let measure = |prepares| {
            let mut all: Vec<_> = (0..ENGINES).map(|_| first_and_later(&builder, prepares)).collect();
            all.sort();
            let ratio = |(first, later): (Duration, Duration)| first.as_secs_f64() / later.as_secs_f64().max(1e-9);
            let [best, median] = [all[0], all[ENGINES / 2]];
            println!(
                "{name}: prepared {prepares:5}: first push, later ones, ratio: best {best:?} {:.2}, median {median:?} {:.2}",
                ratio(best),
                ratio(median)
            );
            (best.0, median.0)
        };
        // Other processes may have the cores for a while.
        let gains = (0..5).map(|_| {
            let (cold, warm) = (measure(false), measure(true));
            let gain = |cold: Duration, warm: Duration| cold.as_secs_f64() / warm.as_secs_f64().max(1e-9);
            gain(cold.0, warm.0).max(gain(cold.1, warm.1))
        });
        let best = gains.inspect(|gain| println!("{name}: {gain:.0} times")).find(|gain| *gain >= 5.0);
        assert!(best.is_some(), "{name}: a first push takes nearly as long with it as without");
    }
}

#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn the_first_push_after_it_does_what_a_later_one_does() {
    println!("{}", run_child_well(&mut child("first pushes are counted")));
}

/// Instructions and system calls of the first push and of later ones.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn count_pushes() {
    for (name, builder) in builders_that_spin() {
        let walks = count(|| {
            let (engine, variables) = fresh(&builder, true);
            for (number, variable) in variables.iter().enumerate() {
                let is_counted = number == 0 || number >= PUSHES - 5;
                if is_counted {
                    // All find a worker that looks for work.
                    engine.wait_for_all().unwrap();
                    mark();
                }
                push(&engine, *variable);
                if is_counted {
                    mark();
                }
            }
        });
        let Some(walks) = walks else {
            println!("{name}: the system lets no process watch another, so nothing is counted");
            continue;
        };
        println!("{name}: the first push and later ones: {walks:?}");
        let [first, later @ ..] = &walks[..] else { panic!("no push was counted") };
        let most = later.iter().map(|walk| walk.instructions).max().unwrap();
        assert!(walks.iter().all(|walk| walk.calls == 0), "{name}: {walks:?}");
        assert!(first.instructions * 4 <= most * 5, "{name}: the first push does more: {walks:?}");
    }
}

/// Page faults of the calling thread so far, of those that need no disk.
#[cfg(target_os = "linux")]
fn page_faults() -> libc::c_long {
    // SAFETY: all zero is a value of it; the call fills it.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &mut usage), 0);
        usage.ru_minflt
    }
}

#[test]
#[cfg(target_os = "linux")]
fn the_first_push_after_it_meets_no_page_that_was_never_touched() {
    for (name, builder) in builders_that_spin() {
        let faults = |(engine, variables): &(Engine, Vec<Variable>)| {
            let before = page_faults();
            push(engine, variables[0]);
            page_faults() - before
        };
        // The first engine brings the code into memory. All are kept: none gets memory that another
        // has touched.
        let engines: Vec<_> = (0..5).map(|_| fresh(&builder, true)).collect();
        let met: Vec<libc::c_long> = engines.iter().map(faults).collect();
        println!("{name}: page faults of the first push: {met:?}");
        assert_eq!(met[1..].iter().min(), Some(&0), "{name}: {met:?}");
        engines.iter().for_each(|(engine, _)| engine.wait_for_all().unwrap());
    }
}

#[test]
fn it_brings_the_threads_up_and_counts_nothing() {
    run_child_well(&mut child("an engine is prepared"));
    with_every_builder(|builder| {
        let engine = builder.bound(2).build().unwrap();
        engine.op("fails").push(|_| Err("and is still to be told")).unwrap();
        engine.prepare().unwrap();
        engine.prepare().unwrap();
        assert_failed(engine.wait_for_all(), "still to be told");
        engine.wait_for_all().unwrap();
        engine.stop().unwrap();
        assert_eq!(engine.prepare().unwrap_err().kind(), ErrorKind::Stopped);
        engine.start().unwrap();
        let own = engine.clone();
        engine.op("inside").push(move |_| own.prepare()).unwrap();
        assert_eq!(engine.wait_for_all().unwrap_err().kind(), ErrorKind::WaitInsideOperation);
    });
}

pub fn carry_out(task: &str) -> bool {
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    if task == "first pushes are counted" {
        count_pushes();
        return true;
    }
    if task != "an engine is prepared" {
        return false;
    }
    let before = thread_count();
    let engine = Engine::builder().cpu_workers(2).priority_workers(3).build().unwrap();
    assert_eq!(thread_count(), before);
    engine.prepare().unwrap();
    assert_eq!(thread_count(), before + 2 + 3 + 1, "workers, prioritised workers, one for copies");
    true
}
