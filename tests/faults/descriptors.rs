//! A process that has no file descriptor left: the engine needs none.

use crate::common::*;
use seriatim::{Completion, Engine, Kind, Property, RunContext};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn an_engine_works_without_file_descriptors() {
    run_child_well(&mut child("no descriptors"));
}

fn limit_descriptors(limit: u64) {
    let limit = libc::rlimit { rlim_cur: limit, rlim_max: 1 << 10 };
    // SAFETY: the struct is valid; the limit concerns this process only.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }, 0);
}

pub fn without_descriptors() {
    let _watchdog = Watchdog::new(60, "an engine without file descriptors");
    let others = thread_count();
    limit_descriptors(3);
    let error = std::fs::File::open("/proc/self/statm").expect_err("none is left");
    assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(2).build().unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        let work = || {
            for property in [Property::Normal, Property::CpuPrioritized, Property::CopyToGpu, Property::Async] {
                let builder = engine.op("step").reads([y]).writes([x]).property(property);
                builder.push(counting(&ran)).unwrap();
            }
            let elsewhere = |_: &RunContext<'_>, completion: Completion| {
                std::thread::spawn(move || completion.complete());
            };
            engine.op("elsewhere").writes([y]).push_async(elsewhere).unwrap();
            engine.op("fails").writes([y]).push(|_| Err("as it was meant to")).unwrap();
            assert_failed(engine.wait_for_var(y), "as it was meant to");
            engine.wait_for_var_timeout(x, Duration::from_secs(30)).unwrap();
            engine.wait_for_all().unwrap();
        };
        work();
        engine.stop().unwrap();
        engine.start().unwrap();
        work();
        assert!(engine.dump_dot().ends_with("}\n"));
        fork_and(work);
        work();
        assert_eq!((ran.load(SeqCst), engine.version(x).unwrap()), (12, 12));
    }
    Engine::from_env().unwrap().op("hello").push(nothing).unwrap();
    limit_descriptors(1 << 10);
    eventually("all took their threads along", || thread_count() == others);
}
