//! Rows of the table in `PERFORMANCE.md`, *What each call may do*: which calls enter the system and
//! take a lock, and how many instructions they take, for a thread that is prepared.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use crate::common::*;
use crate::stepping::{count, mark, Walk};
use seriatim::{Context, Data, Engine, Graph, IdlePolicy, Kind, Operator, Parameter, Variable};
use std::time::Duration;

/// How often each call is made before it is counted, and how often it is counted.
const BEFORE: usize = 40;
const COUNTED: usize = 10;

/// All that the calls use.
struct Stage {
    engine: Engine,
    variables: Vec<Variable>,
    operator: Operator,
    graph: Graph,
    parameter: Parameter<u64>,
    data: Data<u64>,
    other: Data<u64>,
}

impl Stage {
    fn new(kind: Kind, idle: IdlePolicy) -> Stage {
        let engine = Engine::builder().kind(kind).cpu_workers(1).priority_workers(1).idle(idle).build().unwrap();
        let variables: Vec<Variable> = (0..8).map(|_| engine.new_variable()).collect();
        let operator = engine.op("operator").writes([variables[0]]).operator(|_| ()).unwrap();
        let recorded = engine.capture(|c| {
            (0..4).try_for_each(|at| c.op("node").reads([variables[at]]).writes([variables[at + 1]]).push(nothing))?;
            Ok(c.parameter(1))
        });
        let (graph, parameter) = recorded.unwrap();
        engine.prepare().unwrap();
        let [data, other] = [1, 2].map(|value| Data::new(&engine, value));
        Stage { engine, variables, operator, graph, parameter, data, other }
    }

    /// All has ended, and this thread has returned from its wait.
    fn settle(&self) {
        self.engine.wait_for_all().unwrap();
    }
}

/// A call, and how many instructions it may take: about twice of what it takes.
type Row = (&'static str, usize, fn(&Stage));

/// The calls without a system call and without a lock, as long as no worker sleeps.
const QUIET: [Row; 15] = [
    ("push, no variable", 800, |s| s.engine.op("push").push(nothing).unwrap()),
    ("push, one variable", 1_000, |s| s.engine.op("push").writes([s.variables[0]]).push(nothing).unwrap()),
    ("push, three variables", 1_500, |s| {
        let [x, y, z] = [0, 1, 2].map(|at| s.variables[at]);
        s.engine.op("push").reads([x, y]).writes([z]).push(nothing).unwrap();
    }),
    ("push, short", 3_000, |s| s.engine.op("push").writes([s.variables[0]]).short().push(nothing).unwrap()),
    ("Engine::push", 1_000, |s| s.engine.push(&s.operator, Context::cpu(0), 0).unwrap()),
    ("Graph::replay", 4_000, |s| s.graph.replay().unwrap()),
    ("Parameter::set", 800, |s| s.parameter.set(2).unwrap()),
    ("new_variable, delete_variable", 4_000, |s| {
        let variable = s.engine.new_variable();
        s.engine.delete_variable(|_| (), Context::cpu(0), variable).unwrap();
    }),
    ("version", 120, |s| _ = s.engine.version(s.variables[0]).unwrap()),
    ("kind, settings", 50, |s| assert_eq!(s.engine.kind(), s.engine.settings().kind)),
    ("Data::read, Data::write", 500, |s| *s.data.write().unwrap() = *s.other.read().unwrap()),
    ("wait_for_var, nothing pending", 500, |s| s.engine.wait_for_var(s.variables[0]).unwrap()),
    ("wait_for_all, nothing pending", 800, |s| s.engine.wait_for_all().unwrap()),
    ("start_profiling, stop_profiling", 50, |s| {
        s.engine.start_profiling();
        s.engine.stop_profiling();
    }),
    ("expect_cost_of", 120, |s| s.engine.expect_cost_of(1, Duration::from_nanos(20))),
];

/// What a call does, time and again; `None` if the system lets no process watch another.
fn walks(kind: Kind, idle: IdlePolicy, call: fn(&Stage), pause: Duration) -> Option<Vec<Walk>> {
    count(|| {
        let stage = Stage::new(kind, idle);
        for round in 0..BEFORE + COUNTED {
            stage.settle();
            std::thread::sleep(pause);
            let is_counted = round >= BEFORE;
            if is_counted {
                mark();
            }
            call(&stage);
            if is_counted {
                mark();
            }
        }
        stage.settle();
    })
}

/// The most locks that one of the calls takes. The process has no other thread than this one and
/// the worker, which looks for work.
fn most_locks(kind: Kind, call: fn(&Stage)) -> usize {
    let stage = Stage::new(kind, IdlePolicy::Spin);
    let mut most = 0;
    for round in 0..BEFORE + COUNTED {
        stage.settle();
        let before = seriatim::testing::locks_taken();
        call(&stage);
        let taken = seriatim::testing::locks_taken() - before;
        if round >= BEFORE {
            most = most.max(taken);
        }
    }
    most
}

/// A worker that has lost its core gives no memory back meanwhile: one of three tries counts.
fn locks_are_counted(kind: Kind, name: &str, call: fn(&Stage)) {
    let fewest = (0..3).map(|_| most_locks(kind, call)).find(|locks| *locks == 0);
    assert!(fewest.is_some(), "{kind}, {name}: it takes locks");
}

fn calls_are_counted() {
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        for (name, most, call) in QUIET {
            locks_are_counted(kind, name, call);
            // As above: a worker without its core leaves the stock dry.
            let mut tries = Vec::new();
            let is_well = (0..3).any(|_| {
                let Some(walks) = walks(kind, IdlePolicy::Spin, call, Duration::ZERO) else { return tries.is_empty() };
                assert_eq!(walks.len(), COUNTED);
                let found = walks.iter().map(|walk| walk.instructions).max().unwrap();
                println!("{kind}, {name}: {found} instructions at most, {most} are allowed");
                let is_short = cfg!(debug_assertions) || found <= most;
                let is_quiet = walks.iter().all(|walk| walk.calls == 0);
                tries.push(walks);
                is_short && is_quiet
            });
            if tries.is_empty() {
                return println!("the system lets no process watch another, so nothing is counted");
            }
            assert!(is_well, "{kind}, {name}: {tries:?}");
        }
        // A worker that sleeps is woken, by one call.
        let push = QUIET[1].2;
        let Some(walks) = walks(kind, IdlePolicy::Park, push, Duration::from_millis(5)) else { return };
        let expected = usize::from(kind != Kind::Naive);
        println!("{kind}, push with a worker that sleeps: {walks:?}");
        assert!(walks.iter().all(|walk| walk.calls <= expected), "{kind}: {walks:?}");
        assert!(walks.iter().any(|walk| walk.calls == expected), "{kind}: nobody was woken: {walks:?}");
    }
}

#[test]
fn calls_enter_the_system_only_where_the_table_says_so() {
    println!("{}", run_child_well(&mut child("calls are counted")));
}

/// So many replays of one graph wait before one is counted. Of so many counts the least is taken:
/// now and then a push sorts blocks as well.
const MANY: usize = 10_000;
const LEAST_OF: usize = 4;

/// The instructions of a push of a replay, behind one replay that has not begun and behind many.
/// `None` if the system lets no process watch another.
fn behind_replays(kind: Kind, priority: i32) -> Option<[usize; 2]> {
    let walks = count(|| {
        let stage = Stage::new(kind, IdlePolicy::Spin);
        let replay = || stage.graph.replay_with_priority(priority).unwrap();
        (0..BEFORE).for_each(|_| replay());
        stage.settle();
        let held = hold(&stage.engine, &[], &[stage.variables[0]]);
        for more in [1, MANY] {
            (0..more).for_each(|_| stage.graph.replay().unwrap());
            for _ in 0..LEAST_OF {
                mark();
                replay();
                mark();
            }
        }
        held.complete();
        stage.settle();
        let replays = BEFORE + 1 + MANY + 2 * LEAST_OF;
        assert_eq!(stage.engine.version(stage.variables[4]).unwrap(), replays as u64);
    })?;
    assert_eq!(walks.len(), 2 * LEAST_OF);
    let least = |walks: &[Walk]| walks.iter().map(|walk| walk.instructions).min().unwrap();
    let (few, many) = walks.split_at(LEAST_OF);
    Some([least(few), least(many)])
}

fn replays_are_counted() {
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        for priority in [0, 1] {
            let Some([few, many]) = behind_replays(kind, priority) else {
                return println!("the system lets no process watch another, so nothing is counted");
            };
            println!("{kind}, priority {priority}: {few} instructions behind one replay, {many} behind {MANY}");
            // A branch here or there, but nothing for each replay that waits.
            assert!(many.abs_diff(few) <= 64, "{kind}, priority {priority}: {few}, and behind many {many}");
        }
    }
}

/// Replays follow each other without a barrier: what waits in front costs a push nothing.
#[test]
fn a_push_of_a_replay_takes_as_much_behind_many_as_behind_one() {
    println!("{}", run_child_well(&mut child("replays are counted")));
}

pub fn carry_out(task: &str) -> bool {
    match task {
        "calls are counted" => calls_are_counted(),
        "replays are counted" => replays_are_counted(),
        _ => return false,
    }
    true
}
