//! Common variables: operations that several threads push, help, void, take and run.

#![cfg(loom)]

use loom_tests::pushers::Role::{Opens, Pushes, Runs};
use loom_tests::pushers::{Program, Reuse, Role, Thread, Uses, REUSED};
use loom_tests::{explore, explore_light_fences, explore_once, spawn};
use seriatim::internals::access::Mode::{Delete, Read, Write};
use seriatim::internals::access::Ticket;
use seriatim::internals::block::Block;
use seriatim::internals::tickets::common::Commons;
use seriatim::internals::tickets::linking::{enlist, help};
use seriatim::internals::tickets::run::Start;
use seriatim::internals::tickets::word::Word;
use std::sync::atomic::Ordering::SeqCst;

/// Each thread does its part; all then have run.
fn pushed_by<const N: usize>(name: &str, bound: usize, variables: usize, uses: &'static [Uses], roles: [Role; N]) {
    explore(&format!("common variables, {name}"), bound, 50, move || pushed(variables, uses, roles));
}

fn pushed<const N: usize>(variables: usize, uses: &'static [Uses], roles: [Role; N]) {
    let program = Program::new(variables, uses.len(), N, uses);
    program.open();
    program.act(Reuse::Never, roles);
    program.check();
    program.check_order();
    program.check_spent();
}

const WRITES: &[Uses] = &[&[(0, Write)], &[(0, Write)], &[(0, Write)]];
const PAIR: &[Uses] = &[&[(0, Write)], &[(0, Write)]];
const READ_WRITE: &[Uses] = &[&[(0, Read)], &[(0, Write)]];
const READS: &[Uses] = &[&[(0, Read)], &[(0, Write)], &[(0, Read)]];
const CROSSED: &[Uses] = &[&[(0, Write), (1, Write)], &[(0, Write), (1, Write)]];
const PARTS: &[Uses] = &[&[(0, Write), (1, Write)], &[(0, Write)], &[(1, Write)]];
const MIXED: &[Uses] = &[&[(0, Write), (1, Read)], &[(0, Read), (1, Write)]];

#[test]
fn who_comes_behind_a_stopped_push_completes_it() {
    pushed_by("one stops, one runs", 2, 1, PAIR, [Pushes(&[0]), Runs(&[1])]);
    pushed_by("a read stops, a write runs", 2, 1, READ_WRITE, [Pushes(&[0]), Runs(&[1])]);
    pushed_by("a write stops, a read runs", 2, 1, READ_WRITE, [Pushes(&[1]), Runs(&[0])]);
}

#[test]
fn who_comes_behind_a_push_that_stopped_between_two_variables_completes_it() {
    pushed_by("one stops, one runs, two variables", 2, 2, CROSSED, [Pushes(&[0]), Runs(&[1])]);
    pushed_by("one stops, one runs, the second variable", 2, 2, PARTS, [Pushes(&[0, 1]), Runs(&[2])]);
}

#[test]
fn two_push_and_run_on_one_variable() {
    pushed_by("two run", 2, 1, PAIR, [Runs(&[0]), Runs(&[1])]);
    pushed_by("reads and a write", 2, 1, READS, [Pushes(&[0, 1]), Runs(&[2])]);
}

#[test]
fn two_push_and_run_on_two_variables() {
    pushed_by("two run, two variables", 2, 2, MIXED, [Runs(&[0]), Runs(&[1])]);
}

/// From one end only: three take longer.
#[test]
fn three_push_to_one_variable() {
    explore_once("common variables, three pushers", 1, 50, || {
        pushed(1, WRITES, [Pushes(&[0]), Pushes(&[1]), Pushes(&[2])]);
    });
}

/// An owner has committed an operation and says so before it links it: others link it from its
/// first access on.
#[test]
fn an_announced_operation_is_linked_by_another() {
    explore("common variables, an announced operation", 2, 50, || {
        let program = Program::new(2, 1, 2, &[&[(0, Write), (1, Write)]]);
        program.open();
        let mut first = Thread::new(&program, 0);
        let operation = first.announce(0);
        let mut other = Thread::new(&program, 1);
        let helper = spawn(move || {
            // SAFETY: no block is used again.
            unsafe { help(operation, &mut other) };
            other.run(operation);
            other.depends_on_no_push(&[0]);
        });
        // SAFETY: announced.
        unsafe { enlist(operation.block(), &mut first) };
        first.run(operation);
        helper.join().unwrap();
        first.run(Word::NONE);
        program.check();
    });
}

/// As many blocks as are needed at most; those that can be used again are.
#[test]
fn blocks_are_used_again() {
    explore("common variables, blocks used again", 2, 50, || {
        let program = Program::new(1, 3, 2, WRITES);
        program.open();
        program.act(Reuse::ByPins, [Runs(&[0, 2]), Runs(&[1])]);
        program.check();
    });
    assert!(REUSED.swap(0, SeqCst) > 0, "no block was used again");
    const LONGER: &[Uses] = &[&[(0, Write), (1, Write)], &[(0, Write)], &[(1, Write)], &[(0, Write)]];
    explore("common variables, a block of two variables used again", 1, 50, || {
        let program = Program::new(2, 4, 2, LONGER);
        program.open();
        program.act(Reuse::ByPins, [Runs(&[0, 1, 3]), Runs(&[2])]);
        program.check();
    });
    assert!(REUSED.swap(0, SeqCst) > 0, "no block was used again");
}

/// A variable is common; a thread is alone for a while; and then two make it common beside each
/// other.
#[test]
fn a_variable_becomes_common_again() {
    explore("common variables, common again", 1, 50, || {
        const FOUR: &[Uses] = &[&[(0, Write)], &[(0, Read)], &[(0, Write)], &[(0, Read)]];
        let program = Program::new(1, 4, 2, FOUR);
        program.open();
        let mut alone = Thread::new(&program, 0);
        let last = alone.push(0);
        let common = program.common(0);
        // SAFETY: no other thread is there.
        assert_eq!(unsafe { common.writes(alone.hazards()) }, Some(1));
        // SAFETY: as above.
        let start = unsafe { common.take_back(&mut alone) }.expect("it is common");
        assert_eq!(start, Start { ticket: Ticket { writes: 1, reads: 0 }, last });
        program.act(Reuse::Never, [Opens(&[1, 2], start), Opens(&[3], start)]);
        program.check();
        program.check_spent();
    });
}

const DELETED: &[Uses] = &[&[(0, Delete)], &[(0, Write), (1, Write)]];
const DELETED_SECOND: &[Uses] = &[&[(1, Delete)], &[(0, Write), (1, Write)], &[(0, Write)]];

#[test]
fn a_push_beside_a_deletion_comes_before_it_or_is_void() {
    pushed_by("a deletion beside a push", 2, 2, DELETED, [Runs(&[0]), Runs(&[1])]);
    pushed_by("a deletion beside a read", 2, 1, &[&[(0, Delete)], &[(0, Read)]], [Runs(&[0]), Pushes(&[1])]);
    pushed_by("a push that is helped to be void", 2, 2, DELETED_SECOND, [Pushes(&[1]), Runs(&[0, 2])]);
}

const ROW: &[Uses] = &[&[(0, Write)], &[(0, Write)], &[(0, Write)], &[(0, Write)], &[(0, Write)], &[(0, Write)]];

/// The first operation has run, and the tail leads to it. One thread comes behind it, while another
/// does too and goes on: its last operation gets the block of the first, unless that is held.
/// `left`: a thread has stopped when it had linked the second operation, and not swung the tail
/// yet.
fn a_thread_that_holds(operations: usize, left: bool, roles: [Role; 2]) {
    let program = Program::held(1, operations + 1, 2, &ROW[..operations]);
    program.open();
    let mut first = Thread::holding(&program, 0);
    let operation = first.push(0);
    first.run(operation);
    if left {
        let second = first.announce(1);
        first.hazards().clear();
        // SAFETY: announced, by the only thread.
        unsafe { program.common(0).leave_behind(Block::access(second.block(), 0)) };
    }
    program.act(Reuse::ByHazards, roles);
    // What comes last has a ticket that follows from all before it.
    let last = first.push(operations - 1);
    first.run(last);
    program.check();
}

#[test]
fn a_block_at_a_tail_is_not_used_again_while_a_thread_holds_it() {
    explore_light_fences("common variables, a block at a tail is held", 1, 50, || {
        a_thread_that_holds(5, false, [Runs(&[1]), Runs(&[2, 3])]);
    });
    assert!(REUSED.swap(0, SeqCst) > 0, "no block was used again");
}

/// A thread is about to give the ticket, which another does meanwhile.
#[test]
fn a_block_behind_a_tail_is_not_used_again_while_a_thread_holds_it() {
    explore("common variables, a block behind a tail is held", 1, 50, || {
        a_thread_that_holds(6, true, [Pushes(&[2]), Runs(&[3, 4])]);
    });
    assert!(REUSED.swap(0, SeqCst) > 0, "no block was used again");
}

/// A helper has found that the operation has not ended, when its pusher goes on.
#[test]
fn the_block_of_an_operation_that_is_helped_is_not_used_again() {
    explore_light_fences("common variables, a block that is helped", 1, 50, || {
        let program = Program::held(1, 4, 2, &ROW[..3]);
        program.open();
        let mut first = Thread::holding(&program, 0);
        let operation = first.announce(0);
        let mut other = Thread::holding(&program, 1);
        let helper = spawn(move || {
            // SAFETY: the operation has links.
            unsafe { help(operation, &mut other) };
            other.hazards().clear();
        });
        // SAFETY: announced, and held.
        unsafe { enlist(operation.block(), &mut first) };
        first.hazards().clear();
        first.run(operation);
        for number in 1..3 {
            let operation = first.push(number);
            first.run(operation);
        }
        helper.join().unwrap();
        first.run(Word::NONE);
        program.check();
    });
    assert!(REUSED.swap(0, SeqCst) > 0, "no block was used again");
}
