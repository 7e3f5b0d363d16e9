//! Commutative variables: phases, whose accesses several threads link and run, and holds, which
//! they take and give back.

#![cfg(loom)]

use loom_tests::pushers::Role::{Pushes, Runs};
use loom_tests::pushers::{Program, Reuse, Role, Uses};
use loom_tests::{explore, explore_once, spawn, Blocks, Guarded};
use seriatim::internals::access::Mode::{Commute, PhasedRead, Write};
use seriatim::internals::access::{Access, Ticket};
use seriatim::internals::block::Block;
use seriatim::internals::tickets::hold::{give_all_back, take_all, Holds, VariableHold};
use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;

fn pushed<const N: usize>(variables: usize, uses: &'static [Uses], roles: [Role; N]) {
    let program = Program::new(variables, uses.len(), N, uses);
    program.open();
    program.act(Reuse::Never, roles);
    program.check();
    program.check_spent();
}

fn pushed_by<const N: usize>(name: &str, bound: usize, variables: usize, uses: &'static [Uses], roles: [Role; N]) {
    explore(&format!("phases, {name}"), bound, 50, move || pushed(variables, uses, roles));
}

const CHANGE: &[Uses] = &[&[(0, Commute)], &[(0, PhasedRead)]];
const AND_BACK: &[Uses] = &[&[(0, Commute)], &[(0, PhasedRead)], &[(0, Commute)]];
const READS: &[Uses] = &[&[(0, PhasedRead)], &[(0, Commute)], &[(0, PhasedRead)]];
const WRITTEN: &[Uses] = &[&[(0, Commute)], &[(0, Write)], &[(0, Commute)]];
const CROSSED: &[Uses] = &[&[(0, Commute), (1, PhasedRead)], &[(0, PhasedRead), (1, Commute)]];

#[test]
fn two_push_across_a_change_of_phase() {
    pushed_by("two run", 2, 1, CHANGE, [Runs(&[0]), Runs(&[1])]);
    pushed_by("who commutes stops", 2, 1, CHANGE, [Pushes(&[0]), Runs(&[1])]);
    pushed_by("who reads stops", 2, 1, CHANGE, [Pushes(&[1]), Runs(&[0])]);
}

/// From one end only, and within a smaller bound: three operations take longer.
#[test]
fn phases_follow_each_other() {
    let pushed_once = |name: &str, uses: &'static [Uses], roles: [Role; 2]| {
        explore_once(&format!("phases, {name}"), 1, 50, move || pushed(1, uses, roles));
    };
    pushed_once("one reads between two that commute", AND_BACK, [Runs(&[0, 2]), Runs(&[1])]);
    pushed_once("one commutes between two that read", READS, [Runs(&[0, 2]), Runs(&[1])]);
    pushed_once("one writes between two that commute", WRITTEN, [Runs(&[0, 2]), Runs(&[1])]);
    pushed_once("two commute and one reads", AND_BACK, [Pushes(&[0, 2]), Runs(&[1])]);
}

#[test]
fn phases_of_two_variables() {
    explore_once("phases, two variables", 1, 50, || pushed(2, CROSSED, [Runs(&[0]), Runs(&[1])]));
}

/// Operations that are about to run, all of whose tickets have come, and the variables on which
/// they commute.
struct Ready {
    uses: &'static [&'static [u32]],
    variables: Vec<(VariableHold, Guarded)>,
    blocks: Blocks,
    /// What the thread that is about to run an operation leaves for the one that runs it.
    contents: Vec<Guarded>,
    ran: Vec<AtomicUsize>,
}

impl Holds for Ready {
    fn variable_hold(&self, variable: u32) -> &VariableHold {
        &self.variables[variable as usize].0
    }
}

impl Ready {
    fn new(variables: usize, uses: &'static [&'static [u32]]) -> Arc<Ready> {
        let blocks = Blocks::new(uses.len());
        for (number, uses) in uses.iter().enumerate() {
            let block = blocks.pointer(number);
            // SAFETY: the block is ours, and has room for so few uses.
            unsafe {
                Block::renew(block, uses.len() as u32, false);
                (*block).sequence = number as u64;
                for (index, variable) in (0..).zip(*uses) {
                    Block::access(block, index).write(Access::new(*variable, index, Commute, Ticket::default()));
                }
            }
        }
        Arc::new(Ready {
            uses,
            variables: (0..variables).map(|_| (VariableHold::new(), Guarded::new())).collect(),
            blocks,
            contents: uses.iter().map(|_| Guarded::new()).collect(),
            ran: uses.iter().map(|_| AtomicUsize::new(0)).collect(),
        })
    }

    /// Runs these operations, and those that are called meanwhile.
    fn run(&self, numbers: &[usize]) {
        for number in numbers {
            self.contents[*number].set(1);
            let ready = RefCell::new(vec![self.blocks.pointer(*number)]);
            // Who is given an operation may look at it at once.
            let call = |called: *mut Block| {
                // SAFETY: called, and so this thread's.
                assert_eq!(self.contents[unsafe { (*called).sequence } as usize].get(), 1);
                ready.borrow_mut().push(called);
            };
            loop {
                let Some(block) = ready.borrow_mut().pop() else { break };
                // SAFETY: ready, and ours.
                unsafe {
                    if !take_all(block, self, call) {
                        continue;
                    }
                    let number = (*block).sequence as usize;
                    self.uses[number].iter().for_each(|variable| self.variables[*variable as usize].1.step());
                    assert_eq!(self.ran[number].fetch_add(1, SeqCst), 0, "an operation ran twice");
                    give_all_back(block, self, call);
                }
            }
        }
    }

    fn check(&self) {
        assert!(self.ran.iter().all(|ran| ran.load(SeqCst) == 1), "an operation is lost");
        for (variable, (_, value)) in self.variables.iter().enumerate() {
            let uses = self.uses.iter().filter(|uses| uses.contains(&(variable as u32))).count();
            assert_eq!(value.get(), uses, "not all have changed variable {variable}");
        }
    }
}

/// Each thread runs its operations; then all have run.
fn held<const N: usize>(variables: usize, uses: &'static [&'static [u32]], parts: [&'static [usize]; N]) {
    let ready = Ready::new(variables, uses);
    let others: Vec<_> = parts[1..]
        .iter()
        .map(|part| {
            let (ready, part) = (Arc::clone(&ready), *part);
            spawn(move || ready.run(part))
        })
        .collect();
    ready.run(parts[0]);
    others.into_iter().for_each(|other| other.join().unwrap());
    ready.check();
}

#[test]
fn one_commutes_at_a_time() {
    explore("holds, two operations", 3, 20, || held(1, &[&[0], &[0]], [&[0], &[1]]));
    explore("holds, three operations of two threads", 3, 50, || held(1, &[&[0], &[0], &[0]], [&[0, 1], &[2]]));
    explore("holds, three threads", 2, 50, || held(1, &[&[0], &[0], &[0]], [&[0], &[1], &[2]]));
}

#[test]
fn one_commutes_on_two_variables() {
    explore("holds, two variables", 3, 20, || held(2, &[&[0, 1], &[0, 1]], [&[0], &[1]]));
    explore("holds, two variables and one of them", 3, 50, || held(2, &[&[0, 1], &[1], &[0]], [&[0], &[1, 2]]));
    explore_once("holds, two variables, three threads", 2, 50, || {
        held(2, &[&[0, 1], &[1], &[0]], [&[0], &[1], &[2]]);
    });
}

/// One that was called where it had parked finds another hold in its way.
#[test]
fn who_is_called_passes_the_call_on() {
    explore_once("holds, a call is passed on", 2, 50, || {
        held(2, &[&[1], &[0, 1], &[1], &[0]], [&[0], &[1, 2], &[3]]);
    });
}
