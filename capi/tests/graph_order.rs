//! Random programs of pushes and replays through C end as if they had run one operation after
//! another.

mod common;

use common::*;
use seriatim_c::*;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const CELLS: usize = 6;
const OPERATIONS: usize = 24;
const ROUNDS: usize = 8;

/// A fixed-seed xorshift, so that a failure repeats.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % bound
    }
}

/// An operation: what it reads and changes, and the cells of the run that it is part of.
struct Step {
    number: u64,
    reads: Vec<usize>,
    writes: Vec<usize>,
    asynchronous: bool,
    cells: *const [AtomicU64; CELLS],
}

impl Step {
    fn random(number: usize, random: &mut Random, cells: *const [AtomicU64; CELLS]) -> Step {
        let mut any = |most: usize| (0..random.below(most + 1)).map(|_| random.below(CELLS)).collect();
        let (reads, mut writes): (_, Vec<_>) = (any(3), any(2));
        writes.sort_unstable();
        writes.dedup();
        Step { number: number as u64, reads, writes, asynchronous: random.below(4) == 0, cells }
    }

    /// Makes what it changes depend on all that it uses, and on the order. Not in one step: two at
    /// once would lose one of them.
    fn run(&self, cells: &[AtomicU64; CELLS]) {
        let load = |cell: &usize| cells[*cell].load(Relaxed);
        let sum = self.reads.iter().map(load).fold(self.number, |sum, value| sum.wrapping_mul(31).wrapping_add(value));
        for cell in &self.writes {
            let mixed = load(cell).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(sum);
            if self.number % 3 == 0 {
                std::thread::yield_now();
            }
            cells[*cell].store(mixed.rotate_left(7), Relaxed);
        }
    }
}

unsafe extern "C-unwind" fn step(argument: *mut c_void, _: *const SeriatimRunContext<'_>) -> c_int {
    // SAFETY: pushed with a step that outlives the engine, as its cells do.
    unsafe { (*argument.cast::<Step>()).run(&*(*argument.cast::<Step>()).cells) };
    0
}

unsafe extern "C-unwind" fn step_async(
    argument: *mut c_void,
    run: *const SeriatimRunContext<'_>,
    completion: *mut SeriatimCompletion,
) {
    // SAFETY: as above; the completion is ours, and used once.
    unsafe {
        step(argument, run);
        ok(seriatim_completion_complete(completion));
    }
}

/// Pushes a step, or records it if there is a capture.
fn push(engine: &Engine, capture: *mut SeriatimCapture, own: &Step, variables: &[SeriatimVariable]) {
    let pick = |cells: &[usize]| cells.iter().map(|cell| variables[*cell]).collect::<Vec<_>>();
    let (reads, writes) = (pick(&own.reads), pick(&own.writes));
    let operation = SeriatimOperation {
        reads: reads.as_ptr(),
        read_count: reads.len(),
        writes: writes.as_ptr(),
        write_count: writes.len(),
        ..Default::default()
    };
    let argument = std::ptr::from_ref(own).cast_mut().cast();
    // SAFETY: the handles live, and the step outlives the engine.
    ok(unsafe {
        match (capture.is_null(), own.asynchronous) {
            (true, false) => seriatim_push(engine.0, &operation, Some(step), argument, None),
            (true, true) => seriatim_push_async(engine.0, &operation, Some(step_async), argument, None),
            (false, false) => seriatim_capture_push(capture, &operation, Some(step), argument, None),
            (false, true) => seriatim_capture_push_async(capture, &operation, Some(step_async), argument, None),
        }
    });
}

#[test]
fn graphs_and_pushes_keep_the_order_of_their_calls() {
    for seed in 1..=20 {
        for kind in KINDS {
            let mut random = Random(seed * 0x9E37_79B9);
            let cells: [AtomicU64; CELLS] = Default::default();
            let serial: [AtomicU64; CELLS] = Default::default();
            let steps: Vec<Step> = (0..OPERATIONS).map(|number| Step::random(number, &mut random, &cells)).collect();
            let engine = Engine::of_kind(kind);
            let variables: Vec<SeriatimVariable> = (0..CELLS).map(|_| engine.variable()).collect();
            let (mut capture, mut graph) = (null_mut(), null_mut());
            // SAFETY: the handles live; the capture is not used again.
            unsafe {
                ok(seriatim_capture_begin(engine.0, c"random".as_ptr(), &mut capture));
                steps.iter().for_each(|own| push(&engine, capture, own, &variables));
                ok(seriatim_capture_end(capture, &mut graph));
            }
            for _ in 0..ROUNDS {
                // SAFETY: the graph lives.
                ok(unsafe { seriatim_graph_replay(graph, 0) });
                steps.iter().for_each(|own| own.run(&serial));
                for _ in 0..random.below(4) {
                    let own = &steps[random.below(OPERATIONS)];
                    push(&engine, null_mut(), own, &variables);
                    own.run(&serial);
                }
            }
            ok(engine.wait());
            let values = |cells: &[AtomicU64; CELLS]| cells.each_ref().map(|cell| cell.load(Relaxed));
            assert_eq!(values(&cells), values(&serial), "seed {seed}, {kind}");
            // SAFETY: the graph is a live handle, and not used again.
            ok(unsafe { seriatim_graph_delete(graph) });
        }
    }
}
