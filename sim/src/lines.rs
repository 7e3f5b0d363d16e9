//! The model of the caches: which cores have which line, which of them wait for it, and how long.
//! The machine (`machine.rs`) asks it at every access.
//!
//! Every core has an unbounded cache, in which a line is in one of three states: owned (no other
//! core has it, and it may be written), shared (it may be read), or absent. A core that has what it
//! needs goes on after a hit. A core that lacks it waits for a trip between cores. Trips that
//! change the owner of a line follow each other; copies of a line that no core owns are handed out
//! side by side. A line that no core has touched yet costs a hit: memory is not modelled.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// The most cores of a machine.
pub const CORES: usize = 128;
const NOBODY: u8 = u8::MAX;

/// The parameters of the machine. Times are in nanoseconds.
#[derive(Clone, Debug)]
pub struct Parameters {
    /// An access to a line that the core has.
    pub hit: u64,
    /// What a read-modify-write takes on top of its access.
    pub locked: u64,
    /// A sequentially consistent fence.
    pub fence: u64,
    /// The trip of a line from one core to another, of the same socket.
    pub hop: u64,
    /// The trip of a line between sockets.
    pub far_hop: u64,
    /// The cores of a socket: core *i* is on socket *i / socket*. 0 means that there is only one
    /// socket.
    pub socket: usize,
    /// Whether waits for lines overlap as on a core of today: plain stores do not wait (only
    /// read-modify-writes and fences wait for them), and the lines of one row of plain data come
    /// together.
    pub overlap: bool,
    /// A turn of a loop that waits (`pause`).
    pub pause: u64,
    /// A call of `yield_now`, if no other thread wants the core.
    pub yielding: u64,
    /// A reading of the clock.
    pub clock: u64,
    /// What going to sleep takes.
    pub sleep: u64,
    /// The time from a wake-up to the sleeper's next step.
    pub wake: u64,
    /// What a wake-up takes from its caller.
    pub waking: u64,
    /// The time from the start of a thread to its first step. The starting thread is charged half
    /// of it.
    pub spawn: u64,
    /// Decides which core goes first among cores at the same time. 0: the lowest number.
    pub seed: u64,
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters {
            hit: 1,
            locked: 5,
            fence: 5,
            hop: 100,
            far_hop: 300,
            socket: 0,
            overlap: false,
            pause: 20,
            yielding: 300,
            clock: 25,
            sleep: 1000,
            wake: 5000,
            waking: 1000,
            spawn: 20_000,
            seed: 0,
        }
    }
}

impl Parameters {
    /// Returns how long a line is under way.
    fn way(&self, from: usize, to: usize) -> u64 {
        if self.socket == 0 || from / self.socket == to / self.socket {
            self.hop
        } else {
            self.far_hop
        }
    }

    fn farthest(&self, cores: u128, to: usize) -> u64 {
        let near = if self.socket == 0 { u128::MAX } else { socket_mask(self.socket, to) };
        if cores & !near == 0 {
            self.hop
        } else {
            self.far_hop
        }
    }

    fn nearest(&self, cores: u128, to: usize) -> u64 {
        let near = if self.socket == 0 { u128::MAX } else { socket_mask(self.socket, to) };
        if cores & near == 0 {
            self.far_hop
        } else {
            self.hop
        }
    }
}

fn socket_mask(socket: usize, core: usize) -> u128 {
    let ones = if socket >= CORES { u128::MAX } else { (1 << socket) - 1 };
    ones.checked_shl((core / socket * socket) as u32).unwrap_or(0)
}

/// A fast hash for addresses (Fibonacci, Knuth vol. 3, 6.4).
#[derive(Default)]
pub struct Quick(u64);

impl Hasher for Quick {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }
    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    }
    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }
    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }
}

/// A map that hashes quickly, and the same in every run.
pub type Map<K, V> = HashMap<K, V, BuildHasherDefault<Quick>>;

#[derive(Clone, Copy)]
struct Line {
    /// The set of cores that have it.
    holders: u128,
    /// The core that may write it, or `NOBODY`.
    owner: u8,
    /// When its last change of owner is over.
    free_at: u64,
    /// When it comes to its owner, if the owner has only asked for it.
    arrives: u64,
}

/// How a core came by a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trip {
    /// When the core has the line.
    pub until: u64,
    /// Whether the core had a copy, and only the other copies had to go.
    pub upgrade: bool,
}

/// All lines.
#[derive(Default)]
pub struct Lines(Map<usize, Line>);

impl Lines {
    /// Returns whether the core can read, or write, the line without a trip. A line that no core
    /// has had is owned by this one from now on.
    #[inline]
    pub fn hits(&mut self, core: usize, line: usize, writes: bool) -> bool {
        let bit = 1 << core;
        let line = self.0.entry(line).or_insert(Line { holders: bit, owner: core as u8, free_at: 0, arrives: 0 });
        if !writes {
            return line.holders & bit != 0;
        }
        if line.holders == bit {
            line.owner = core as u8;
        }
        line.owner == core as u8
    }

    /// Notes that the core that has just fetched a line does not wait for it.
    pub fn ask(&mut self, line: usize, until: u64) {
        if let Some(line) = self.0.get_mut(&line) {
            line.arrives = until;
        }
    }

    /// Returns when a line comes for which its owner has only asked; 0 if it has not.
    #[inline]
    pub fn arrives(&self, line: usize) -> u64 {
        self.0.get(&line).map_or(0, |line| line.arrives)
    }

    /// Brings a line that the core lacks, from the time `now` on.
    pub fn fetch(&mut self, core: usize, line: usize, writes: bool, now: u64, parameters: &Parameters) -> Trip {
        let bit = 1 << core;
        let Some(line) = self.0.get_mut(&line) else { return Trip { until: now, upgrade: false } };
        line.arrives = 0;
        let start = now.max(line.free_at);
        let upgrade = line.holders & bit != 0;
        let others = line.holders & !bit;
        let until = start
            + match (writes, line.owner) {
                (_, owner) if owner != NOBODY => parameters.way(usize::from(owner), core),
                (true, _) => parameters.farthest(others, core),
                (false, _) => parameters.nearest(others, core),
            };
        if writes {
            (line.owner, line.holders, line.free_at) = (core as u8, bit, until);
        } else {
            if line.owner != NOBODY {
                (line.owner, line.free_at) = (NOBODY, until);
            }
            line.holders |= bit;
        }
        Trip { until, upgrade }
    }
}
