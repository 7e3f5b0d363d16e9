//! The behaviour of the engine that this one replaces: its own tests, created again from their description, and what its users
//! complained about. Everything runs on every engine.

mod common;

use common::*;
use seriatim::{Batch, Context, Data, Engine, Error, ErrorKind, Kind, Operator, Property, Variable};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

// ---- Start and stop ----

#[test]
fn an_engine_stops_and_starts_again() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        for round in 1..=3 {
            engine.start().unwrap();
            engine.op("step").writes([x]).push(|_| ()).unwrap();
            engine.stop().unwrap();
            assert_eq!(engine.version(x).unwrap(), round, "stopping runs what was pushed");
            engine.start().unwrap();
        }
        engine.op("step").writes([x]).push(|_| ()).unwrap();
        engine.wait_for_var(x).unwrap();
        assert_eq!(engine.version(x).unwrap(), 4);
    });
}

// ---- The random workload ----

/// One step of the random workload: reads, a write, and how long it takes.
struct Step {
    reads: Arc<[usize]>,
    write: usize,
    time: Duration,
}

fn random_steps(seed: u64, variables: usize, count: usize) -> Vec<Step> {
    let mut random = Random(seed);
    let step = |_| {
        let write = random.below(variables);
        let reads = (0..random.between(2, 19)).map(|_| random.below(variables));
        // A read equal to the write is dropped, other repeats stay: the sum has them twice.
        let reads = reads.filter(|read| *read != write).collect();
        Step { reads, write, time: Duration::from_micros(random.between(1, 9) as u64) }
    };
    (0..count).map(step).collect()
}

/// The values, as the engine's promise guards them: plain loads and stores, no order of their own.
type Cells = Arc<[AtomicU64]>;

fn fresh_cells(variables: usize) -> Cells {
    (0..variables).map(|index| AtomicU64::new((index as f64 + 0.5).to_bits())).collect()
}

fn apply(cells: &[AtomicU64], reads: &[usize], write: usize) {
    let sum: f64 = reads.iter().map(|read| f64::from_bits(cells[*read].load(Relaxed))).sum();
    cells[write].store((sum / (reads.len() + 1) as f64).to_bits(), Relaxed);
}

fn bits(cells: &[AtomicU64]) -> Vec<u64> {
    cells.iter().map(|cell| cell.load(Relaxed)).collect()
}

fn random_workload(engine: &Engine, seed: u64, variables: usize, count: usize) {
    let steps = random_steps(seed, variables, count);
    let serial = fresh_cells(variables);
    steps.iter().for_each(|step| apply(&serial, &step.reads, step.write));

    let parallel = fresh_cells(variables);
    let tokens: Vec<Variable> = (0..variables).map(|_| engine.new_variable()).collect();
    for step in steps {
        let cells = Arc::clone(&parallel);
        let reads = step.reads.iter().map(|read| tokens[*read]);
        let builder = engine.op("mean").reads(reads).writes([tokens[step.write]]);
        let body = move |_: &seriatim::RunContext<'_>| {
            spin(step.time);
            apply(&cells, &step.reads, step.write);
        };
        builder.push(body).unwrap();
    }
    engine.wait_for_all().unwrap();
    assert_eq!(bits(&parallel), bits(&serial), "seed {seed}");
    let versions: u64 = tokens.iter().map(|token| engine.version(*token).unwrap()).sum();
    assert_eq!(versions, count as u64);
}

#[test]
fn ten_thousand_random_operations_equal_the_serial_result_bit_by_bit() {
    let _watchdog = Watchdog::new(300, "the random workload");
    on_every_engine(|engine| (0..5).for_each(|seed| random_workload(&engine, seed, 100, 10_000)));
}

#[test]
fn three_and_more_workers_give_the_serial_result_as_well() {
    let _watchdog = Watchdog::new(300, "the random workload with many workers");
    for kind in [Kind::Pooled, Kind::PerDevice] {
        for workers in [3, 4, 8, 16] {
            let engine = Engine::builder().kind(kind).cpu_workers(workers).build().unwrap();
            random_workload(&engine, workers as u64, 30, 2_000);
        }
    }
}

// ---- Readers and writers ----

#[test]
fn ten_readers_run_together() {
    with_every_builder(|builder| {
        // A waiter that helps would be one more worker.
        let engine = builder.waiters_help(false).build().unwrap();
        let x = engine.new_variable();
        let (inside, most) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)));
        let readers = Arc::new(AtomicUsize::new(0));
        for _ in 0..10 {
            let (inside, most, readers) = (Arc::clone(&inside), Arc::clone(&most), Arc::clone(&readers));
            let read = move |_: &seriatim::RunContext<'_>| {
                inside.fetch_add(1, SeqCst);
                let patience = Instant::now() + Duration::from_millis(20);
                while Instant::now() < patience {
                    most.fetch_max(inside.load(SeqCst), SeqCst);
                    std::thread::yield_now();
                }
                inside.fetch_sub(1, SeqCst);
                readers.fetch_add(1, SeqCst);
            };
            engine.op("read").reads([x]).push(read).unwrap();
        }
        engine.wait_for_all().unwrap();
        assert_eq!(readers.load(SeqCst), 10);
        let alone = engine.kind() == Kind::Naive || engine.settings().cpu_workers == 1;
        let most = most.load(SeqCst);
        assert!(if alone { most == 1 } else { most > 1 && most <= engine.settings().cpu_workers as i64 }, "{most}");
    });
}

#[test]
fn ten_writers_run_one_after_another() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let inside = Arc::new(AtomicBool::new(false));
        let order = Arc::new(Mutex::new(Vec::new()));
        for number in 0..10 {
            let (inside, order) = (Arc::clone(&inside), Arc::clone(&order));
            let write = move |_: &seriatim::RunContext<'_>| {
                assert!(!inside.swap(true, SeqCst), "two writers at once");
                spin(Duration::from_micros(200));
                order.lock().unwrap().push(number);
                inside.store(false, SeqCst);
            };
            engine.op("write").writes([x]).push(write).unwrap();
        }
        engine.wait_for_all().unwrap();
        assert_eq!(*order.lock().unwrap(), (0..10).collect::<Vec<_>>());
    });
}

// ---- Waits ----

#[test]
fn a_wait_on_a_fresh_variable_returns() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        engine.wait_for_var(x).unwrap();
        engine.wait_for_var_timeout(x, Duration::ZERO).unwrap();
        engine.wait_for_all().unwrap();
        engine.wait_for_all_timeout(Duration::ZERO).unwrap();
        assert_eq!(engine.version(x).unwrap(), 0, "a wait is not a write");
    });
}

#[test]
fn a_copy_operation_is_waited_for() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        for property in [Property::CopyToGpu, Property::CopyFromGpu] {
            let copied = Arc::new(AtomicBool::new(false));
            let seen = Arc::clone(&copied);
            let copy = move |_: &seriatim::RunContext<'_>| {
                std::thread::sleep(Duration::from_millis(5));
                copied.store(true, Relaxed);
            };
            engine.push_sync(copy, Context::cpu(0), &[], &[x], property, 0, "copy").unwrap();
            engine.wait_for_var(x).unwrap();
            assert!(seen.load(Relaxed));
        }
    });
}

#[test]
fn a_wait_is_not_blocked_by_a_reader() {
    let _watchdog = Watchdog::new(120, "a wait beside a reader");
    on_every_engine(|engine| {
        let x = engine.new_variable();
        engine.op("write").writes([x]).push(|_| ()).unwrap();
        let reader = hold(&engine, &[x], &[]);
        engine.wait_for_var(x).unwrap();
        assert_eq!(engine.version(x).unwrap(), 1);
        // A write behind the reader, however, is waited for.
        engine.op("write").writes([x]).push(|_| ()).unwrap();
        let error = engine.wait_for_var_timeout(x, Duration::from_millis(1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        reader.complete();
        engine.wait_for_var(x).unwrap();
        assert_eq!(engine.version(x).unwrap(), 2);
    });
}

#[test]
fn a_wait_covers_only_its_own_variable() {
    let _watchdog = Watchdog::new(120, "a wait beside a stuck variable");
    on_every_engine(|engine| {
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        let stuck = hold(&engine, &[], &[y]);
        engine.op("write").writes([x]).push(|_| ()).unwrap();
        engine.wait_for_var(x).unwrap();
        stuck.complete();
        engine.wait_for_all().unwrap();
    });
}

// ---- Versions ----

#[test]
fn a_version_counts_writes_and_no_reads() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        (0..10).for_each(|_| engine.op("read").reads([x]).push(|_| ()).unwrap());
        engine.wait_for_all().unwrap();
        assert_eq!(engine.version(x).unwrap(), 0);
        (0..10).for_each(|_| engine.op("write").writes([x]).push(|_| ()).unwrap());
        engine.wait_for_var(x).unwrap();
        assert_eq!(engine.version(x).unwrap(), 10);
    });
}

#[test]
fn a_variable_listed_twice_counts_once_and_a_write_swallows_reads() {
    let _watchdog = Watchdog::new(120, "an operation that lists a variable twice");
    on_every_engine(|engine| {
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        // The original deadlocks on itself in the second and third case.
        engine.op("twice read").reads([x, x]).writes([y]).push(|_| ()).unwrap();
        engine.op("twice written").writes([x, y, x]).push(|_| ()).unwrap();
        engine.op("both").reads([x]).writes([x]).reads([x]).push(|_| ()).unwrap();
        engine.push_sync(|_| (), Context::cpu(0), &[x, y, x], &[x, x], Property::Normal, 0, "long form").unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!([x, y].map(|v| engine.version(v).unwrap()), [3, 2]);
    });
}

// ---- Errors ----

#[test]
fn an_error_comes_out_of_the_wait_and_repeated_waits_succeed() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        for round in 1..=3 {
            engine.op("fail").writes([x]).push(|_| Err("out of range")).unwrap();
            assert_failed(engine.wait_for_var(x), "out of range");
            engine.wait_for_var(x).unwrap();
            engine.wait_for_all().unwrap();
            assert_eq!(engine.version(x).unwrap(), round, "a failed write steps the version");
        }
    });
}

#[test]
fn a_variable_can_be_used_after_a_failure() {
    on_every_engine(|engine| {
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        let ran = Arc::new(AtomicUsize::new(0));
        let push = |reads: &[Variable], writes: &[Variable]| {
            let ran = Arc::clone(&ran);
            let count = move |_: &seriatim::RunContext<'_>| {
                ran.fetch_add(1, SeqCst);
            };
            engine.push_sync(count, Context::cpu(0), reads, writes, Property::Normal, 0, "use").unwrap();
        };
        engine.op("fail").writes([x]).push(|_| Err("broken")).unwrap();
        push(&[x], &[y]); // reads what failed
        push(&[], &[x]); // overwrites it
        eventually("skipped operations step versions", || [x, y].map(|v| engine.version(v).unwrap()) == [2, 1]);
        assert_eq!(ran.load(SeqCst), 0, "both are skipped");
        assert_failed(engine.wait_for_var(y), "broken");
        push(&[x], &[y]);
        push(&[], &[x]);
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), 2, "the error was taken, so both run");
    });
}

#[test]
fn an_error_on_one_of_several_changed_variables_marks_all_and_is_taken_once() {
    on_every_engine(|engine| {
        let variables: Vec<Variable> = (0..5).map(|_| engine.new_variable()).collect();
        for taker in &variables {
            engine.op("fail").writes(variables.iter().copied()).push(|_| Err("one of several")).unwrap();
            assert_failed(engine.wait_for_var(*taker), "one of several");
            variables.iter().for_each(|other| engine.wait_for_var(*other).unwrap());
        }
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn several_waits_for_everything_in_a_row() {
    on_every_engine(|engine| {
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        for _ in 0..3 {
            engine.op("first").writes([x]).push(|_| Err("the first")).unwrap();
            engine.op("second").writes([y]).push(|_| Err("the second")).unwrap();
            assert_failed(engine.wait_for_all(), "the first");
            engine.wait_for_all().unwrap();
            engine.wait_for_all().unwrap();
            engine.wait_for_var(y).unwrap();
        }
    });
}

// ---- Bulk ----

#[test]
fn a_bulk_of_ten_is_one_operation_and_a_hundred_and_four_are_eleven() {
    with_every_builder(|builder| {
        let engine = builder.bulk_size(10).build().unwrap();
        let x = Data::new(&engine, 0u32);
        let add = |b: &mut Batch<'_>, count: usize| -> Result<(), Error> {
            (0..count).try_for_each(|_| {
                let x2 = x.clone();
                b.op("add").writes([&x]).push(move |_| {
                    *x2.write()? += 1;
                    Ok::<(), Error>(())
                })
            })
        };
        engine.batch(|b| add(b, 10)).unwrap().unwrap();
        engine.wait_for_var(x.variable()).unwrap();
        assert_eq!((*x.read().unwrap(), engine.version(x.variable()).unwrap()), (10, 1));
        engine.batch(|b| add(b, 104)).unwrap().unwrap();
        engine.wait_for_var(x.variable()).unwrap();
        assert_eq!((*x.read().unwrap(), engine.version(x.variable()).unwrap()), (114, 12));
    });
}

#[test]
fn a_bulk_keeps_the_order_with_operations_around_it() {
    on_every_engine(|engine| {
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        let order = Arc::new(Mutex::new(Vec::new()));
        let note = |number: u32| {
            let order = Arc::clone(&order);
            move |_: &seriatim::RunContext<'_>| order.lock().unwrap().push(number)
        };
        engine.op("before").writes([x]).push(note(1)).unwrap();
        engine
            .batch(|b| {
                b.op("in it").writes([x]).push(note(2)).unwrap();
                b.op("in it").reads([x]).writes([y]).push(note(3)).unwrap();
            })
            .unwrap();
        engine.op("behind").reads([x]).writes([y]).push(note(4)).unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(*order.lock().unwrap(), [1, 2, 3, 4]);
    });
}

#[test]
fn a_failure_in_a_bulk_skips_the_rest_and_marks_all_that_it_changes() {
    on_every_engine(|engine| {
        let [x, y, z] = [(); 3].map(|()| engine.new_variable());
        let ran = Arc::new(AtomicUsize::new(0));
        engine
            .batch(|b| {
                for variable in [x, y, z] {
                    let ran = Arc::clone(&ran);
                    let fail_second = move |_: &seriatim::RunContext<'_>| match ran.fetch_add(1, SeqCst) {
                        1 => Err("the second"),
                        _ => Ok(()),
                    };
                    b.op("member").writes([variable]).push(fail_second).unwrap();
                }
            })
            .unwrap();
        assert_failed(engine.wait_for_var(x), "the second");
        assert_eq!(ran.load(SeqCst), 2);
        assert_eq!([x, y, z].map(|v| engine.version(v).unwrap()), [1, 1, 1]);
        [y, z].into_iter().for_each(|v| engine.wait_for_var(v).unwrap());
    });
}

// ---- Complaints ----

#[test]
fn a_wait_inside_an_operation_is_an_error_and_no_deadlock() {
    let _watchdog = Watchdog::new(120, "a wait inside an operation");
    on_every_engine(|engine| {
        let x = engine.new_variable();
        let errors = Arc::new(Mutex::new(Vec::new()));
        let waits = {
            let (engine, errors) = (engine.clone(), Arc::clone(&errors));
            move || {
                let outcomes = [
                    engine.wait_for_var(x),
                    engine.wait_for_all(),
                    engine.wait_for_var_timeout(x, Duration::from_secs(1)),
                    engine.wait_for_all_timeout(Duration::from_secs(1)),
                    engine.stop(),
                    engine.start(),
                ];
                errors.lock().unwrap().extend(outcomes.map(Result::unwrap_err));
            }
        };
        let waits_too = waits.clone();
        engine.op("waits").writes([x]).push(move |_| waits()).unwrap();
        let asynchronous = move |_: &seriatim::RunContext<'_>, completion: seriatim::Completion| {
            waits_too();
            completion.complete();
        };
        engine.op("waits").writes([x]).push_async(asynchronous).unwrap();
        engine.wait_for_all().unwrap();
        let errors = errors.lock().unwrap();
        assert_eq!(errors.len(), 12);
        for error in errors.iter() {
            assert_says(error, ErrorKind::WaitInsideOperation, &["operation cannot"]);
        }
    });
}

#[test]
fn an_operation_may_wait_for_another_engine() {
    let _watchdog = Watchdog::new(120, "a wait for another engine");
    on_every_engine(|engine| {
        let other = Engine::builder().cpu_workers(1).build().unwrap();
        let waits = move |_: &seriatim::RunContext<'_>| {
            let y = other.new_variable();
            other.op("inner").writes([y]).push(|_| ())?;
            other.wait_for_var(y)?;
            other.wait_for_all()
        };
        engine.op("outer").push(waits).unwrap();
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn memory_grows_with_the_backlog_only_without_a_bound() {
    run_child_well(&mut child("memory"));
}

fn memory_under_a_bound() {
    // Everything is pushed behind one operation that takes its time: without a bound each push would add a block.
    let grown_by = |bound: usize, when_full: seriatim::WhenFull| {
        let engine = Engine::builder().cpu_workers(1).bound(bound).when_full(when_full).build().unwrap();
        let x = engine.new_variable();
        let before = resident_memory();
        let helper = std::thread::spawn({
            let engine = engine.clone();
            move || {
                let completion = hold(&engine, &[], &[x]);
                std::thread::sleep(Duration::from_millis(300));
                completion.complete();
            }
        });
        eventually("the first operation runs", || engine.dump_dot().contains("filled"));
        (0..100_000).for_each(|_| engine.op("write").writes([x]).push(|_| ()).unwrap());
        let grown = resident_memory().saturating_sub(before);
        helper.join().unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(engine.version(x).unwrap(), 100_001);
        grown
    };
    let bounded = grown_by(100, seriatim::WhenFull::Block).max(grown_by(100, seriatim::WhenFull::Help));
    assert!(bounded < 4 << 20, "{bounded} bytes more with a bound");
    let unbounded = grown_by(0, seriatim::WhenFull::Block);
    assert!(unbounded > 10 << 20, "only {unbounded} bytes more without a bound: this test shows nothing");
}

#[test]
fn the_process_may_exit_while_operations_run() {
    for task in ["exit", "return", "exit inside", "global"] {
        for kind in ["naive", "pooled", "per-device"] {
            run_child_well(child(task).env("TEST_CHILD_KIND", kind));
        }
    }
}

/// Gives an engine more than it can finish, and comes back while it runs.
fn keep_busy(engine: &Engine) {
    let x = engine.new_variable();
    let step = engine.op("step").operator(|_| spin(Duration::from_micros(20))).unwrap();
    for _ in 0..2_000 {
        if engine.kind() == Kind::Naive {
            // Its operations run on threads of the caller, here on one of their own that is cut short.
            let (engine, step) = (engine.clone(), step.clone());
            std::thread::spawn(move || loop {
                let _ = engine.push(&step, Context::cpu(0), 0);
            });
            break;
        }
        engine.push(&step, Context::cpu(0), 0).unwrap();
        engine.op("write").writes([x]).push(|_| ()).unwrap();
    }
    std::thread::sleep(Duration::from_millis(2));
}

fn leave_while_running(task: &str) {
    static ENGINE: OnceLock<Engine> = OnceLock::new();
    let kind = std::env::var("TEST_CHILD_KIND").unwrap();
    if task == "global" {
        std::env::set_var("SERIATIM_ENGINE", &kind);
        keep_busy(Engine::global().unwrap());
        std::process::exit(0);
    }
    let engine = Engine::builder().kind(kind.parse().unwrap()).cpu_workers(3).build().unwrap();
    keep_busy(ENGINE.get_or_init(|| engine));
    match task {
        "exit" => std::process::exit(0),
        "exit inside" => {
            let engine = ENGINE.get().unwrap();
            let exit = |_: &seriatim::RunContext<'_>| -> () { std::process::exit(0) };
            engine.op("exit").priority(1).push(exit).unwrap();
            std::thread::sleep(Duration::from_secs(60));
            unreachable!("the operation ends the process");
        }
        // Returning ends the test, and with it the process.
        _ => {}
    }
}

// ---- Fork ----

#[test]
fn a_fork_leaves_a_working_engine_in_the_parent_and_in_the_child() {
    for kind in ["naive", "pooled", "per-device"] {
        run_child_well(child("fork").env("TEST_CHILD_KIND", kind));
    }
}

#[test]
fn a_fork_keeps_stopped_engines_stopped_and_several_engines_apart() {
    run_child_well(&mut child("fork several"));
}

#[test]
fn a_fork_inside_an_operation_does_not_hang() {
    for kind in ["naive", "pooled", "per-device"] {
        run_child_well(child("fork inside").env("TEST_CHILD_KIND", kind));
    }
}

/// Forks. In the child: runs `inner` and ends the process, with success if it did not panic. In the parent: waits for that.
fn fork_and(inner: impl FnOnce()) {
    // SAFETY: the child runs Rust code on a copy of this thread. The test's process has no other thread that holds a lock at this
    // time: the engine's are stopped for the fork, and the harness runs one test.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "the system refused to fork");
    if pid == 0 {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(inner));
        // SAFETY: ends the process, without the parent's destructors.
        unsafe { libc::_exit(i32::from(outcome.is_err())) };
    }
    let mut status = 0;
    // SAFETY: `pid` is our child, and `status` is ours.
    let waited = unsafe { libc::waitpid(pid, &mut status, 0) };
    assert_eq!((waited, status), (pid, 0), "the child failed");
}

/// A fork while operations are in flight, twice, and work on both sides.
fn fork_with_work_in_flight() {
    let kind: Kind = std::env::var("TEST_CHILD_KIND").unwrap().parse().unwrap();
    let engine = Engine::builder().kind(kind).cpu_workers(3).build().unwrap();
    let x = Data::new(&engine, 0u64);
    let push = |count: u64| {
        for _ in 0..count {
            let own = x.clone();
            let add = move |_: &seriatim::RunContext<'_>| {
                *own.write()? += 1;
                Ok::<(), Error>(())
            };
            engine.op("add").writes([&x]).push(add).unwrap();
            engine.op("copy").property(Property::CopyToGpu).push(|_| ()).unwrap();
            engine.op("urgent").property(Property::CpuPrioritized).push(|_| ()).unwrap();
        }
    };
    for round in 1..=3u64 {
        push(1_000);
        fork_and(|| {
            assert_eq!(*x.read().unwrap(), round * 1_000, "what was pushed before the fork has run");
            push(500);
            engine.wait_for_all().unwrap();
            assert_eq!(*x.read().unwrap(), round * 1_000 + 500);
            assert_eq!(engine.version(x.variable()).unwrap(), round * 1_000 + 500);
            // One level deeper, and the end of the engine in a child.
            fork_and(|| {
                engine.op("deeper").writes([&x]).push(|_| ()).unwrap();
                engine.wait_for_var(x.variable()).unwrap();
                drop(engine.clone());
                engine.stop().unwrap();
            });
            engine.wait_for_all().unwrap();
        });
        engine.wait_for_all().unwrap();
        assert_eq!(*x.read().unwrap(), round * 1_000, "the child's operations are the child's");
    }
}

fn fork_with_several_engines() {
    let engines: Vec<Engine> = builders().into_iter().map(|builder| builder.build().unwrap()).collect();
    let variables: Vec<Variable> = engines.iter().map(Engine::new_variable).collect();
    let stopped = Engine::builder().build().unwrap();
    stopped.stop().unwrap();
    let use_all = || {
        for (engine, x) in engines.iter().zip(&variables) {
            (0..100).for_each(|_| engine.op("write").writes([*x]).push(|_| ()).unwrap());
        }
        for (engine, x) in engines.iter().zip(&variables) {
            engine.wait_for_var(*x).unwrap();
        }
        let refused = stopped.op("write").push(|_| ()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Stopped);
    };
    use_all();
    fork_and(|| {
        use_all();
        stopped.start().unwrap();
        stopped.op("write").push(|_| ()).unwrap();
        stopped.wait_for_all().unwrap();
        // New engines in the child are like any others.
        on_every_engine(|engine| {
            engine.op("write").push(|_| ()).unwrap();
            engine.wait_for_all().unwrap();
        });
    });
    use_all();
}

fn fork_inside_an_operation() {
    let kind: Kind = std::env::var("TEST_CHILD_KIND").unwrap().parse().unwrap();
    let engine = Engine::builder().kind(kind).cpu_workers(2).build().unwrap();
    let other = Engine::builder().cpu_workers(1).build().unwrap();
    let (own, x) = (engine.clone(), engine.new_variable());
    let inside = move |_: &seriatim::RunContext<'_>| {
        fork_and(|| {
            // This engine's threads are gone in the middle of something; another engine works.
            let refused = std::thread::spawn(move || own.op("late").push(|_| ()).unwrap_err()).join().unwrap();
            assert_eq!(refused.kind(), ErrorKind::Stopped);
            other.op("write").push(|_| ()).unwrap();
            other.wait_for_all().unwrap();
        });
    };
    engine.op("forks").writes([x]).push(inside).unwrap();
    engine.wait_for_all().unwrap();
    engine.op("after").writes([x]).push(|_| ()).unwrap();
    engine.wait_for_all().unwrap();
    assert_eq!(engine.version(x).unwrap(), 2);
}

// ---- Objects that outlive the engine ----

#[test]
fn static_objects_may_outlive_their_engine() {
    static KEPT: Mutex<Vec<(Operator, Data<u32>, Variable)>> = Mutex::new(Vec::new());
    on_every_engine(|engine| {
        let data = Data::new(&engine, 7);
        let x = engine.new_variable();
        let step = engine.op("step").writes([x]).operator(|_| ()).unwrap();
        engine.push(&step, Context::cpu(0), 0).unwrap();
        KEPT.lock().unwrap().push((step, data, x));
    });
    let other = Engine::builder().build().unwrap();
    for (step, data, x) in KEPT.lock().unwrap().drain(..) {
        assert_eq!(*data.read().unwrap(), 7);
        *data.write().unwrap() += 1;
        assert_says(&other.push(&step, Context::cpu(0), 0).unwrap_err(), ErrorKind::ForeignOperator, &["'step'"]);
        assert_says(&other.version(x).unwrap_err(), ErrorKind::ForeignVariable, &["belongs to engine"]);
    }
}

/// What a program keeps for a thread: a variable that it deletes when the thread ends, by then perhaps after the engine's own
/// state for the thread is gone.
struct Tensor {
    engine: Engine,
    variable: Variable,
    deleted: Arc<AtomicUsize>,
}

impl Drop for Tensor {
    fn drop(&mut self) {
        let deleted = Arc::clone(&self.deleted);
        self.engine.op("last").writes([self.variable]).push(|_| ()).unwrap();
        let count = move |_: &seriatim::RunContext<'_>| {
            deleted.fetch_add(1, SeqCst);
        };
        self.engine.delete_variable(count, Context::cpu(0), self.variable).unwrap();
    }
}

#[test]
fn objects_of_a_thread_may_use_the_engine_when_the_thread_ends() {
    thread_local! {
        static TENSORS: RefCell<Vec<Tensor>> = const { RefCell::new(Vec::new()) };
    }
    let _watchdog = Watchdog::new(120, "objects of a thread that ends");
    for (last_handle, engine_first) in [(false, false), (false, true), (true, false), (true, true)] {
        on_every_engine(|engine| {
            let deleted = Arc::new(AtomicUsize::new(0));
            let seen = Arc::clone(&deleted);
            let kept = (!last_handle).then(|| engine.clone());
            let thread = std::thread::spawn(move || {
                let make = || {
                    let variable = engine.new_variable();
                    Tensor { engine: engine.clone(), variable, deleted: Arc::clone(&deleted) }
                };
                // Thread-local objects go in the reverse order of their first use: both orders.
                if engine_first {
                    engine.op("first").push(|_| ()).unwrap();
                    engine.wait_for_all().unwrap();
                    TENSORS.with_borrow_mut(|tensors| tensors.extend([make(), make()]));
                } else {
                    TENSORS.with_borrow_mut(|tensors| tensors.extend([make(), make()]));
                    engine.op("first").push(|_| ()).unwrap();
                    engine.wait_for_all().unwrap();
                }
            });
            thread.join().unwrap();
            match kept {
                Some(engine) => engine.wait_for_all().unwrap(),
                // The last handle went with the tensors, and drained the engine.
                None => eventually("the engine is drained", || seen.load(SeqCst) == 2),
            }
            assert_eq!(seen.load(SeqCst), 2);
        });
    }
}

// ---- Children ----

/// Not a test of its own: carries out what the tests above ask of a child process.
#[test]
fn a_child_process_does_its_task() {
    match task().as_deref() {
        None => {}
        Some("memory") => memory_under_a_bound(),
        Some("fork") => fork_with_work_in_flight(),
        Some("fork several") => fork_with_several_engines(),
        Some("fork inside") => fork_inside_an_operation(),
        Some(task) => leave_while_running(task),
    }
}
