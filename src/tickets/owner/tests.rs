//! Owners beside newcomers on a real machine, with its fences: each use of a variable has a ticket
//! of its own.

use super::*;
use crate::fences;
use crate::operation::block::Block;
use crate::operation::layout::size;
use crate::tickets::run::{Progress, Start, Ticket};
use crate::tickets::word::PUSHED;
use crate::variable::access::{Access, Mode};
use std::alloc::{alloc, dealloc, Layout};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Mutex;

const THREADS: usize = 4;
const CLASS: u8 = 1;

struct Variable {
    progress: Progress,
    owner: Owner,
    /// Once it is common: where its count began, and where it stands.
    common: Mutex<Option<(Start, Start)>>,
    /// The tickets that were given for writes.
    tickets: Mutex<Vec<u32>>,
}

struct World {
    variables: Vec<Variable>,
    records: Vec<Record>,
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

    fn lives(&self, _: u32, _: u32) -> bool {
        true
    }

    fn record(&self, pusher: u32) -> &Record {
        &self.records[pusher as usize]
    }

    fn finish(&self, _: Word, _: bool) {}

    fn begin_common(&self, variable: u32, start: Start) {
        let mut common = self.variables[variable as usize].common.lock().unwrap();
        assert_eq!(common.get_or_insert((start, start)).0, start, "it begins twice");
    }
}

/// A fresh operation's block. Nothing runs.
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
            Block::initialise(block, CLASS);
            Fresh(block)
        }
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.0.cast(), Fresh::layout()) };
    }
}

/// Pushes a write of each of these variables, and notes the tickets. Owned variables only in front.
fn push(world: &World, pusher: &mut Pusher<'_>, block: &Fresh, tag: u64, variables: &[u32]) {
    let mut common: Vec<u32> = Vec::new();
    let this = Word::refers(block.0, tag);
    // SAFETY: ours.
    unsafe { Block::renew(block.0, variables.len() as u32, true) };
    let mut failed = false;
    loop {
        let owned = variables.iter().filter(|variable| !common.contains(variable));
        // SAFETY: fresh for all that anybody knows.
        let mut push = unsafe { pusher.push(block.0, this, 0) };
        let refused = owned.clone().find(|variable| !push.claim(**variable, 1, Mode::Write)).copied();
        let count = owned.count() as u32;
        if let Some(variable) = refused {
            drop(push);
            match pusher.acquire(variable, 1, failed, world) {
                Acquired::Owned => {}
                Acquired::Common => common.push(variable),
                other => panic!("{other:?}"),
            }
            continue;
        }
        // SAFETY: ours.
        unsafe { (*Block::word(block.0)).store(Word::fresh(tag, PUSHED).0, Relaxed) };
        if count > 0 && !push.commit() {
            failed = true;
            continue;
        }
        for index in 0..count {
            // SAFETY: written by `claim`.
            let (variable, ticket) = unsafe {
                let access: *mut Access = Block::access(block.0, index);
                ((*access).variable, Ticket::of((*access).ticket.load(Relaxed)))
            };
            world.variables[variable as usize].tickets.lock().unwrap().push(ticket.writes);
        }
        for variable in common {
            let variable = &world.variables[variable as usize];
            let ticket = {
                let mut common = variable.common.lock().unwrap();
                let now = &mut common.as_mut().expect("it has begun").1;
                now.ticket.writes += 1;
                now.ticket.writes - 1
            };
            variable.tickets.lock().unwrap().push(ticket);
        }
        return;
    }
}

#[test]
fn each_use_has_a_ticket_of_its_own() {
    fences::prepare();
    let count: u32 = if cfg!(miri) { 12 } else { 4000 };
    let variable = |_| Variable {
        progress: Progress::new(),
        owner: Owner::new(),
        common: Mutex::default(),
        tickets: Mutex::default(),
    };
    let world = World {
        variables: (0..count).map(variable).collect(),
        records: (0..THREADS as u32).map(Record::new).collect(),
    };
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let world = &world;
            scope.spawn(move || {
                let record = &world.records[thread];
                // SAFETY: the only one.
                let mut pusher = unsafe { record.pusher() };
                let block = Fresh::new();
                let mut tag = 0;
                // All threads pass all variables: some at once, most one after the other.
                for first in 0..count - 3 {
                    for width in [1, 4, 2, 3] {
                        tag += 1;
                        let variables: Vec<u32> = (first..first + width).collect();
                        push(world, &mut pusher, &block, tag & 0xFFFF, &variables);
                    }
                }
            });
        }
    });
    for variable in &world.variables {
        let mut tickets = variable.tickets.lock().unwrap();
        tickets.sort_unstable();
        assert!(tickets.iter().zip(0..).all(|(ticket, number)| *ticket == number), "{tickets:?}");
    }
}
