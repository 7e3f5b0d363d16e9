//! A filter for system calls: one that is there before the first engine, and one that is installed
//! while engines run, as programs do that lock themselves up once they are ready.

use crate::common::*;
use seriatim::{Engine, IdlePolicy, Kind, Variable};
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::Arc;

/// From now on the system refuses these calls to every thread of the process.
fn refuse(calls: &[libc::c_long]) {
    let instruction = |code: u32, jump_true, jump_false, k: u32| libc::sock_filter {
        code: code as u16,
        jt: jump_true,
        jf: jump_false,
        k,
    };
    // The number of the call is the first word of what the filter sees.
    let mut program = vec![instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0)];
    for call in calls {
        program.push(instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, *call as u32));
        let refusal = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
        program.push(instruction(libc::BPF_RET | libc::BPF_K, 0, 0, refusal));
    }
    program.push(instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW));
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the filter lives during the call.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let flags = libc::SECCOMP_FILTER_FLAG_TSYNC;
        let set = libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const filter);
        assert_eq!(set, 0, "the system takes no filter: {}", std::io::Error::last_os_error());
    }
}

#[test]
fn an_engine_goes_on_when_a_filter_takes_its_fences_away() {
    let said = run_child_well(child("fences lost").env("TEST_CHILD_CALLS", "membarrier"));
    assert!(!said.contains("refuses membarrier"), "{said}");
}

/// A wake-up that is lost would be a wait without end, of which nobody hears.
#[test]
fn a_process_ends_when_a_filter_leaves_its_engines_no_fence_at_all() {
    let output = run_child(child("fences lost").env("TEST_CHILD_CALLS", "both"));
    let said = said(&output);
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{said}");
    for part in ["refuses membarrier", "sched_setaffinity of a new thread: Operation not permitted", "before the first"]
    {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn an_engine_that_is_made_under_a_filter_needs_neither_call() {
    let said = run_child_well(child("fences lost").env("TEST_CHILD_CALLS", "both, before"));
    assert!(!said.contains("refuses membarrier"), "{said}");
}

pub fn fences_lost() {
    let asked = std::env::var("TEST_CHILD_CALLS").unwrap();
    let calls = [libc::SYS_membarrier, libc::SYS_sched_setaffinity];
    let refuse = || refuse(if asked.starts_with("both") { &calls } else { &calls[..1] });
    let before = asked.ends_with("before");
    if before {
        refuse();
    }
    let engines: Vec<Engine> = [Kind::Naive, Kind::Pooled, Kind::PerDevice]
        .map(|kind| Engine::builder().kind(kind).cpu_workers(2).idle(IdlePolicy::Park).build().unwrap())
        .into();
    engines.iter().for_each(|engine| use_it(engine, 20));
    if !before {
        refuse();
    }
    // While threads come and go, workers fall asleep and are woken, and engines stop and start: all
    // that needs the fences.
    std::thread::scope(|scope| {
        for engine in &engines {
            scope.spawn(|| use_it(engine, 200));
        }
    });
    for engine in &engines {
        engine.stop().unwrap();
        engine.start().unwrap();
        use_it(engine, 20);
    }
    eventually("the thread that visits the cores has ended", || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        !tasks.flatten().any(|task| {
            std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.starts_with("seriatim-fence"))
        })
    });
}

fn use_it(engine: &Engine, rounds: usize) {
    let _watchdog = Watchdog::new(60, "an engine whose fences were lost");
    let shared: Vec<Variable> = (0..2).map(|_| engine.new_variable()).collect();
    let ran = Arc::new(AtomicUsize::new(0));
    for _ in 0..rounds {
        std::thread::scope(|scope| {
            for own in 0..2 {
                let (shared, ran) = (&shared, &ran);
                scope.spawn(move || {
                    for step in 0..20 {
                        engine.op("step").writes([shared[(own + step) % 2]]).push(counting(ran)).unwrap();
                    }
                    engine.wait_for_var(shared[own]).unwrap();
                });
            }
        });
        engine.wait_for_all().unwrap();
    }
    assert_eq!(ran.load(SeqCst), 40 * rounds);
}
