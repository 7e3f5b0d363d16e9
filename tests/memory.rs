//! Memory that comes back. In a process of its own: others would count as well.

mod common;

use common::resident_memory;
use seriatim::{Engine, Kind, Variable};

#[test]
fn wide_operations_come_back_in_constant_memory() {
    let engine = Engine::builder().kind(Kind::PerDevice).cpu_workers(1).build().unwrap();
    let wide: Vec<Variable> = (0..5_000).map(|_| engine.new_variable()).collect();
    let round = |count: usize| {
        for number in 0..count {
            engine.op("wide").writes(wide.iter().copied()).push(|_| ()).unwrap();
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
