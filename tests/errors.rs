//! Errors: every kind is provoked and says what went wrong, where and what to do; failures travel along variables, are taken
//! once, and never hang or crash the engine.

mod common;

use common::*;
use seriatim::{
    Completion, Context, Data, Engine, Error, ErrorKind, IdlePolicy, Kind, Property, RunContext, Variable, WhenFull,
};
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{mpsc, Arc, Mutex};
use std::time::Duration;

fn variables<const N: usize>(engine: &Engine) -> [Variable; N] {
    std::array::from_fn(|_| engine.new_variable())
}

fn versions<const N: usize>(engine: &Engine, variables: [Variable; N]) -> [u64; N] {
    variables.map(|variable| engine.version(variable).unwrap())
}

/// A body that counts its runs.
fn counting(count: &Arc<AtomicUsize>) -> impl Fn(&RunContext<'_>) + Send + Sync + 'static {
    let count = Arc::clone(count);
    move |_| {
        count.fetch_add(1, SeqCst);
    }
}

/// Panics without the hook that prints: for tests in which many operations do.
fn panic_quietly(message: &'static str) {
    resume_unwind(Box::new(message))
}

/// Waits until everything is complete, without taking errors as a wait would.
fn settle(engine: &Engine) {
    eventually("nothing is in flight", || !engine.dump_dot().contains("label"));
}

// ---- Every kind, and what it says ----

#[test]
fn a_failed_operation_is_named_with_its_error() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        engine.op("parse").writes([x]).push(|_| "12a".parse::<u32>().map(|_| ())).unwrap();
        let error = engine.wait_for_var(x).unwrap_err();
        assert_says(&error, ErrorKind::OperationFailed, &["operation 'parse' failed", "invalid digit"]);
        assert_eq!(error.operation(), Some("parse"));
        assert!(format!("{error:?}").contains("OperationFailed"));
        let error: &dyn std::error::Error = &error;
        assert!(error.to_string().contains("parse"));
    });
}

#[test]
fn a_panic_is_an_error_with_its_message() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let said = |push: &dyn Fn()| {
            push();
            let error = engine.wait_for_var(x).unwrap_err();
            assert_eq!(error.operation(), Some("panics"));
            assert_says(&error, ErrorKind::OperationPanicked, &["operation 'panics' panicked"]);
            error.to_string()
        };
        let op = || engine.op("panics").writes([x]);
        let text = said(&|| op().push(|_| panic_quietly("a literal")).unwrap());
        assert!(text.contains("a literal"));
        let text = said(&|| op().push(|_| -> () { resume_unwind(Box::new(format!("number {}", 7))) }).unwrap());
        assert!(text.contains("number 7"));
        let text = said(&|| op().push(|_| -> () { panic!("with the hook and {}", "arguments") }).unwrap());
        assert!(text.contains("with the hook and arguments"));
        let text = said(&|| op().push(|_| -> () { resume_unwind(Box::new(42)) }).unwrap());
        assert!(text.contains("no message"));
        let text = said(&|| op().push(|_| -> () { resume_unwind(Box::new(Bomb(3))) }).unwrap());
        assert!(text.contains("no message"));
        engine.wait_for_all().unwrap();
    });
}

/// A value whose destructor panics, with another such value while its number lasts.
struct Bomb(u32);

impl Drop for Bomb {
    fn drop(&mut self) {
        if self.0 > 0 && !std::thread::panicking() {
            resume_unwind(Box::new(Bomb(self.0 - 1)));
        }
    }
}

/// Makes a closure own something.
fn use_up<T>(_: T) {}

#[test]
fn an_error_that_panics_while_it_is_shown_is_a_panic_of_the_operation() {
    struct Unshowable;
    impl std::fmt::Display for Unshowable {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic_quietly("no words");
            Ok(())
        }
    }
    on_every_engine(|engine| {
        let x = engine.new_variable();
        engine.op("odd").writes([x]).push(|_| Err(Unshowable)).unwrap();
        assert_says(&engine.wait_for_var(x).unwrap_err(), ErrorKind::OperationPanicked, &["no words"]);
        engine.op("odd").writes([x]).push_async(|_, completion| completion.fail(Unshowable)).unwrap();
        assert_says(&engine.wait_for_var(x).unwrap_err(), ErrorKind::OperationPanicked, &["no words"]);
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn a_deleted_variable_is_refused_everywhere() {
    on_every_engine(|engine| {
        let [x, y] = variables(&engine);
        let step = engine.op("step").writes([x]).operator(|_| ()).unwrap();
        engine.delete_variable(|_| (), Context::cpu(0), x).unwrap();
        engine.wait_for_all().unwrap();
        let refused = [
            engine.op("late").reads([x]).push(|_| ()),
            engine.op("late").writes([y, x]).push(|_| ()),
            engine.op("late").reads([x]).push_async(|_, completion| completion.complete()),
            engine.push(&step, Context::cpu(0), 0),
            engine.op("late").writes([x]).operator(|_| ()).map(|_| ()),
            engine.op("late").writes([x]).async_operator(|_, _| ()).map(|_| ()),
            engine.batch(|b| b.op("late").writes([x]).push(|_| ())).unwrap(),
            engine.delete_variable(|_| (), Context::cpu(0), x),
            engine.wait_for_var(x),
            engine.wait_for_var_timeout(x, Duration::from_secs(1)),
            engine.version(x).map(|_| ()),
        ];
        let name = format!("{x:?}");
        for outcome in refused {
            assert_says(
                &outcome.unwrap_err(),
                ErrorKind::VariableDeleted,
                &[&name, "was deleted", "before the deletion"],
            );
        }
        assert_eq!(engine.version(y).unwrap(), 0);
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn a_stray_handle_is_refused_and_never_followed() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let (place, generation) = x.into_raw();
        for raw in [
            (0, 0),
            (place, 0),
            (place, generation + 1),
            (place | 0xffff_ffff, 1),
            (place + 1000, 1),
            (u64::MAX, u32::MAX),
        ] {
            let stray = Variable::from_raw(raw);
            let kind = engine.version(stray).unwrap_err().kind();
            assert!([ErrorKind::VariableDeleted, ErrorKind::ForeignVariable].contains(&kind), "{raw:?}");
            assert_eq!(engine.op("stray").writes([stray, x]).push(|_| ()).unwrap_err().kind(), kind);
            assert_eq!(engine.wait_for_var(stray).unwrap_err().kind(), kind);
            assert_eq!(engine.delete_variable(|_| (), Context::cpu(0), stray).unwrap_err().kind(), kind);
        }
        engine.wait_for_all().unwrap();
        assert_eq!(engine.version(x).unwrap(), 0);
    });
}

#[test]
fn another_engines_variables_and_operators_are_refused() {
    on_every_engine(|engine| {
        let other = Engine::builder().kind(Kind::Naive).build().unwrap();
        let (own, foreign) = (engine.new_variable(), other.new_variable());
        let refused = [
            engine.op("mixed").reads([own]).writes([foreign]).push(|_| ()),
            engine.op("mixed").reads([foreign]).operator(|_| ()).map(|_| ()),
            engine.batch(|b| b.op("mixed").reads([foreign]).push(|_| ())).unwrap(),
            engine.delete_variable(|_| (), Context::cpu(0), foreign),
            engine.wait_for_var(foreign),
            engine.version(foreign).map(|_| ()),
        ];
        for outcome in refused {
            let error = outcome.unwrap_err();
            assert_says(&error, ErrorKind::ForeignVariable, &["belongs to engine", "push to the engine that made it"]);
        }
        let step = other.op("step").operator(|_| ()).unwrap();
        let error = engine.push(&step, Context::cpu(0), 0).unwrap_err();
        assert_says(&error, ErrorKind::ForeignOperator, &["operator 'step'", "push it to the engine that made it"]);
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn devices_that_do_not_exist_are_refused() {
    on_every_engine(|engine| {
        let ran = Arc::new(AtomicUsize::new(0));
        let push = |context: Context| engine.op("where").context(context).push(counting(&ran));
        for context in [Context::cpu(1024), Context::cpu_pinned(u32::MAX), Context::gpu(1024)] {
            let error = push(context).unwrap_err();
            assert_says(&error, ErrorKind::UnknownDevice, &[&context.to_string(), "from 0 to 1023"]);
        }
        let error = push(Context::gpu(3)).unwrap_err();
        assert_says(&error, ErrorKind::DeviceUnavailable, &["gpu(3) cannot be used", "use cpu(i)"]);
        let x = engine.new_variable();
        let error = engine.delete_variable(|_| (), Context::gpu(0), x).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DeviceUnavailable);
        engine.op("alive").writes([x]).push(|_| ()).expect("a refused deletion leaves the variable alive");
        let step = engine.op("where").operator(counting(&ran)).unwrap();
        assert_eq!(engine.push(&step, Context::gpu(0), 0).unwrap_err().kind(), ErrorKind::DeviceUnavailable);
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), 0);
    });
}

#[test]
fn a_full_engine_says_so_and_takes_more_when_there_is_room() {
    with_every_builder(|builder| {
        let engine = builder.bound(2).when_full(WhenFull::WouldBlock).build().unwrap();
        let x = engine.new_variable();
        let dropped = Arc::new(());
        for _ in 0..100 {
            let first = hold(&engine, &[], &[x]);
            engine.op("second").writes([x]).push(|_| ()).unwrap();
            let witness = Arc::clone(&dropped);
            let refused = engine.op("third").writes([x]).push(move |_| drop(witness));
            let say = ["2 operations are in flight", "as many as the bound allows", "wait, or raise it"];
            assert_says(&refused.unwrap_err(), ErrorKind::EngineFull, &say);
            assert_eq!(Arc::strong_count(&dropped), 1, "the refused closure is dropped");
            let refused = engine.delete_variable(|_| (), Context::cpu(0), x);
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::EngineFull);
            let refused = engine.batch(|b| b.op("member").push(|_| ()).unwrap());
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::EngineFull);
            first.complete();
            engine.wait_for_var(x).unwrap();
            // The count goes down just after the variable is free.
            eventually("there is room", || engine.op("room").push(|_| ()).is_ok());
            engine.wait_for_all().unwrap();
        }
        assert_eq!(engine.version(x).unwrap(), 200, "refused operations are no writes");
    });
}

#[test]
fn a_refused_push_gives_its_place_back_whatever_the_reason() {
    with_every_builder(|builder| {
        let engine = builder.bound(1).when_full(WhenFull::WouldBlock).build().unwrap();
        let [x, gone] = variables(&engine);
        engine.delete_variable(|_| (), Context::cpu(0), gone).unwrap();
        for _ in 0..10 {
            eventually("there is room", || engine.op("fits").writes([x]).push(|_| ()).is_ok());
            engine.wait_for_all().unwrap();
            engine.op("late").writes([gone]).push(|_| ()).unwrap_err();
            engine.op("nowhere").context(Context::gpu(0)).push(|_| ()).unwrap_err();
        }
        engine.stop().unwrap();
        assert_eq!(engine.op("stopped").push(|_| ()).unwrap_err().kind(), ErrorKind::Stopped);
        engine.start().unwrap();
        engine.op("fits").writes([x]).push(|_| ()).unwrap();
    });
}

#[test]
fn a_refused_closure_may_panic_in_its_destructor_without_losing_its_place() {
    with_every_builder(|builder| {
        let engine = builder.bound(1).when_full(WhenFull::WouldBlock).build().unwrap();
        let gone = engine.new_variable();
        engine.delete_variable(|_| (), Context::cpu(0), gone).unwrap();
        engine.wait_for_all().unwrap();
        for _ in 0..3 {
            let bomb = Bomb(1);
            let push = || {
                engine.op("late").writes([gone]).push(move |_| {
                    let _ = &bomb;
                })
            };
            // Whether the destructor's panic comes out of the push or is swallowed is not promised; the place is.
            let _ = catch_unwind(AssertUnwindSafe(push));
            eventually("there is room", || engine.op("fits").push(|_| ()).is_ok());
            engine.wait_for_all().unwrap();
        }
    });
}

#[test]
fn settings_that_are_not_valid_are_refused_with_those_that_are() {
    let build = Engine::builder;
    let most = ["1 to 1024"];
    for (error, say) in [
        (build().cpu_workers(0).build(), &most),
        (build().cpu_workers(1025).build(), &most),
        (build().priority_workers(0).build(), &most),
        (build().priority_workers(usize::MAX).build(), &most),
        (build().gpu_workers(0).build(), &most),
        (build().gpu_copy_workers(1025).build(), &most),
        (build().nested_threads(0).build(), &most),
        (build().bulk_size(0).build(), &["1 or more"]),
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
        ("GPU_COPY_WORKERS", "", "a whole number"),
        ("BOUND", "lots", "a whole number"),
        ("BULK_SIZE", "0x10", "a whole number"),
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

fn wrong_environment() {
    for error in [Engine::from_env().unwrap_err(), Engine::global().unwrap_err(), Engine::global().unwrap_err()] {
        assert_says(&error, ErrorKind::BadSetting, &[]);
        assert!(error.to_string().len() > 20, "{error}");
    }
    Engine::builder().build().expect("the builder does not look at the environment");
}

fn right_environment() {
    for engine in [&Engine::from_env().unwrap(), Engine::global().unwrap()] {
        assert_eq!((engine.kind(), engine.settings().bound), (Kind::Pooled, 7));
        assert_eq!(engine.settings().cores, [0]);
    }
}

#[test]
fn a_stopped_engine_refuses_pushes_and_says_how_to_go_on() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let step = engine.op("step").writes([x]).operator(|_| ()).unwrap();
        engine.stop().unwrap();
        let refused = [
            engine.op("late").writes([x]).push(|_| ()),
            engine.op("late").property(Property::Async).push_async(|_, completion| completion.complete()),
            engine.push(&step, Context::cpu(0), 0),
            engine.delete_variable(|_| (), Context::cpu(0), x),
            engine.batch(|b| b.op("late").push(|_| ()).unwrap()),
        ];
        for outcome in refused {
            assert_says(&outcome.unwrap_err(), ErrorKind::Stopped, &["the engine is stopped", "call start()"]);
        }
        engine.wait_for_var(x).expect("nothing is pending");
        engine.wait_for_all().expect("nothing is in flight");
        engine.start().unwrap();
        engine.push(&step, Context::cpu(0), 0).unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(engine.version(x).unwrap(), 1);
    });
}

#[test]
fn a_borrow_that_was_not_declared_is_an_error() {
    on_every_engine(|engine| {
        let data = Data::new(&engine, 1);
        let name = format!("{:?}", data.variable());
        let reader = data.read().unwrap();
        let error = data.write().unwrap_err();
        assert_says(
            &error,
            ErrorKind::BorrowConflict,
            &["cannot change", &name, "in use", "declare it with reads() or writes()"],
        );
        drop((reader, data.read().unwrap(), data.read().unwrap()));
        let writer = data.write().unwrap();
        let error = data.read().map(|_| ()).unwrap_err();
        assert_says(&error, ErrorKind::BorrowConflict, &["cannot read", &name, "being changed"]);
        // Inside an operation it fails the operation.
        let own = data.clone();
        engine.op("undeclared").push(move |_| own.write().map(|_| ())).unwrap();
        assert_says(&engine.wait_for_all().unwrap_err(), ErrorKind::OperationFailed, &["'undeclared'", &name]);
        drop(writer);
        assert_eq!(*data.read().unwrap(), 1);
    });
}

#[test]
fn a_wait_that_runs_out_of_time_says_what_is_pending() {
    on_every_engine(|engine| {
        let [x, y] = variables(&engine);
        let first = hold(&engine, &[], &[x]);
        engine.op("behind").reads([x]).writes([y]).push(|_| ()).unwrap();
        let error = engine.wait_for_var_timeout(x, Duration::from_millis(2)).unwrap_err();
        assert_says(&error, ErrorKind::TimedOut, &[&format!("{x:?}"), "2ms", "running 'hold'", "behind it 'behind'"]);
        let error = engine.wait_for_var_timeout(y, Duration::from_millis(2)).unwrap_err();
        assert_says(&error, ErrorKind::TimedOut, &[&format!("{y:?}"), "pending 'behind'", "'hold'"]);
        let error = engine.wait_for_all_timeout(Duration::from_millis(2)).unwrap_err();
        assert_says(&error, ErrorKind::TimedOut, &["operations are in flight", "'hold'", "'behind'"]);
        first.complete();
        engine.wait_for_all_timeout(Duration::from_secs(60)).unwrap();
        engine.wait_for_var_timeout(y, Duration::from_secs(60)).unwrap();
    });
}

#[test]
fn a_wait_with_the_longest_of_all_timeouts_is_a_wait_without_one() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let completion = hold(&engine, &[], &[x]);
        let other = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            completion.complete();
        });
        engine.wait_for_var_timeout(x, Duration::MAX).unwrap();
        engine.wait_for_all_timeout(Duration::MAX).unwrap();
        other.join().unwrap();
    });
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
    let limit = more.map_or(libc::RLIM_INFINITY, |more| pages * 4096 + more);
    let limit = libc::rlimit { rlim_cur: limit, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the struct is valid; the limit concerns this process only.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
}

/// The parent asks for stacks of 64 MB, so a few threads exhaust the limit and leave room for everything else.
fn refused_threads() {
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

// ---- Failures travel along variables ----

#[test]
fn an_error_travels_through_readers_and_writers_and_is_cleared_everywhere_by_the_first_wait() {
    on_every_engine(|engine| {
        let ran = Arc::new(AtomicUsize::new(0));
        let [a, b, c, d, clean] = variables(&engine);
        for taker in [a, b, c, d] {
            ran.store(0, SeqCst);
            let before = versions(&engine, [a, b, c, d, clean]);
            engine.op("fails").writes([a, b]).push(|_| Err("the source")).unwrap();
            engine.op("reads it").reads([a]).writes([c]).push(counting(&ran)).unwrap();
            engine.op("passes it on").reads([c, clean]).writes([d]).push(counting(&ran)).unwrap();
            engine.op("overwrites it").writes([b]).push(counting(&ran)).unwrap();
            engine.op("only reads").reads([d]).push(counting(&ran)).unwrap();
            engine.op("is not concerned").writes([clean]).push(counting(&ran)).unwrap();
            settle(&engine);
            assert_eq!(ran.load(SeqCst), 1, "all but one are skipped");
            let steps = versions(&engine, [a, b, c, d, clean])
                .iter()
                .zip(before)
                .map(|(now, then)| now - then)
                .collect::<Vec<_>>();
            assert_eq!(steps, [1, 2, 1, 1, 1], "failed and skipped operations step versions");
            engine.wait_for_var(clean).expect("it is not marked");
            let error = engine.wait_for_var(taker).unwrap_err();
            assert_eq!(
                error.operation(),
                Some("fails"),
                "the error of the operation that failed, not of a skipped one"
            );
            assert_failed(Err(error), "the source");
            [a, b, c, d].into_iter().for_each(|v| engine.wait_for_var(v).expect("it was taken"));
            engine.op("works again").reads([a, c]).writes([b, d]).push(counting(&ran)).unwrap();
            engine.wait_for_all().unwrap();
            assert_eq!(ran.load(SeqCst), 2);
        }
    });
}

#[test]
fn a_no_skip_operation_runs_and_passes_the_mark_on() {
    on_every_engine(|engine| {
        let ran = Arc::new(AtomicUsize::new(0));
        let [x, y, z] = variables(&engine);
        engine.op("fails").writes([x]).push(|_| Err("bad")).unwrap();
        engine.op("runs").reads([x]).writes([y]).property(Property::NoSkip).push(counting(&ran)).unwrap();
        engine.op("runs").writes([x]).property(Property::NoSkip).push(counting(&ran)).unwrap();
        engine.op("is skipped").reads([y]).writes([z]).push(counting(&ran)).unwrap();
        engine.op("is skipped").reads([x]).push(counting(&ran)).unwrap();
        settle(&engine);
        assert_eq!(ran.load(SeqCst), 2);
        assert_failed(engine.wait_for_var(z), "bad");
        engine.wait_for_all().unwrap();
        // One that fails itself leaves its own error.
        engine.op("fails").writes([x]).push(|_| Err("older")).unwrap();
        engine.op("fails too").reads([x]).writes([y]).property(Property::NoSkip).push(|_| Err("newer")).unwrap();
        settle(&engine);
        assert_failed(engine.wait_for_var(y), "newer");
        assert_failed(engine.wait_for_all(), "older");
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn a_deletion_runs_on_a_marked_variable() {
    on_every_engine(|engine| {
        let ran = Arc::new(AtomicUsize::new(0));
        let x = engine.new_variable();
        engine.op("fails").writes([x]).push(|_| Err("the last write")).unwrap();
        engine.delete_variable(counting(&ran), Context::cpu(0), x).unwrap();
        assert_failed(engine.wait_for_all(), "the last write");
        assert_eq!(ran.load(SeqCst), 1);
        // A deletion's own error is not lost either.
        let x = engine.new_variable();
        engine.delete_variable(|_| Err("cannot free"), Context::cpu(0), x).unwrap();
        assert_failed(engine.wait_for_all(), "cannot free");
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn a_new_variable_in_a_marked_one_s_place_is_clean() {
    on_every_engine(|engine| {
        for _ in 0..200 {
            let x = engine.new_variable();
            engine.wait_for_var(x).expect("new variables carry no marks");
            engine.op("fails").writes([x]).push(|_| Err("old")).unwrap();
            engine.delete_variable(|_| (), Context::cpu(0), x).unwrap();
        }
        assert_failed(engine.wait_for_all(), "old");
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn waiting_for_everything_returns_the_first_error_in_push_order_and_clears_all() {
    on_every_engine(|engine| {
        let count = 300;
        let [gate, clean] = variables(&engine);
        let outputs: Vec<Variable> = (0..count).map(|_| engine.new_variable()).collect();
        let ran = Arc::new(AtomicUsize::new(0));
        // The first to be pushed is the last to fail.
        let first = hold(&engine, &[], &[gate]);
        for (number, output) in outputs.iter().enumerate() {
            let reads = if number == 0 { [gate] } else { [clean] };
            engine.op("fails").reads(reads).writes([*output]).push(move |_| Err(format!("number {number}"))).unwrap();
        }
        eventually("all others have failed", || {
            outputs[1..].iter().all(|output| engine.version(*output).unwrap() == 1)
        });
        first.complete();
        assert_failed(engine.wait_for_all(), "number 0");
        engine.wait_for_all().unwrap();
        for output in &outputs {
            engine.wait_for_var(*output).expect("all are cleared");
            engine.op("runs").writes([*output]).push(counting(&ran)).unwrap();
        }
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), count);
    });
}

#[test]
fn what_was_taken_from_a_variable_is_not_returned_again() {
    on_every_engine(|engine| {
        let [x, y] = variables(&engine);
        engine.op("first").writes([x]).push(|_| Err("first")).unwrap();
        engine.op("second").writes([y]).push(|_| Err("second")).unwrap();
        assert_failed(engine.wait_for_var(x), "first");
        assert_failed(engine.wait_for_all(), "second");
        engine.wait_for_var(y).unwrap();
    });
}

#[test]
fn a_failing_operation_without_variables_to_change_is_not_lost() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        engine.op("nothing").push(|_| Err("nothing changed")).unwrap();
        engine.op("only reads").reads([x]).push(|_| Err("nothing changed either")).unwrap();
        settle(&engine);
        engine.wait_for_var(x).expect("a reader marks nothing");
        assert_failed(engine.wait_for_all(), "nothing changed");
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn an_error_survives_a_stop_and_a_start() {
    on_every_engine(|engine| {
        let [x, y] = variables(&engine);
        engine.op("fails").writes([x]).push(|_| Err("kept")).unwrap();
        engine.op("fails").writes([y]).push(|_| Err("kept as well")).unwrap();
        engine.stop().unwrap();
        assert_failed(engine.wait_for_var(x), "kept");
        engine.start().unwrap();
        assert_failed(engine.wait_for_all(), "kept as well");
    });
}

#[test]
fn one_of_several_threads_that_wait_gets_the_error() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        for _ in 0..50 {
            let completion = hold(&engine, &[], &[x]);
            let waiters: Vec<_> = (0..4)
                .map(|_| {
                    let engine = engine.clone();
                    std::thread::spawn(move || engine.wait_for_var(x).is_err())
                })
                .collect();
            completion.fail("for one of you");
            let errors = waiters.into_iter().map(|waiter| waiter.join().unwrap()).filter(|error| *error).count();
            assert_eq!(errors, 1);
            engine.wait_for_all().unwrap();
        }
    });
}

#[test]
fn many_operations_fail_at_once_on_many_workers() {
    // The original corrupts memory here.
    let _watchdog = Watchdog::new(300, "many failures at once");
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        for round in 0..4 {
            let engine = Engine::builder().kind(kind).cpu_workers(8).build().unwrap();
            let shared: Vec<Variable> = (0..16).map(|_| engine.new_variable()).collect();
            let bodies = Arc::new(AtomicUsize::new(0));
            let pusher = |seed: u64| {
                let (engine, shared, bodies) = (engine.clone(), shared.clone(), Arc::clone(&bodies));
                move || {
                    let mut random = Random(seed);
                    for number in 0..1_000 {
                        let bodies = Arc::clone(&bodies);
                        let read = random.pick(&shared);
                        let writes = [random.pick(&shared), random.pick(&shared)];
                        let fail = move |_: &RunContext<'_>| {
                            bodies.fetch_add(1, SeqCst);
                            match number % 3 {
                                0 => Err(format!("number {number}")),
                                1 => resume_unwind(Box::new("panic")),
                                _ => Ok(()),
                            }
                        };
                        engine.op("fails").reads([read]).writes(writes).push(fail).unwrap();
                        engine.op("fails alone").push(|_| panic_quietly("alone")).unwrap();
                        if random.chance(10) {
                            let _ = engine.wait_for_var(random.pick(&shared));
                        }
                    }
                }
            };
            let threads: Vec<_> = (0..4).map(|thread| std::thread::spawn(pusher(round * 4 + thread))).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            engine.wait_for_all().unwrap_err();
            engine.wait_for_all().unwrap();
            shared.iter().for_each(|variable| engine.wait_for_var(*variable).unwrap());
            assert!(bodies.load(SeqCst) > 0);
            let again = Arc::new(AtomicUsize::new(0));
            shared.iter().for_each(|v| engine.op("works").writes([*v]).push(counting(&again)).unwrap());
            engine.wait_for_all().unwrap();
            assert_eq!(again.load(SeqCst), shared.len());
        }
    }
}

#[test]
fn failures_that_nobody_takes_stay_cheap() {
    // A program that fails in a loop and never waits should get slow no more than any other.
    let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
    let fail_many = |count: usize| {
        let start = std::time::Instant::now();
        (0..count).for_each(|_| engine.op("fails").push(|_| Err("again")).unwrap());
        start.elapsed().as_secs_f64() / count as f64
    };
    let early = fail_many(2_000);
    fail_many(16_000);
    let late = fail_many(2_000);
    engine.wait_for_all().unwrap_err();
    assert!(late < early * 10.0 + 20e-6, "{:.1} µs each at first, {:.1} µs later", early * 1e6, late * 1e6);
}

// ---- Panics and destructors ----

#[test]
fn a_closure_that_panics_in_its_destructor_fails_its_operation() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let ran = Arc::new(AtomicBool::new(false));
        let (bomb, seen) = (Bomb(1), Arc::clone(&ran));
        let body = move |_: &RunContext<'_>| {
            let _ = &bomb;
            seen.store(true, SeqCst);
        };
        engine.op("explodes").writes([x]).push(body).unwrap();
        assert_says(&engine.wait_for_var(x).unwrap_err(), ErrorKind::OperationPanicked, &["'explodes'"]);
        assert!(ran.load(SeqCst));
        // A large one, which is boxed.
        let (bomb, ballast) = (Bomb(1), [0u8; 200]);
        engine.op("explodes").writes([x]).push(move |_| use_up((bomb, ballast))).unwrap();
        assert_says(&engine.wait_for_var(x).unwrap_err(), ErrorKind::OperationPanicked, &["'explodes'"]);
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn a_skipped_closure_is_dropped_even_if_that_panics() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let witness = Arc::new(());
        let failing = hold(&engine, &[], &[x]);
        for _ in 0..3 {
            let (bomb, own) = (Bomb(2), Arc::clone(&witness));
            engine.op("skipped").writes([x]).push(move |_| use_up((own, bomb))).unwrap();
            let (bomb, own) = (Bomb(2), Arc::clone(&witness));
            let asynchronous = move |_: &RunContext<'_>, _: Completion| use_up((own, bomb));
            engine.op("skipped").writes([x]).push_async(asynchronous).unwrap();
        }
        failing.fail("the source");
        settle(&engine);
        assert_eq!(Arc::strong_count(&witness), 1, "skipped closures are dropped");
        assert_failed(engine.wait_for_all(), "the source");
        engine.wait_for_all().unwrap();
        assert_eq!(engine.version(x).unwrap(), 7);
    });
}

#[test]
fn a_wait_in_the_destructor_of_a_skipped_closure_is_an_error_and_no_deadlock() {
    run_child_well(&mut child("wait in a destructor"));
}

fn wait_in_a_destructor() {
    struct Waits(Engine, Arc<Mutex<Vec<Result<(), Error>>>>);
    impl Drop for Waits {
        fn drop(&mut self) {
            self.1.lock().unwrap().push(self.0.wait_for_all());
        }
    }
    let _watchdog = Watchdog::new(30, "a wait in the destructor of a skipped closure");
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let outcomes = Arc::new(Mutex::new(Vec::new()));
        let failing = hold(&engine, &[], &[x]);
        let waits = Waits(engine.clone(), Arc::clone(&outcomes));
        engine.op("skipped").writes([x]).push(move |_| drop(waits)).unwrap();
        failing.fail("the source");
        settle(&engine);
        let outcome = outcomes.lock().unwrap().pop().expect("the closure was dropped");
        assert_says(&outcome.unwrap_err(), ErrorKind::WaitInsideOperation, &[]);
        engine.wait_for_all().unwrap_err();
    });
}

// ---- Asynchronous operations ----

#[test]
fn an_asynchronous_operation_fails_by_its_completion() {
    on_every_engine(|engine| {
        let [x, y] = variables(&engine);
        engine.op("fetch").writes([x, y]).push_async(|_, completion| completion.fail("no route")).unwrap();
        let error = engine.wait_for_var(y).unwrap_err();
        assert_says(&error, ErrorKind::OperationFailed, &["operation 'fetch' failed: no route"]);
        engine.wait_for_var(x).unwrap();
        assert_eq!(versions(&engine, [x, y]), [1, 1]);
        // On another thread, later.
        let completion = hold(&engine, &[], &[x, y]);
        std::thread::spawn(move || completion.fail(format_args!("after {} tries", 3))).join().unwrap();
        assert_failed(engine.wait_for_var(x), "after 3 tries");
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn a_completion_that_is_dropped_fails_its_operation() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let say = ["operation 'forgets' failed", "completion was dropped", "call complete() or fail() on every path"];
        engine.op("forgets").writes([x]).push_async(|_, _| ()).unwrap();
        assert_says(&engine.wait_for_var(x).unwrap_err(), ErrorKind::CompletionDropped, &say);
        // On another thread.
        engine
            .op("forgets")
            .writes([x])
            .push_async(|_, completion| drop(std::thread::spawn(move || drop(completion))))
            .unwrap();
        assert_says(&engine.wait_for_var(x).unwrap_err(), ErrorKind::CompletionDropped, &say);
        // On another thread that unwinds.
        let completion = hold(&engine, &[], &[x]);
        let thread = std::thread::spawn(move || {
            let _held = completion;
            panic_quietly("elsewhere");
        });
        thread.join().unwrap_err();
        assert_says(&engine.wait_for_var(x).unwrap_err(), ErrorKind::CompletionDropped, &["'hold'"]);
        engine.wait_for_all().unwrap();
        assert_eq!(engine.version(x).unwrap(), 3);
    });
}

#[test]
fn a_panic_before_the_completion_is_given_away_ends_the_operation() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let panics = |_: &RunContext<'_>, _completion: Completion| panic_quietly("too early");
        engine.op("panics").writes([x]).push_async(panics).unwrap();
        assert_says(
            &engine.wait_for_var(x).unwrap_err(),
            ErrorKind::OperationPanicked,
            &["operation 'panics' panicked: too early"],
        );
        // The completion sits in something that is dropped while the closure unwinds.
        let panics = |_: &RunContext<'_>, completion: Completion| {
            let _held = Some(Box::new(completion));
            panic_quietly("with a box");
        };
        engine.op("panics").writes([x]).push_async(panics).unwrap();
        assert_says(&engine.wait_for_var(x).unwrap_err(), ErrorKind::OperationPanicked, &["with a box"]);
        engine.wait_for_all().expect("one operation, one error");
        assert_eq!(engine.version(x).unwrap(), 2);
    });
}

#[test]
fn a_panic_after_the_completion_was_given_away_is_not_lost() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        // It was completed: the write stands, the panic is for whoever waits for everything.
        let late = |_: &RunContext<'_>, completion: Completion| {
            completion.complete();
            panic_quietly("after all");
        };
        engine.op("late").writes([x]).push_async(late).unwrap();
        engine.wait_for_var(x).unwrap();
        let mut outcome = Ok(());
        eventually("the panic is known", || {
            outcome = engine.wait_for_all();
            outcome.is_err()
        });
        assert_says(&outcome.unwrap_err(), ErrorKind::OperationPanicked, &["'late'", "after all"]);
        // It is held elsewhere: the operation goes on.
        let (send, receive) = mpsc::channel();
        let gives_away = move |_: &RunContext<'_>, completion: Completion| {
            send.send(completion).unwrap();
            panic_quietly("given away");
        };
        engine.op("gives away").writes([x]).push_async(gives_away).unwrap();
        let completion = receive.recv().unwrap();
        assert_eq!(engine.wait_for_var_timeout(x, Duration::from_millis(2)).unwrap_err().kind(), ErrorKind::TimedOut);
        completion.complete();
        engine.wait_for_var(x).unwrap();
        let mut outcome = Ok(());
        eventually("the panic is known", || {
            outcome = engine.wait_for_all();
            outcome.is_err()
        });
        assert_says(&outcome.unwrap_err(), ErrorKind::OperationPanicked, &["'gives away'", "given away"]);
        engine.wait_for_all().unwrap();
        assert_eq!(engine.version(x).unwrap(), 2);
    });
}

#[test]
fn a_closure_that_unwinds_with_another_operations_completion_fails_that_one() {
    on_every_engine(|engine| {
        let [x, y] = variables(&engine);
        let other = hold(&engine, &[], &[y]);
        let panics = move |_: &RunContext<'_>, own: Completion| {
            let _both = (own, other);
            panic_quietly("both go");
        };
        engine.op("panics").writes([x]).push_async(panics).unwrap();
        assert_says(&engine.wait_for_var(x).unwrap_err(), ErrorKind::OperationPanicked, &["'panics'", "both go"]);
        assert_says(&engine.wait_for_var(y).unwrap_err(), ErrorKind::CompletionDropped, &["'hold'"]);
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn operations_complete_on_other_threads_in_any_order() {
    on_every_engine(|engine| {
        let (send, receive) = mpsc::channel::<Completion>();
        let completer = std::thread::spawn(move || {
            let mut held = Vec::new();
            loop {
                match receive.recv_timeout(Duration::from_millis(1)) {
                    Ok(completion) => held.push(completion),
                    Err(mpsc::RecvTimeoutError::Timeout) => held.drain(..).rev().for_each(Completion::complete),
                    Err(mpsc::RecvTimeoutError::Disconnected) => break,
                }
                if held.len() >= 7 {
                    held.drain(..).rev().for_each(Completion::complete);
                }
            }
            held.drain(..).for_each(Completion::complete);
        });
        let variables: Vec<Variable> = (0..50).map(|_| engine.new_variable()).collect();
        for round in 0..20 {
            for variable in &variables {
                let send = send.clone();
                let start = move |_: &RunContext<'_>, completion: Completion| send.send(completion).unwrap();
                engine.op("start").writes([*variable]).property(Property::Async).push_async(start).unwrap();
            }
            let all_reads = engine.op("reads all").reads(variables.iter().copied());
            all_reads.push(move |_| assert!(round < 20)).unwrap();
        }
        drop(send);
        engine.wait_for_all().unwrap();
        completer.join().unwrap();
        variables.iter().for_each(|variable| assert_eq!(engine.version(*variable).unwrap(), 20));
    });
}

// ---- Operators ----

#[test]
fn an_operator_that_failed_runs_again_once_its_error_was_taken() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let runs = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&runs);
        let odd_ones_fail = move |_: &RunContext<'_>| match runs.fetch_add(1, SeqCst) {
            run if run % 2 == 0 => Err(format!("run {run}")),
            _ => Ok(()),
        };
        let step = engine.op("step").writes([x]).operator(odd_ones_fail).unwrap();
        for round in 0..5 {
            engine.push(&step, Context::cpu(0), 0).unwrap();
            engine.push(&step, Context::cpu(0), 0).unwrap(); // skipped
            settle(&engine);
            assert_failed(engine.wait_for_var(x), &format!("run {}", 2 * round));
            engine.push(&step, Context::cpu(0), 0).unwrap();
            engine.wait_for_var(x).unwrap();
        }
        assert_eq!((seen.load(SeqCst), engine.version(x).unwrap()), (10, 15));
    });
}

#[test]
fn an_asynchronous_operator_fails_and_panics_like_any_operation() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let runs = AtomicUsize::new(0);
        let body = move |_: &RunContext<'_>, completion: Completion| match runs.fetch_add(1, SeqCst) {
            0 => completion.fail("the first"),
            1 => panic_quietly("the second"),
            2 => drop(completion),
            _ => completion.complete(),
        };
        let step = engine.op("step").writes([x]).async_operator(body).unwrap();
        let kinds = (0..4).map(|_| {
            engine.push(&step, Context::cpu(0), 0).unwrap();
            engine.wait_for_var(x).map_err(|error| error.kind()).err()
        });
        let expected = [ErrorKind::OperationFailed, ErrorKind::OperationPanicked, ErrorKind::CompletionDropped];
        assert_eq!(kinds.collect::<Vec<_>>(), [Some(expected[0]), Some(expected[1]), Some(expected[2]), None]);
    });
}

// ---- Children ----

/// Not a test of its own: carries out what the tests above ask of a child process.
#[test]
fn a_child_process_does_its_task() {
    match task().as_deref() {
        Some("environment") => wrong_environment(),
        Some("right environment") => right_environment(),
        Some("threads") => refused_threads(),
        Some("wait in a destructor") => wait_in_a_destructor(),
        _ => {}
    }
}
