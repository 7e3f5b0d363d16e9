//! Settings, environments and systems that do not allow what is asked for.

use crate::common::*;
use seriatim::{Engine, ErrorKind, IdlePolicy, Kind, WhenFull};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::Arc;

#[test]
fn settings_that_are_not_valid_are_refused_with_those_that_are() {
    let build = Engine::builder;
    let most = ["1 to 1024"];
    for (error, say) in [
        (build().cpu_workers(0).build(), &most),
        (build().cpu_workers(1025).build(), &most),
        (build().priority_workers(0).build(), &most),
        (build().priority_workers(usize::MAX).build(), &most),
        (build().gpu_workers(0).build(), &["1 to 16"]),
        (build().gpu_workers(17).build(), &["1 to 16"]),
        (build().gpu_ahead(0).build(), &most),
        (build().gpu_ahead(1025).build(), &most),
        (build().nested_threads(0).build(), &most),
        (build().cores([0, 1024]).build(), &["core numbers from 0 to 1023"]),
    ] {
        let error = error.unwrap_err();
        assert_says(&error, ErrorKind::BadSetting, say);
        assert!(error.to_string().contains("cannot be '"), "{error} names the setting and the value");
    }
    for (key, value, say) in [
        ("ENGINE", "sideways", "naive, pooled, per-device"),
        ("SERIATIM_ENGINE", "", "naive, pooled, per-device"),
        ("IDLE", "sleep", "spin, spin-then-park, park"),
        ("WHEN_FULL", "panic", "block, help, would-block"),
        ("PIN", "maybe", "on, off"),
        ("WAITERS_HELP", "2", "on, off"),
        ("INFO", "yes", "on, off"),
        ("CPU_WORKERS", "two", "a whole number"),
        ("PRIORITY_WORKERS", "-1", "a whole number"),
        ("GPU_WORKERS", "1.5", "a whole number"),
        ("GPU_AHEAD", "", "a whole number"),
        ("GPU_COPY_WORKERS", "1", "each GPU has one copy worker"),
        ("BOUND", "lots", "a whole number"),
        ("NESTED_THREADS", " ", "a whole number"),
        ("CORES", "3-1", "core numbers from 0 to 1023"),
        ("CORES", "0,,1", "core numbers from 0 to 1023"),
        ("CORES", "0-1024", "such as 0,2-5"),
        ("WORKERS", "2", "SERIATIM_CPU_WORKERS"),
        ("SERIATIM_", "2", "SERIATIM_WAITERS_HELP"),
    ] {
        let error = build().set(key, value).map(|_| ()).unwrap_err();
        assert_says(&error, ErrorKind::BadSetting, &[say]);
    }
    assert_says(&"x".parse::<Kind>().unwrap_err(), ErrorKind::BadSetting, &["the engine cannot be 'x'"]);
    assert_says(&"x".parse::<IdlePolicy>().unwrap_err(), ErrorKind::BadSetting, &["the idle policy cannot be 'x'"]);
    assert_says(&"x".parse::<WhenFull>().unwrap_err(), ErrorKind::BadSetting, &["when full cannot be 'x'"]);
    // What can be shown can be read back.
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        assert_eq!(kind.to_string().parse::<Kind>().unwrap(), kind);
    }
}

#[test]
fn a_wrong_environment_is_an_error_of_the_engine_that_reads_it() {
    run_child_well(child("environment").env("SERIATIM_ENGINE", "sideways"));
    run_child_well(child("environment").env("SERIATIM_CPU_WORKERS", "0"));
    run_child_well(child("environment").env("SERIATIM_ENGIN", "naive"));
    run_child_well(child("right environment").envs([
        ("SERIATIM_ENGINE", " pooled "),
        ("SERIATIM_BOUND", "7"),
        ("SERIATIM_CORES", "0"),
    ]));
}

pub fn wrong_environment() {
    for error in [Engine::from_env().unwrap_err(), Engine::global().unwrap_err(), Engine::global().unwrap_err()] {
        assert_says(&error, ErrorKind::BadSetting, &[]);
        assert!(error.to_string().len() > 20, "{error}");
    }
    Engine::builder().build().expect("the builder does not look at the environment");
}

pub fn right_environment() {
    for engine in [&Engine::from_env().unwrap(), Engine::global().unwrap()] {
        assert_eq!((engine.kind(), engine.settings().bound), (Kind::Pooled, 7));
        assert_eq!(engine.settings().cores, [0]);
    }
}

#[test]
fn threads_that_the_system_refuses_are_an_error_and_nothing_is_lost() {
    for kind in ["pooled", "per-device"] {
        run_child_well(child("threads").env("TEST_CHILD_KIND", kind).env("RUST_MIN_STACK", (64 << 20).to_string()));
    }
}

/// Limits the address space of this process to what it uses now and so much more.
fn limit_address_space(more: Option<u64>) {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = text.split_whitespace().next().unwrap().parse().unwrap();
    let limit = more.map_or(libc::RLIM_INFINITY, |more| (pages * 4096 + more) as libc::rlim_t);
    let limit = libc::rlimit { rlim_cur: limit, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the struct is valid; the limit concerns this process only.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
}

/// The parent asks for stacks of 64 MB, so a few threads exhaust the limit and leave room for
/// everything else.
pub fn refused_threads() {
    let kind: Kind = std::env::var("TEST_CHILD_KIND").unwrap().parse().unwrap();
    let engine = Engine::builder().kind(kind).cpu_workers(1024).pin(false).idle(IdlePolicy::Park).build().unwrap();
    let x = engine.new_variable();
    let ran = Arc::new(AtomicUsize::new(0));
    let others = thread_count();
    limit_address_space(Some(300 << 20));
    for _ in 0..3 {
        let error = engine.op("refused").writes([x]).push(counting(&ran)).unwrap_err();
        assert_says(
            &error,
            ErrorKind::ThreadRefused,
            &["refused to start worker", "of 1024", "ask for fewer workers, or raise the limit"],
        );
        assert_eq!(Arc::strong_count(&ran), 1, "the closure is dropped");
        eventually("all or none are started", || thread_count() == others);
    }
    engine.wait_for_var(x).unwrap();
    engine.stop().unwrap();
    let error = engine.start().unwrap_err();
    assert_says(&error, ErrorKind::ThreadRefused, &["refused to start worker"]);
    let error = engine.op("refused").push(counting(&ran)).unwrap_err();
    assert_says(&error, ErrorKind::Stopped, &["the engine is stopped"]);
    // Enough threads, and everything works.
    let modest = Engine::builder().kind(kind).cpu_workers(1).build().unwrap();
    modest.op("fits").push(counting(&ran)).unwrap();
    modest.wait_for_all().unwrap();
    limit_address_space(None);
    engine.start().unwrap();
    engine.op("runs").writes([x]).push(counting(&ran)).unwrap();
    engine.wait_for_all().unwrap();
    assert_eq!((ran.load(SeqCst), engine.version(x).unwrap()), (2, 1));
}
