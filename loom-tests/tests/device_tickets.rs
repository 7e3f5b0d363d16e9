//! The tickets of a variable that devices use: reads of several threads each leave theirs, numbers
//! only rise, and a thread that notes them for the next owner of a buffer misses none. In the
//! models a row has one place, and what finds none goes into the array behind it. An operation that
//! leaves no ticket borrows the row instead.

#![cfg(loom)]

use loom::sync::atomic::{AtomicUsize, Ordering::*};
use loom_tests::{explore, spawn, Guarded};
use seriatim::internals::access::Mode;
use seriatim::internals::rows::{Owed, Row, Rows};
use seriatim::internals::timeline::DeviceTicket;
use std::sync::Arc;

const TIMELINES: usize = 3;

fn rows() -> Arc<Rows> {
    Arc::new(Rows::new(TIMELINES))
}

/// What a write comes after, by timeline.
fn before_a_write(row: &Row) -> [u64; TIMELINES] {
    let mut numbers = [0; TIMELINES];
    for (ticket, _) in row.before(Mode::Write) {
        assert_eq!(numbers[ticket.timeline()], 0, "two tickets of one timeline");
        numbers[ticket.timeline()] = ticket.number();
    }
    numbers
}

/// Leaves the tickets of reads at once, each on a thread of its own; returns what a write comes
/// after then.
fn reads_at_once(rows: &Arc<Rows>, reads: [(usize, u64); 2]) -> [u64; TIMELINES] {
    let [first, second] = reads.map(|(timeline, number)| DeviceTicket::new(timeline, number));
    let of_other = rows.clone();
    let other = spawn(move || of_other.get_or_add(0).leave_read(second));
    rows.get_or_add(0).leave_read(first);
    other.join().unwrap();
    before_a_write(rows.get_or_add(0))
}

#[test]
fn reads_at_once_each_leave_their_ticket() {
    explore("tickets, two reads at once", 6, 20, || {
        assert_eq!(reads_at_once(&rows(), [(0, 4), (1, 7)]), [4, 7, 0]);
    });
    explore("tickets, two reads at once behind another", 6, 10, || {
        let rows = rows();
        rows.get_or_add(0).leave_read(DeviceTicket::new(2, 1));
        assert_eq!(reads_at_once(&rows, [(0, 4), (1, 7)]), [4, 7, 1]);
    });
}

#[test]
fn the_number_of_a_timeline_only_rises() {
    explore("tickets, two reads of one timeline", 6, 10, || {
        assert_eq!(reads_at_once(&rows(), [(0, 7), (0, 4)]), [7, 0, 0]);
    });
    explore("tickets, two reads of one timeline behind another", 6, 10, || {
        let rows = rows();
        rows.get_or_add(0).leave_read(DeviceTicket::new(2, 1));
        assert_eq!(reads_at_once(&rows, [(0, 7), (0, 4)]), [7, 0, 1]);
    });
}

/// The last use of an owner was a read of timeline 0, and a write and another read have come behind
/// it since, or come now.
fn noted_beside_a_write(rows: &Arc<Rows>) {
    let row = rows.get_or_add(0);
    row.leave_read(DeviceTicket::new(0, 1));
    let of_other = rows.clone();
    let other = spawn(move || {
        let row = of_other.get_or_add(0);
        row.leave_write(DeviceTicket::new(1, 1));
        row.leave_read(DeviceTicket::new(2, 2));
    });
    let mut owed = Owed::nothing(TIMELINES);
    row.owe(&mut owed);
    let is_behind = |ticket: DeviceTicket| ticket.timeline() == 0 || ticket.timeline() == 1;
    assert!(owed.tickets().any(is_behind), "the next owner comes after neither the read nor the write behind it");
    other.join().unwrap();
}

#[test]
fn who_finds_a_read_forgotten_finds_the_write_behind_it() {
    explore("tickets, noted beside a write", 6, 20, || noted_beside_a_write(&rows()));
    explore("tickets, noted beside a write, with more than a line", 6, 20, || {
        let rows = rows();
        rows.get_or_add(0).leave_read(DeviceTicket::new(2, 1));
        noted_beside_a_write(&rows);
    });
}

/// An operation that leaves no ticket, whose device uses the memory when the closure has returned;
/// beside a thread that borrows the array. The borrow of the array itself is one exchange and one
/// store, as that of a `Data` is.
fn used_beside_the_processor(mode: Mode) {
    let (rows, array, memory) = (rows(), Arc::new(AtomicUsize::new(0)), Guarded::new());
    let borrow = |array: &AtomicUsize| array.compare_exchange(0, 1, Acquire, Relaxed).is_ok();
    let (of_other, of_closure, of_device) = (rows.clone(), array.clone(), memory.clone());
    let other = spawn(move || {
        of_other.get_or_add(0).begin_borrow(mode);
        if borrow(&of_closure) {
            of_closure.store(0, Release);
            match mode {
                Mode::Read => _ = of_device.get(),
                _ => of_device.step(),
            }
        }
        of_other.get_or_add(0).end_borrow(mode);
    });
    if borrow(&array) {
        if rows.get(0).is_none_or(|row| !row.is_borrowed(true)) {
            memory.step();
        }
        array.store(0, Release);
    }
    other.join().unwrap();
}

#[test]
fn a_borrow_lasts_until_the_device_is_done() {
    explore("tickets, a write without one beside the processor", 6, 20, || used_beside_the_processor(Mode::Write));
    explore("tickets, a read without one beside the processor", 6, 20, || used_beside_the_processor(Mode::Read));
}
