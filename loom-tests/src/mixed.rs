//! Pushers of operations that have owned and common variables, which are deleted and whose slots
//! are used again; some pushers stop for good, anywhere.

#[cfg(loom)]
use crate::spawn;
use crate::{Blocks, Guarded};
use atomic::{AtomicU32, AtomicU64, AtomicUsize as Gate, Ordering::*};
#[cfg(loom)]
use loom::sync::atomic;
use seriatim::internals::access::Access;
use seriatim::internals::access::Mode::{self, Delete, Read};
use seriatim::internals::access::Ticket;
use seriatim::internals::block::Block;
use seriatim::internals::tickets::common::{Common, Commons};
use seriatim::internals::tickets::hazards::Hazards;
use seriatim::internals::tickets::linking::{announce, ended, enlist, help};
use seriatim::internals::tickets::links::Links;
use seriatim::internals::tickets::owner::{Acquired, Owner, Peers, Pusher, Record};
use seriatim::internals::tickets::run::{end, end_voided, settle, take, Progress, Start, Variables};
use seriatim::internals::tickets::word::{Word, FREE};
#[cfg(shuttle)]
use shuttle::sync::atomic;
#[cfg(shuttle)]
use shuttle::thread::spawn;
use std::cell::Cell;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// What an operation uses, in ascending order. Variable 13 is in slot 3, where 3 was before.
pub type Uses = &'static [(u32, Mode)];

/// A variable's slot, and its generation there.
fn slot_of(variable: u32) -> (u32, u32) {
    (variable % 10, variable / 10 + 1)
}

/// What a thread does, in order.
#[derive(Clone, Copy)]
pub enum Step {
    /// Pushes the operation of this number. The handle dies first if that deletes a variable.
    Push(usize),
    /// Pushes, and runs everything that was logged.
    PushAndRun(usize),
    /// Pushes, and ends where the push would be committed.
    StopBefore(usize),
    /// Pushes, and ends when it is committed.
    StopBehind(usize),
    /// Pushes, and ends when it has looked so often at what others could change.
    StopAt(usize, usize),
    /// Opens the slot anew if its variable was deleted and no thread can hold its handle.
    Reopen(u32),
}
use Step::*;

struct Slot {
    progress: Progress,
    owner: Owner,
    common: Common,
    generation: AtomicU32,
    value: Guarded,
    /// Whether the deletion has ended.
    retired: AtomicBool,
    /// Which operations have run, by their tickets.
    ran: Mutex<Vec<(usize, Ticket)>>,
}

/// An operation, and what has happened to it. In std's words: loom's own would be more to explore.
#[derive(Default)]
struct Seen {
    /// Whether its push has returned.
    pushed: AtomicBool,
    refused: AtomicBool,
    ran: AtomicUsize,
    voided: AtomicUsize,
    spent: AtomicUsize,
    /// Its pusher, from 1 on.
    by: AtomicUsize,
}

/// Slots of variables, and operations on them that several threads push.
pub struct World {
    uses: Vec<Uses>,
    slots: Vec<Slot>,
    records: Vec<Record>,
    blocks: Blocks,
    /// What a pusher writes into an operation before any other thread can find it.
    contents: Vec<Guarded>,
    seen: Vec<Seen>,
    /// What each thread has logged; the last log belongs to the thread that runs what is left.
    logs: Vec<Vec<AtomicU64>>,
    /// Threads that are pinned, if the model has pins.
    pins: Option<Gate>,
}

/// Entries of a thread's log.
const LOG: usize = if cfg!(loom) { 12 } else { 64 };
/// Blocks of each thread.
const BLOCKS: usize = 6;
/// What no access gets.
const UNSET: Ticket = Ticket { writes: 77, reads: 77 };
/// Slots that were opened anew, blocks with links that were used again, and operations that had
/// owned and common variables.
pub static REOPENED: AtomicUsize = AtomicUsize::new(0);
pub static REUSED: AtomicUsize = AtomicUsize::new(0);
pub static MIXED: AtomicUsize = AtomicUsize::new(0);

/// A thread of a model.
pub struct Thread {
    world: Arc<World>,
    number: usize,
    logged: Cell<usize>,
    pinned: Cell<bool>,
    /// The variable that it deletes.
    deletes: Cell<Option<(u32, u32)>>,
    /// How many looks it has left before it stops.
    looks: Cell<Option<usize>>,
    /// What it has pushed last.
    last: Cell<Word>,
    /// Read by no thread: blocks go by pins.
    hazards: Hazards,
}

/// A thread has stopped.
struct Stopped;

impl Variables for Thread {
    fn progress(&self, variable: u32) -> &Progress {
        &self.world.slots[variable as usize].progress
    }
}

impl Peers for Thread {
    fn owner(&self, variable: u32) -> &Owner {
        self.look();
        &self.world.slots[variable as usize].owner
    }

    fn lives(&self, variable: u32, generation: u32) -> bool {
        self.look();
        // Relaxed: a thread that finds an operation pushed after the deletion sees the deletion.
        self.deletes.get() == Some((variable, generation))
            || self.world.slots[variable as usize].generation.load(Relaxed) == generation
    }

    fn record_if_any(&self, pusher: u32) -> Option<&Record> {
        self.look();
        self.world.records.get(pusher as usize)
    }

    fn pushers(&self) -> u32 {
        self.world.records.len() as u32
    }

    fn finish(&self, operation: Word, linked: bool) {
        self.look();
        if linked {
            // SAFETY: it has links; the acquiring thread is pinned.
            unsafe { help(operation, &mut Linker(self)) };
        } else {
            self.log(operation);
        }
    }

    fn begin_common(&self, variable: u32, start: Start) {
        self.look();
        self.world.slots[variable as usize].common.open(start);
    }
}

/// A thread that links.
struct Linker<'a>(&'a Thread);

impl Commons for Linker<'_> {
    fn common(&self, variable: u32) -> &Common {
        self.0.look();
        &self.0.world.slots[variable as usize].common
    }

    fn hazards(&self) -> &Hazards {
        &self.0.hazards
    }

    fn logged(&mut self, operation: Word) {
        self.0.look();
        // SAFETY: the thread that logs it holds it.
        let number = unsafe { (*operation.block()).sequence as usize };
        self.0.world.contents[number].get();
        self.0.log(operation);
    }

    fn spent(&mut self, block: *mut Block) {
        let world = &self.0.world;
        // SAFETY: no thread uses it again before it is counted below.
        let number = unsafe { (*block).sequence as usize };
        let rests = world.slots.iter().any(|slot| slot.common.rests_on(block));
        assert!(!rests, "a block is spent that a tail leads to: it would be reused");
        // Before it is counted: a thread that finds the count is ordered behind this one.
        world.pass_the_gate();
        assert_eq!(world.seen[number].spent.fetch_add(1, SeqCst), 0, "a block was spent twice");
    }
}

impl World {
    /// With so many slots and threads.
    pub fn new(slots: usize, threads: usize, pins: bool, uses: Vec<Uses>) -> Arc<World> {
        let slot = |_| Slot {
            progress: Progress::new(),
            owner: Owner::new(),
            common: Common::default(),
            generation: AtomicU32::new(1),
            value: Guarded::new(),
            retired: AtomicBool::new(false),
            ran: Mutex::default(),
        };
        Arc::new(World {
            slots: (0..slots).map(slot).collect(),
            records: (0..threads as u32).map(Record::new).collect(),
            blocks: Blocks::new(BLOCKS * threads),
            contents: uses.iter().map(|_| Guarded::new()).collect(),
            seen: uses.iter().map(|_| Seen::default()).collect(),
            logs: (0..=threads).map(|_| (0..LOG).map(|_| AtomicU64::new(0)).collect()).collect(),
            pins: pins.then(|| Gate::new(0)),
            uses,
        })
    }

    /// A thread that comes to the gate later is ordered behind this one.
    fn pass_the_gate(&self) {
        self.pins.iter().for_each(|pins| {
            pins.fetch_add(0, AcqRel);
        });
    }

    /// The thread of this number.
    pub fn thread(self: &Arc<World>, number: usize) -> Thread {
        Thread {
            world: self.clone(),
            number,
            logged: Cell::new(0),
            pinned: Cell::new(false),
            deletes: Cell::new(None),
            looks: Cell::new(None),
            last: Cell::new(Word::NONE),
            hazards: Hazards::new(),
        }
    }

    /// Whether the variable is common, and whether it was deleted and that has ended.
    pub fn is_common(&self, variable: u32) -> bool {
        self.slots[variable as usize].common.is_open()
    }

    /// Runs what is left. Then all that was pushed has run once, or was void, in one order that
    /// suits all.
    pub fn check(self: &Arc<World>) {
        self.thread(self.records.len()).run_all();
        for (number, seen) in self.seen.iter().enumerate() {
            let ends = seen.ran.load(SeqCst) + seen.voided.load(SeqCst);
            assert!(ends <= 1, "an operation ran twice");
            assert!(ends == 1 || !seen.pushed.load(SeqCst), "operation {number} is lost");
            assert!(ends == 0 || !seen.refused.load(SeqCst), "operation {number} was refused and ran early");
            let is_deleted = |(variable, _): &(u32, Mode)| {
                let deletes = |(other, mode): &(u32, Mode)| other == variable && *mode == Delete;
                self.uses.iter().flat_map(|uses| uses.iter()).any(deletes)
            };
            let void = seen.voided.load(SeqCst) + usize::from(seen.refused.load(SeqCst)) > 0;
            let excused = self.uses[number].iter().any(is_deleted);
            assert!(excused || !void, "operation {number} is lost, though its variables live");
        }
        self.check_order();
        self.check_spent();
    }

    /// An order of all operations suits all slots, and each thread's pushes. Reads between two
    /// writes have none among themselves.
    fn check_order(&self) {
        let count = self.seen.len();
        let mut before = vec![vec![false; count]; count];
        for (number, slot) in (0..).zip(&self.slots) {
            let mut ran = slot.ran.lock().unwrap().clone();
            let use_of = |operation: usize| {
                *self.uses[operation].iter().find(|(variable, _)| slot_of(*variable).0 == number).unwrap()
            };
            let writes = |operation: usize| use_of(operation).1 != Read;
            ran.sort_by_key(|(operation, ticket)| (ticket.writes, writes(*operation)));
            for (place, (operation, ticket)) in ran.iter().enumerate() {
                for (next, theirs) in &ran[place + 1..] {
                    let unique = theirs.writes != ticket.writes || !writes(*operation);
                    assert!(unique, "two writes have one ticket: one is early");
                    before[*operation][*next] |= writes(*operation) || writes(*next);
                }
            }
            let used: Vec<(u32, Mode)> = ran.iter().map(|(operation, _)| use_of(*operation)).collect();
            let deletion = used.iter().position(|(_, mode)| *mode == Delete);
            let behind = deletion.map_or(&[][..], |place| &used[place + 1..]);
            assert!(
                behind.iter().all(|(variable, _)| *variable > 9),
                "a variable is used behind its deletion: too early"
            );
        }
        let by = |number: usize| self.seen[number].by.load(SeqCst);
        for first in 0..count {
            // Numbers grow in the order in which a thread pushes.
            (first + 1..count).filter(|next| by(first) > 0 && by(*next) == by(first)).for_each(|next| {
                before[first][next] = true;
            });
        }
        for via in 0..count {
            for first in (0..count).filter(|first| before[*first][via]).collect::<Vec<_>>() {
                (0..count).for_each(|last| before[first][last] |= before[via][last]);
            }
        }
        assert!((0..count).all(|number| !before[number][number]), "operations are in a circle: none is early for all");
    }

    /// Blocks with links are spent unless a tail leads to them.
    fn check_spent(&self) {
        for place in 0..self.blocks.len() {
            let block = self.blocks.pointer(place);
            // SAFETY: no thread is left.
            unsafe {
                let number = (*block).sequence as usize;
                let is_free = Word((*Block::word(block)).load(Relaxed)).stage() == FREE;
                if Block::is_linked(block) && is_free && self.seen[number].pushed.load(SeqCst) {
                    let at_tail = self.slots.iter().any(|slot| slot.common.rests_on(block));
                    let spent = self.seen[number].spent.load(SeqCst);
                    assert_eq!(spent == 0, at_tail, "what no tail leads to is spent once, or it is lost");
                }
            }
        }
    }

    /// The order of the writes of each slot.
    pub fn outcome(&self) -> Vec<usize> {
        let of = |slot: &Slot| -> Vec<usize> {
            let mut ran = slot.ran.lock().unwrap().clone();
            ran.sort_by_key(|(_, ticket)| (ticket.writes, ticket.reads));
            ran.into_iter().map(|(number, _)| number).chain([usize::from(slot.common.is_open())]).collect()
        };
        self.slots.iter().flat_map(of).collect()
    }
}

impl Thread {
    /// A place where it may stop.
    fn look(&self) {
        if let Some(left) = self.looks.get() {
            if left == 0 {
                self.looks.set(None);
                resume_unwind(Box::new(Stopped));
            }
            self.looks.set(Some(left - 1));
        }
    }

    fn log(&self, operation: Word) {
        let index = self.logged.replace(self.logged.get() + 1);
        self.world.logs[self.number][index].store(operation.0, Release);
    }

    fn pin(&self) {
        if let (Some(pins), false) = (&self.world.pins, self.pinned.replace(true)) {
            pins.fetch_add(1, AcqRel);
        }
    }

    fn unpin(&self) {
        if let (Some(pins), true) = (&self.world.pins, self.pinned.replace(false)) {
            pins.fetch_sub(1, AcqRel);
        }
    }

    /// A block that no operation uses, and the next tag.
    fn allocate(&self) -> (*mut Block, u64) {
        let world = &self.world;
        for index in 0..BLOCKS {
            let block = world.blocks.pointer(self.number * BLOCKS + index);
            // SAFETY: ours; blocks stay blocks.
            unsafe {
                let word = Word((*Block::word(block)).load(Acquire));
                let number = (*block).sequence as usize;
                let is_over = !Block::is_linked(block)
                    || world.seen[number].spent.load(SeqCst) == 1
                        && world.pins.as_ref().is_some_and(|pins| pins.fetch_add(0, AcqRel) == 0);
                if word.stage() == FREE && is_over {
                    REUSED.fetch_add(usize::from(Block::is_linked(block)), SeqCst);
                    return (block, word.tag() + 1);
                }
            }
        }
        unreachable!("a thread needs more blocks");
    }

    /// Whether the variables of an operation live. Pinned, so that they are not others before the
    /// push has ended.
    fn live(&self, uses: Uses) -> bool {
        self.pin();
        uses.iter().map(|(variable, _)| slot_of(*variable)).all(|(slot, generation)| self.lives(slot, generation))
    }

    /// Takes ownership of a variable without pushes, in the middle of a push.
    fn adopts(&self, slot: u32, generation: u32) -> bool {
        self.pin();
        if !self.lives(slot, generation) {
            return false;
        }
        // SAFETY: the thread's own.
        let pusher = unsafe { self.world.records[self.number].pusher() };
        let Slot { owner, progress, .. } = &self.world.slots[slot as usize];
        pusher.adopt((slot, generation), (owner, progress, 0), self.whole(slot))
    }

    /// Pushes an operation; `false` if one of its variables is deleted.
    pub fn push(&self, pusher: &mut Pusher<'_>, step: Step) -> bool {
        let (Push(number) | PushAndRun(number) | StopBefore(number) | StopBehind(number) | StopAt(number, _)) = step
        else {
            unreachable!("no push");
        };
        let (world, uses) = (&self.world, self.world.uses[number]);
        let seen = &world.seen[number];
        let (block, tag) = self.allocate();
        let this = Word::refers(block, tag);
        seen.by.store(self.number + 1, SeqCst);
        let deleted = uses.iter().find(|(_, mode)| *mode == Delete).map(|(variable, _)| slot_of(*variable));
        if let Some((slot, generation)) = deleted {
            // The handle dies.
            let known = world.slots[slot as usize].generation.swap(0, Relaxed);
            assert_eq!(known, generation, "a variable is deleted twice");
        }
        self.deletes.set(deleted);
        let is_common = |used: &&(u32, Mode)| world.is_common(slot_of(used.0).0);
        let mut failed = false;
        loop {
            // What it links it looks for under the pin, and where it knows that the variables live:
            // a second look without these might find a variable that was opened meanwhile.
            let links = uses.iter().any(|used| is_common(&used));
            if links && !self.live(uses) {
                return self.refuse(block, number);
            }
            let (linked, owned): (Vec<_>, Vec<_>) = uses.iter().partition(|used| links && is_common(used));
            world.contents[number].set(1);
            // SAFETY: the block is ours, and no other thread knows it; blocks of models have room.
            unsafe {
                Block::renew(block, uses.len() as u32, false);
                (*block).sequence = number as u64;
                if !linked.is_empty() {
                    Links::renew(block, linked.len() as u32);
                }
                for (index, (variable, mode)) in (0..).zip(&linked) {
                    let access = Access::new(slot_of(*variable).0, index, *mode, UNSET);
                    Block::access(block, index).write(access);
                }
            }
            // SAFETY: as above.
            let mut push = unsafe { pusher.push(block, this, linked.len() as u32) };
            let refused = |(variable, mode): &(u32, Mode)| {
                let (slot, generation) = slot_of(*variable);
                !push.claim(slot, generation, *mode)
                    && !(self.adopts(slot, generation) && push.claim(slot, generation, *mode))
            };
            if let Some((wanted, mode)) = owned.iter().copied().find(refused) {
                drop(push);
                self.pin();
                let (slot, generation) = slot_of(wanted);
                match pusher.acquire((slot, generation), mode, failed, self) {
                    Acquired::Owned | Acquired::Common => continue,
                    Acquired::Gone => return self.refuse(block, number),
                    Acquired::UsedUp => unreachable!("a record is used up"),
                }
            }
            // SAFETY: all of it is written, and ours.
            self.last.set(unsafe { announce(block, tag) });
            if matches!(step, StopBefore(_)) {
                std::mem::forget(push);
                resume_unwind(Box::new(Stopped));
            }
            let committed = owned.is_empty() || push.commit();
            drop(push);
            if !committed {
                failed = true;
                continue;
            }
            MIXED.fetch_add(usize::from(!linked.is_empty() && !owned.is_empty()), SeqCst);
            if matches!(step, StopBehind(_)) {
                resume_unwind(Box::new(Stopped));
            }
            if let (Some((slot, _)), true) = (deleted, linked.is_empty()) {
                pusher.forget(slot);
            }
            self.finish_last();
            self.unpin();
            return true;
        }
    }

    /// Links and logs what it has pushed last.
    pub fn finish_last(&self) {
        let operation = self.last.get();
        let block = operation.block();
        // SAFETY: announced, and not finished by us; pinned since before it looked whether the
        // variables live.
        unsafe {
            let number = (*block).sequence as usize;
            if Block::is_linked(block) {
                enlist(block, &mut Linker(self));
            } else {
                self.log(operation);
            }
            self.world.seen[number].pushed.store(true, SeqCst);
        }
    }

    /// Whether the thread owns the variable and all pushed writes have ended.
    pub fn is_quiet(&self, variable: u32) -> Option<bool> {
        let (slot, generation) = slot_of(variable);
        // SAFETY: the only one at a time.
        unsafe { self.world.records[self.number].pusher() }.is_quiet(slot, generation, self)
    }

    /// Withdraws the operation: not even a push that has failed leaves it in its block.
    fn refuse(&self, block: *mut Block, number: usize) -> bool {
        // SAFETY: ours, and no other thread knows it.
        unsafe {
            let word = &*Block::word(block);
            word.store(Word::fresh(Word(word.load(Relaxed)).tag(), FREE).0, Relaxed);
            Block::renew(block, 0, false);
        }
        self.world.seen[number].refused.store(true, SeqCst);
        self.unpin();
        false
    }

    /// Runs everything that was logged.
    pub fn run_all(&self) {
        (0..self.world.logs.len()).for_each(|log| self.run(log));
    }

    fn run(&self, log: usize) {
        let entries = self.world.logs[log].iter().map(|entry| Word(entry.load(Acquire)));
        entries.take_while(|operation| *operation != Word::NONE).for_each(|operation| self.try_to_run(operation));
    }

    fn try_to_run(&self, operation: Word) {
        let Some(block) = take(operation) else { return };
        let world = &self.world;
        // SAFETY: taken, so ours.
        let mut ready = if unsafe { settle(block, self) } { vec![block] } else { Vec::new() };
        while let Some(block) = ready.pop() {
            // SAFETY: ready, and ours.
            unsafe {
                let (number, linked) = ((*block).sequence as usize, Block::is_linked(block));
                world.contents[number].get();
                let deleted = self.use_variables(block, number);
                if Block::is_voided(block) {
                    assert_eq!(world.seen[number].voided.fetch_add(1, SeqCst), 0, "an operation ended twice");
                    end_voided(block, self, |block| ready.push(block));
                } else {
                    assert_eq!(world.seen[number].ran.fetch_add(1, SeqCst), 0, "an operation ran twice");
                    end(block, self, |block| ready.push(block));
                }
                if linked {
                    ended(block, &mut Linker(self));
                }
                if let Some(slot) = deleted {
                    // Before it is noted: a thread that finds the note is ordered behind this one.
                    world.pass_the_gate();
                    world.slots[slot].retired.store(true, SeqCst);
                }
            }
        }
    }

    /// Uses what an operation has, or would have if it were not void elsewhere; says which slot it
    /// retires.
    unsafe fn use_variables(&self, block: *mut Block, number: usize) -> Option<usize> {
        let mut deleted = None;
        // SAFETY: ours.
        unsafe {
            for index in 0..(*block).count {
                let access = Block::access(block, index);
                if Block::is_voided(block) && Links::are_void(block, index) {
                    continue;
                }
                let variable = (*access).variable as usize;
                let slot = &self.world.slots[variable];
                let ticket = Ticket::of((*access).ticket.load(Relaxed));
                assert_eq!(slot.value.get() as u32, ticket.writes, "an operation ran too early");
                slot.ran.lock().unwrap().push((number, ticket));
                if (*access).mode() != Read {
                    slot.value.step();
                }
                if (*access).mode() == Delete {
                    if Block::is_linked(block) {
                        slot.common.close(block, &mut Linker(self));
                    }
                    deleted = Some(variable);
                }
            }
        }
        deleted
    }

    /// Opens a slot anew if its variable was deleted and no thread can hold its handle.
    pub fn reopen(&self, slot: u32) {
        let place = &self.world.slots[slot as usize];
        let nobody = || self.world.pins.as_ref().is_some_and(|pins| pins.fetch_add(0, AcqRel) == 0);
        if place.retired.load(SeqCst) && nobody() {
            place.retired.store(false, SeqCst);
            self.renew(slot);
        }
    }

    /// Opens it, also if threads are pinned.
    pub fn renew(&self, slot: u32) {
        let place = &self.world.slots[slot as usize];
        place.owner.renew();
        // SAFETY: if it was common, it is closed, and the threads pinned then have unpinned.
        unsafe { place.common.renew() };
        REOPENED.fetch_add(1, SeqCst);
        // Release: a thread that has a handle sees the slot as it is now.
        place.generation.store(2, Release);
    }

    /// Whether handles of these variables exist: each is the first in its slot, or the slot was
    /// opened anew for it.
    fn has_handles(&self, uses: Uses) -> bool {
        uses.iter().map(|(variable, _)| slot_of(*variable)).all(|(slot, generation)| {
            // Acquire: pairs with the release in `reopen`.
            generation == 1 || self.world.slots[slot as usize].generation.load(Acquire) == generation
        })
    }

    /// Does all this, unless it stops on the way.
    pub fn go(&self, steps: &[Step]) {
        // SAFETY: the only one at a time.
        let mut pusher = unsafe { self.world.records[self.number].pusher() };
        let all = || steps.iter().for_each(|step| self.step(&mut pusher, *step));
        if let Err(cause) = catch_unwind(AssertUnwindSafe(all)) {
            if !cause.is::<Stopped>() {
                resume_unwind(cause);
            }
        }
    }

    fn step(&self, pusher: &mut Pusher<'_>, step: Step) {
        let number = match step {
            Reopen(slot) => return self.reopen(slot),
            Push(number) | PushAndRun(number) | StopBefore(number) | StopBehind(number) => number,
            StopAt(number, looks) => {
                self.looks.set(Some(looks));
                number
            }
        };
        if !self.has_handles(self.world.uses[number]) {
            return;
        }
        self.push(pusher, step);
        self.looks.set(None);
        if matches!(step, PushAndRun(_)) {
            self.run_all();
        }
    }
}

/// Each row of steps is a thread's; the first is the main thread's.
pub struct Model {
    pub slots: usize,
    pub uses: &'static [Uses],
    /// Done one after the other, before the threads begin.
    pub first: &'static [(usize, Step)],
    pub threads: &'static [&'static [Step]],
    /// Whether threads pin: then blocks with links and slots are used again.
    pub pins: bool,
}

impl Model {
    /// Runs it once.
    pub fn run(&'static self) -> Arc<World> {
        let world = World::new(self.slots, self.threads.len(), self.pins, self.uses.to_vec());
        let threads: Vec<Thread> = (0..self.threads.len()).map(|number| world.thread(number)).collect();
        self.first.iter().for_each(|(thread, step)| threads[*thread].go(&[*step]));
        let mut threads = threads.into_iter();
        let mine = threads.next().unwrap();
        let others: Vec<_> = threads.map(|thread| spawn(move || thread.go(self.threads[thread.number]))).collect();
        mine.go(self.threads[0]);
        others.into_iter().for_each(|other| other.join().unwrap());
        world.check();
        world
    }

    #[cfg(loom)]
    pub fn explore(&'static self, name: &str, preemptions: usize, floor: usize) {
        crate::explore(&format!("mixed, {name}"), preemptions, floor, || drop(self.run()));
    }

    /// From one end only.
    #[cfg(loom)]
    pub fn explore_once(&'static self, name: &str, preemptions: usize, floor: usize) {
        crate::explore_once(&format!("mixed, {name}"), preemptions, floor, || drop(self.run()));
    }
}
