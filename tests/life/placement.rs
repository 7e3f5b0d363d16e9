//! Where operations run: with `inline_below` on the pusher while they are short, and not for long
//! once they are not; else where their data is.

use crate::common::*;
use seriatim::{Context, Engine, IdlePolicy, Kind, RunContext};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn a_closure_that_turns_long_is_shipped_also_where_it_could_not_borrow() {
    let engine = Engine::builder().kind(Kind::PerDevice).cpu_workers(1).waiters_help(false);
    let engine = engine.inline_below(Duration::from_millis(1)).build().unwrap();
    let x = engine.new_variable();
    let (long, inline) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let push = || {
        let (long, inline) = (Arc::clone(&long), Arc::clone(&inline));
        let body = move |run: &RunContext<'_>| {
            inline.fetch_add(usize::from(run.worker().is_none()), SeqCst);
            if long.load(SeqCst) {
                std::thread::sleep(Duration::from_millis(2));
            }
        };
        engine.op("read").reads([x]).push(body).unwrap();
    };
    // Until it is known to be short, however often this thread loses its core.
    while inline.swap(0, SeqCst) == 0 {
        (0..100).for_each(|_| push());
        engine.wait_for_all().unwrap();
    }
    // A read that runs: the variable is not idle, and the next read is ready all the same.
    let beside = hold(&engine, &[x], &[]);
    long.store(true, SeqCst);
    (0..60).for_each(|_| push());
    beside.complete();
    engine.wait_for_all().unwrap();
    // Of 24 in a row one is measured, and then the next.
    let inline = inline.load(SeqCst);
    assert!(inline <= 30, "{inline} of 60 long operations ran inside their pushes");
}

#[test]
fn closures_of_one_type_are_told_apart_by_their_keys() {
    let _watchdog = Watchdog::new(60, "keys of costs");
    let engine = Engine::builder().kind(Kind::PerDevice).cpu_workers(1).waiters_help(false);
    let engine = engine.inline_below(Duration::from_millis(1)).build().unwrap();
    for as_operators in [false, true] {
        let ran: [Arc<AtomicUsize>; 2] = Default::default();
        let variables = [engine.new_variable(), engine.new_variable()];
        // One type for both, whether boxed or not.
        let body = |which: usize| {
            let ran = Arc::clone(&ran[which]);
            move |run: &RunContext<'_>| {
                ran.fetch_add(usize::from(run.worker().is_none()), SeqCst);
                if which == 1 {
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        };
        let key = |which: usize| (usize::from(as_operators) * 2 + which) as u64;
        let operator = |which: usize| {
            engine.op("turn").writes([variables[which]]).cost_key(key(which)).operator(body(which)).unwrap()
        };
        let operators = [operator(0), operator(1)];
        let push = |which: usize| {
            if as_operators {
                engine.push(&operators[which], Default::default(), 0).unwrap();
            } else {
                let call: Box<dyn FnOnce(&RunContext<'_>) + Send> = Box::new(body(which));
                engine.op("turn").writes([variables[which]]).cost_key(key(which)).push(call).unwrap();
            }
            engine.wait_for_var(variables[which]).unwrap();
        };
        let turns = |count: usize| {
            ran.iter().for_each(|ran| ran.store(0, SeqCst));
            (0..count).for_each(|_| [0, 1].into_iter().for_each(push));
            [0, 1].map(|which| ran[which].load(SeqCst))
        };
        // Until the short ones are known, however often this thread loses its core. The long ones
        // are shipped all along.
        loop {
            let [short, long] = turns(50);
            assert_eq!(long, 0, "long operations ran inside their pushes");
            if short >= 45 {
                break;
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn operations_go_to_the_worker_that_used_their_variable_last() {
    let _watchdog = Watchdog::new(60, "operations beside their data");
    // Beside other processes a worker may be away for so long that the other one takes what was
    // meant for it.
    let (mut seen, begin) = (Vec::new(), std::time::Instant::now());
    while begin.elapsed() < Duration::from_secs(40) {
        match placed() {
            Ok(()) => return,
            Err(places) => seen.push(places),
        }
    }
    panic!("in no attempt did operations run where their variables were: {seen:#?}");
}

/// Whether operations on 32 variables run where those were used before.
#[cfg(target_arch = "x86_64")]
fn placed() -> Result<(), String> {
    // Workers that sleep at once: the thread that is woken runs what it was woken for, and nobody
    // looks around for it.
    let engine =
        Engine::builder().kind(Kind::PerDevice).cpu_workers(2).idle(seriatim::IdlePolicy::Park).waiters_help(false);
    let engine = engine.build().unwrap();
    let variables: Vec<_> = (0..32).map(|_| engine.new_variable()).collect();
    let other = engine.new_variable();
    let ran_on = |variable: usize, reads: bool| {
        let worker = Arc::new(AtomicUsize::new(usize::MAX));
        let seen = Arc::clone(&worker);
        let note = move |run: &RunContext<'_>| seen.store(run.worker().unwrap_or(usize::MAX), Relaxed);
        let (variable, operation) = (variables[variable], engine.op(""));
        let operation = if reads { operation.reads([variable]).writes([other]) } else { operation.writes([variable]) };
        operation.push(note).unwrap();
        engine.wait_for_all().unwrap();
        engine.wait_for_var(variable).unwrap();
        worker.load(Relaxed)
    };
    let first: Vec<usize> = (0..32).map(|variable| ran_on(variable, false)).collect();
    // In an order in which neighbours ran on different workers: dealing out in turn would be right
    // for half of them.
    let order = (0..32).map(|number| number * 11 % 32);
    let again: Vec<(usize, usize)> = order.map(|variable| (variable, ran_on(variable, false))).collect();
    let same = again.iter().filter(|(variable, worker)| first[*variable] == *worker).count();
    // What an operation changes counts for more than what it reads.
    let on_other: Vec<usize> = (0..32).map(|variable| ran_on(variable, true)).collect();
    let changes = on_other.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let both = first.contains(&0) && first.contains(&1);
    if both && same >= 28 && changes <= 1 {
        return Ok(());
    }
    Err(format!("{first:?}, then, by variable, {again:?}; one variable on {on_other:?}"))
}

/// How many of `count` operations ran inside their pushes, on an engine with one worker and the
/// settings that it has by default.
fn inside(engine: &Engine, short: bool, count: usize) -> usize {
    let x = engine.new_variable();
    let inside = Arc::new(AtomicUsize::new(0));
    for _ in 0..count {
        let inside = Arc::clone(&inside);
        let body = move |run: &RunContext<'_>| _ = inside.fetch_add(usize::from(run.worker().is_none()), Relaxed);
        let operation = engine.op("count").writes([x]);
        let operation = if short { operation.short() } else { operation };
        operation.push(body).unwrap();
    }
    let now = inside.load(Relaxed);
    engine.wait_for_all().unwrap();
    now
}

#[test]
fn by_default_only_what_is_declared_short_runs_inside_its_push() {
    let _watchdog = Watchdog::new(60, "declared short");
    for kind in [Kind::PerDevice, Kind::Pooled] {
        let engine = Engine::builder().kind(kind).cpu_workers(1).waiters_help(false).build().unwrap();
        assert_eq!(inside(&engine, false, 10_000), 0, "{kind}: undeclared");
        // Until they are known to be short, however often this thread loses its core.
        while inside(&engine, true, 1_000) < 500 {}
        assert_eq!(inside(&engine, false, 10_000), 0, "{kind}: undeclared, of a type that is known to be short");
    }
}

#[test]
fn what_is_declared_short_in_a_pipeline_runs_inside_its_replays() {
    let _watchdog = Watchdog::new(60, "declared short in a pipeline");
    for kind in [Kind::PerDevice, Kind::Pooled] {
        let engine = Engine::builder().kind(kind).cpu_workers(1).waiters_help(false).build().unwrap();
        let inside = |short: bool| {
            let (x, inside) = (engine.new_variable(), Arc::new(AtomicUsize::new(0)));
            let counted = Arc::clone(&inside);
            let body = move |run: &RunContext<'_>| _ = counted.fetch_add(usize::from(run.worker().is_none()), Relaxed);
            let (mut steps, ()) = engine
                .capture_pipeline(|c| {
                    let step = c.op("count").write(x);
                    if short { step.short() } else { step }.push(body)
                })
                .unwrap();
            (0..1_000).for_each(|_| steps.replay().unwrap());
            engine.wait_for_all().unwrap();
            inside.load(Relaxed)
        };
        assert_eq!(inside(false), 0, "{kind}: undeclared");
        while inside(true) < 500 {}
    }
}

#[test]
fn with_a_bound_nothing_runs_inside_its_push() {
    let engine = Engine::builder().kind(Kind::PerDevice).cpu_workers(1).waiters_help(false).bound(1_000);
    assert_eq!(inside(&engine.build().unwrap(), true, 5_000), 0);
}

#[test]
fn an_undeclared_closure_that_was_short_a_million_times_may_wait_for_its_pusher() {
    let _watchdog = Watchdog::new(120, "a closure that waits for its pusher");
    for kind in [Kind::PerDevice, Kind::Pooled] {
        let engine = Engine::builder().kind(kind).cpu_workers(1).build().unwrap();
        let (x, open) = (engine.new_variable(), Arc::new(AtomicBool::new(true)));
        let push = || {
            let open = Arc::clone(&open);
            let wait = move |_: &RunContext<'_>| {
                while !open.load(Acquire) {
                    std::thread::yield_now();
                }
            };
            engine.op("wait").writes([x]).push(wait).unwrap();
        };
        (0..1_000_000).for_each(|_| push());
        engine.wait_for_all().unwrap();
        open.store(false, Release);
        // If the push ran the closure, it would never return.
        (0..100).for_each(|_| push());
        open.store(true, Release);
        engine.wait_for_all().unwrap();
    }
}

#[test]
fn a_declared_closure_of_which_one_call_in_64_is_long_is_shipped() {
    let _watchdog = Watchdog::new(120, "rare long calls");
    let engine = Engine::builder().kind(Kind::PerDevice).cpu_workers(1).waiters_help(false).build().unwrap();
    let x = engine.new_variable();
    let inside = Arc::new(AtomicUsize::new(0));
    let push = |long: bool| {
        let inside = Arc::clone(&inside);
        let body = move |run: &RunContext<'_>| {
            if long {
                std::thread::sleep(Duration::from_micros(50));
                inside.fetch_add(usize::from(run.worker().is_none()), Relaxed);
            }
        };
        engine.op("mixed").writes([x]).short().push(body).unwrap();
    };
    // Until they are known to be short.
    (0..2_000).for_each(|_| push(false));
    engine.wait_for_all().unwrap();
    (0..64_000).for_each(|place| push(place % 64 == 0));
    engine.wait_for_all().unwrap();
    let inside = inside.load(Relaxed);
    assert!(inside <= 100, "{inside} of 1,000 long calls held up the pusher");
}

/// How many of `count` closures that take 20 µs ran inside their pushes, if the thread pauses for
/// so long between two of them.
fn middling_inside(kind: Kind, count: usize, pause: Duration) -> usize {
    const BODY: Duration = Duration::from_micros(20);
    let builder = Engine::builder().kind(kind).cpu_workers(1).waiters_help(false);
    let engine = builder.inline_below(Duration::from_millis(1)).build().unwrap();
    engine.prepare().unwrap();
    engine.expect_cost_of(1, BODY);
    let variables: Vec<_> = (0..count).map(|_| engine.new_variable()).collect();
    let inside = Arc::new(AtomicUsize::new(0));
    for x in &variables {
        spin(pause);
        let inside = Arc::clone(&inside);
        let body = move |run: &RunContext<'_>| {
            inside.fetch_add(usize::from(run.worker().is_none()), Relaxed);
            spin(BODY);
        };
        engine.op("middling").writes([*x]).cost_key(1).push(body).unwrap();
    }
    let inside = inside.load(Relaxed);
    engine.wait_for_all().unwrap();
    inside
}

#[test]
fn a_thread_that_pushes_without_a_pause_ships_what_it_would_run_with_pauses() {
    let _watchdog = Watchdog::new(60, "closures between the limits");
    for kind in [Kind::PerDevice, Kind::Pooled] {
        // A thread that loses its core pauses: so it may run a few. A closure whose thread does
        // seems to take longer. So there are several attempts.
        let ran = |attempts, count, pause| (0..attempts).map(move |_| middling_inside(kind, count, pause));
        let least = ran(5, 1_000, Duration::ZERO).find(|inside| *inside <= 100);
        assert!(least.is_some(), "{kind}: most ran inside their pushes, without a pause");
        let most = ran(30, 200, Duration::from_micros(200)).find(|inside| *inside >= 150);
        assert!(most.is_some(), "{kind}: many were shipped, with pauses");
    }
}

#[test]
fn an_operation_of_a_context_wakes_the_worker_of_its_number() {
    let engine = Engine::builder().kind(Kind::PerDevice).cpu_workers(2).idle(IdlePolicy::Park);
    let engine = engine.waiters_help(false).build().unwrap();
    for number in 1..=2 {
        let there = Arc::new(AtomicUsize::new(0));
        for _ in 0..50 {
            let count = Arc::clone(&there);
            let body = move |run: &RunContext<'_>| {
                count.fetch_add(usize::from(run.worker() == Some(number as usize - 1)), SeqCst);
            };
            engine.op("where").context(Context::cpu(number)).push(body).unwrap();
            engine.wait_for_all().unwrap();
            // Until both sleep: a worker that looks takes what another leaves lying.
            std::thread::sleep(Duration::from_millis(1));
        }
        let there = there.load(SeqCst);
        assert!(there > 25, "{there} of 50 operations of context {number} ran on its worker");
    }
}
