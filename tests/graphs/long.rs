//! Graphs of few long operations: as many of them run at once as there are threads for them, from
//! the first replay on.

use super::helpers::variables;
use crate::common::*;
use seriatim::{Engine, Graph, IdlePolicy, Kind, Property, RunContext};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// A place where operations wait for each other.
#[derive(Default)]
pub struct Meeting {
    /// How many came, and how many left because nobody else did.
    came: Mutex<(usize, usize)>,
    more: Condvar,
}

impl Meeting {
    /// Waits until so many operations are here at once, or for so long that they never will be.
    pub fn wait_for(&self, others: usize) {
        let mut came = self.came.lock().unwrap();
        came.0 += 1;
        self.more.notify_all();
        let row = came.0.div_ceil(others) * others;
        let (mut came, waited) =
            self.more.wait_timeout_while(came, Duration::from_secs(10), |came| came.0 < row && came.1 == 0).unwrap();
        came.1 += usize::from(waited.timed_out());
    }

    /// How many operations were left alone.
    pub fn alone(&self) -> usize {
        self.came.lock().unwrap().1
    }
}

/// A graph of `operations` that have nothing to do with each other; each takes a while, and waits
/// until as many as there are `workers` run at once.
fn meeting(engine: &Engine, workers: usize, operations: usize) -> (Graph, Arc<Meeting>) {
    let meeting = Arc::new(Meeting::default());
    let all = &variables::<12>(engine)[..operations];
    let captured = engine.capture(|c| {
        all.iter().try_for_each(|variable| {
            let meeting = Arc::clone(&meeting);
            c.op("long").write(*variable).push(move |_: &RunContext<'_>| {
                std::thread::sleep(Duration::from_millis(2));
                meeting.wait_for(workers);
            })
        })
    });
    (captured.unwrap().0, meeting)
}

#[test]
fn long_operations_run_at_once_in_every_replay() {
    let _watchdog = Watchdog::new(120, "graphs of few long operations");
    for kind in [Kind::Pooled, Kind::PerDevice] {
        for idle in [IdlePolicy::SpinThenPark, IdlePolicy::Park] {
            let engine = Engine::builder().kind(kind).cpu_workers(3).idle(idle).waiters_help(false).build().unwrap();
            for operations in [3, 6, 12] {
                let (graph, meeting) = meeting(&engine, 3, operations);
                for number in 1..=40 {
                    graph.replay().unwrap();
                    engine.wait_for_all().unwrap();
                    assert_eq!(meeting.alone(), 0, "replay {number} of {operations}, {kind}, {idle:?}");
                }
            }
        }
    }
}

#[test]
fn a_graph_that_was_short_is_spread_after_its_first_long_operation() {
    let _watchdog = Watchdog::new(120, "a graph that becomes long");
    let engine = Engine::builder().cpu_workers(2).waiters_help(false).build().unwrap();
    let meeting = Arc::new(Meeting::default());
    let long = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (x, all) = (engine.new_variable(), variables::<2>(&engine));
    let captured = engine.capture(|c| {
        // Joined to no other operation, as both others wait for it.
        let nap = Arc::clone(&long);
        c.op("first").write(x).push(move |_: &RunContext<'_>| {
            if nap.load(std::sync::atomic::Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
            }
        })?;
        all.iter().try_for_each(|variable| {
            let (meeting, long) = (Arc::clone(&meeting), Arc::clone(&long));
            c.op("then").read(x).write(*variable).push(move |_: &RunContext<'_>| {
                if long.load(std::sync::atomic::Ordering::Relaxed) {
                    meeting.wait_for(2);
                }
            })
        })
    });
    let (graph, ()) = captured.unwrap();
    for _ in 0..100 {
        graph.replay().unwrap();
    }
    engine.wait_for_all().unwrap();
    long.store(true, std::sync::atomic::Ordering::Relaxed);
    for _ in 0..40 {
        graph.replay().unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(meeting.alone(), 0);
    }
}

/// One worker has a long graph, and an operation in its log: it comes to that as it comes to others
/// beside it, though all of the graph was pushed before. The operations of the graph wait for each
/// other, or do not.
#[test]
fn a_long_graph_leaves_turns_to_what_is_in_a_log() {
    for kind in [Kind::Pooled, Kind::PerDevice] {
        for (chains, waiters_help) in [(true, false), (false, false), (false, true)] {
            leaves_turns(kind, chains, waiters_help);
        }
    }
}

fn leaves_turns(kind: Kind, chains: bool, waiters_help: bool) {
    let _watchdog = Watchdog::new(100, "a long graph and a log");
    const LENGTH: usize = 100_000;
    let engine = Engine::builder().kind(kind).cpu_workers(1).waiters_help(waiters_help).build().unwrap();
    let all = variables::<12>(&engine);
    let (ran, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let gate = Gate::new();
    let (graph, ()) = engine
        .capture(|c| {
            let stand = gate.clone();
            c.op("first").push(move |_| stand.clone().pass())?;
            (0..LENGTH).try_for_each(|number| {
                let ran = Arc::clone(&ran);
                let builder = c.op("step");
                let variable = all[number % all.len()];
                let builder = if chains { builder.write(variable) } else { builder.read(variable) };
                builder.push(move |_| _ = ran.fetch_add(1, SeqCst))
            })
        })
        .unwrap();
    graph.replay().unwrap();
    gate.wait_for_someone();
    let (count, see) = (Arc::clone(&ran), Arc::clone(&seen));
    engine.op("in the log").push(move |_| see.store(count.load(SeqCst), SeqCst)).unwrap();
    gate.open();
    // Without a wait, so that the worker is the only one that runs the graph.
    eventually("the operation in the log has run", || seen.load(SeqCst) > 0);
    engine.wait_for_all().unwrap();
    let before = seen.load(SeqCst);
    assert!(before < 1_000, "{kind}: {before} operations of the graph have run before");
    assert_eq!(ran.load(SeqCst), LENGTH, "{kind}: each of them once");
}

/// Each step waits for the slow and the quick one of the step before, on lanes of their own: what
/// the other lane says has always come, and is not looked at, when a turn could be over.
#[test]
fn a_lane_that_waits_for_another_at_each_step_gives_way_to_what_is_urgent() {
    const STEPS: usize = 300;
    let _watchdog = Watchdog::new(100, "lanes that wait for each other");
    let engine = Engine::builder().kind(Kind::PerDevice).cpu_workers(1).waiters_help(false).build().unwrap();
    let [a0, a1, b0, b1, w, v] = variables::<6>(&engine);
    let (a, b) = ([a0, a1], [b0, b1]);
    let (ran, seen) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let record = |c: &mut seriatim::Capture| {
        for step in 0..STEPS {
            let (own, other) = (step % 2, (step + 1) % 2);
            let ran = Arc::clone(&ran);
            let slow = move |_: &RunContext<'_>| {
                std::thread::sleep(Duration::from_millis(2));
                ran.fetch_add(1, SeqCst);
            };
            c.op("slow").reads([b[other]]).writes([a[own], w]).push(slow)?;
            c.op("quick").reads([a[other]]).writes([b[own], v]).property(Property::Io).push(nothing)?;
        }
        Ok(())
    };
    let (graph, ()) = engine.capture(record).unwrap();
    graph.replay().unwrap();
    eventually("it runs", || ran.load(SeqCst) > 4);
    let (count, see, before) = (Arc::clone(&ran), Arc::clone(&seen), ran.load(SeqCst));
    engine.op("urgent").priority(10).push(move |_| see.store(count.load(SeqCst), SeqCst)).unwrap();
    engine.wait_for_all().unwrap();
    let behind = seen.load(SeqCst) - before;
    assert!(behind < 64, "{behind} operations of the graph have run before it");
}
