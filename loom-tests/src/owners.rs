//! Pushers that take variables from each other, some of which stop for good; the operations run by
//! their tickets.

use crate::{explore, explore_light_fences, explore_once, spawn, Blocks, Guarded};
use loom::sync::atomic::{AtomicU64, Ordering::*};
use seriatim::internals::access::Access;
use seriatim::internals::access::Mode::{self, Read, Write};
use seriatim::internals::access::Ticket;
use seriatim::internals::block::Block;
use seriatim::internals::tickets::owner::{Acquired, Owner, Peers, Push, Pusher, Record};
use seriatim::internals::tickets::pull;
use seriatim::internals::tickets::run::{end, settle, take, Progress, Start, Variables};
use seriatim::internals::tickets::word::{Word, FREE, PUSHED};
use std::sync::{Arc, Mutex};

/// The variables that an operation uses.
pub type Uses = &'static [(u32, Mode)];

/// What a thread does, in order.
#[derive(Clone, Copy)]
pub enum Step {
    /// Pushes the operation of this number, and finishes it.
    Push(usize),
    /// As `Push`, and takes what it has logged.
    PushAndRun(usize),
    /// Pushes, and ends where the push would be committed.
    StopBefore(usize),
    /// Pushes, and ends when it is committed.
    StopBehind(usize),
    /// Runs what others have pushed to this variable, and what that waits for, as far as it is
    /// found.
    Pull(u32),
}
use Step::*;

/// The word of an operation that is committed, and not yet on its common variables.
const ANNOUNCED: u64 = 0;
/// Entries of a thread's log.
const LOG: usize = 12;
/// Blocks of each thread.
const BLOCKS: usize = 5;

struct Variable {
    progress: Progress,
    owner: Owner,
    value: Guarded,
    /// Once it is common, where its count began and where it stands: behind a lock in place of the
    /// enlisting.
    common: loom::sync::Mutex<Option<(Start, Start)>>,
    /// The writes that have run.
    written: Mutex<Vec<usize>>,
}

struct World {
    uses: &'static [Uses],
    variables: Vec<Variable>,
    records: Vec<Record>,
    blocks: Blocks,
    /// What each thread has logged. The last log is that of the main thread.
    logs: Vec<Vec<AtomicU64>>,
    /// For each operation, how often it ran, and how many of its variables were owned. Loom's own
    /// would be one more thing to explore.
    ran: Mutex<Vec<usize>>,
    owned: Mutex<Vec<u32>>,
}

/// A thread of the model.
struct Thread {
    world: Arc<World>,
    number: usize,
    logged: std::cell::Cell<usize>,
}

impl Variables for Thread {
    fn progress(&self, variable: u32) -> &Progress {
        &self.world.variables[variable as usize].progress
    }
}

impl Peers for Thread {
    fn owner(&self, variable: u32) -> &Owner {
        &self.world.variables[variable as usize].owner
    }

    fn lives(&self, _: u32, _: u32) -> bool {
        true
    }

    fn record_if_any(&self, pusher: u32) -> Option<&Record> {
        self.world.records.get(pusher as usize)
    }

    fn pushers(&self) -> u32 {
        self.world.records.len() as u32
    }

    fn finish(&self, operation: Word, _: bool) {
        self.world.enlist(operation);
        let index = self.logged.get();
        self.logged.set(index + 1);
        self.world.logs[self.number][index].store(operation.0, Release);
    }

    fn begin_common(&self, variable: u32, start: Start) {
        let mut common = self.world.variables[variable as usize].common.lock().unwrap();
        let (begun, _) = *common.get_or_insert((start, start));
        assert_eq!(begun, start, "a common variable begins twice, at different counts");
    }
}

impl World {
    fn new(variables: usize, pushers: usize, uses: &'static [Uses]) -> Arc<World> {
        let new_variable = |_| Variable {
            progress: Progress::new(),
            owner: Owner::new(),
            value: Guarded::new(),
            common: loom::sync::Mutex::new(None),
            written: Mutex::default(),
        };
        Arc::new(World {
            uses,
            variables: (0..variables).map(new_variable).collect(),
            records: (0..pushers as u32).map(Record::new).collect(),
            blocks: Blocks::new(BLOCKS * pushers),
            logs: (0..=pushers).map(|_| (0..LOG).map(|_| AtomicU64::new(0)).collect()).collect(),
            ran: Mutex::new(vec![0; uses.len()]),
            owned: Mutex::new(vec![0; uses.len()]),
        })
    }

    /// Gives an operation its tickets of common variables, if it has not got them.
    fn enlist(&self, operation: Word) {
        let block = operation.block();
        // SAFETY: blocks stay blocks; what is announced stays announced while the lock of its first
        // common variable is ours.
        unsafe {
            let word = &*Block::word(block);
            let is_announced = || {
                let now = Word(word.load(Acquire));
                now.has_tag_of(operation) && now.stage() == ANNOUNCED
            };
            if !is_announced() {
                return;
            }
            let number = (*block).sequence as usize;
            let first = self.owned.lock().unwrap()[number];
            let variable = |index: u32| (*Block::access(block, index)).variable as usize;
            let mut locks: Vec<_> =
                (first..(*block).count).map(|index| self.variables[variable(index)].common.lock().unwrap()).collect();
            if !is_announced() {
                return;
            }
            for (index, lock) in (first..).zip(&mut locks) {
                let now = &mut lock.as_mut().expect("it has begun").1;
                let access = Block::access(block, index);
                (*access).ticket.store(now.ticket.packed(), Relaxed);
                Block::before(block, index).write(AtomicU64::new(now.last.0));
                match (*access).mode() {
                    Read => now.ticket.reads += 1,
                    _ => (now.ticket.writes, now.last) = (now.ticket.writes + 1, operation),
                }
            }
            // Others may park on it meanwhile.
            let mut now = word.load(Relaxed);
            while let Err(other) = word.compare_exchange(now, Word(now).at(PUSHED).0, AcqRel, Relaxed) {
                now = other;
            }
        }
    }

    fn try_to_run(&self, thread: &Thread, operation: Word) {
        let Some(block) = take(operation) else { return };
        // SAFETY: taken, so ours.
        if unsafe { settle(block, thread) } {
            self.run(thread, block);
        }
    }

    fn run(&self, thread: &Thread, block: *mut Block) {
        let mut ready = vec![block];
        while let Some(block) = ready.pop() {
            // SAFETY: ready, and ours.
            unsafe {
                let number = (*block).sequence as usize;
                for index in 0..(*block).count {
                    let access = Block::access(block, index);
                    let variable = &self.variables[(*access).variable as usize];
                    let ticket = Ticket::of((*access).ticket.load(Relaxed));
                    assert_eq!(variable.value.get() as u32, ticket.writes, "an operation ran too early");
                    if (*access).mode() == Write {
                        variable.value.step();
                        variable.written.lock().unwrap().push(number);
                    }
                }
                self.ran.lock().unwrap()[number] += 1;
                end(block, thread, |block| ready.push(block));
            }
        }
    }

    /// Runs all that was logged; then everything that is `certain` has run once, in an order that
    /// suits all.
    fn check(self: &Arc<Self>, certain: &[usize]) {
        let main = Thread { world: self.clone(), number: self.records.len(), logged: 0.into() };
        for log in &self.logs {
            log.iter().map(|entry| Word(entry.load(Acquire))).for_each(|operation| {
                if operation != Word::NONE {
                    self.try_to_run(&main, operation);
                }
            });
        }
        let ran = self.ran.lock().unwrap().clone();
        assert!(ran.iter().all(|ran| *ran <= 1), "an operation ran twice");
        assert!(certain.iter().all(|number| ran[*number] == 1), "an operation is lost");
        let written: Vec<Vec<usize>> = self.variables.iter().map(|v| v.written.lock().unwrap().clone()).collect();
        for (first, orders) in written.iter().enumerate() {
            let also = |number: &&usize, second: &Vec<usize>| second.contains(number);
            for second in &written[first + 1..] {
                let [one, other]: [Vec<_>; 2] = [
                    orders.iter().filter(|number| also(number, second)).collect(),
                    second.iter().filter(|number| also(number, orders)).collect(),
                ];
                assert_eq!(one, other, "two variables differ in the order of operations: none is early for both");
            }
        }
    }
}

/// What a thread knows: variables that are common stay common.
struct Pushing<'a> {
    thread: &'a Thread,
    pusher: Pusher<'a>,
    common: Vec<u32>,
}

impl Pushing<'_> {
    /// A block that no operation uses.
    fn block(&self) -> (*mut Block, u64) {
        let world = &self.thread.world;
        for index in 0..BLOCKS {
            let block = world.blocks.pointer(self.thread.number * BLOCKS + index);
            // SAFETY: blocks stay blocks.
            let word = Word(unsafe { (*Block::word(block)).load(Acquire) });
            if word.stage() == FREE {
                return (block, word.tag() + 1);
            }
        }
        unreachable!("a thread needs more blocks");
    }

    /// Claims all variables of an operation that are not common, or says which one has to be
    /// acquired first.
    fn claim(&mut self, uses: Uses, block: *mut Block, this: Word) -> Result<Push<'_>, (u32, Mode)> {
        // SAFETY: fresh, and ours.
        unsafe {
            let mut push = self.pusher.push(block, this, 0);
            let common = &self.common;
            let is_common = |variable: &u32| common.contains(variable);
            let mut index = uses.iter().filter(|(variable, _)| !is_common(variable)).count() as u32;
            for (variable, mode) in uses {
                if is_common(variable) {
                    Block::access(block, index).write(Access::new(*variable, index, *mode, Ticket::default()));
                    index += 1;
                } else if !push.claim(*variable, 1, *mode)
                    && !(self.thread.adopts(*variable) && push.claim(*variable, 1, *mode))
                {
                    return Err((*variable, *mode));
                }
            }
            Ok(push)
        }
    }

    /// Returns the operation once it is committed; `None` if it stops before.
    fn push(&mut self, number: usize, stop: bool) -> Option<Word> {
        let (thread, uses) = (self.thread, self.thread.world.uses[number]);
        let (block, tag) = self.block();
        let this = Word::refers(block, tag);
        // SAFETY: ours.
        unsafe {
            Block::renew(block, uses.len() as u32, true);
            (*block).sequence = number as u64;
        }
        let mut failed = false;
        loop {
            let owned = uses.iter().filter(|(variable, _)| !self.common.contains(variable)).count();
            let wanted = match self.claim(uses, block, this) {
                Err(wanted) => wanted,
                Ok(mut push) => {
                    let stage = if owned < uses.len() { ANNOUNCED } else { PUSHED };
                    thread.world.owned.lock().unwrap()[number] = owned as u32;
                    // SAFETY: ours.
                    unsafe { (*Block::word(block)).store(Word::fresh(tag, stage).0, Release) };
                    if stop {
                        std::mem::forget(push);
                        return None;
                    }
                    if owned == 0 || push.commit() {
                        return Some(this);
                    }
                    failed = true;
                    continue;
                }
            };
            let (variable, mode) = wanted;
            if self.pusher.owns(variable, 1, mode) {
                continue;
            }
            match self.pusher.acquire((variable, 1), mode, failed, thread) {
                Acquired::Owned => {}
                Acquired::Common => self.common.push(variable),
                other => panic!("{other:?}"),
            }
        }
    }
}

impl Thread {
    /// Takes ownership of a variable without pushes, in the middle of a push.
    fn adopts(&self, variable: u32) -> bool {
        let Variable { owner, progress, .. } = &self.world.variables[variable as usize];
        // SAFETY: the thread's own.
        let pusher = unsafe { self.world.records[self.number].pusher() };
        pusher.adopt((variable, 1), (owner, progress, 0), self.whole(variable))
    }

    fn pull(&self, variable: u32) {
        let owner = &self.world.variables[variable as usize].owner;
        let found = owner.last_finished(variable, |pusher| self.record_if_any(pusher));
        let Some(operation) = found.filter(|operation| *operation != Word::NONE) else { return };
        let mut pull = pull::Pull::new(operation);
        loop {
            let block = pull.next(self);
            if block.is_null() {
                return;
            }
            self.world.run(self, block);
        }
    }

    fn go(&self, steps: &[Step]) {
        let record = &self.world.records[self.number];
        // SAFETY: the only one.
        let pusher = unsafe { record.pusher() };
        let mut pushing = Pushing { thread: self, pusher, common: Vec::new() };
        for step in steps {
            let number = match *step {
                Push(number) | PushAndRun(number) | StopBefore(number) | StopBehind(number) => number,
                Pull(variable) => {
                    self.pull(variable);
                    continue;
                }
            };
            let pushed = pushing.push(number, matches!(step, StopBefore(_)));
            let (Some(operation), false) = (pushed, matches!(step, StopBehind(_))) else { return };
            self.finish(operation, false);
            if matches!(step, PushAndRun(_)) {
                let log = &self.world.logs[self.number][..self.logged.get()];
                log.iter().for_each(|entry| self.world.try_to_run(self, Word(entry.load(Relaxed))));
            }
        }
    }
}

/// Each row of steps is a thread's; the first is the main thread's. What `certain` lists must have
/// run in the end.
pub struct Model {
    pub variables: usize,
    pub uses: &'static [Uses],
    pub threads: &'static [&'static [Step]],
    /// Done one after the other, before the threads begin.
    pub first: &'static [(usize, Step)],
    pub certain: &'static [usize],
}

impl Model {
    fn run(&'static self) {
        let world = World::new(self.variables, self.threads.len(), self.uses);
        let threads: Vec<Thread> =
            (0..self.threads.len()).map(|number| Thread { world: world.clone(), number, logged: 0.into() }).collect();
        self.first.iter().for_each(|(thread, step)| threads[*thread].go(&[*step]));
        let mut threads = threads.into_iter();
        let mine = threads.next().unwrap();
        let others: Vec<_> = threads.map(|thread| spawn(move || thread.go(self.threads[thread.number]))).collect();
        mine.go(self.threads[0]);
        others.into_iter().for_each(|other| other.join().unwrap());
        world.check(self.certain);
    }

    pub fn explore(&'static self, name: &str, preemptions: usize, floor: usize) {
        explore(&format!("owners, {name}"), preemptions, floor, || self.run());
    }

    /// From one end only.
    pub fn explore_once(&'static self, name: &str, preemptions: usize, floor: usize) {
        explore_once(&format!("owners, {name}"), preemptions, floor, || self.run());
    }

    pub fn explore_light(&'static self, name: &str, preemptions: usize, floor: usize) {
        explore_light_fences(&format!("owners, {name}"), preemptions, floor, || self.run());
    }
}
