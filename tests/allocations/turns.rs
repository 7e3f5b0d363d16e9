//! What it costs that variables change hands: a call of `membarrier` fences all threads.

use crate::common::{by_length, nothing};
use crate::counting::*;
use seriatim::{Engine, IdlePolicy, Kind, Variable};
use std::sync::Barrier;

/// Two threads take turns on a variable, each for so many pushes.
const TURNS: [usize; 8] = [1, 2, 16, 100, 500, 999, 1_000, 5_000];
/// A share ends for one call if it has had so many reads: `PAID` in `src/tickets/owner/sharing.rs`.
const READS: usize = 64;
/// Changes of hands until a variable that changes them often is common, and the first uses.
const FIRST: usize = 32;

/// What the two threads do with the variable.
const USES: [(&str, [bool; 2]); 2] = [("both write", [true, true]), ("one writes, one reads", [true, false])];

/// The calls of pushers while two of them take turns, and how many pushes that were.
fn turns(engine: &Engine, turn: usize, writes: [bool; 2]) -> (usize, usize) {
    let pushes = by_length(100_000.min(4_000 * turn), 300_000_usize).next_multiple_of(2 * turn);
    let x = engine.new_variable();
    let next = Barrier::new(2);
    let [before, _] = membarriers();
    let take_turns = |number: usize| {
        this_thread_pushes();
        for round in 0..pushes / turn {
            if round % 2 == number {
                (0..turn).for_each(|_| use_once(engine, x, writes[number]));
            }
            next.wait();
        }
    };
    std::thread::scope(|scope| (0..2).for_each(|number| _ = scope.spawn(move || take_turns(number))));
    let [after, _] = membarriers();
    engine.wait_for_all().unwrap();
    (after - before, pushes)
}

fn use_once(engine: &Engine, x: Variable, writes: bool) {
    let op = engine.op("turn");
    let op = if writes { op.write(x) } else { op.read(x) };
    op.push(nothing).unwrap();
}

/// However long the turns are. One call in a thousand pushes is the goal; where one thread writes
/// and the other reads, turns of between [`READS`] and a thousand pushes miss it.
pub fn turns_cost_a_fence_in_a_thousand_pushes(faults: &mut Vec<String>) {
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).cpu_workers(1).idle(IdlePolicy::Spin).build().unwrap();
        for (what, writes) in USES {
            for turn in TURNS {
                let (calls, pushes) = turns(&engine, turn, writes);
                let text = format!("{kind}, {what}, turns of {turn}: {calls} calls of membarrier in {pushes} pushes");
                println!("{text}");
                let most = if writes == [true, true] { pushes / 1_000 } else { pushes / READS };
                if calls > most + FIRST {
                    faults.push(text);
                }
            }
        }
    }
}
