//! What all threads of a model share, and what must hold of it at the end.

use crate::mixed::{slot_of, Seen, Slot, Thread, Uses, World, BLOCKS, LOG};
use crate::{Blocks, Guarded};
use atomic::{AtomicU32, AtomicU64, AtomicUsize as Gate, Ordering::*};
#[cfg(loom)]
use loom::sync::atomic;
use seriatim::internals::access::Mode::{self, Delete, Read};
use seriatim::internals::block::Block;
use seriatim::internals::tickets::common::Common;
use seriatim::internals::tickets::hazards::Hazards;
use seriatim::internals::tickets::owner::{Owner, Record};
use seriatim::internals::tickets::run::Progress;
use seriatim::internals::tickets::word::{Word, FREE};
#[cfg(shuttle)]
use shuttle::sync::atomic;
use std::cell::Cell;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

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
    pub(super) fn pass_the_gate(&self) {
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
