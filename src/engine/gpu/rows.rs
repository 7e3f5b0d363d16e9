//! The device tickets of variables: the last write, and for each timeline the last read since.
//!
//! A row is made when a device first uses a variable. An operation leaves its ticket before it
//! ends, and the next one looks when its own tickets have come: so the order of the variable orders
//! these stores and loads, and most are relaxed. Reads of one variable run at the same time, on
//! several threads: each raises the number of its timeline in a place that it has claimed.
//!
//! A ticket is left by the thread that calls the closure, mostly a worker (`call.rs`). An operation
//! of a device that leaves none borrows the row instead, until it ends (`borrow.rs`). An operation
//! without a ticket, such as one of the processor, clears the rows of the variables that it
//! changes, on the thread that has it. That thread, or the watcher, may also note a loss
//! (`turn.rs`). A row also changes when a buffer gets a new owner (`lease.rs`), and when a graph is
//! dropped (`replay/private.rs`). Any thread may look at any time: one that waits, drops an array,
//! or watches a device.

use crate::device::timeline::DeviceTicket;
use crate::operation::access::Mode;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*, MODELLED};
use crate::util::bucket_array::{BucketArray, Vacant};
use std::ptr::null_mut;

/// So many timelines can have read a variable before its row has more than one line.
const PLACES: usize = if MODELLED { 1 } else { 4 };

/// In place of a number of reads: an operation changes the variable.
const CHANGED: u32 = u32::MAX;

/// The tickets of one variable, in a line.
#[repr(align(64))]
pub struct Row {
    write: AtomicU64,
    /// The ticket of a write that was lost with its device, once the variable was marked for it.
    told: AtomicU64,
    /// The last read on each timeline since the last write, filled from the first place on; 0 for
    /// none.
    reads: [AtomicU64; PLACES],
    /// The reads for which there was no place.
    more: AtomicPtr<More>,
    /// How many timelines the engine has.
    timelines: u32,
    /// How many operations that leave no ticket read the variable now; or [`CHANGED`], if one
    /// changes it.
    borrows: AtomicU32,
}

const _: () = assert!(MODELLED || size_of::<Row>() == 64);

/// The number of the last read on each timeline since the last write; 0 for none.
struct More(Box<[AtomicU64]>);

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
        // SAFETY: as in `get`: only `drop` puts something else there.
        unsafe { &*put(&place.0, Box::new(Row::new(self.timelines as u32))) }
    }
}

/// Puts something where nothing is, for good, unless another thread is faster. Returns what is
/// there then.
fn put<T>(place: &AtomicPtr<T>, new: Box<T>) -> *mut T {
    let new = Box::into_raw(new);
    // AcqRel: it is written before it can be found; so is that of another thread.
    match place.compare_exchange(null_mut(), new, AcqRel, Acquire) {
        Ok(_) => new,
        Err(other) => {
            // SAFETY: no other thread has seen the new one.
            drop(unsafe { Box::from_raw(new) });
            other
        }
    }
}

/// Drops what [`put`] has put there.
fn drop_put<T>(place: &AtomicPtr<T>) {
    let owned = place.load(Relaxed);
    if !owned.is_null() {
        // SAFETY: it came out of a box. The caller is dropped, so no other thread uses it.
        drop(unsafe { Box::from_raw(owned) });
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        self.places.iter().for_each(|place| drop_put(&place.0));
    }
}

impl Drop for Row {
    fn drop(&mut self) {
        drop_put(&self.more);
    }
}

impl Row {
    fn new(timelines: u32) -> Row {
        Row {
            write: AtomicU64::new(0),
            told: AtomicU64::new(0),
            reads: std::array::from_fn(|_| AtomicU64::new(0)),
            more: AtomicPtr::new(null_mut()),
            timelines,
            borrows: AtomicU32::new(0),
        }
    }

    /// The ticket of the last write.
    pub fn write(&self) -> Option<DeviceTicket> {
        DeviceTicket::of(self.write.load(Relaxed))
    }

    /// The tickets of the reads since.
    fn reads(&self) -> impl Iterator<Item = DeviceTicket> + '_ {
        // Acquire: pairs with the release in `forget_reads`, for `owe`.
        let of_places = self.reads.iter().map_while(|place| DeviceTicket::of(place.load(Acquire)));
        of_places.chain(self.more().into_iter().flat_map(More::reads))
    }

    /// The reads for which there is no place, if there may be some: all places are taken.
    fn more(&self) -> Option<&More> {
        if self.reads[PLACES - 1].load(Acquire) == 0 {
            return None;
        }
        // SAFETY: it lives as long as the row. Acquire: pairs with the release in `put`.
        unsafe { self.more.load(Acquire).as_ref() }
    }

    /// The tickets that an access comes after, and whether each is that of a write.
    pub fn before(&self, mode: Mode) -> impl Iterator<Item = (DeviceTicket, bool)> + '_ {
        let reads = (mode != Mode::Read).then(|| self.reads().map(|read| (read, false)));
        self.write().map(|write| (write, true)).into_iter().chain(reads.into_iter().flatten())
    }

    /// Leaves the ticket of a read. For a read that runs; others may run at the same time.
    pub fn leave_read(&self, ticket: DeviceTicket) {
        for place in &self.reads {
            let mut found = place.load(Relaxed);
            loop {
                match DeviceTicket::of(found) {
                    Some(other) if other.timeline() != ticket.timeline() => break,
                    // It stands for this one too.
                    Some(later) if later.number() >= ticket.number() => return,
                    _ => {}
                }
                // Release: as in `forget_reads`: this read comes after the write that has
                // forgotten others.
                match place.compare_exchange(found, ticket.word(), Release, Relaxed) {
                    Ok(_) => return,
                    Err(now) => found = now,
                }
            }
        }
        let mut more = self.more.load(Acquire);
        if more.is_null() {
            more = put(&self.more, Box::new(More((0..self.timelines).map(|_| AtomicU64::new(0)).collect())));
        }
        // SAFETY: it lives as long as the row. Release: as above.
        unsafe { &*more }.0[ticket.timeline()].fetch_max(ticket.number(), Release);
    }

    /// Leaves the ticket of a write, which comes after all others. For the write that runs.
    pub fn leave_write(&self, ticket: DeviceTicket) {
        // In one step: a thread that waits for an earlier write finds a ticket at any time.
        self.write.store(ticket.word(), Relaxed);
        self.forget_reads();
    }

    /// Begins the borrow of an operation that leaves no ticket. For the operation that runs; reads
    /// may do so at the same time.
    pub fn begin_borrow(&self, mode: Mode) {
        // Relaxed: the closure is called behind this. It borrows the array, and the end of that
        // borrow publishes this one to a thread that borrows the array next.
        match mode {
            Mode::Read => _ = self.borrows.fetch_add(1, Relaxed),
            _ => self.borrows.store(CHANGED, Relaxed),
        }
    }

    /// Ends it: the device has done what the operation has queued. For the operation, which ends
    /// next.
    pub fn end_borrow(&self, mode: Mode) {
        // Release: pairs with the acquire in `is_borrowed`, so that what the device has done has
        // happened for the thread that borrows next.
        match mode {
            Mode::Read => _ = self.borrows.fetch_sub(1, Release),
            _ => self.borrows.store(0, Release),
        }
    }

    /// Whether an operation has borrowed the row in a way that excludes another borrow: any borrow
    /// excludes one that `changes`, and one that changes excludes any.
    pub fn is_borrowed(&self, changes: bool) -> bool {
        let borrows = self.borrows.load(Acquire);
        borrows == CHANGED || changes && borrows > 0
    }

    /// Whether the variable was marked for this lost write; [`Row::tell`] says so.
    pub fn is_told(&self, lost: DeviceTicket) -> bool {
        // Acquire: pairs with the release in `tell`: a thread that finds it told finds the mark.
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
        owed.reads.fill(0);
        // The reads first. If a read is forgotten, the write that came after it is found.
        for read in self.reads() {
            let number = &mut owed.reads[read.timeline()];
            *number = read.number().max(*number);
        }
        owed.write = self.write.load(Relaxed);
    }

    /// Begins a row with what a buffer owes. For a variable that no other thread knows.
    pub fn begin(&self, owed: &Owed) {
        self.write.store(owed.write, Relaxed);
        owed.reads().for_each(|read| self.leave_read(read));
    }

    /// Forgets all tickets, which are reached or lost. For the write that runs.
    pub fn clear(&self) {
        self.write.store(0, Relaxed);
        self.forget_reads();
    }

    /// For the write that runs, after its own ticket.
    fn forget_reads(&self) {
        // Release: pairs with the acquire in `reads`, for `owe`.
        if let Some(More(numbers)) = self.more() {
            numbers.iter().filter(|number| number.load(Relaxed) > 0).for_each(|number| number.store(0, Release));
        }
        self.reads.iter().filter(|place| place.load(Relaxed) > 0).for_each(|place| place.store(0, Release));
    }
}

impl More {
    fn reads(&self) -> impl Iterator<Item = DeviceTicket> + '_ {
        // Acquire: as in `Row::reads`.
        let numbers = self.0.iter().map(|number| number.load(Acquire)).enumerate();
        numbers.filter(|(_, number)| *number > 0).map(|(timeline, number)| DeviceTicket::new(timeline, number))
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
        self.reads().chain(DeviceTicket::of(self.write))
    }

    fn reads(&self) -> impl Iterator<Item = DeviceTicket> + '_ {
        let numbers = self.reads.iter().enumerate().filter(|(_, number)| **number > 0);
        numbers.map(|(timeline, number)| DeviceTicket::new(timeline, *number))
    }
}
