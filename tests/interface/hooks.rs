//! What a program hears of the threads that an engine keeps, and how they are called.

use crate::common::*;
use seriatim::{gpu::Immediate, Builder, Context, Engine, Kind};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

type Heard = Arc<Mutex<Vec<(bool, String)>>>;

/// A builder whose hooks note which threads begin and end.
fn noting(builder: Builder) -> (Builder, Heard) {
    let heard = Heard::default();
    let (begun, ended) = (Arc::clone(&heard), Arc::clone(&heard));
    let builder = builder
        .on_thread_start(move |name| begun.lock().unwrap().push((true, name.to_owned())))
        .on_thread_stop(move |name| ended.lock().unwrap().push((false, name.to_owned())));
    (builder, heard)
}

/// The names of the threads that have begun, and of those that have ended.
fn sorted(heard: &Heard) -> [Vec<String>; 2] {
    [true, false].map(|begins| {
        let mut names: Vec<_> =
            heard.lock().unwrap().iter().filter(|(begun, _)| *begun == begins).map(|(_, name)| name.clone()).collect();
        names.sort_unstable();
        names
    })
}

#[test]
fn each_thread_is_heard_of_at_its_start_and_at_its_end() {
    let settings = Engine::builder().kind(Kind::PerDevice).cpu_workers(2).priority_workers(1).pin(false);
    let (builder, heard) = noting(settings);
    let engine = builder.build().unwrap();
    assert_eq!(sorted(&heard), [[""; 0]; 2], "no thread has started yet");
    engine.prepare().unwrap();
    let names = ["seriatim-cpu-0", "seriatim-cpu-1", "seriatim-io-0", "seriatim-prio-0"];
    assert_eq!(sorted(&heard), [&names[..], &[]]);
    engine.stop().unwrap();
    assert_eq!(sorted(&heard), [names, names], "a stop waits for the hooks");
    engine.start().unwrap();
    engine.prepare().unwrap();
    drop(engine);
    let twice = names.map(|name| [name; 2]).concat();
    assert_eq!(sorted(&heard), [twice.clone(), twice]);
}

#[test]
fn an_engine_without_threads_tells_of_none() {
    let (builder, heard) = noting(Engine::builder().kind(Kind::Naive));
    let engine = builder.build().unwrap();
    engine.op("work").push(nothing).unwrap();
    engine.wait_for_all().unwrap();
    drop(engine);
    assert_eq!(sorted(&heard), [[""; 0]; 2]);
}

#[test]
fn the_threads_of_a_device_are_heard_of_too() {
    let settings = Engine::builder().cpu_workers(1).gpu_workers(1).pin(false).gpus(Immediate::new(1));
    let (builder, heard) = noting(settings.thread_names(|usual| usual.replace("seriatim", "ours")));
    let engine = builder.build().unwrap();
    engine.op("kernel").context(Context::gpu(0)).push(nothing).unwrap();
    engine.wait_for_all().unwrap();
    drop(engine);
    let [begun, ended] = sorted(&heard);
    let begun: BTreeSet<&str> = begun.iter().map(String::as_str).collect();
    assert!(begun.contains("ours-gpu-0") && begun.contains("ours-watch-0"), "{begun:?}");
    assert_eq!(begun, ended.iter().map(String::as_str).collect());
}

/// What the hook has returned for is done before the worker runs anything.
#[test]
fn a_start_is_before_the_first_operation_and_an_end_after_the_last() {
    thread_local! {
        static READY: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    }
    let engine = Engine::builder()
        .kind(Kind::Pooled)
        .cpu_workers(3)
        .waiters_help(false)
        .on_thread_start(|_| READY.set(true))
        .on_thread_stop(|_| READY.set(false))
        .build()
        .unwrap();
    for _ in 0..300 {
        engine.op("asks").push(|_| assert!(READY.get(), "the hook comes first")).unwrap();
    }
    engine.wait_for_all().unwrap();
}

#[test]
fn a_hook_that_panics_leaves_the_thread_as_it_is() {
    let engine = Engine::builder()
        .kind(Kind::Pooled)
        .cpu_workers(2)
        .waiters_help(false)
        .on_thread_start(|_| panic!("at its start"))
        .on_thread_stop(|_| std::panic::panic_any(7))
        .thread_names(|usual| if usual.ends_with("-0") { panic!("no name") } else { format!("a\0b {usual}") })
        .build()
        .unwrap();
    let (send, receive) = std::sync::mpsc::channel();
    for _ in 0..200 {
        let send = send.clone();
        let tell = move |_: &seriatim::RunContext<'_>| {
            send.send(std::thread::current().name().unwrap_or_default().to_owned()).unwrap();
        };
        engine.op("tells").push(tell).unwrap();
    }
    drop(send);
    engine.wait_for_all().unwrap();
    let names: BTreeSet<String> = receive.iter().collect();
    let known = ["seriatim-pool-0", "ab seriatim-pool-1"];
    assert!(!names.is_empty() && names.iter().all(|name| known.contains(&name.as_str())), "{names:?}");
    engine.stop().unwrap();
    engine.start().unwrap();
    engine.op("again").push(nothing).unwrap();
    engine.wait_for_all().unwrap();
}

#[test]
fn engines_of_clones_of_a_builder_share_the_hooks() {
    let (builder, heard) = noting(Engine::builder().kind(Kind::Pooled).cpu_workers(1));
    let engines = [builder.clone().build().unwrap(), builder.build().unwrap()];
    for engine in &engines {
        engine.op("work").push(nothing).unwrap();
        engine.wait_for_all().unwrap();
    }
    drop(engines);
    let twice = ["seriatim-pool-0"; 2];
    assert_eq!(sorted(&heard), [twice, twice]);
}
