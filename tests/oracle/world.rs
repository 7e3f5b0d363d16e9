//! A program that runs: its variables, and what its operations note about them.

use crate::common::mix;
use crate::plan::{Mode, Plan};
use crate::program::Body;
use seriatim::{Engine, ErrorKind, Parameter, Variable};
use std::sync::atomic::{AtomicU64, AtomicU8, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, OnceLock};

/// What an operation noted about one variable.
#[derive(Clone, Copy, Debug)]
pub struct Note {
    /// How many operations had changed it, or had been skipped in place of that.
    pub turn: u64,
    pub hash: u64,
    /// What the engine said its version was; `None` if the variable was refused by then.
    pub version: Option<u64>,
}

/// Where an operation notes one variable.
#[derive(Default)]
pub struct Place {
    turn: AtomicU64,
    hash: AtomicU64,
    version: AtomicU64,
}

const NO_VERSION: u64 = u64::MAX;

/// A variable's contents. Nothing guards them but the engine's promise: plain loads and stores, and
/// a race is no undefined behaviour but a wrong result.
#[derive(Default)]
pub struct Cell {
    pub turn: AtomicU64,
    pub hash: AtomicU64,
    /// The writer inside, plus one.
    pub writer: AtomicU64,
}

/// The push was accepted.
pub const ACCEPTED: u8 = 1;
/// The push was refused because of a deleted variable.
pub const DELETED: u8 = 1 << 1;
/// The push was refused for want of room.
pub const FULL: u8 = 1 << 2;
/// The closure was called.
pub const CALLED: u8 = 1 << 3;
/// The closure was called, and what it started has ended.
pub const ENDED: u8 = 1 << 4;
/// The closure was dropped without having been called.
pub const DROPPED: u8 = 1 << 5;

/// A program that runs.
pub struct World {
    pub plan: Plan,
    pub engine: Engine,
    pub tokens: Vec<Variable>,
    pub cells: Vec<Cell>,
    pub outcomes: Vec<AtomicU8>,
    pub places: Vec<Place>,
    pub violations: Mutex<Vec<String>>,
    pub graphs: Vec<Captured>,
}

/// What the operations of a graph share while it is replayed.
pub struct Captured {
    /// The number of the replay, and the value that it is to find.
    pub parameters: OnceLock<(Parameter<usize>, Parameter<u64>)>,
    /// The numbers of the replays that were accepted, and how often each member was called.
    pub accepted: Vec<AtomicUsize>,
    pub calls: Vec<AtomicUsize>,
    /// Closures that have not been dropped.
    pub closures: AtomicUsize,
}

/// What a wait returned: the number of the node whose failure it took.
pub type Wait = Result<Option<usize>, ErrorKind>;

/// All that came of a run.
pub struct Outcome {
    pub world: Arc<World>,
    /// What each thread's waits returned, by step of its script.
    pub waits: Vec<Vec<(usize, Wait)>>,
    /// The wait for everything at the end, and a second one.
    pub last: [Wait; 2],
    /// The versions of the variables that live.
    pub versions: Vec<Option<u64>>,
}

impl World {
    pub fn outcome(&self, node: usize) -> u8 {
        self.outcomes[node].load(SeqCst)
    }

    pub fn notes(&self, node: usize) -> impl Iterator<Item = (usize, Mode, Note)> + '_ {
        let node = &self.plan.nodes[node];
        node.claims.iter().zip(&self.places[node.first..]).map(|((variable, mode), place)| {
            let version = place.version.load(Relaxed);
            let note = Note {
                turn: place.turn.load(Relaxed),
                hash: place.hash.load(Relaxed),
                version: (version != NO_VERSION).then_some(version),
            };
            (*variable, *mode, note)
        })
    }

    pub fn violations(&self) -> Vec<String> {
        self.violations.lock().unwrap().clone()
    }

    #[cold]
    pub fn violation(&self, what: String) {
        self.violations.lock().unwrap().push(what);
    }

    /// Notes what all variables of an operation show. It has them to itself now.
    pub fn note(&self, id: usize) {
        let node = &self.plan.nodes[id];
        for ((variable, mode), place) in node.claims.iter().zip(&self.places[node.first..]) {
            let cell = &self.cells[*variable];
            place.turn.store(cell.turn.load(Relaxed), Relaxed);
            place.hash.store(cell.hash.load(Relaxed), Relaxed);
            let version = self.engine.version(self.tokens[*variable]).unwrap_or(NO_VERSION);
            place.version.store(version, Relaxed);
            let writer = cell.writer.load(Relaxed);
            if writer != 0 {
                self.violation(format!("#{id} runs while #{} changes variable {variable}", writer - 1));
            }
            if *mode != Mode::Read {
                cell.writer.store(id as u64 + 1, Relaxed);
            }
        }
    }

    /// The first half of an operation's changes.
    pub fn start_changes(&self, id: usize) {
        for (variable, mode, note) in self.notes(id) {
            if mode == Mode::Write {
                self.cells[variable].hash.store(halfway(id, note.hash), Relaxed);
            }
        }
    }

    /// The other half, after which the operation may end; checks that nobody else has been at its
    /// variables.
    pub fn finish_changes(&self, id: usize, half_done: bool) {
        let body = self.plan.nodes[id].template.body;
        let seen = self.notes(id).fold(0, |seen, (_, _, note)| mix(seen ^ note.hash));
        for (variable, mode, note) in self.notes(id) {
            let cell = &self.cells[variable];
            let expected = if half_done && mode == Mode::Write { halfway(id, note.hash) } else { note.hash };
            let writer = if mode == Mode::Read { 0 } else { id as u64 + 1 };
            let now = [&cell.turn, &cell.hash, &cell.writer].map(|word| word.load(Relaxed));
            if now != [note.turn, expected, writer] {
                self.violation(format!("variable {variable} changed while #{id} had it: {now:?} after {note:?}"));
            }
            if mode == Mode::Write {
                cell.hash.store(result(id, body, note.hash, seen), Relaxed);
                cell.turn.store(note.turn + 1, Relaxed);
            }
            if mode != Mode::Read {
                cell.writer.store(0, Relaxed);
            }
        }
    }

    pub fn set(&self, id: usize, bits: u8) {
        let before = self.outcomes[id].fetch_or(bits, SeqCst);
        if before & bits != 0 {
            self.violation(format!("#{id} has had {bits:#b} twice"));
        }
    }
}

/// What a variable holds while an operation is half done.
pub fn halfway(id: usize, old: u64) -> u64 {
    mix(old ^ (id as u64).rotate_left(32))
}

/// What an operation leaves in a variable: depends on itself, on the old contents and on all that
/// it saw.
pub fn result(id: usize, body: Body, old: u64, seen: u64) -> u64 {
    match body {
        body if !body.changes() => old,
        Body::DropElsewhere => halfway(id, old),
        _ => mix(mix(old).wrapping_add(seen) ^ id as u64),
    }
}
