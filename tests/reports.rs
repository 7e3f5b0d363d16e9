//! What an engine tells about itself: the profile and its trace, what it says on standard error,
//! and how things look in `{:?}`.

#[path = "reports/checker.rs"]
mod checker;
mod common;
#[path = "reports/devices.rs"]
mod devices;
#[cfg(feature = "metrics")]
#[path = "reports/gauges.rs"]
mod gauges;
#[path = "reports/names.rs"]
mod names;
#[cfg(feature = "serde")]
#[path = "reports/serial.rs"]
mod serial;
#[cfg(feature = "tracing")]
#[path = "reports/spans.rs"]
mod spans;
#[path = "reports/stats.rs"]
mod stats;
#[path = "reports/trace.rs"]
mod trace;

use common::*;
use seriatim::{Completion, Context, Data, Engine, ErrorKind, Kind, Property, RunContext};
use std::io;
use std::time::Duration;

/// Not a test of its own: carries out what the tests below ask of a child process.
#[test]
fn a_child_process_does_its_task() {
    #[cfg(feature = "tracing")]
    if task().as_deref() == Some("spans") {
        spans::tell();
    }
    if task().as_deref() == Some("talk") {
        let engine = Engine::from_env().unwrap();
        engine.op("work").push(nothing).unwrap();
        engine.stop().unwrap();
        engine.start().unwrap();
        engine.op("work").push(nothing).unwrap();
    }
}

#[test]
fn an_engine_says_what_it_starts_and_stops_if_it_is_asked_to() {
    let environment = [("SERIATIM_ENGINE", "pooled"), ("SERIATIM_CPU_WORKERS", "2")];
    let told = run_child_well(child("talk").envs(environment).env("SERIATIM_INFO", "on"));
    let mut rest = told.as_str();
    for part in ["made, Settings", "started 2 workers of", "stopped", "started", "stopped", "closed"] {
        let Some(at) = rest.find(part) else { panic!("no '{part}' in what is left of\n{told}") };
        rest = &rest[at + part.len()..];
    }
    let silent = run_child_well(child("talk").envs(environment));
    assert!(!silent.contains("seriatim engine"), "{silent}");
}

/// An engine that has recorded five operations of two names.
fn profiled(engine: &Engine) {
    let x = engine.new_variable();
    engine.start_profiling();
    let first = hold(engine, &[], &[x]);
    for _ in 0..3 {
        let step = engine.op("a \"step\"").reads([x]).property(Property::CpuPrioritized);
        step.push(|_| spin(Duration::from_micros(200))).unwrap();
    }
    engine.op("").writes([x]).push(nothing).unwrap();
    std::thread::sleep(Duration::from_millis(2));
    first.complete();
    engine.wait_for_all().unwrap();
    engine.stop_profiling();
    engine.op("unseen").writes([x]).push(nothing).unwrap();
    engine.wait_for_all().unwrap();
}

#[test]
fn a_profile_tells_the_times_of_every_named_operation() {
    on_every_engine(|engine| {
        profiled(&engine);
        let profile = engine.profile();
        assert_eq!((profile.lost(), profile.events().len()), (0, 4), "{profile:?}");
        assert!(profile.events().windows(2).all(|pair| pair[0].end <= pair[1].end), "in the order of their ends");
        for event in profile.events() {
            assert!(event.push <= event.ready && event.ready <= event.start && event.start <= event.end, "{event:?}");
            assert_eq!(event.context, Context::cpu(0));
            if event.name == "hold" {
                assert_eq!(event.property, Property::Async);
                assert!(event.end - event.start >= 2_000_000, "it ends when its completion says so: {event:?}");
            } else {
                assert_eq!((event.name, event.property), ("a \"step\"", Property::CpuPrioritized));
                assert!(event.ready - event.push >= 1_000_000, "it waited for the first: {event:?}");
                assert!(event.end - event.start >= 200_000, "{event:?}");
            }
        }
        let steps = profile.summaries().iter().find(|summary| summary.name == "a \"step\"").unwrap();
        assert_eq!(steps.count, 3);
        assert!(steps.running.min <= steps.running.p50 && steps.running.p50 <= steps.running.max, "{steps:?}");
        assert!(steps.running.total >= 600_000 && steps.running.mean >= 200_000.0, "{steps:?}");
        let table = profile.table();
        assert!(table.contains("hold") && table.contains("step") && !table.contains("unseen"), "{table}");
    });
}

#[test]
fn a_trace_has_a_slice_for_every_operation_and_passes_on_errors() {
    /// Takes so many bytes, and then no more.
    struct Full(usize);
    impl io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let engine = Engine::builder().kind(Kind::Pooled).cpu_workers(2).build().unwrap();
    profiled(&engine);
    let profile = engine.profile();
    let mut trace = Vec::new();
    profile.write_chrome_trace(&mut trace).unwrap();
    let trace = String::from_utf8(trace).unwrap();
    assert_eq!(trace.matches(r#""name":"a \"step\"""#).count(), 3, "{trace}");
    assert!(trace.contains("\"thread_name\"") && trace.contains("\"cat\":\"CpuPrioritized\""), "{trace}");
    assert_eq!(trace.matches('{').count(), trace.matches('}').count(), "{trace}");
    for room in [0, 10] {
        let error = profile.write_chrome_trace(Full(room)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}

#[test]
fn a_full_recorder_counts_what_it_loses() {
    const ROOM: u64 = 1 << 20;
    const MORE: u64 = 5_000;
    let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
    engine.start_profiling();
    (0..ROOM + MORE).for_each(|_| engine.op("one").push(nothing).unwrap());
    engine.wait_for_all().unwrap();
    let profile = engine.profile();
    assert_eq!((profile.events().len() as u64, profile.lost()), (ROOM, MORE));
    assert!(profile.table().contains("5000 more operations were not recorded"), "{}", profile.table());
    // Full is full: the next one is lost as well, and nothing else suffers.
    engine.op("one").push(nothing).unwrap();
    engine.wait_for_all().unwrap();
    assert_eq!(engine.profile().lost(), MORE + 1);
}

#[test]
fn everything_shows_itself() {
    let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
    let value = Data::new(&engine, vec![1, 2]);
    assert!(format!("{engine:?}").ends_with("(naive)"), "{engine:?}");
    assert_eq!(format!("{value:?}"), format!("Data({:?})", value.variable()));
    assert_eq!(format!("{:?}", value.read().unwrap()), "[1, 2]");
    assert_eq!(format!("{:?}", value.write().unwrap()), "[1, 2]");
    let operator = engine.op("step").operator(|_| ()).unwrap();
    assert_eq!(format!("{operator:?}"), "Operator('step')");
    let show = |_: &RunContext<'_>, completion: Completion| {
        assert_eq!(format!("{completion:?}"), "Completion");
        completion.complete();
    };
    engine.op("show").push_async(show).unwrap();
    engine.wait_for_all().unwrap();
    let error = engine.push(&operator, Context::gpu(0), 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeviceUnavailable);
    assert_eq!(format!("{error:?}"), format!("Error(DeviceUnavailable: {error})"));
}

/// While threads push without a pause, each drawing has what stays pending, with its name and what
/// it waits for.
#[test]
fn a_drawing_beside_pushes_has_all_that_stays_pending() {
    let pushes = by_length(20_000, 200_000);
    let engine = Engine::builder().kind(Kind::PerDevice).cpu_workers(1).build().unwrap();
    let x = engine.new_variable();
    let (send, receive) = std::sync::mpsc::channel();
    let hold = move |_: &RunContext<'_>, completion: Completion| send.send(completion).unwrap();
    engine.op("held").writes([x]).push_async(hold).unwrap();
    (0..3).for_each(|_| engine.op("behind").writes([x]).push(nothing).unwrap());
    let held = receive.recv().unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let pushing = scope.spawn(|| {
            let y = engine.new_variable();
            for _ in 0..pushes {
                engine.op("passing").writes([y]).push(nothing).unwrap();
            }
            engine.wait_for_var(y).unwrap();
            done.store(true, std::sync::atomic::Ordering::Release);
        });
        let mut drawings = 0;
        while !done.load(std::sync::atomic::Ordering::Acquire) || drawings < 5 {
            let drawn = engine.dump_dot();
            let count = |name: &str| drawn.matches(name).count();
            assert_eq!((count("held"), count("behind")), (1, 3), "{drawn}");
            drawings += 1;
        }
        pushing.join().unwrap();
    });
    held.complete();
    engine.wait_for_all().unwrap();
}
