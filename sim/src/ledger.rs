//! The ledger: which places in the source moved which lines, and what it took.

use crate::lines::Map;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::panic::Location;

/// Where lines were moved, and what it took.
#[derive(Clone, Debug)]
pub struct Cause {
    /// The place in the source.
    pub place: &'static Location<'static>,
    /// What lies on the line, if it is known: a name, and which of its lines.
    pub line: Option<(&'static str, usize)>,
    /// Lines that came from another core.
    pub moved: u64,
    /// Copies that only had to be made the only one.
    pub upgraded: u64,
    /// Nanoseconds that cores waited for them.
    pub waited: u64,
    /// Those of the first core among them.
    pub first_waited: u64,
}

/// A place's address, and what lies on the line.
type Key = (usize, Option<(&'static str, usize)>);

/// All trips since the last [`Ledger::clear`].
#[derive(Default)]
pub struct Ledger {
    causes: Map<Key, Cause>,
    /// Start, then end, distance and name of what lies there.
    regions: BTreeMap<usize, (usize, usize, &'static str)>,
}

impl Ledger {
    /// One trip.
    pub fn note(&mut self, place: &'static Location<'static>, line: usize, upgrade: bool, waited: u64, first: bool) {
        self.wait(place, line, waited, first);
        let cause = self.cause(place, line);
        cause.moved += u64::from(!upgrade);
        cause.upgraded += u64::from(upgrade);
    }

    /// A core waits for a line that is under way.
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

    /// What lies in `bytes` from `address` on: one `name` every `distance` bytes.
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

    /// All causes, those of the most trips first.
    pub fn causes(&self) -> Vec<Cause> {
        let mut causes: Vec<Cause> = self.causes.values().cloned().collect();
        causes.sort_by_key(|cause| {
            let trips = Reverse(cause.moved + cause.upgraded);
            (trips, cause.place.file(), cause.place.line(), cause.place.column(), cause.line)
        });
        causes
    }
}
