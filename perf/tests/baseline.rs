//! The engine that the benchmarks compare with must be right, or beating it means nothing.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use seriatim_perf::entrants::baseline::{Engine, Order, Var};
use seriatim_perf::entrants::{self, Runner};
use seriatim_perf::program::{Access, Body, Program};

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

fn count(counter: &AtomicUsize) {
    counter.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn writes_of_a_variable_run_in_the_order_of_their_pushes() {
    for workers in [1, 2, 4] {
        let engine = Engine::new(workers);
        let variable = engine.new_variable();
        let seen = Arc::new(Mutex::new(Vec::new()));
        for number in 0..1000 {
            let seen = Arc::clone(&seen);
            engine.push(move || seen.lock().unwrap().push(number), &[], &[variable], 0);
        }
        engine.wait_for_var(variable);
        assert_eq!(*seen.lock().unwrap(), (0..1000).collect::<Vec<_>>());
        engine.wait_for_all();
        assert_eq!(variable.version(), 1000);
    }
}

#[test]
fn neighbouring_reads_run_together() {
    const READERS: usize = 4;
    let engine = Engine::new(READERS);
    let variable = engine.new_variable();
    let meeting = Arc::new(Barrier::new(READERS));
    engine.push(|| {}, &[], &[variable], 0);
    for _ in 0..READERS {
        let meeting = Arc::clone(&meeting);
        // Returns only once all the readers are in it.
        let body = move || {
            meeting.wait();
        };
        engine.push(body, &[variable], &[], 0);
    }
    engine.wait_for_all();
    assert_eq!(variable.version(), 1);
}

#[test]
fn a_write_runs_alone() {
    let engine = Engine::new(4);
    let variable = engine.new_variable();
    let (inside, written) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for number in 0..2000 {
        let (inside, written) = (Arc::clone(&inside), Arc::clone(&written));
        if number % 5 == 0 {
            let body = move || {
                assert_eq!(inside.fetch_add(1000, Ordering::SeqCst), 0);
                written.fetch_add(1, Ordering::SeqCst);
                inside.fetch_sub(1000, Ordering::SeqCst);
            };
            engine.push(body, &[], &[variable], 0);
        } else {
            let body = move || {
                assert!(inside.fetch_add(1, Ordering::SeqCst) < 1000);
                assert_eq!(written.load(Ordering::SeqCst), number / 5 + 1);
                inside.fetch_sub(1, Ordering::SeqCst);
            };
            engine.push(body, &[variable], &[], 0);
        }
    }
    engine.wait_for_all();
    assert_eq!(variable.version(), 400);
}

#[test]
fn a_wait_for_a_variable_waits_for_its_writes_and_not_for_its_readers() {
    let engine = Engine::new(2);
    let variable = engine.new_variable();
    engine.wait_for_var(variable);
    let (release, released) = channel::<()>();
    engine.push(move || released.recv().unwrap(), &[variable], &[], 0);
    engine.wait_for_var(variable);
    release.send(()).unwrap();

    let done = Arc::new(AtomicUsize::new(0));
    for _ in 0..100 {
        let done = Arc::clone(&done);
        engine.push(move || count(&done), &[], &[variable], 0);
    }
    engine.wait_for_var(variable);
    assert_eq!(done.load(Ordering::SeqCst), 100);
}

#[test]
fn dropping_an_engine_runs_what_was_pushed() {
    let done = Arc::new(AtomicUsize::new(0));
    let engine = Engine::new(2);
    let variable = engine.new_variable();
    for _ in 0..500 {
        let done = Arc::clone(&done);
        engine.push(move || count(&done), &[], &[variable], 0);
    }
    drop(engine);
    assert_eq!(done.load(Ordering::SeqCst), 500);
}

#[test]
fn an_operator_may_be_pushed_again_while_in_flight() {
    let engine = Engine::new(2);
    let (read, written) = (engine.new_variable(), engine.new_variable());
    let runs = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&runs);
    let operator = engine.new_operator(move || count(&counter), &[read], &[written]);
    for _ in 0..1000 {
        engine.push_operator(&operator, 0);
    }
    engine.wait_for_all();
    assert_eq!(runs.load(Ordering::SeqCst), 1000);
    assert_eq!((read.version(), written.version()), (0, 1000));
}

#[test]
fn a_priority_queue_hands_out_the_highest_first() {
    let engine = Engine::with_order(1, Order::Priority);
    let (release, released) = channel::<()>();
    let (started, start) = channel::<()>();
    let hold = move || {
        started.send(()).unwrap();
        released.recv().unwrap();
    };
    engine.push(hold, &[], &[], 0);
    start.recv().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    for priority in [3, -1, 7, 0] {
        let seen = Arc::clone(&seen);
        engine.push(move || seen.lock().unwrap().push(priority), &[], &[], priority);
    }
    release.send(()).unwrap();
    engine.wait_for_all();
    assert_eq!(*seen.lock().unwrap(), [7, 3, 0, -1]);
}

#[test]
#[should_panic = "a variable of another engine"]
fn a_variable_of_another_engine_is_refused() {
    let other = Engine::new(1);
    let engine = Engine::new(1);
    engine.push(|| {}, &[other.new_variable()], &[], 0);
}

/// A random program: every operation reads a few cells and changes one or two to values that depend
/// on all of them.
fn program(operations: usize, variables: usize, random: &mut Random) -> Vec<(Vec<usize>, Vec<usize>)> {
    let mut any = |most: usize, not: &[usize]| {
        let mut chosen = Vec::new();
        for _ in 0..most {
            let variable = random.below(variables);
            if !chosen.contains(&variable) && !not.contains(&variable) {
                chosen.push(variable);
            }
        }
        chosen
    };
    let mut operation = |number: usize| {
        let writes = any(1 + number % 2, &[]);
        (any(number % 8, &writes), writes)
    };
    (0..operations).map(&mut operation).collect()
}

fn step(cells: &[AtomicU64], number: usize, reads: &[usize], writes: &[usize]) {
    let load = |cell: &usize| cells[*cell].load(Ordering::Relaxed);
    let sum: u64 = reads.iter().map(load).fold(number as u64, |sum, value| sum.wrapping_mul(31).wrapping_add(value));
    for written in writes {
        cells[*written].store(load(written).wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(sum), Ordering::Relaxed);
    }
}

#[test]
fn random_programs_equal_their_serial_replay() {
    const OPERATIONS: usize = 5000;
    let values = |cells: &[AtomicU64]| cells.iter().map(|cell| cell.load(Ordering::Relaxed)).collect::<Vec<_>>();
    let new_cells = |count: usize| (0..count).map(|_| AtomicU64::new(1)).collect::<Vec<_>>();
    for (workers, variables, seed) in [(1, 100, 11), (2, 100, 12), (3, 10, 13), (4, 30, 14), (4, 3, 15)] {
        let program = program(OPERATIONS, variables, &mut Random(seed));
        let serial = new_cells(variables);
        for (number, (reads, writes)) in program.iter().enumerate() {
            step(&serial, number, reads, writes);
        }

        let engine = Engine::new(workers);
        let handles: Vec<Var> = (0..variables).map(|_| engine.new_variable()).collect();
        let cells = Arc::new(new_cells(variables));
        for (number, (reads, writes)) in program.iter().cloned().enumerate() {
            let cells = Arc::clone(&cells);
            let pick = |indices: &[usize]| indices.iter().map(|index| handles[*index]).collect::<Vec<_>>();
            let (read, written) = (pick(&reads), pick(&writes));
            let body = move || step(&cells, number, &reads, &writes);
            if number % 3 == 0 {
                let operator = engine.new_operator(body, &read, &written);
                engine.push_operator(&operator, 0);
            } else {
                engine.push(body, &read, &written, 0);
            }
        }
        engine.wait_for_all();
        assert_eq!(values(&cells), values(&serial), "{workers} workers, {variables} variables");
    }
}

/// Bodies that do nothing.
struct Nothing;

impl Body for Nothing {
    fn execute(&self, _: u32) {}

    fn reset(&self) {}

    fn verify(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Two pushes that enlist with the same variables at the same time come before each other: each on
/// one of them.
#[test]
fn pushers_whose_operations_share_variables_do_not_make_them_wait_for_each_other() {
    const OPERATIONS: usize = 400_000;
    let (over, told) = channel();
    std::thread::spawn(move || {
        let accesses = [([0, 1], [2]), ([2, 1], [0]), ([0, 2], [1])]
            .map(|(reads, writes)| Access { reads: reads.to_vec(), writes: writes.to_vec() });
        let sequence = (0..OPERATIONS as u32).map(|place| place % 3).collect();
        let program: &'static Program = Program::new("crossing", 3, &accesses, sequence, Nothing);
        let entrant = entrants::all(&[1]).into_iter().find(|entrant| entrant.name == "baseline-1").expect("an entrant");
        let mut runner: Box<dyn Runner> = entrant.start().expect("an engine");
        runner.prepare(program).expect("a program for it");
        let shared = runner.shared().expect("it takes pushes of several threads");
        std::thread::scope(|scope| (0..2).for_each(|part| drop(scope.spawn(move || shared.push_part(part, 2)))));
        shared.wait();
        over.send(()).expect("the test waits");
    });
    told.recv_timeout(Duration::from_secs(120)).expect("operations of two pushers wait for each other");
}
