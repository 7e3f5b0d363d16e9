//! The ledger of cache-line trips: which places in the source moved which lines, and how long cores
//! waited. Written by `machine.rs`; read by `perf/simulation/` through `machine::causes`.

use crate::lines::Map;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::panic::Location;

/// One cause of trips: a place in the source and a line, with how often and how long.
#[derive(Clone, Debug)]
pub struct Cause {
    /// The place in the source that made the access.
    pub place: &'static Location<'static>,
    /// What lies on the line, if it is known: a name, and which of the lines of that thing it is.
    pub line: Option<(&'static str, usize)>,
    /// The number of trips in which the line came from another core.
    pub moved: u64,
    /// The number of trips in which the core had a copy that only had to become the only one.
    pub upgraded: u64,
    /// The nanoseconds that cores waited for the line.
    pub waited: u64,
    /// The nanoseconds that the first core waited, among these.
    pub first_waited: u64,
}

/// The address of a place in the source, and what lies on the line.
type Key = (usize, Option<(&'static str, usize)>);

/// All trips since the last [`Ledger::clear`].
#[derive(Default)]
pub struct Ledger {
    causes: Map<Key, Cause>,
    /// The regions of memory: from the start to the end, the distance and the name of what lies
    /// there.
    regions: BTreeMap<usize, (usize, usize, &'static str)>,
}

impl Ledger {
    /// Counts one trip.
    pub fn note(&mut self, place: &'static Location<'static>, line: usize, upgrade: bool, waited: u64, first: bool) {
        self.wait(place, line, waited, first);
        let cause = self.cause(place, line);
        cause.moved += u64::from(!upgrade);
        cause.upgraded += u64::from(upgrade);
    }

    /// Counts that a core waits for a line that is under way.
    pub fn wait(&mut self, place: &'static Location<'static>, line: usize, waited: u64, first: bool) {
        let cause = self.cause(place, line);
        cause.waited += waited;
        cause.first_waited += if first { waited } else { 0 };
    }

    fn cause(&mut self, place: &'static Location<'static>, line: usize) -> &mut Cause {
        let line = self.name(line);
        self.causes.entry((std::ptr::from_ref(place).addr(), line)).or_insert(Cause {
            place,
            line,
            moved: 0,
            upgraded: 0,
            waited: 0,
            first_waited: 0,
        })
    }

    /// Notes what lies in `bytes` from `address` on: one `name` every `distance` bytes.
    pub fn lay_out(&mut self, address: usize, bytes: usize, distance: usize, name: &'static str) {
        self.regions.insert(address, (address + bytes, distance, name));
    }

    fn name(&self, line: usize) -> Option<(&'static str, usize)> {
        let address = line * 64;
        let (start, (end, distance, name)) = self.regions.range(..=address).next_back()?;
        (address < *end).then(|| (*name, (address - start) % distance / 64))
    }

    /// Forgets all trips.
    pub fn clear(&mut self) {
        self.causes.clear();
    }

    /// Returns all causes, those of the most trips first.
    pub fn causes(&self) -> Vec<Cause> {
        let mut causes: Vec<Cause> = self.causes.values().cloned().collect();
        causes.sort_by_key(|cause| {
            let trips = Reverse(cause.moved + cause.upgraded);
            (trips, cause.place.file(), cause.place.line(), cause.place.column(), cause.line)
        });
        causes
    }
}
