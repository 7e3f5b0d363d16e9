//! Tickets: operations that several threads take, test, park and end; blocks that are used again
//! meanwhile; logs.

#![cfg(loom)]

use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom_tests::{explore, spawn, Blocks, Guarded, Places};
use seriatim::internals::access::Access;
use seriatim::internals::access::Mode::{self, Read, Write};
use seriatim::internals::access::Ticket;
use seriatim::internals::block::Block;
use seriatim::internals::tickets::log::Log;
use seriatim::internals::tickets::pull::Pull;
use seriatim::internals::tickets::run::{end, settle, take, Progress, Variables};
use seriatim::internals::tickets::word::{Word, PUSHED};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;

type Uses = &'static [(usize, Mode)];

/// A program of operations on a few variables, and what its runs have done.
struct Program {
    uses: &'static [Uses],
    variables: Vec<(Progress, Guarded)>,
    blocks: Blocks,
    /// For each operation and use, the writes before it.
    before: Vec<Vec<usize>>,
    /// How often each operation has run: loom's own would be one more thing to explore.
    ran: Vec<AtomicUsize>,
}

impl Variables for Program {
    fn progress(&self, variable: u32) -> &Progress {
        &self.variables[variable as usize].0
    }
}

impl Program {
    fn new(variables: usize, blocks: usize, uses: &'static [Uses]) -> Arc<Program> {
        let mut written = vec![0; variables];
        let mut before = Vec::new();
        for uses in uses {
            before.push(uses.iter().map(|(variable, _)| written[*variable]).collect());
            uses.iter().filter(|(_, mode)| *mode == Write).for_each(|(variable, _)| written[*variable] += 1);
        }
        Arc::new(Program {
            uses,
            variables: (0..variables).map(|_| (Progress::new(), Guarded::new())).collect(),
            blocks: Blocks::new(blocks),
            before,
            ran: uses.iter().map(|_| AtomicUsize::new(0)).collect(),
        })
    }

    /// Pushes an operation in this block, which is free.
    fn push(&self, places: &mut Places, number: usize, block: usize) -> Word {
        let block = self.blocks.pointer(block);
        let uses = self.uses[number];
        // SAFETY: the block is ours, and has room for so few uses.
        unsafe {
            Block::renew(block, uses.len() as u32, true);
            let tag = Word((*Block::word(block)).load(Relaxed)).tag() + 1;
            (*block).sequence = number as u64;
            for (index, (variable, mode)) in (0..).zip(uses) {
                Block::access(block, index).write(Access::new(*variable as u32, index, *mode, Ticket::default()));
            }
            places.enlist(block, tag, PUSHED)
        }
    }

    /// Takes an operation; runs it if it is ready, and all that its end makes ready.
    fn try_to_run(&self, operation: Word) {
        if let Some(block) = take(operation) {
            self.run_taken(block);
        }
    }

    fn run_taken(&self, block: *mut Block) {
        // SAFETY: taken, so ours.
        if unsafe { settle(block, self) } {
            self.run_ready(block);
        }
    }

    fn run_ready(&self, block: *mut Block) {
        let mut ready = vec![block];
        while let Some(block) = ready.pop() {
            // SAFETY: ready, and ours.
            unsafe {
                let number = (*block).sequence as usize;
                for ((variable, mode), before) in self.uses[number].iter().zip(&self.before[number]) {
                    let value = &self.variables[*variable].1;
                    assert_eq!(value.get(), *before, "an operation ran too early");
                    if *mode == Write {
                        value.step();
                    }
                }
                assert_eq!(self.ran[number].fetch_add(1, SeqCst), 0, "an operation ran twice");
                end(block, self, |block| ready.push(block));
            }
        }
    }

    fn check(&self) {
        assert!(self.ran.iter().all(|ran| ran.load(SeqCst) == 1), "an operation is lost");
    }
}

/// All operations are pushed; then two threads take them: one the `mine`, the other the `others`,
/// each in its order.
fn taken_by_two(name: &str, variables: usize, uses: &'static [Uses], mine: &'static [usize], others: &'static [usize]) {
    explore(&format!("tickets, {name}"), 3, 50, move || {
        let program = Program::new(variables, uses.len(), uses);
        let mut places = Places::new();
        let operations: Vec<Word> = (0..uses.len()).map(|number| program.push(&mut places, number, number)).collect();
        let (theirs, words) = (program.clone(), operations.clone());
        let other = spawn(move || others.iter().for_each(|number| theirs.try_to_run(words[*number])));
        mine.iter().for_each(|number| program.try_to_run(operations[*number]));
        other.join().unwrap();
        program.check();
    });
}

const CHAIN: &[Uses] = &[&[(0, Write)], &[(0, Write)], &[(0, Write)]];
const READ_WRITE: &[Uses] = &[&[(0, Read)], &[(0, Write)], &[(0, Read)], &[(0, Write)]];
const READS: &[Uses] = &[&[(0, Read)], &[(0, Read)], &[(0, Write)], &[(0, Read)], &[(0, Write)]];
const ON_BOTH: &[Uses] = &[&[(0, Read)], &[(1, Write)], &[(0, Write), (1, Write)], &[(0, Read)], &[(0, Write)]];
const TREE: &[Uses] = &[&[(0, Write)], &[(1, Write)], &[(0, Read), (1, Write)], &[(0, Write), (1, Write)]];
const TWO: &[Uses] = &[&[(0, Write)], &[(0, Read), (1, Write)], &[(0, Read)], &[(0, Write), (1, Read)], &[(1, Write)]];

#[test]
fn writes_run_in_order() {
    taken_by_two("a chain", 1, CHAIN, &[0, 2], &[1]);
    taken_by_two("a chain from behind", 1, CHAIN, &[2, 0], &[1]);
}

#[test]
fn a_write_waits_for_the_reads_before_it() {
    taken_by_two("reads and writes", 1, READ_WRITE, &[0, 3, 2], &[1]);
    taken_by_two("two reads and a write", 1, READS, &[0, 4, 2], &[1, 3]);
}

#[test]
fn what_uses_two_variables_waits_for_both() {
    taken_by_two("two variables", 2, TWO, &[0, 2, 4], &[1, 3]);
    taken_by_two("a read, then a write", 2, ON_BOTH, &[2, 0], &[1, 3, 4]);
}

/// All operations are pushed. One thread waits for the last of them and pulls it; the other takes
/// `others`.
fn pulled(name: &str, variables: usize, uses: &'static [Uses], others: &'static [usize]) {
    explore(&format!("tickets, {name}"), 3, 50, move || {
        let program = Program::new(variables, uses.len(), uses);
        let mut places = Places::new();
        let operations: Vec<Word> = (0..uses.len()).map(|number| program.push(&mut places, number, number)).collect();
        let (theirs, words) = (program.clone(), operations.clone());
        let other = spawn(move || others.iter().for_each(|number| theirs.try_to_run(words[*number])));
        let mut pull = Pull::new(operations[uses.len() - 1]);
        loop {
            let block = pull.next(&*program);
            if block.is_null() {
                break;
            }
            program.run_ready(block);
        }
        other.join().unwrap();
        // What it has not found: reads before a write.
        operations.iter().for_each(|operation| program.try_to_run(*operation));
        program.check();
    });
}

#[test]
fn who_waits_runs_what_it_needs() {
    pulled("pulling a chain", 1, CHAIN, &[0, 1, 2]);
    pulled("pulling what needs two", 2, TREE, &[1, 3]);
    pulled("pulling behind reads", 2, TWO, &[0, 2]);
}

/// The thread that parks an operation has seen the end of one write. The thread that ends the other
/// write has seen only that end.
#[test]
fn what_was_tested_before_is_seen_by_who_gets_an_operation_back() {
    explore("tickets, three threads", 2, 100, || {
        let program = Program::new(2, 3, &[&[(0, Write)], &[(1, Write)], &[(0, Read), (1, Write)]]);
        let mut places = Places::new();
        let operations: Vec<Word> = (0..3).map(|number| program.push(&mut places, number, number)).collect();
        let others: Vec<_> = (1..3)
            .map(|number| {
                let (program, operation) = (program.clone(), operations[number]);
                spawn(move || program.try_to_run(operation))
            })
            .collect();
        program.try_to_run(operations[0]);
        others.into_iter().for_each(|other| other.join().unwrap());
        program.check();
    });
}

/// The pusher has no log: every thread tries everything.
#[test]
fn an_operation_is_taken_once_and_not_lost_while_others_park_on_it() {
    explore("tickets, all try all", 2, 500, || {
        let program = Program::new(1, 3, CHAIN);
        let mut places = Places::new();
        let operations: Vec<Word> = (0..3).map(|number| program.push(&mut places, number, number)).collect();
        let (theirs, words) = (program.clone(), operations.clone());
        let other = spawn(move || words.iter().rev().for_each(|word| theirs.try_to_run(*word)));
        operations.iter().for_each(|word| program.try_to_run(*word));
        other.join().unwrap();
        program.check();
    });
}

/// The block of the first write is used again while the read behind it may still want to park
/// there.
#[test]
fn nobody_parks_on_another_use_of_a_block() {
    explore("tickets, a block used again", 3, 100, || {
        let program = Program::new(1, 2, &[&[(0, Write)], &[(0, Read)], &[(0, Write)]]);
        let mut places = Places::new();
        let write = program.push(&mut places, 0, 0);
        let read = program.push(&mut places, 1, 1);
        let theirs = program.clone();
        let other = spawn(move || theirs.try_to_run(read));
        program.try_to_run(write);
        let write = program.push(&mut places, 2, 0);
        program.try_to_run(write);
        other.join().unwrap();
        program.check();
    });
}

/// One pushes into a log, its worker takes, and a third takes what the worker has not come to.
#[test]
fn a_log_gives_each_operation_to_one_of_those_who_look() {
    const UNRELATED: &[Uses] = &[&[(0, Write)], &[(1, Write)], &[(2, Write)]];
    explore("a log, its worker and a thief", 2, 500, || {
        let program = Program::new(3, 3, UNRELATED);
        let log = Arc::new(Log::new());
        let worker = {
            let (program, log) = (program.clone(), log.clone());
            spawn(move || {
                // SAFETY: this is the worker.
                while let Some(block) = unsafe { log.take_next() } {
                    program.run_taken(block);
                }
            })
        };
        let thief = {
            let (program, log) = (program.clone(), log.clone());
            spawn(move || program.steal(&log))
        };
        let mut places = Places::new();
        for number in 0..3 {
            let operation = program.push(&mut places, number, number);
            // SAFETY: no other thread pushes.
            unsafe { log.push(operation) };
        }
        worker.join().unwrap();
        thief.join().unwrap();
        // What came after they had looked.
        while log.find() != Word::NONE {
            program.steal(&log);
        }
        program.check();
    });
}

impl Program {
    fn steal(&self, log: &Log) {
        let operation = log.find();
        if operation != Word::NONE {
            self.try_to_run(operation);
        }
    }
}

/// A log of operations without uses, some of which have been pushed: those of numbers below
/// `pushed`.
struct Logged {
    program: Arc<Program>,
    log: Log,
    words: Vec<Word>,
    pushed: loom::sync::atomic::AtomicUsize,
}

impl Logged {
    fn new(count: usize) -> Arc<Logged> {
        const NOTHING: [Uses; 8] = [&[]; 8];
        let program = Program::new(0, count, &NOTHING[..count]);
        let mut places = Places::new();
        let words = (0..count).map(|number| program.push(&mut places, number, number)).collect();
        Arc::new(Logged { program, log: Log::new(), words, pushed: Default::default() })
    }

    /// One thread at a time.
    fn push(&self, numbers: Range<usize>) {
        for number in numbers {
            // SAFETY: no other thread pushes.
            unsafe { self.log.push(self.words[number]) };
            self.pushed.store(number + 1, Release);
        }
    }

    /// The worker runs the next one, if it finds one.
    fn work(&self) -> bool {
        // SAFETY: one thread at a time is the worker.
        let block = unsafe { self.log.take_next() };
        if let Some(block) = block {
            self.program.run_taken(block);
        }
        block.is_some()
    }

    /// The worker runs what it finds. If it finds nothing more, there is nothing more.
    fn work_off(&self) {
        let pushed = self.pushed.load(Acquire);
        while self.work() {}
        self.check_taken(pushed);
    }

    /// As [`Logged::work_off`], of any thread, while the worker has none in its hands.
    fn help(&self, most: usize) {
        let pushed = self.pushed.load(Acquire);
        for _ in 0..most {
            let operation = self.log.find();
            if operation == Word::NONE {
                return self.check_taken(pushed);
            }
            self.program.try_to_run(operation);
        }
    }

    fn check_taken(&self, pushed: usize) {
        let has_run = |number: usize| self.program.ran[number].load(SeqCst) == 1;
        let untaken = (0..pushed).any(|number| !has_run(number) && take(self.words[number]).is_some());
        assert!(!untaken, "an operation is lost to one who looks");
    }

    /// The worker stands in the middle of the first segment, of which all has been taken.
    fn stop_in_the_middle(&self) {
        self.push(0..2);
        assert!(self.work());
        self.help(2);
    }

    /// What is left is the worker's.
    fn check(&self) {
        self.work_off();
        assert_eq!(self.log.find(), Word::NONE);
        self.program.check();
    }
}

/// Runs each of the others on a thread of its own; then everything must have run.
fn beside<const N: usize>(logged: &Arc<Logged>, first: fn(&Logged), others: [fn(&Logged); N]) {
    let others = others.map(|other| {
        let logged = logged.clone();
        spawn(move || other(&logged))
    });
    first(logged);
    others.into_iter().for_each(|other| other.join().unwrap());
    logged.check();
}

/// The worker goes on while the pusher uses again what it has left.
#[test]
fn segments_are_used_again() {
    explore("a log whose segments go round", 2, 100, || {
        let logged = Logged::new(7);
        logged.push(0..4);
        beside(&logged, |logged| logged.push(4..7), [Logged::work_off]);
    });
}

/// The worker wakes while its segment is used again, or after that.
#[test]
fn a_segment_is_used_again_while_its_worker_stands_in_it() {
    explore("a log beside a worker that stood in a segment that is used again", 2, 100, || {
        let logged = Logged::new(6);
        logged.stop_in_the_middle();
        beside(&logged, |logged| logged.push(2..6), [Logged::work_off]);
    });
    explore("a log beside a thief and a worker that stood in a segment that is used again", 1, 100, || {
        let logged = Logged::new(5);
        logged.stop_in_the_middle();
        logged.push(2..4);
        let work = |logged: &Logged| _ = logged.work();
        beside(&logged, |logged| logged.push(4..5), [work, |logged| logged.program.steal(&logged.log)]);
    });
}

/// The segment in which the worker looks for the beginning is used again meanwhile.
#[test]
fn a_worker_that_was_left_behind_goes_on_with_the_oldest() {
    explore("a log beside a worker that was left behind", 1, 100, || {
        let logged = Logged::new(7);
        logged.stop_in_the_middle();
        logged.push(2..5);
        let help_and_push = |logged: &Logged| {
            (0..3).for_each(|_| logged.program.steal(&logged.log));
            logged.push(5..7);
        };
        beside(&logged, help_and_push, [Logged::work_off]);
    });
}

/// A thread that looks for what the worker leaves stands in a segment that another thread has noted
/// as taken.
#[test]
fn a_segment_is_used_again_while_a_thief_stands_in_it() {
    explore("a log beside a thief that notes late what has been taken", 1, 100, || {
        let logged = Logged::new(5);
        logged.push(0..2);
        // As if each of them was taken as soon as it was logged.
        (0..4).for_each(|number| logged.program.try_to_run(logged.words[number]));
        let look_and_push = |logged: &Logged| {
            for next in [2..4, 4..5] {
                logged.log.find();
                logged.push(next);
            }
        };
        beside(&logged, look_and_push, [|logged| (0..2).for_each(|_| logged.help(1))]);
    });
    explore("a log beside a thief and a worker that stands still", 2, 100, || {
        let logged = Logged::new(6);
        logged.push(0..2);
        assert!(logged.work());
        let help_and_push = |logged: &Logged| {
            logged.help(9);
            logged.push(2..6);
        };
        beside(&logged, help_and_push, [|logged| logged.help(9)]);
    });
}
