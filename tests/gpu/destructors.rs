//! Destructors of the program's on the watcher of a device, if that is the last to let go of a
//! graph, or of a closure of a pipeline.
#![cfg(target_os = "linux")]

use crate::common::cores::stay_on_this_core;
use crate::common::{child, eventually, nothing, run_child_well};
use crate::hooked::Hooked;
use crate::model::{entered, stray, Model, Release};
use crate::over;
use seriatim::{Completion, Context, IdlePolicy, RunContext};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const GPU: Context = Context::gpu(0);
const LIMIT: Duration = Duration::from_secs(30);
const WATCHER: &str = "seriatim-watch-";

fn is_watcher() -> bool {
    std::thread::current().name().is_some_and(|name| name.starts_with(WATCHER))
}

/// From now on each thread that the watcher wakes takes the core from it.
fn watcher_gives_way() {
    for task in std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path()) {
        if std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with(WATCHER)) {
            let number = task.file_name().unwrap().to_str().unwrap().parse().unwrap();
            let parameter = libc::sched_param { sched_priority: 0 };
            // SAFETY: the parameter is ours.
            assert_eq!(unsafe { libc::sched_setscheduler(number, libc::SCHED_IDLE, &parameter) }, 0);
        }
    }
}

/// Whatever the destructors of a graph do on the watcher, if that is the last to let go of it: on
/// one core each thread that it wakes comes before it.
#[test]
fn the_watcher_asks_with_its_own_device_current() {
    println!("{}", run_child_well(&mut child("watcher comes last")));
}

/// The task of that child.
pub fn watcher_comes_last() {
    struct Strays(Arc<AtomicUsize>);
    impl Drop for Strays {
        fn drop(&mut self) {
            if is_watcher() {
                stray(Some(1));
                self.0.fetch_add(1, SeqCst);
            }
        }
    }
    stay_on_this_core();
    let model = Model::new(2, 1, 4);
    let hooked = Hooked::new(&model);
    let engine = over(&model).gpus(Arc::clone(&hooked) as _).idle(IdlePolicy::Park).build().unwrap();
    let (x, wrong, strayed) = (engine.new_variable(), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&wrong);
    hooked.hook(move |_| _ = count.fetch_add(usize::from(is_watcher() && entered() != Some(0)), SeqCst));
    let begin = Instant::now();
    // A busy neighbour may leave the watcher little time now.
    while strayed.load(SeqCst) < 5 && begin.elapsed() < Duration::from_secs(20) {
        let strays = Strays(Arc::clone(&strayed));
        let start = move |run: &RunContext<'_>, completion: Completion| {
            let _ = &strays;
            // SAFETY: the stream is the operation's.
            unsafe { completion.complete_after(run.stream().unwrap()) }
        };
        let (graph, ()) = engine.capture(|c| c.op("ends").context(GPU).write(x).push_async(start)).unwrap();
        graph.replay().unwrap();
        drop(graph);
        engine.op("more").context(GPU).write(x).push(nothing).unwrap();
        engine.wait_for_all_timeout(LIMIT).unwrap();
        watcher_gives_way();
    }
    drop(engine);
    println!("the watcher was the last {} times", strayed.load(SeqCst));
    assert_eq!(wrong.load(SeqCst), 0, "the driver was asked with another device current");
}

/// Each closure of a pipeline is dropped by the watcher, for sure: the pipeline is gone, the call
/// has returned, and the operation ends at a mark of its stream. Whatever its destructor does, the
/// watcher has its own device current for what comes next, be it another destructor.
#[test]
fn destructors_of_a_pipeline_find_the_watchers_device_and_so_does_what_it_asks() {
    const PIPELINES: usize = 3;
    /// Whether it is the watcher that drops it, and which device is current there.
    type Found = (bool, Option<usize>);
    struct Strays(Arc<Mutex<Vec<Found>>>);
    impl Drop for Strays {
        fn drop(&mut self) {
            self.0.lock().unwrap().push((is_watcher(), entered()));
            stray(Some(1));
        }
    }
    let model = Model::new(2, 1, 4);
    let hooked = Hooked::new(&model);
    let engine = over(&model).gpus(Arc::clone(&hooked) as _).gpu_workers(1).build().unwrap();
    let _release = Release(Arc::clone(&model));
    let (dropped, wrong) = (Arc::default(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&wrong);
    hooked.hook(move |_| _ = count.fetch_add(usize::from(is_watcher() && entered() != Some(0)), SeqCst));
    let x = engine.new_variable();
    model.hold(0, true);
    for _ in 0..PIPELINES {
        let (strays, y) = (Strays(Arc::clone(&dropped)), engine.new_variable());
        let start = move |run: &RunContext<'_>, completion: Completion| {
            let _ = &strays;
            // SAFETY: the stream is the operation's.
            unsafe { completion.complete_after(run.stream().unwrap()) }
        };
        let (mut steps, ()) =
            engine.capture_pipeline(|c| c.op("ends").context(GPU).write(y).push_async(start)).unwrap();
        steps.replay().unwrap();
    }
    // The one worker comes to it when it has left the others.
    engine.op("behind").context(GPU).write(x).push(nothing).unwrap();
    eventually("it is queued", || engine.version(x).unwrap() == 1);
    assert_eq!(dropped.lock().unwrap().len(), 0);
    model.hold(0, false);
    engine.wait_for_all_timeout(LIMIT).unwrap();
    engine.op("more").context(GPU).write(x).push(nothing).unwrap();
    engine.wait_for_all_timeout(LIMIT).unwrap();
    assert_eq!(*dropped.lock().unwrap(), [(true, Some(0)); PIPELINES]);
    assert_eq!(wrong.load(SeqCst), 0, "the driver was asked with another device current");
}
