//! Urgent operations beside a long one.

use crate::common::*;
use crate::{engines, is_soon, outlast, LONG_ROUNDS, ROUNDS};
use seriatim::{Builder, Engine, Kind, RunContext, Variable};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::*};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Two urgent operations come at once, the first of them long, and the other worker has a long row.
#[test]
fn what_is_urgent_beside_a_long_urgent_operation() {
    let _watchdog = Watchdog::new(200, "urgent beside urgent");
    for engine in engines() {
        let gates = [Gate::new(), Gate::new()];
        for gate in &gates {
            let stand = gate.clone();
            engine.op("gate").push(move |_| stand.pass()).unwrap();
            gate.wait_for_someone();
        }
        // It takes longer than the long operation, unless it is cut short.
        let over = Arc::new(AtomicBool::new(false));
        for _ in 0..100_000 {
            let over = Arc::clone(&over);
            let stream = move |_: &RunContext<'_>| {
                if !over.load(Relaxed) {
                    spin(Duration::from_micros(300));
                }
            };
            engine.op("stream").push(stream).unwrap();
        }
        let (ran, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (begins, urgent) = (Arc::clone(&begun), Arc::clone(&ran));
        let long = move |_: &RunContext<'_>| {
            begins.store(true, SeqCst);
            outlast(&urgent, 1);
        };
        engine.op("long").priority(1).push(long).unwrap();
        engine.op("urgent").priority(1).push(counting(&ran)).unwrap();
        gates[0].open();
        eventually("the long one begins", || begun.load(SeqCst));
        gates[1].open();
        is_soon("the urgent one", Instant::now(), &ran, 1);
        over.store(true, SeqCst);
        engine.wait_for_all().unwrap();
    }
}

const URGENT: usize = 40;
/// How long an operation of the stream takes.
const BODY: Duration = Duration::from_micros(20);
/// When an urgent operation starts at the latest, if it is not held up by others.
const STARTS: Duration = Duration::from_micros(100).saturating_add(BODY);
/// Operations of the stream that may start between the return of an urgent push and the start of
/// its operation: the one that the worker has just decided on, and one for which the worker has not
/// yet seen what was pushed.
const PASSED: usize = 2;

/// How long a thread has waited for a core, in nanoseconds.
#[cfg(target_os = "linux")]
fn waited(thread: i32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(target_os = "linux")]
fn this_thread() -> i32 {
    // SAFETY: the call has no preconditions.
    unsafe { libc::gettid() }
}

/// Elsewhere nobody knows: each look finds another number.
#[cfg(not(target_os = "linux"))]
fn waited(_: i32) -> u64 {
    static LOOKS: AtomicUsize = AtomicUsize::new(0);
    LOOKS.fetch_add(1, SeqCst) as u64 * 1_000_000
}

#[cfg(not(target_os = "linux"))]
fn this_thread() -> i32 {
    0
}

/// Pushes urgent operations beside a long one and a stream. Returns the most operations of the
/// stream that started before one of them, and the longest time until one started for which the
/// threads had their cores.
fn urgent_beside_a_stream(builder: &Builder, one_by_one: bool) -> (usize, Duration) {
    let engine = builder.clone().build().unwrap();
    let (gate, over, started) = (Gate::new(), Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let stand = gate.clone();
    engine.op("long").push(move |_| stand.pass()).unwrap();
    gate.wait_for_someone();
    let stream: Vec<Variable> = (0..4).map(|_| engine.new_variable()).collect();
    let worker = Arc::new(AtomicI32::new(0));
    for number in 0..100_000 {
        let (over, started, worker) = (Arc::clone(&over), Arc::clone(&started), Arc::clone(&worker));
        let body = move |_: &RunContext<'_>| {
            if worker.load(Relaxed) == 0 {
                worker.store(this_thread(), SeqCst);
            }
            if !over.load(Relaxed) {
                started.fetch_add(1, SeqCst);
                spin(BODY);
            }
        };
        engine.op("stream").write(stream[number % stream.len()]).push(body).unwrap();
    }
    eventually("the stream runs", || started.load(SeqCst) > 0);
    let threads = [worker.load(SeqCst), this_thread()];
    let waits = || threads.map(waited).iter().sum::<u64>();
    let starts: Arc<[OnceLock<(usize, Instant)>; URGENT]> = Arc::new([const { OnceLock::new() }; URGENT]);
    let (mut random, starts_of) = (Random(1), Arc::clone(&starts));
    let pushed: Vec<_> = (0..URGENT)
        .map(|number| {
            let (starts, counted) = (Arc::clone(&starts), Arc::clone(&started));
            let urgent = move |_: &RunContext<'_>| {
                starts[number].set((counted.load(SeqCst), Instant::now())).expect("it runs once");
            };
            let (before, began) = (waits(), Instant::now());
            engine.op("urgent").priority(100).push(urgent).unwrap();
            let pushed = started.load(SeqCst);
            if one_by_one {
                spin(Duration::from_micros(random.below(300) as u64));
                eventually("it runs", || starts_of[number].get().is_some());
            }
            (pushed, began, before, waits())
        })
        .collect();
    eventually("the urgent ones have run", || starts.iter().all(|start| start.get().is_some()));
    over.store(true, SeqCst);
    gate.open();
    engine.wait_for_all().unwrap();
    let after = waits();
    let took = starts.iter().zip(pushed).map(|(start, (pushed, began, before, run))| {
        let (started, at) = *start.get().expect("it has run");
        let lost = Duration::from_nanos(if one_by_one { run } else { after } - before);
        (started.saturating_sub(pushed), (at - began).saturating_sub(lost))
    });
    took.fold((0, Duration::ZERO), |most, (passed, took)| (most.0.max(passed), most.1.max(took)))
}

/// However the threads get their cores, an urgent operation is the next; and if they have them, it
/// starts soon.
#[test]
fn what_is_urgent_beside_a_long_operation_and_a_stream() {
    let _watchdog = Watchdog::new(300, "urgent beside a stream");
    for kind in [Kind::Pooled, Kind::PerDevice] {
        for one_by_one in [true, false] {
            let what = format!("{kind}, one by one: {one_by_one}");
            let builder = Engine::builder().kind(kind).cpu_workers(2).waiters_help(false);
            let mut seen = Vec::new();
            while seen.len() < ROUNDS {
                seen.push(urgent_beside_a_stream(&builder, one_by_one));
                let (passed, _) = *seen.last().unwrap();
                assert!(passed <= PASSED, "{what}: {passed} operations of a stream started before an urgent one");
                if seen.iter().any(|(_, took)| *took <= STARTS) && seen.len() >= by_length(1, LONG_ROUNDS) {
                    break;
                }
            }
            println!("{what}: {seen:.1?}");
            assert!(seen.iter().any(|(_, took)| *took <= STARTS), "{what}: later than {STARTS:?}: {seen:?}");
        }
    }
}
