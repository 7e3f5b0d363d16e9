//! Several threads that push to common variables, help each other, and run what they find.
//!
//! The models show without stopping a thread that a stopped one holds up no other. At its end each
//! thread checks that its pushes have run, unless another thread is in the middle of running
//! something. The checker stops the others at every step of theirs while this one goes on to its
//! end.

#[cfg(loom)]
use crate::spawn;
use crate::{Blocks, Guarded};
#[cfg(loom)]
use loom::sync::atomic::{
    AtomicUsize as Gate,
    Ordering::{AcqRel, Relaxed},
};
use seriatim::internals::access::Access;
use seriatim::internals::access::Mode::{self, Commute, Delete, PhasedRead, Read};
use seriatim::internals::access::Ticket;
use seriatim::internals::block::Block;
use seriatim::internals::heavy;
use seriatim::internals::tickets::common::{Common, Commons};
use seriatim::internals::tickets::end_phased;
use seriatim::internals::tickets::hazards::{Hazards, Hold};
use seriatim::internals::tickets::hold::{give_all_back, take_all, Holds, VariableHold};
use seriatim::internals::tickets::linking::{announce, ended, enlist};
use seriatim::internals::tickets::links::Links;
use seriatim::internals::tickets::phases;
use seriatim::internals::tickets::run::{end, end_voided, settle, take, Progress, Start, Variables};
use seriatim::internals::tickets::word::Word;
#[cfg(shuttle)]
use shuttle::sync::atomic::{
    AtomicUsize as Gate,
    Ordering::{AcqRel, Relaxed},
};
#[cfg(shuttle)]
use shuttle::thread::spawn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// What an operation uses.
pub type Uses = &'static [(usize, Mode)];

struct Variable {
    progress: Progress,
    common: Common,
    /// What operations change that have the variable to themselves by their tickets.
    value: Guarded,
    /// What those in phases change and read.
    hold: VariableHold,
    phased: Guarded,
}

/// What one thread has logged: each entry brings what its writer knew.
struct Log {
    entries: Mutex<Vec<Word>>,
    gate: Gate,
}

/// An operation, and what has happened to it. In std's words: loom's own would be more to explore.
#[derive(Default)]
struct Seen {
    ran: AtomicUsize,
    voided: AtomicUsize,
    spent: AtomicUsize,
    tickets: Mutex<Vec<Ticket>>,
}

/// Variables, and operations on them that several threads push.
pub struct Program {
    uses: &'static [Uses],
    variables: Vec<Variable>,
    blocks: Blocks,
    /// What a pusher writes into an operation before any other thread can find it.
    contents: Vec<Guarded>,
    seen: Vec<Seen>,
    logs: Vec<Log>,
    /// Threads in the middle of running something.
    busy: Vec<AtomicBool>,
    /// Blocks that no operation uses, and those that may be used again when no thread is pinned.
    free: Mutex<Vec<usize>>,
    limbo: Mutex<Vec<usize>>,
    /// Whether a block was used.
    used: Vec<AtomicBool>,
    pins: Gate,
    /// What each thread holds.
    hazards: Vec<Hazards>,
}

/// How blocks are used again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    Never,
    /// When no thread is pinned.
    ByPins,
    /// When no thread holds the block. No thread pins.
    ByHazards,
}

impl Variables for Program {
    fn progress(&self, variable: u32) -> &Progress {
        &self.variables[variable as usize].progress
    }
}

impl Holds for Program {
    fn variable_hold(&self, variable: u32) -> &VariableHold {
        &self.variables[variable as usize].hold
    }
}

/// Whether an operation of these uses has accesses in phases.
fn is_phased(uses: Uses) -> bool {
    uses.iter().any(|(_, mode)| matches!(mode, Commute | PhasedRead))
}

/// A thread of a model.
pub struct Thread {
    program: Arc<Program>,
    number: usize,
    reuse: Reuse,
}

impl Commons for Thread {
    fn common(&self, variable: u32) -> &Common {
        &self.program.variables[variable as usize].common
    }

    fn hazards(&self) -> &Hazards {
        &self.program.hazards[self.number]
    }

    fn logged(&mut self, operation: Word) {
        // SAFETY: the thread that logs it holds it.
        let number = unsafe { (*operation.block()).sequence as usize };
        self.program.contents[number].get();
        let log = &self.program.logs[self.number];
        log.entries.lock().unwrap().push(operation);
        log.gate.fetch_add(1, AcqRel);
    }

    fn spent(&mut self, block: *mut Block) {
        // SAFETY: no thread uses it again before it is in the list below.
        let number = unsafe { (*block).sequence as usize };
        let twice = self.program.seen[number].spent.fetch_add(1, SeqCst);
        assert_eq!(twice, 0, "a block was spent twice");
        if self.reuse != Reuse::Never {
            let rests = self.program.variables.iter().any(|variable| variable.common.rests_on(block));
            assert!(!rests, "a block is spent that a tail leads to: it would be reused");
            let place = self.program.blocks.iter().position(|address| *address == block.addr()).unwrap();
            // Before it is in the list: a thread that takes it from there is ordered behind this
            // one.
            self.program.pins.fetch_add(0, AcqRel);
            self.program.limbo.lock().unwrap().push(place);
        }
    }
}

/// What no access gets.
const UNSET: Ticket = Ticket { writes: 77, reads: 77 };

/// Blocks that were used again.
pub static REUSED: AtomicUsize = AtomicUsize::new(0);

/// Where the variables start.
pub const START: Start = Start { ticket: Ticket { writes: 0, reads: 0 }, last: Word::NONE };

impl Program {
    /// The common part of a variable.
    pub fn common(&self, variable: usize) -> &Common {
        &self.variables[variable].common
    }

    /// Whether the operation's block was spent.
    pub fn is_spent(&self, number: usize) -> bool {
        self.seen[number].spent.load(SeqCst) == 1
    }

    /// The writes before each access of each operation that has run.
    pub fn outcome(&self) -> Vec<usize> {
        let of = |seen: &Seen| seen.tickets.lock().unwrap().iter().map(|ticket| ticket.writes as usize).collect();
        self.seen.iter().flat_map(|seen| -> Vec<usize> { of(seen) }).collect()
    }

    /// With so many blocks and threads.
    pub fn new(variables: usize, blocks: usize, threads: usize, uses: &'static [Uses]) -> Arc<Program> {
        Program::with(Hazards::new, variables, blocks, threads, uses)
    }

    /// The same, for threads whose blocks are used again [by hazards](Reuse::ByHazards).
    pub fn held(variables: usize, blocks: usize, threads: usize, uses: &'static [Uses]) -> Arc<Program> {
        Program::with(Hazards::read, variables, blocks, threads, uses)
    }

    fn with(
        hazards: fn() -> Hazards,
        variables: usize,
        blocks: usize,
        threads: usize,
        uses: &'static [Uses],
    ) -> Arc<Program> {
        let variable = |_| Variable {
            progress: Progress::new(),
            common: Common::default(),
            value: Guarded::new(),
            hold: VariableHold::new(),
            phased: Guarded::new(),
        };
        Arc::new(Program {
            uses,
            variables: (0..variables).map(variable).collect(),
            blocks: Blocks::new(blocks),
            contents: uses.iter().map(|_| Guarded::new()).collect(),
            seen: uses.iter().map(|_| Seen::default()).collect(),
            logs: (0..threads).map(|_| Log { entries: Mutex::default(), gate: Gate::new(0) }).collect(),
            busy: (0..threads).map(|_| AtomicBool::new(false)).collect(),
            free: Mutex::new((0..blocks).rev().collect()),
            limbo: Mutex::default(),
            used: (0..blocks).map(|_| AtomicBool::new(false)).collect(),
            pins: Gate::new(0),
            hazards: (0..threads).map(|_| hazards()).collect(),
        })
    }

    /// Makes the variables common.
    pub fn open(&self) {
        self.variables.iter().for_each(|variable| variable.common.open(START));
    }

    /// Everything has run, once, in one order; and all blocks are spent that no tail leads to.
    pub fn check(&self) {
        for (number, seen) in self.seen.iter().enumerate() {
            let ends = seen.ran.load(SeqCst) + seen.voided.load(SeqCst);
            assert_eq!(ends, 1, "operation {number} is lost, or ran twice");
        }
        for (variable, Variable { progress, .. }) in self.variables.iter().enumerate() {
            if self.uses.iter().any(|uses| is_phased(uses)) {
                // Which of them were counted as writes depends on their order.
                let uses = self.uses.iter().filter(|uses| uses.iter().any(|(var, _)| *var == variable));
                assert_eq!(progress.counts().0 + progress.counts().1, uses.count() as u32, "what was counted");
                continue;
            }
            let is_deleted = self.uses.iter().any(|uses| uses.contains(&(variable, Delete)));
            let mut counted = (0, 0);
            for (uses, seen) in self.uses.iter().zip(&self.seen) {
                // What was void on this variable is not counted.
                let counts = seen.ran.load(SeqCst) == 1 || !is_deleted;
                for (_, mode) in uses.iter().filter(|(var, _)| *var == variable && counts) {
                    *(if *mode == Read { &mut counted.1 } else { &mut counted.0 }) += 1;
                }
            }
            assert_eq!(progress.counts(), counted, "what was counted on variable {variable}");
        }
    }

    /// Blocks that were not used again are spent, unless a tail leads to them.
    pub fn check_spent(&self) {
        for place in 0..self.blocks.len() {
            let block = self.blocks.pointer(place);
            // SAFETY: all blocks were used, and no thread is left.
            let number = unsafe { (*block).sequence as usize };
            // One that a variable ends with is spent with that.
            let at_tail = self.variables.iter().any(|variable| variable.common.rests_on(block));
            assert_eq!(self.seen[number].spent.load(SeqCst) == 0, at_tail, "spent is what no tail leads to");
        }
    }

    /// Any two operations are ordered alike on both variables that they share.
    pub fn check_order(&self) {
        for (a, uses) in self.uses.iter().enumerate() {
            for (b, others) in self.uses.iter().enumerate().skip(a + 1) {
                let (mine, theirs) = (self.seen[a].tickets.lock().unwrap(), self.seen[b].tickets.lock().unwrap());
                let mut orders = Vec::new();
                for (ticket, (variable, _)) in mine.iter().zip(*uses) {
                    for (other, _) in theirs.iter().zip(*others).filter(|(_, (var, _))| var == variable) {
                        if ticket != other {
                            let key = |ticket: &Ticket| (ticket.writes, ticket.reads);
                            orders.push(key(ticket) < key(other));
                        }
                    }
                }
                assert!(orders.windows(2).all(|pair| pair[0] == pair[1]), "two are in two orders");
            }
        }
    }

    /// Threads that do these parts; what is left at the end is run.
    pub fn act<const N: usize>(self: &Arc<Program>, reuse: Reuse, roles: [Role; N]) {
        let thread = |number: usize| Thread { program: self.clone(), number, reuse };
        let others: Vec<_> = (1..N)
            .map(|number| {
                let mut thread = thread(number);
                let role = roles[number];
                spawn(move || thread.act(role))
            })
            .collect();
        let mut first = thread(0);
        first.act(roles[0]);
        others.into_iter().for_each(|other| other.join().unwrap());
        first.run(Word::NONE);
    }
}

impl Thread {
    /// The thread of this number, which uses no block again.
    pub fn new(program: &Arc<Program>, number: usize) -> Thread {
        Thread { program: program.clone(), number, reuse: Reuse::Never }
    }

    /// The thread of this number, which uses blocks again that no thread holds.
    pub fn holding(program: &Arc<Program>, number: usize) -> Thread {
        Thread { program: program.clone(), number, reuse: Reuse::ByHazards }
    }

    /// A block that no operation uses.
    fn allocate(&self) -> *mut Block {
        let limbo = std::mem::take(&mut *self.program.limbo.lock().unwrap());
        // The threads that were pinned when the blocks came into the list have unpinned.
        let is_over = limbo.is_empty() || self.program.pins.fetch_add(0, AcqRel) == 0;
        let (free, held) = match self.reuse {
            Reuse::ByHazards if !limbo.is_empty() => self.part(limbo),
            _ if is_over => (limbo, Vec::new()),
            _ => (Vec::new(), limbo),
        };
        self.program.free.lock().unwrap().extend(free);
        self.program.limbo.lock().unwrap().extend(held);
        let block = self.program.free.lock().unwrap().pop().expect("enough blocks");
        REUSED.fetch_add(usize::from(self.program.used[block].swap(true, SeqCst)), SeqCst);
        self.program.blocks.pointer(block)
    }

    /// Parts blocks as `pool/beside_epoch.rs` does: those that no thread holds, and the others.
    fn part(&self, limbo: Vec<usize>) -> (Vec<usize>, Vec<usize>) {
        heavy();
        let mut held = Vec::new();
        self.program.hazards.iter().for_each(|hazards| hazards.held(|address| held.push(address)));
        let is_in = |place: usize, address: usize| {
            address.wrapping_sub(self.program.blocks.pointer(place).addr()) < size_of::<Block>()
        };
        limbo.into_iter().partition(|place| !held.iter().any(|address| is_in(*place, *address)))
    }

    /// Writes an operation and announces it.
    pub fn announce(&self, number: usize) -> Word {
        let block = self.allocate();
        let uses = self.program.uses[number];
        // SAFETY: the block is ours, and has room for so few uses.
        unsafe {
            Block::renew(block, uses.len() as u32, false);
            Links::renew(block, uses.len() as u32);
            let tag = Word((*Block::word(block)).load(Relaxed)).tag() + 1;
            (*block).sequence = number as u64;
            for (index, (variable, mode)) in (0..).zip(uses) {
                let access = Access::new(*variable as u32, index, *mode, UNSET);
                Block::access(block, index).write(access);
            }
            self.program.contents[number].set(1);
            self.hazards().keep(Hold::Own, block);
            announce(block, tag)
        }
    }

    fn push_all(&mut self, numbers: &[usize]) {
        for number in numbers {
            self.push(*number);
        }
    }

    /// Pushes an operation.
    pub fn push(&mut self, number: usize) -> Word {
        let operation = self.announce(number);
        if self.reuse == Reuse::ByPins {
            self.program.pins.fetch_add(1, AcqRel);
        }
        // SAFETY: announced; pinned if blocks are used again.
        unsafe { enlist(operation.block(), self) };
        self.hazards().clear();
        if self.reuse == Reuse::ByPins {
            self.program.pins.fetch_sub(1, AcqRel);
        }
        operation
    }

    /// Runs an operation, and everything that was logged.
    pub fn run(&mut self, first: Word) {
        let program = self.program.clone();
        program.busy[self.number].store(true, SeqCst);
        self.try_to_run(first);
        for log in &program.logs {
            let known = log.gate.fetch_add(0, AcqRel);
            let words = log.entries.lock().unwrap()[..known].to_vec();
            words.into_iter().filter(|word| *word != first).for_each(|word| self.try_to_run(word));
        }
        program.busy[self.number].store(false, SeqCst);
    }

    fn try_to_run(&mut self, operation: Word) {
        if operation == Word::NONE {
            return;
        }
        let Some(block) = take(operation) else { return };
        let program = self.program.clone();
        // SAFETY: taken, so ours.
        let mut ready = if unsafe { settle(block, &*program) } { vec![block] } else { Vec::new() };
        while let Some(block) = ready.pop() {
            // SAFETY: ready, and ours.
            unsafe {
                let number = (*block).sequence as usize;
                program.contents[number].get();
                let is_phased = is_phased(program.uses[number]);
                if is_phased && !take_all(block, &*program, |called| ready.push(called)) {
                    continue;
                }
                self.use_variables(block, number);
                if is_phased {
                    assert_eq!(program.seen[number].ran.fetch_add(1, SeqCst), 0, "an operation ran twice");
                    give_all_back(block, &*program, |called| ready.push(called));
                    end_phased::end(block, &*program, |block| ready.push(block));
                } else if Block::is_voided(block) {
                    assert_eq!(program.seen[number].voided.fetch_add(1, SeqCst), 0, "an operation ended twice");
                    end_voided(block, &*program, |block| ready.push(block));
                } else {
                    assert_eq!(program.seen[number].ran.fetch_add(1, SeqCst), 0, "an operation ran twice");
                    end(block, &*program, |block| ready.push(block));
                }
                ended(block, self);
            }
        }
    }

    /// Uses what an operation has, or would have if it were not void elsewhere.
    unsafe fn use_variables(&mut self, block: *mut Block, number: usize) {
        let program = self.program.clone();
        for (index, (variable, mode)) in (0..).zip(program.uses[number]) {
            // SAFETY: ours.
            if unsafe { Block::is_voided(block) && Links::are_void(block, index) } {
                continue;
            }
            // SAFETY: ours.
            let ticket = Ticket::of(unsafe { (*Block::access(block, index)).ticket.load(Relaxed) });
            let Variable { value, common, phased, .. } = &program.variables[*variable];
            assert_eq!(value.get() as u32, ticket.writes, "an operation ran too early");
            program.seen[number].tickets.lock().unwrap().push(ticket);
            // SAFETY: ours.
            if *mode != Read && unsafe { !phases::is_shared(block, index) } {
                value.step();
            }
            match mode {
                Commute => phased.step(),
                PhasedRead => _ = phased.get(),
                _ => {}
            }
            if *mode == Delete {
                // SAFETY: it is running.
                unsafe { common.close(block, self) };
            }
        }
    }

    /// Checks that what this thread has pushed does not need a thread that stopped in a push.
    pub fn depends_on_no_push(&self, pushed: &[usize]) {
        let ended = |number: &usize| {
            let seen = &self.program.seen[*number];
            seen.ran.load(SeqCst) + seen.voided.load(SeqCst) > 0
        };
        let others_run = self.program.busy.iter().any(|busy| busy.load(SeqCst));
        assert!(others_run || pushed.iter().all(ended), "an operation is lost, or waits for a push");
    }

    fn act(&mut self, role: Role) {
        match role {
            Opens(numbers, start) => {
                let common = &self.program.variables[0].common;
                if !common.is_open() {
                    common.open(start);
                }
                self.push_all(numbers);
            }
            Pushes(numbers) => self.push_all(numbers),
            Runs(numbers) => {
                for number in numbers {
                    let operation = self.push(*number);
                    self.run(operation);
                }
                self.depends_on_no_push(numbers);
            }
        }
    }
}

/// What a thread does.
#[derive(Clone, Copy)]
pub enum Role {
    /// Pushes these operations.
    Pushes(&'static [usize]),
    /// Makes the first variable common, if it is not, and does that.
    Opens(&'static [usize], Start),
    /// After each of its pushes it runs everything that was logged.
    Runs(&'static [usize]),
}
use Role::{Opens, Pushes, Runs};
