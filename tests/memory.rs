//! Memory that comes back. In a process of its own: others would count as well.

mod common;

use common::{by_length, hold, nothing, resident_memory};
use seriatim::{Engine, Kind, Variable};

/// What one thread has too much of, others use: operations pushed by one thread after the other
/// take the memory of one.
fn a_backlog_is_handed_on() {
    const BACKLOG: usize = 60_000;
    let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
    let backlog = || {
        let x = engine.new_variable();
        let first = hold(&engine, &[], &[x]);
        (0..BACKLOG).for_each(|_| engine.op("waits").writes([x]).push(nothing).unwrap());
        first.complete();
        engine.wait_for_all().unwrap();
        assert_eq!(engine.version(x).unwrap(), BACKLOG as u64 + 1);
        // The next operations find more at home than a thread keeps.
        (0..100).for_each(|_| engine.op("more").push(nothing).unwrap());
    };
    backlog();
    let before = resident_memory();
    // Another thread cannot use the first one's own stock.
    std::thread::scope(|scope| scope.spawn(backlog).join().unwrap());
    let grown = resident_memory().saturating_sub(before);
    // A backlog is 15 MB, of which the first thread keeps 2 MB for itself.
    assert!(grown < 8 << 20, "the second backlog took {grown} bytes more");
}

#[test]
fn memory_comes_back() {
    // One after the other: each would count what the others use.
    a_backlog_is_handed_on();
    wide_operations_come_back_in_constant_memory();
    graphs_are_replayed_and_dropped_in_constant_memory();
}

fn graphs_are_replayed_and_dropped_in_constant_memory() {
    let (many_replays, many_graphs) = by_length((20_000, 1_000), (100_000, 3_000));
    let engine = Engine::builder().kind(Kind::PerDevice).cpu_workers(2).build().unwrap();
    let variables: Vec<Variable> = (0..8).map(|_| engine.new_variable()).collect();
    let capture = || {
        let captured = engine.capture(|c| {
            seriatim::testing::spreads_after(c, 2);
            for step in 0..64 {
                let op = c.op("step").reads([variables[step * 3 % 8]]).writes([variables[step % 8]]);
                op.push(nothing)?;
            }
            Ok(c.parameter([0u8; 1000]))
        });
        captured.unwrap()
    };
    let (graph, parameter) = capture();
    let replay = |count: usize| {
        for number in 0..count {
            graph.replay().unwrap();
            if number % 100 == 0 {
                parameter.set([1; 1000]).unwrap();
                engine.wait_for_all().unwrap();
            }
        }
    };
    let capture_and_drop = |count: usize| {
        for number in 0..count {
            let (graph, _) = capture();
            graph.replay().unwrap();
            drop(graph);
            if number % 10 == 0 {
                engine.wait_for_all().unwrap();
            }
        }
    };
    replay(many_replays / 10);
    capture_and_drop(many_graphs / 10);
    let before = resident_memory();
    replay(many_replays);
    capture_and_drop(many_graphs);
    engine.wait_for_all().unwrap();
    let replays = (many_replays + many_graphs) / 10 * 11;
    assert_eq!(engine.version(variables[0]).unwrap(), 8 * replays as u64);
    let grown = resident_memory().saturating_sub(before);
    assert!(grown < 8 << 20, "{many_replays} replays and {many_graphs} graphs left {grown} bytes");
}

fn wide_operations_come_back_in_constant_memory() {
    let engine = Engine::builder().kind(Kind::PerDevice).cpu_workers(1).build().unwrap();
    let wide: Vec<Variable> = (0..10_000).map(|_| engine.new_variable()).collect();
    let round = |count: usize| {
        for number in 0..count {
            engine.op("wide").writes(wide.iter().copied()).push(nothing).unwrap();
            if number % 10 == 9 {
                engine.wait_for_all().unwrap();
            }
        }
    };
    round(50);
    let before = resident_memory();
    round(300);
    let grown = resident_memory().saturating_sub(before);
    assert!(grown < 24 << 20, "300 operations of 160 kB, ten at a time, left {grown} bytes");
}
