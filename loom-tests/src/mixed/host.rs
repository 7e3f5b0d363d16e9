//! How the tickets see a thread of a model.

use crate::mixed::Thread;
use atomic::Ordering::*;
#[cfg(loom)]
use loom::sync::atomic;
use seriatim::internals::block::Block;
use seriatim::internals::tickets::common::{Common, Commons};
use seriatim::internals::tickets::hazards::Hazards;
use seriatim::internals::tickets::linking::help;
use seriatim::internals::tickets::owner::{Owner, Peers, Record};
use seriatim::internals::tickets::run::{Progress, Start, Variables};
use seriatim::internals::tickets::word::Word;
#[cfg(shuttle)]
use shuttle::sync::atomic;

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
pub(super) struct Linker<'a>(pub(super) &'a Thread);

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
