//! Operations with owned and common variables, by more pushers than loom can explore; some pushers
//! stop. Blocks and slots are used again.

#![cfg(shuttle)]

use loom_tests::mixed::{Step, Step::*, Uses, World, MIXED, REOPENED, REUSED};
use loom_tests::schedules;
use seriatim::internals::access::Mode::{Delete, Read, Write};
use shuttle::rand::{thread_rng, Rng};
use std::sync::atomic::Ordering::SeqCst;

/// What each thread chooses from. Variables 0 to 3 are a thread's each, for the most part; the
/// others are common before long.
const CHOICES: [[Uses; 8]; 4] = [
    [
        &[(0, Write)],
        &[(0, Read), (4, Write)],
        &[(0, Write), (4, Read), (5, Write)],
        &[(0, Write), (5, Write)],
        &[(4, Write), (5, Write)],
        &[(0, Write), (1, Write)],
        &[(0, Write), (2, Read), (4, Write)],
        &[(0, Read), (4, Read)],
    ],
    [
        &[(1, Write)],
        &[(1, Read), (4, Write)],
        &[(1, Write), (4, Read), (5, Write)],
        &[(1, Write), (5, Write)],
        &[(4, Write), (5, Read)],
        &[(1, Write), (2, Write)],
        &[(0, Read), (1, Write), (5, Write)],
        &[(1, Read), (5, Read)],
    ],
    [
        &[(2, Write)],
        &[(2, Read), (4, Write)],
        &[(2, Write), (4, Read), (5, Write)],
        &[(2, Write), (4, Write)],
        &[(4, Read), (5, Write)],
        &[(2, Write), (3, Write)],
        &[(1, Write), (2, Read), (4, Write)],
        &[(2, Read), (4, Read)],
    ],
    [
        &[(3, Write)],
        &[(3, Read), (4, Write)],
        &[(3, Write), (4, Read), (5, Write)],
        &[(3, Write), (4, Write)],
        &[(5, Write)],
        &[(0, Write), (3, Write)],
        &[(0, Write), (3, Read), (5, Read)],
        &[(3, Read), (5, Write)],
    ],
];

/// How a thread pushes: one in so many stops on the way.
fn step(number: usize, stops: usize) -> Step {
    let mut random = thread_rng();
    if random.gen_range(0..stops) > 0 {
        return if random.gen_bool(0.5) { Push(number) } else { PushAndRun(number) };
    }
    match random.gen_range(0..6) {
        0 => StopBefore(number),
        1 => StopBehind(number),
        _ => StopAt(number, random.gen_range(0..40)),
    }
}

/// Each thread does its steps; then all that was pushed has run.
fn act(world: std::sync::Arc<World>, steps: Vec<Vec<Step>>) -> Vec<usize> {
    let go = |(number, steps): (usize, Vec<Step>)| {
        let thread = world.thread(number);
        shuttle::thread::spawn(move || thread.go(&steps))
    };
    let threads: Vec<_> = steps.into_iter().enumerate().map(go).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    world.check();
    world.outcome()
}

#[test]
fn four_push_mixed_operations_and_some_stop() {
    const PUSHES: usize = 6;
    schedules("four pushers of mixed operations, some of which stop", 4, 20_000, || {
        let uses = (0..4 * PUSHES).map(|number| CHOICES[number / PUSHES][thread_rng().gen_range(0..8)]).collect();
        let steps = |thread| (0..PUSHES).map(|at| step(thread * PUSHES + at, 20)).collect();
        act(World::new(6, 4, true, uses), (0..4).map(steps).collect())
    });
    assert!(REUSED.load(SeqCst) > 0, "no block was used again");
    assert!(MIXED.load(SeqCst) > 0, "no operation was mixed");
}

/// Thread n deletes variable n, owned by any thread or common, opens its slot anew, and uses
/// what is there then.
#[test]
fn three_push_and_delete_and_open_slots_anew() {
    const PUSHES: usize = 6;
    const DELETIONS: [Uses; 3] = [&[(0, Delete)], &[(1, Delete)], &[(2, Delete)]];
    const OTHERS: [Uses; 12] = [
        &[(0, Write)],
        &[(1, Write)],
        &[(2, Write)],
        &[(0, Write), (1, Read)],
        &[(1, Write), (2, Write)],
        &[(0, Read), (2, Write)],
        &[(0, Write), (1, Write), (2, Write)],
        &[(10, Write)],
        &[(11, Write)],
        &[(12, Read)],
        &[(10, Write), (11, Write)],
        &[(1, Write), (12, Write)],
    ];
    schedules("three pushers that delete variables, and use their slots again", 3, 40_000, || {
        let mut uses = Vec::new();
        let mut steps = Vec::new();
        for deletion in DELETIONS {
            let at = thread_rng().gen_range(0..PUSHES);
            let mut mine = Vec::new();
            for push in 0..PUSHES {
                let number = uses.len();
                let slot = steps.len() as u32;
                uses.push(if push == at { deletion } else { OTHERS[thread_rng().gen_range(0..OTHERS.len())] });
                // The deleting thread runs it, and does not stop in the middle.
                mine.push(if push == at { PushAndRun(number) } else { step(number, 40) });
                mine.push(Reopen(slot));
            }
            steps.push(mine);
        }
        act(World::new(3, 3, true, uses), steps)
    });
    assert!(REOPENED.load(SeqCst) > 0, "no slot was used again");
}
