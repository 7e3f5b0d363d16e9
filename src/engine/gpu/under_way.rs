//! What a device keeps of the operations that are profiled and under way. `timing.rs` fills it, on
//! the worker that queues, and reads it, on the watcher. `devices.rs` has it.

use crate::device::timed_marks::TimedMarks;
use crate::sync::{AtomicU64, AtomicUsize};

/// What a device keeps for operations that are profiled.
pub struct Timing {
    pub marks: TimedMarks,
    lines: Box<[Box<[Note]>]>,
}

/// An operation that is under way. The owner of the timeline writes it before it tells the number.
/// The watcher reads it after it has read the number.
#[derive(Default)]
pub struct Note {
    /// Its number.
    pub number: AtomicU64,
    /// The place of its event in the profiler.
    pub event: AtomicUsize,
    /// When its closure was called.
    pub called: AtomicU64,
    /// The number of its pair of marks, from 1 on; 0 for none.
    pub pair: AtomicUsize,
}

impl Timing {
    /// For a device with so many timelines.
    pub fn new(lines: usize, ahead: u64) -> Timing {
        // At most `ahead` operations are not done, and at most as many are done and not yet read:
        // the watcher reads all that is done before it looks for more.
        let notes = || (0..2 * ahead).map(|_| Note::default()).collect();
        Timing { marks: TimedMarks::new(), lines: (0..lines).map(|_| notes()).collect() }
    }

    pub fn note(&self, line: usize, number: u64) -> &Note {
        let notes = &self.lines[line];
        &notes[(number % notes.len() as u64) as usize]
    }
}
