//! A thread of a model: it pushes, runs what was logged, and opens slots anew.

use crate::mixed::host::Linker;
use crate::mixed::Step::*;
use crate::mixed::{slot_of, Slot, Step, Stopped, Thread, Uses, BLOCKS, MIXED, REOPENED, REUSED, UNSET};
use atomic::Ordering::*;
#[cfg(loom)]
use loom::sync::atomic;
use seriatim::internals::access::Access;
use seriatim::internals::access::Mode::{self, Delete, Read};
use seriatim::internals::access::Ticket;
use seriatim::internals::block::Block;
use seriatim::internals::tickets::linking::{announce, ended, enlist};
use seriatim::internals::tickets::links::Links;
use seriatim::internals::tickets::owner::{Acquired, Peers, Pusher};
use seriatim::internals::tickets::run::{end, end_voided, settle, take};
use seriatim::internals::tickets::word::{Word, FREE};
#[cfg(shuttle)]
use shuttle::sync::atomic;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};

impl Thread {
    /// A place where it may stop.
    pub(super) fn look(&self) {
        if let Some(left) = self.looks.get() {
            if left == 0 {
                self.looks.set(None);
                resume_unwind(Box::new(Stopped));
            }
            self.looks.set(Some(left - 1));
        }
    }

    pub(super) fn log(&self, operation: Word) {
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

    pub(super) fn run(&self, log: usize) {
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
