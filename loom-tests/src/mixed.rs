//! Pushers of operations that have owned and common variables, which are deleted and whose slots
//! are used again; some pushers stop for good, anywhere.

mod host;
mod model;
mod thread;
mod world;

pub use model::Model;

use crate::{Blocks, Guarded};
use atomic::{AtomicU32, AtomicU64, AtomicUsize as Gate};
#[cfg(loom)]
use loom::sync::atomic;
use seriatim::internals::access::Mode;
use seriatim::internals::access::Ticket;
use seriatim::internals::tickets::common::Common;
use seriatim::internals::tickets::hazards::Hazards;
use seriatim::internals::tickets::owner::{Owner, Record};
use seriatim::internals::tickets::run::Progress;
use seriatim::internals::tickets::word::Word;
#[cfg(shuttle)]
use shuttle::sync::atomic;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize};
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
