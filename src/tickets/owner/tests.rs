//! Tests of owners and newcomers on a real machine, with its asymmetric fences: each use of a
//! variable has a ticket of its own. `World` stands for `engine/ticket_host.rs`, and `push` for
//! `engine/push/enlist.rs`. Each thread of a test has a record; all note tickets, under locks.

use crate::operation::access::{Access, Mode, Ticket};
use crate::operation::block::Block;
use crate::operation::layout::size;
use crate::platform::asymmetric_fence;
use crate::tickets::owner::*;
use crate::tickets::run::{Progress, Start};
use crate::tickets::word::{PUSHED, UNUSED};
use crate::util::bucket_array::Location;
use std::alloc::{alloc, dealloc, Layout};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Mutex;

const THREADS: usize = 4;
const CLASS: u8 = 1;

struct Variable {
    progress: Progress,
    owner: Owner,
    /// Once the variable is common: its start, and where its tickets are now.
    common: Mutex<Option<(Start, Start)>>,
    /// The tickets that were given.
    tickets: Mutex<Vec<(Ticket, Mode)>>,
}

struct World {
    variables: Vec<Variable>,
    records: Vec<Record>,
}

impl World {
    fn new(count: u32) -> World {
        asymmetric_fence::prepare();
        let variable = |_| Variable {
            progress: Progress::new(),
            owner: Owner::new(),
            common: Mutex::default(),
            tickets: Mutex::default(),
        };
        World { variables: (0..count).map(variable).collect(), records: (0..THREADS as u32).map(Record::new).collect() }
    }
}

impl Variables for World {
    fn progress(&self, variable: u32) -> &Progress {
        &self.variables[variable as usize].progress
    }
}

impl Peers for World {
    fn owner(&self, variable: u32) -> &Owner {
        &self.variables[variable as usize].owner
    }

    fn lives(&self, _: u32, generation: u32) -> bool {
        generation == 1
    }

    fn record_if_any(&self, pusher: u32) -> Option<&Record> {
        self.records.get(pusher as usize)
    }

    fn pushers(&self) -> u32 {
        self.records.len() as u32
    }

    fn finish(&self, _: Word, _: bool) {}

    fn begin_common(&self, variable: u32, start: Start) {
        let mut common = self.variables[variable as usize].common.lock().unwrap();
        assert_eq!(common.get_or_insert((start, start)).0, start, "it begins twice");
    }
}

/// The block of a fresh operation, which is never run.
struct Fresh(*mut Block);

impl Fresh {
    fn layout() -> Layout {
        Layout::from_size_align(size(CLASS), align_of::<Block>()).unwrap()
    }

    fn new() -> Fresh {
        // SAFETY: fresh memory of the right size.
        unsafe {
            let block = alloc(Fresh::layout()).cast::<Block>();
            assert!(!block.is_null());
            Block::initialise(block, CLASS, UNUSED.0);
            Fresh(block)
        }
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // SAFETY: the block was allocated with this layout.
        unsafe { dealloc(self.0.cast(), Fresh::layout()) };
    }
}

/// Pushes a use of each of these variables, and notes the tickets. Only the owned variables have
/// accesses in the block.
fn push(world: &World, pusher: &mut Pusher<'_>, block: &Fresh, (tag, mode): (u64, Mode), variables: &[u32]) {
    let mut common: Vec<u32> = Vec::new();
    let this = Word::refers(block.0, tag);
    // SAFETY: the block is the caller's.
    unsafe { Block::renew(block.0, variables.len() as u32, true) };
    let mut failed = false;
    loop {
        let owned = variables.iter().filter(|variable| !common.contains(variable));
        // SAFETY: the block is as good as fresh: no other thread knows it.
        let mut push = unsafe { pusher.push(block.0, this, 0) };
        let refused = owned.clone().find(|variable| !push.claim(**variable, 1, mode)).copied();
        let count = owned.count() as u32;
        if let Some(variable) = refused {
            drop(push);
            match pusher.acquire((variable, 1), mode, failed, world) {
                Acquired::Owned => {}
                Acquired::Common => common.push(variable),
                other => panic!("{other:?}"),
            }
            continue;
        }
        // SAFETY: the block is the caller's.
        unsafe { (*Block::word(block.0)).store(Word::fresh(tag, PUSHED).0, Relaxed) };
        if count > 0 && !push.commit() {
            failed = true;
            continue;
        }
        for index in 0..count {
            // SAFETY: `claim` has written the access.
            let (variable, ticket) = unsafe {
                let access: *mut Access = Block::access(block.0, index);
                ((*access).variable, Ticket::of((*access).ticket.load(Relaxed)))
            };
            world.variables[variable as usize].tickets.lock().unwrap().push((ticket, mode));
        }
        for variable in common {
            let variable = &world.variables[variable as usize];
            let ticket = {
                let mut common = variable.common.lock().unwrap();
                let now = &mut common.as_mut().expect("it has begun").1.ticket;
                let ticket = *now;
                match mode {
                    Mode::Read => now.reads += 1,
                    _ => now.writes += 1,
                }
                ticket
            };
            variable.tickets.lock().unwrap().push((ticket, mode));
        }
        return;
    }
}

/// Has all threads pass over all variables, in part at once, mostly one after the other. One push
/// of each `writes` is a write, and the others are reads.
fn each_write_counts_all_before_it(count: u32, writes: u64) {
    let world = World::new(count);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let world = &world;
            scope.spawn(move || {
                let record = &world.records[thread];
                // SAFETY: it is the only pusher of the record.
                let mut pusher = unsafe { record.pusher() };
                let block = Fresh::new();
                let mut tag = 0;
                for first in 0..count - 3 {
                    for width in [1, 4, 2, 3] {
                        tag += 1;
                        // Each thread writes in other turns.
                        let turn = tag + thread as u64 * 5;
                        let mode = if turn % writes == 0 { Mode::Write } else { Mode::Read };
                        let variables: Vec<u32> = (first..first + width).collect();
                        push(world, &mut pusher, &block, (tag & 0xFFFF, mode), &variables);
                    }
                }
            });
        }
    });
    for variable in &world.variables {
        let tickets = variable.tickets.lock().unwrap();
        let of = |wanted: Mode| tickets.iter().filter(move |(_, mode)| *mode == wanted).map(|(ticket, _)| *ticket);
        let mut writes: Vec<Ticket> = of(Mode::Write).collect();
        writes.sort_unstable_by_key(|ticket| ticket.writes);
        for (number, write) in (0..).zip(&writes) {
            assert_eq!(write.writes, number, "two writes with one ticket: {writes:?}");
            let before = of(Mode::Read).filter(|read| read.writes <= number).count();
            assert_eq!(write.reads as usize, before, "reads before write {number}: {tickets:?}");
        }
        assert!(of(Mode::Read).all(|read| read.writes as usize <= writes.len()));
    }
}

#[test]
fn each_write_has_a_ticket_of_its_own() {
    each_write_counts_all_before_it(if cfg!(miri) { 12 } else { 4000 }, 1);
}

#[test]
fn a_write_counts_the_reads_of_all_pushers() {
    for writes in [2, 3, 7, 40] {
        each_write_counts_all_before_it(if cfg!(miri) { 8 } else { 1500 }, writes);
    }
}

/// A push from inside an operation asks for a variable that was deleted, and begins an era for it.
#[test]
fn a_push_that_was_decided_upon_is_not_withdrawn_in_a_later_era() {
    let world = World::new(2);
    let record = &world.records[0];
    // SAFETY: it is the only pusher of the record.
    let mut pusher = unsafe { record.pusher() };
    let block = Fresh::new();
    let this = Word::refers(block.0, 1);
    assert_eq!(pusher.acquire((0, 1), Mode::Write, false, &world), Acquired::Owned);
    let push = pusher.push_at_once();
    let progress = &world.variables[0].progress;
    assert!(push.claim((Location::of(0), 1), Mode::Write, this, |_| ((), progress)).is_some());
    assert!(record.close(1), "somebody wants it, and has not decided yet");
    let push = push.commit(this).expect("the era ends with this push");
    assert_eq!(pusher.acquire((1, 3), Mode::Write, false, &world), Acquired::Gone);
    assert!(!push.withdraw(), "others may count on it");
}
