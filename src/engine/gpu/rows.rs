//! The device tickets of variables: the last write, and for each timeline the last read since.
//!
//! A row is made when a device first uses a variable. An operation leaves its ticket before it
//! ends, and the next one looks when its own tickets have come: so the order of the variable orders
//! these stores and loads, and they are relaxed.

use crate::device::timeline::DeviceTicket;
use crate::operation::access::Mode;
use crate::sync::{AtomicPtr, AtomicU64, Ordering::*};
use crate::util::bucket_array::{BucketArray, Vacant};
use std::ptr::null_mut;

/// The tickets of one variable.
pub struct Row {
    write: AtomicU64,
    /// The number of the last read on each timeline of the engine, since the last write; 0 for
    /// none.
    reads: Box<[AtomicU64]>,
    /// The ticket of a write that was lost with its device, once the variable was marked for it.
    told: AtomicU64,
}

/// The rows, by the indices of their variables.
pub struct Rows {
    places: BucketArray<RowPlace>,
    pub timelines: usize,
}

/// Where a row is, if there is one.
struct RowPlace(AtomicPtr<Row>);

// SAFETY: zeros are a null pointer. `Rows` drops the rows itself.
unsafe impl Vacant for RowPlace {
    const NAME: &'static str = "row";

    fn vacant() -> RowPlace {
        RowPlace(AtomicPtr::new(null_mut()))
    }
}

impl Rows {
    /// For an engine with so many timelines.
    pub fn new(timelines: usize) -> Rows {
        Rows { places: BucketArray::new(), timelines }
    }

    /// The row of a variable, if a device has ever used a variable of this index.
    pub fn get(&self, index: u32) -> Option<&Row> {
        // SAFETY: a row lives as long as the rows. Acquire: pairs with the release in `get_or_add`.
        unsafe { self.places.get(index)?.0.load(Acquire).as_ref() }
    }

    /// The row of a variable, made if it is missing.
    pub fn get_or_add(&self, index: u32) -> &Row {
        let place = self.places.get_or_add(index).expect("variables have no higher indices");
        let found = place.0.load(Acquire);
        if !found.is_null() {
            // SAFETY: as in `get`.
            return unsafe { &*found };
        }
        let numbers = (0..self.timelines).map(|_| AtomicU64::new(0)).collect();
        let new = Box::into_raw(Box::new(Row { write: AtomicU64::new(0), reads: numbers, told: AtomicU64::new(0) }));
        // AcqRel: the row is written before it can be found; so is that of another reader.
        match place.0.compare_exchange(null_mut(), new, AcqRel, Acquire) {
            // SAFETY: as in `get`.
            Ok(_) => unsafe { &*new },
            Err(other) => {
                // SAFETY: no other thread has seen the new row. The other one is as in `get`.
                unsafe {
                    drop(Box::from_raw(new));
                    &*other
                }
            }
        }
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        for place in self.places.iter() {
            let row = place.0.load(Relaxed);
            if !row.is_null() {
                // SAFETY: each row is owned by its place, and no thread uses the rows any more.
                drop(unsafe { Box::from_raw(row) });
            }
        }
    }
}

impl Row {
    /// The ticket of the last write.
    pub fn write(&self) -> Option<DeviceTicket> {
        DeviceTicket::of(self.write.load(Relaxed))
    }

    /// The tickets of the reads since.
    fn reads(&self) -> impl Iterator<Item = DeviceTicket> + '_ {
        let numbers = self.reads.iter().map(|number| number.load(Relaxed)).enumerate();
        numbers.filter(|(_, number)| *number > 0).map(|(timeline, number)| DeviceTicket::new(timeline, number))
    }

    /// The tickets that an access comes after, and whether each is that of a write.
    pub fn before(&self, mode: Mode) -> impl Iterator<Item = (DeviceTicket, bool)> + '_ {
        let reads = self.reads().filter(move |_| mode != Mode::Read).map(|read| (read, false));
        self.write().map(|write| (write, true)).into_iter().chain(reads)
    }

    /// Leaves the ticket of a read. For the read that runs; another read of the same timeline ends
    /// before or after, on the same thread.
    pub fn leave_read(&self, ticket: DeviceTicket) {
        self.reads[ticket.timeline()].store(ticket.number(), Relaxed);
    }

    /// Leaves the ticket of a write, which comes after all others. For the write that runs.
    pub fn leave_write(&self, ticket: DeviceTicket) {
        // In one step: a thread that waits for an earlier write finds a ticket at any time.
        self.write.store(ticket.word(), Relaxed);
        self.forget_reads();
    }

    /// Whether the variable was marked for this lost write; [`Row::tell`] says so.
    pub fn is_told(&self, lost: DeviceTicket) -> bool {
        // Acquire: pairs with the release in `tell`: who finds it told finds the mark.
        self.told.load(Acquire) == lost.word()
    }

    /// Says that the variable was marked for a lost write.
    pub fn tell(&self, lost: DeviceTicket) {
        self.told.store(lost.word(), Release);
    }

    /// Notes all tickets for the next owner of a buffer whose last one has this row. May be called
    /// at any time after the last use has left its ticket: what other operations leave meanwhile
    /// comes after that use.
    pub fn owe(&self, owed: &mut Owed) {
        // The reads first. Acquire: pairs with the release in `forget_reads`. Who finds a read
        // forgotten finds the write that came after it.
        owed.reads.iter_mut().zip(&self.reads).for_each(|(owed, number)| *owed = number.load(Acquire));
        owed.write = self.write.load(Relaxed);
    }

    /// Begins a row with what a buffer owes. For a variable that no other thread knows.
    pub fn begin(&self, owed: &Owed) {
        self.write.store(owed.write, Relaxed);
        self.reads.iter().zip(&owed.reads).for_each(|(number, owed)| number.store(*owed, Relaxed));
    }

    /// Forgets all tickets, which are reached or lost. For the write that runs.
    pub fn clear(&self) {
        self.write.store(0, Relaxed);
        self.forget_reads();
    }

    fn forget_reads(&self) {
        // Release: pairs with the acquire in `owe`.
        self.reads.iter().filter(|number| number.load(Relaxed) > 0).for_each(|number| number.store(0, Release));
    }
}

/// The tickets of a buffer between two owners: what its next use has to come after.
pub struct Owed {
    write: u64,
    reads: Box<[u64]>,
}

impl Owed {
    /// Nothing, in an engine with so many timelines.
    pub fn nothing(timelines: usize) -> Owed {
        Owed { write: 0, reads: vec![0; timelines].into() }
    }

    /// The tickets.
    pub fn tickets(&self) -> impl Iterator<Item = DeviceTicket> + '_ {
        let reads = self.reads.iter().enumerate().filter(|(_, number)| **number > 0);
        let reads = reads.map(|(timeline, number)| DeviceTicket::new(timeline, *number));
        reads.chain(DeviceTicket::of(self.write))
    }
}
