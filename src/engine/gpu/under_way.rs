//! What a device keeps of the operations that are profiled and under way. `timing.rs` fills it, on
//! the worker that queues, and reads it, on the watcher. `devices.rs` has it.

use crate::device::timed_marks::TimedMarks;
use crate::sync::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// What a device keeps for operations that are profiled.
pub struct Timing {
    pub marks: TimedMarks,
    lines: Box<[Box<[NotePlace]>]>,
}

/// What is noted of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Note {
    /// The place of its event in the profiler.
    pub event: usize,
    /// When its closure was called.
    pub called: u64,
    /// Its pair of marks, if it has one.
    pub pair: Option<usize>,
}

/// A place for the note of an operation. The operation `2 * ahead` numbers later has it next.
///
/// All accesses are relaxed, since the numbers of the timeline order them:
///
/// - A note is written before it is read. The owner of the timeline writes it before it tells the
///   number, and the watcher reads the notes of numbers that it has acquired.
/// - A note is read before it is overwritten. The owner queues number `n + 2 * ahead` only when
///   `done`, which it acquires, is `n + ahead` at least. The watcher raises `done` by `ahead` at
///   most, so `done` was `n` at least before. And before it raises `done`, it reads the notes of
///   all numbers that `done` has passed.
#[derive(Default)]
struct NotePlace {
    number: AtomicU64,
    event: AtomicUsize,
    called: AtomicU64,
    /// From 1 on; 0 for none.
    pair: AtomicUsize,
}

impl Timing {
    /// For a device with so many timelines.
    pub fn new(lines: usize, ahead: u64) -> Timing {
        // At most `ahead` operations are not done, and at most as many are done and not yet read:
        // the watcher reads all that is done before it looks for more.
        let places = || (0..2 * ahead).map(|_| NotePlace::default()).collect();
        Timing { marks: TimedMarks::new(), lines: (0..lines).map(|_| places()).collect() }
    }

    fn place(&self, line: usize, number: u64) -> &NotePlace {
        let places = &self.lines[line];
        &places[(number % places.len() as u64) as usize]
    }

    /// Notes the operation of a number, which is told next. For the owner of the timeline.
    pub fn note(&self, line: usize, number: u64, note: Note) {
        let place = self.place(line, number);
        place.event.store(note.event, Relaxed);
        place.called.store(note.called, Relaxed);
        place.pair.store(note.pair.map_or(0, |pair| pair + 1), Relaxed);
        place.number.store(number, Relaxed);
    }

    /// What is noted of the operation of a number, if it is profiled. For the watcher, once the
    /// operation is done, and before it looks for more that is.
    pub fn noted(&self, line: usize, number: u64) -> Option<Note> {
        let place = self.place(line, number);
        (place.number.load(Relaxed) == number).then(|| Note {
            event: place.event.load(Relaxed),
            called: place.called.load(Relaxed),
            pair: place.pair.load(Relaxed).checked_sub(1),
        })
    }
}
