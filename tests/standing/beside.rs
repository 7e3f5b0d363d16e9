//! A long operation among tiny ones: all that does not depend on it ends at once.

use crate::common::*;
use crate::{LONG, LONG_ROUNDS, ROUNDS};
use seriatim::{Engine, Kind, RunContext, Variable};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What is not behind a long operation has ended by then, from the first push on.
const AT_ONCE: Duration = Duration::from_millis(200);
/// Tiny operations that are pushed before a long one and behind it, and others that wait for it.
const BEFORE: usize = 5_000;
const AFTER: usize = 100_000;
const DEPENDANTS: usize = 10_000;

/// A long operation among tiny ones. It takes until they have ended.
struct Beside<'a> {
    engine: &'a Engine,
    tiny: Vec<Variable>,
    x: Variable,
    gate: Gate,
    ran: Arc<AtomicUsize>,
    /// How many tiny ones had run when the long one began.
    ran_before: Arc<AtomicUsize>,
    dependants: Arc<AtomicUsize>,
}

impl Beside<'_> {
    fn new(engine: &Engine) -> Beside<'_> {
        let tiny = (0..16).map(|_| engine.new_variable()).collect();
        let [ran, ran_before, dependants] = std::array::from_fn(|_| Arc::default());
        Beside { engine, tiny, x: engine.new_variable(), gate: Gate::new(), ran, ran_before, dependants }
    }

    fn push_tiny(&self, count: usize) {
        for number in 0..count {
            let [read, write] = [number * 7 + 3, number].map(|number| self.tiny[number % self.tiny.len()]);
            self.engine.op("tiny").reads([read]).writes([write]).push(counting(&self.ran)).unwrap();
        }
    }

    fn push_long(&self) {
        let (stand, ran, ran_before) = (self.gate.clone(), Arc::clone(&self.ran), Arc::clone(&self.ran_before));
        let long = move |_: &RunContext<'_>| {
            ran_before.store(ran.load(SeqCst), SeqCst);
            stand.pass();
        };
        self.engine.op("long").write(self.x).push(long).unwrap();
    }

    fn push_dependants(&self, count: usize) {
        for number in 0..count {
            let op = self.engine.op("dependant");
            let op = if number % 4 == 0 { op.write(self.x) } else { op.read(self.x) };
            op.push(counting(&self.dependants)).unwrap();
        }
    }

    /// Whether all tiny operations come to their end while the long one runs.
    fn end_meanwhile(&self) -> bool {
        let began = Instant::now();
        while self.ran.load(SeqCst) < BEFORE + AFTER && began.elapsed() < LONG {
            sleep(Duration::from_micros(100));
        }
        self.ran.load(SeqCst) == BEFORE + AFTER && self.dependants.load(SeqCst) == 0
    }

    /// Lets the long operation end.
    fn end(&self, dependants: usize) {
        self.gate.open();
        self.engine.wait_for_all().unwrap();
        assert_eq!(self.dependants.load(SeqCst), dependants);
    }
}

/// Has one of several rounds end [`AT_ONCE`]. Each says how long it took, or that it does not
/// count.
fn one_is_at_once(what: &str, mut round: impl FnMut() -> Option<Duration>) {
    let mut took = Vec::new();
    for _ in 0..ROUNDS {
        took.push(round());
        let is_in_time = took.iter().flatten().any(|took| *took <= AT_ONCE);
        if is_in_time && took.len() >= by_length(1, LONG_ROUNDS) {
            break;
        }
    }
    println!("{what}: {took:.1?}");
    assert!(took.iter().flatten().any(|took| *took <= AT_ONCE), "{what}: the tiny operations took {took:?}");
}

/// In each round all that does not depend on the long operation ends before it does.
#[test]
fn all_but_a_long_operation_and_its_dependants_end_at_once() {
    let _watchdog = Watchdog::new(300, "tiny beside long");
    for kind in [Kind::Pooled, Kind::PerDevice] {
        for (inline_below, dependants) in [(0, 0), (0, DEPENDANTS), (10, 0), (10, DEPENDANTS)] {
            let inline_below = Duration::from_micros(inline_below);
            let what = format!("{kind}, {dependants} dependants, inline_below {inline_below:?}");
            let builder = Engine::builder().kind(kind).cpu_workers(2).waiters_help(false).inline_below(inline_below);
            one_is_at_once(&what, || {
                let engine = builder.clone().build().unwrap();
                let beside = Beside::new(&engine);
                let began = Instant::now();
                beside.push_tiny(BEFORE);
                beside.push_long();
                beside.push_dependants(dependants);
                beside.push_tiny(AFTER);
                let meanwhile = beside.end_meanwhile();
                let (took, ran) = (began.elapsed(), beside.ran.load(SeqCst));
                beside.end(dependants);
                assert!(meanwhile, "{what}: {ran} of {} tiny ones had run after {took:?}", BEFORE + AFTER);
                // Not if the worker that has the long one comes to it last.
                (beside.ran_before.load(SeqCst) < BEFORE + AFTER / 2).then_some(took)
            });
        }
    }
}

/// The naive engine has no workers: the thread that pushes the long operation is in it. So this
/// holds for the pushes and waits of another thread, on variables that the first has used.
#[test]
fn a_thread_beside_another_ones_long_operation_does_all_but_its_dependants_at_once() {
    let _watchdog = Watchdog::new(300, "tiny beside long, naive");
    for dependants in [0, DEPENDANTS] {
        let what = format!("naive, {dependants} dependants");
        one_is_at_once(&what, || {
            let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
            let beside = &Beside::new(&engine);
            std::thread::scope(|scope| {
                let began = Instant::now();
                scope.spawn(move || {
                    beside.push_tiny(BEFORE);
                    beside.push_long();
                });
                beside.gate.wait_for_someone();
                beside.push_dependants(dependants);
                beside.push_tiny(AFTER);
                beside.tiny.iter().for_each(|tiny| engine.wait_for_var(*tiny).unwrap());
                let took = began.elapsed();
                let ran = beside.ran.load(SeqCst);
                beside.gate.open();
                assert_eq!(ran, BEFORE + AFTER, "{what}");
                Some(took)
            })
            .inspect(|_| beside.end(dependants))
        });
    }
}
