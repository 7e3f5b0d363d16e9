//! Timelines of a device: what a mark is said to cover it covers, whatever other threads record on
//! the same stream and the same mark; what a stream is said to have waited for it has waited for;
//! and what is said to be done is done. And the tickets of variables, which are there at any time;
//! timed and spare marks, which have one user at a time; the notes of what is under way; and the
//! two ends of an operation that has to be called.

#![cfg(loom)]

use loom::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use loom::sync::Mutex;
use loom_tests::{explore, spawn, Guarded};
use seriatim::gpu::{Backend, Class, DeviceClock, DriverError, Previous, RawMark, RawStream};
use seriatim::internals::rows::Rows;
use seriatim::internals::spare_marks::SpareMarks;
use seriatim::internals::stage::Stage;
use seriatim::internals::timed_marks::TimedMarks;
use seriatim::internals::timeline::{DeviceTicket, Timeline};
use seriatim::internals::under_way::{Note, Timing};
use std::cell::Cell;
use std::ptr::without_provenance_mut;
use std::sync::Arc;

const STREAMS: usize = 3;
/// The marks of a timeline in the models (`src/device/timeline.rs`).
const MARKS: usize = 2;

/// For each stream up to which operation something comes after it.
type Reach = [u64; STREAMS];

/// Devices that only keep count: what each stream will have come after, and where each mark is.
struct Counts(Mutex<State>, Time);

/// Whether devices take time. Those that take none have no lock either, which would order threads.
#[derive(PartialEq, Eq)]
enum Time {
    Some,
    None,
}

#[derive(Default)]
struct State {
    streams: [Reach; STREAMS],
    marks: Vec<Reach>,
    /// When each mark was recorded last, by the count of recordings.
    noted: Vec<i64>,
    recorded: i64,
    /// Up to which operation of each stream the device has come.
    done: Reach,
    /// At the end of the next recording other threads go on.
    is_slow: bool,
}

fn join(into: &mut Reach, other: &Reach) {
    into.iter_mut().zip(other).for_each(|(own, other)| *own = (*own).max(*other));
}

fn number(raw: *mut std::ffi::c_void) -> usize {
    raw.addr() - 1
}

impl Counts {
    /// Queues an operation on a stream, for its owner.
    fn queue(&self, stream: usize) {
        self.0.lock().unwrap().streams[stream][stream] += 1;
    }

    /// What will be done, or is, when something that is queued on this stream now begins.
    fn has_waited(&self, stream: usize) -> Reach {
        let state = self.0.lock().unwrap();
        let mut reach = state.streams[stream];
        join(&mut reach, &state.done);
        reach
    }
}

// SAFETY: it counts, and runs nothing.
unsafe impl Backend for Counts {
    fn name(&self) -> &str {
        "counts"
    }
    fn devices(&self) -> Result<usize, DriverError> {
        Ok(1)
    }
    fn enter(&self, _: usize) -> Result<Previous, DriverError> {
        Ok(Previous::new(std::ptr::null_mut()))
    }
    unsafe fn leave(&self, _: Previous) {}
    fn stream(&self, _: usize, _: Class) -> Result<RawStream, DriverError> {
        unreachable!("the models make their own")
    }
    fn mark(&self, _: usize) -> Result<RawMark, DriverError> {
        let mut state = self.0.lock().unwrap();
        state.marks.push([0; STREAMS]);
        state.noted.push(0);
        Ok(RawMark::new(without_provenance_mut(state.marks.len())))
    }
    unsafe fn record(&self, mark: RawMark, stream: RawStream) -> Result<(), DriverError> {
        if self.1 == Time::None {
            return Ok(());
        }
        let mut state = self.0.lock().unwrap();
        state.marks[number(mark.raw())] = state.streams[number(stream.raw())];
        state.recorded += 1;
        state.noted[number(mark.raw())] = state.recorded;
        if std::mem::take(&mut state.is_slow) {
            drop(state);
            // Loom does not think of it: the owner's own look at its number hides that of others.
            loom::thread::yield_now();
        }
        Ok(())
    }
    unsafe fn wait(&self, stream: RawStream, mark: RawMark) -> Result<(), DriverError> {
        let mut state = self.0.lock().unwrap();
        let reach = state.marks[number(mark.raw())];
        join(&mut state.streams[number(stream.raw())], &reach);
        Ok(())
    }
    unsafe fn reached(&self, mark: RawMark) -> Result<bool, DriverError> {
        if self.1 == Time::None {
            return Ok(true);
        }
        let state = self.0.lock().unwrap();
        let reach = state.marks[number(mark.raw())];
        Ok(reach.iter().zip(state.done).all(|(reach, done)| *reach <= done))
    }
    unsafe fn finish(&self, _: RawStream) -> Result<(), DriverError> {
        unreachable!("nobody waits")
    }
    unsafe fn drop_stream(&self, _: RawStream) {}
    unsafe fn drop_mark(&self, _: RawMark) {}
    fn clock(&self) -> Option<&dyn DeviceClock> {
        Some(self)
    }
}

// SAFETY: its marks are those of `mark`.
unsafe impl DeviceClock for Counts {
    fn timed_mark(&self, device: usize) -> Result<RawMark, DriverError> {
        self.mark(device)
    }
    unsafe fn elapsed(&self, from: RawMark, to: RawMark) -> Result<i64, DriverError> {
        let state = self.0.lock().unwrap();
        Ok(state.noted[number(to.raw())] - state.noted[number(from.raw())])
    }
}

struct Model {
    counts: Counts,
    lines: Vec<Timeline>,
}

impl Model {
    fn new() -> Arc<Model> {
        Model::with(Time::Some)
    }

    fn with(time: Time) -> Arc<Model> {
        let counts = Counts(Mutex::new(State::default()), time);
        let stream = |local: usize| RawStream::new(without_provenance_mut(local + 1));
        let line = |local| Timeline::new(&counts, 0, (local, STREAMS), stream(local), 0).expect("marks are there");
        let lines = (0..STREAMS).map(line).collect();
        Arc::new(Model { lines, counts })
    }

    /// For the owner of a timeline.
    fn queue(&self, local: usize) -> u64 {
        self.counts.queue(local);
        self.lines[local].tell()
    }

    /// Has a timeline come after all that another one has told; for the owner of the first.
    fn follow(&self, local: usize, other: usize) {
        let told = self.lines[other].queued();
        if told > 0 {
            self.lines[local].follow(&self.counts, &self.lines[other], told).expect("no call fails");
            let waited = self.counts.has_waited(local)[other];
            assert!(waited >= told, "waits for {waited} of {other}, which has told {told}");
        }
    }
}

#[test]
fn what_a_mark_is_said_to_cover_it_covers() {
    explore("timelines, a follower of one that goes on", 6, 100, || {
        let model = Model::new();
        let owner = model.clone();
        let queues = spawn(move || (0..2).for_each(|_| _ = owner.queue(0)));
        (0..2).for_each(|_| model.follow(1, 0));
        queues.join().unwrap();
        // Learns of what it has not waited for, or waits.
        model.follow(1, 0);
    });
}

#[test]
fn a_mark_may_be_recorded_again_while_another_waits_for_it() {
    explore("timelines, two followers of one that goes on", 3, 100, || {
        let model = Model::new();
        let owner = model.clone();
        let queues = spawn(move || (0..2).for_each(|_| _ = owner.queue(0)));
        let follower = model.clone();
        let follows = spawn(move || (0..2).for_each(|_| follower.follow(1, 0)));
        (0..2).for_each(|_| model.follow(2, 0));
        queues.join().unwrap();
        follows.join().unwrap();
        model.follow(1, 0);
        model.follow(2, 0);
    });
}

#[test]
fn what_is_learned_along_with_a_mark_is_so() {
    explore("timelines, knowledge along with a mark", 6, 100, || {
        let model = Model::new();
        model.queue(0);
        let second = model.clone();
        let goes_on = spawn(move || {
            second.queue(1);
            second.follow(1, 0);
        });
        model.follow(2, 1);
        model.follow(2, 0);
        goes_on.join().unwrap();
        model.follow(2, 0);
    });
}

#[test]
fn what_is_said_to_be_done_is_done() {
    explore("timelines, a watcher beside a follower", 3, 100, || {
        let model = Model::new();
        let owner = model.clone();
        let queues = spawn(move || {
            for _ in 0..2 {
                owner.queue(0);
                let mut state = owner.counts.0.lock().unwrap();
                // The device is one behind.
                state.done[0] = state.streams[0][0] - 1;
            }
        });
        let follower = model.clone();
        let follows = spawn(move || follower.follow(1, 0));
        for _ in 0..3 {
            model.lines[0].poll(&model.counts).expect("no call fails");
            let (said, done) = (model.lines[0].done(), model.counts.0.lock().unwrap().done[0]);
            assert!(said <= done, "{said} are said to be done, and {done} are");
        }
        queues.join().unwrap();
        follows.join().unwrap();
    });
}

/// One thread records a mark while the owner goes on, and only then does a stream wait for that.
#[test]
fn a_mark_claims_nothing_that_was_queued_beside_its_recording() {
    explore("timelines, a slow recording beside the owner", 6, 10, || {
        let model = Model::new();
        model.counts.0.lock().unwrap().is_slow = true;
        model.queue(0);
        let owner = model.clone();
        let queues = spawn(move || _ = owner.queue(0));
        model.lines[0].mark_last(&model.counts).expect("no call fails");
        queues.join().unwrap();
        model.follow(1, 0);
    });
}

/// Two workers queue on one timeline, each as its owner for an operation.
#[test]
fn who_owns_a_timeline_next_goes_on_where_the_last_owner_ended() {
    explore("timelines, two owners in turn", 6, 10, || {
        let model = Model::new();
        let queue = |model: &Model| {
            let line = &model.lines[0];
            // No lock beside it: what the last owner told is seen by the order of the owners alone.
            let told = line.own().then(|| line.tell());
            told.inspect(|_| line.disown())
        };
        let second = model.clone();
        let queues = spawn(move || queue(&second));
        let (one, other) = (queue(&model), queues.join().unwrap());
        assert!(one.is_none() || one != other, "two operations have the number {one:?}");
        let count = one.into_iter().chain(other).count() as u64;
        assert_eq!(model.lines[0].queued(), count);
    });
}

/// The owner records marks until the ring has come round, while another thread has just asked for
/// one of them. What that thread takes from the mark is what was told before it asked.
fn goes_round(model: &Model) {
    for _ in 0..=MARKS {
        model.queue(0);
        model.lines[0].mark_last(&model.counts).expect("no call fails");
    }
}

#[test]
fn a_mark_that_comes_round_tells_a_follower_nothing_that_it_has_not_waited_for() {
    explore("timelines, a follower while the ring comes round", 3, 100, || {
        let model = Model::new();
        model.queue(0);
        model.lines[0].mark_last(&model.counts).expect("no call fails");
        let owner = model.clone();
        let records = spawn(move || goes_round(&owner));
        model.follow(1, 0);
        records.join().unwrap();
        model.follow(1, 0);
    });
}

#[test]
fn a_mark_that_comes_round_tells_a_watcher_nothing_that_is_not_done() {
    explore("timelines, a watcher while the ring comes round", 3, 100, || {
        let model = Model::new();
        model.queue(0);
        model.lines[0].mark_last(&model.counts).expect("no call fails");
        // The device does this one operation, and no more.
        model.counts.0.lock().unwrap().done[0] = 1;
        let owner = model.clone();
        let records = spawn(move || goes_round(&owner));
        model.lines[0].poll(&model.counts).expect("no call fails");
        let done = model.lines[0].done();
        assert!(done <= 1, "{done} are said to be done, and 1 is");
        records.join().unwrap();
    });
}

#[test]
fn a_variable_that_a_device_has_written_has_a_ticket_at_any_time() {
    explore("tickets, a thread that waits beside a write", 6, 4, || {
        let rows = Arc::new(Rows::new(2));
        rows.get_or_add(0).leave_write(DeviceTicket::new(0, 1));
        let of_writer = rows.clone();
        let writes = spawn(move || of_writer.get_or_add(0).leave_write(DeviceTicket::new(1, 1)));
        let found = rows.get(0).and_then(|row| row.write());
        assert!(found.is_some(), "a wait for the first write would be over too early");
        writes.join().unwrap();
    });
}

fn stream(local: usize) -> RawStream {
    RawStream::new(without_provenance_mut(local + 1))
}

/// One worker has taken the only pair; the watcher reads it while another worker wants one.
#[test]
fn a_pair_of_timed_marks_is_read_before_another_takes_it() {
    explore("timed marks, a worker beside the watcher", 6, 8, || {
        let (counts, timed) = (Arc::new(Counts(Mutex::new(State::default()), Time::Some)), Arc::new(TimedMarks::new()));
        let reference = counts.mark(0).expect("marks are there");
        // SAFETY: `counts` has made it.
        unsafe { counts.record(reference, stream(2)) }.expect("no call fails");
        let pair = timed.begin(&*counts, 0, stream(0)).expect("it is free");
        timed.end(&*counts, pair, stream(0)).expect("no call fails");
        let (of_worker, other) = (counts.clone(), timed.clone());
        let takes = spawn(move || {
            if let Some(pair) = other.begin(&*of_worker, 0, stream(1)) {
                other.end(&*of_worker, pair, stream(1)).expect("no call fails");
            }
        });
        // SAFETY: as above.
        let read = unsafe { timed.read(&*counts, pair, reference) };
        assert_eq!(read, Some((1, 1)), "the times of another operation");
        takes.join().unwrap();
    });
}

#[test]
fn a_pair_of_timed_marks_is_taken_by_one() {
    explore("timed marks, two workers that take one pair", 6, 4, || {
        let (counts, timed) = (Arc::new(Counts(Mutex::new(State::default()), Time::Some)), Arc::new(TimedMarks::new()));
        let (of_worker, other) = (counts.clone(), timed.clone());
        let takes = spawn(move || other.begin(&*of_worker, 0, stream(1)).is_some());
        let has = timed.begin(&*counts, 0, stream(0)).is_some();
        assert!(has ^ takes.join().unwrap(), "the pair is taken twice, or by nobody");
    });
}

/// Two threads and a watcher share the spare marks of a device: no mark is lent to two at once, and
/// each operation is taken once, when its mark has been recorded.
#[test]
fn a_spare_mark_is_lent_to_one_and_what_is_due_is_taken_once() {
    explore("spare marks, two threads that owe and a watcher", 2, 100, || {
        let marks = Arc::new(SpareMarks::new());
        // The operation that each mark is behind. The owner of the mark writes it.
        let recorded = [Guarded::new(), Guarded::new()];
        let made = Arc::new(AtomicUsize::new(0));
        let owe = |operation: usize| {
            let (marks, recorded, made) = (marks.clone(), recorded.clone(), made.clone());
            spawn(move || {
                let make = || Ok(RawMark::new(without_provenance_mut(made.fetch_add(1, Relaxed) + 1)));
                let lent = marks.lend(make).expect("no call fails");
                recorded[number(lent.mark.raw())].set(operation);
                marks.owe(lent, operation);
            })
        };
        let threads = [owe(1), owe(2)];
        let mut taken = [0; 3];
        let mut look = || {
            let behind = Cell::new(0);
            let is_over = |mark: RawMark| {
                behind.set(recorded[number(mark.raw())].get());
                Ok(true)
            };
            let take = |operation: usize| {
                assert_eq!(operation, behind.get(), "it is due at another mark");
                taken[operation] += 1;
            };
            marks.take_due(is_over, take).expect("no call fails");
        };
        look();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        look();
        assert!(!marks.is_any_due());
        assert_eq!(taken, [0, 1, 1]);
    });
}

/// The owner of a timeline notes each operation, and is as far ahead as it may be. The watcher
/// reads the notes of what is done, and finds all of them as they were written.
#[test]
fn what_is_noted_of_an_operation_is_read_before_its_place_is_used_again() {
    const AHEAD: u64 = 1;
    let noted = |number: u64| Note { event: number as usize, called: 10 * number, pair: Some(100 + number as usize) };
    explore("notes of what is under way", 3, 30, move || {
        let (model, timing) = (Model::with(Time::None), Arc::new(Timing::new(1, AHEAD)));
        let (owner, notes) = (model.clone(), timing.clone());
        let queues = spawn(move || {
            let line = &owner.lines[0];
            for _ in 0..4 {
                // As `Gpu::own` has it.
                if line.under_way() < AHEAD {
                    let number = line.queued() + 1;
                    notes.note(0, number, noted(number));
                    // The watcher puts the marks there: this number alone leads it to the note.
                    line.tell();
                }
                // Loom does not think of it: the owner's next look hides what the watcher sees.
                loom::thread::yield_now();
            }
        });
        let mut read = 0;
        let mut look = || {
            model.lines[0].poll(&model.counts).expect("no call fails");
            for number in read + 1..=model.lines[0].done() {
                assert_eq!(timing.noted(0, number), Some(noted(number)), "a note is lost");
                read = number;
            }
        };
        // One look puts a mark there, and the next one asks for it.
        (0..4).for_each(|_| look());
        queues.join().unwrap();
        (0..2).for_each(|_| look());
    });
}

/// The first number of a timeline leads the watcher to its note, by way of the watcher's own mark.
#[test]
fn a_number_that_is_told_leads_to_what_is_noted_of_it() {
    const NOTE: Note = Note { event: 7, called: 8, pair: None };
    explore("notes, a number is told", 6, 10, || {
        let (model, timing) = (Model::with(Time::None), Arc::new(Timing::new(1, 1)));
        let (watched, notes) = (model.clone(), timing.clone());
        // A thread that has not seen the place empty: loom would not show it that once more.
        let watcher = spawn(move || {
            // One look puts a mark there, and the next one asks for it.
            (0..2).for_each(|_| _ = watched.lines[0].poll(&watched.counts).expect("no call fails"));
            if watched.lines[0].done() == 1 {
                assert_eq!(notes.noted(0, 1), Some(NOTE), "a note is lost");
            }
        });
        timing.note(0, 1, NOTE);
        model.lines[0].tell();
        watcher.join().unwrap();
    });
}

/// The closure of an operation that has to be called is dropped while the operation is being
/// pushed, since the engine is told of a stop: one end finds that out, and knows of the stop.
#[test]
fn of_a_pusher_and_a_closure_that_is_dropped_one_finds_out_and_knows_why() {
    explore("two ends of an operation that has to be called", 4, 10, || {
        let (stage, stops) = (Arc::new(Stage::new()), Arc::new(AtomicUsize::new(0)));
        let told = stops.clone();
        let stop = spawn(move || told.store(1, Relaxed));
        let (dropped, state) = (stage.clone(), stops.clone());
        let worker = spawn(move || {
            let knew = state.load(Relaxed);
            (knew, dropped.dropped())
        });
        let found = stage.pushed();
        let knows = stops.load(Relaxed);
        let (knew, found_by_closure) = worker.join().unwrap();
        assert!(found != found_by_closure, "a dropped closure is found out once");
        assert!(!found || knows >= knew, "the pusher takes a stop for a stream that was not told");
        stop.join().unwrap();
    });
}
