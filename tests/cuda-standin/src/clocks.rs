//! What happened before what: vector clocks, and the accesses that they judge.

#![forbid(unsafe_code)]

/// How far each stream was, by its index, when something happened. Index 0 is the host.
#[derive(Clone, Default, Debug)]
pub struct Clock(Vec<u64>);

impl Clock {
    pub fn join(&mut self, other: &Clock) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(mine, other)| *mine = (*mine).max(*other));
    }

    pub fn tick(&mut self, index: usize) -> u64 {
        if self.0.len() <= index {
            self.0.resize(index + 1, 0);
        }
        self.0[index] += 1;
        self.0[index]
    }

    fn knows(&self, index: usize, when: u64) -> bool {
        self.0.get(index).is_some_and(|known| *known >= when)
    }
}

/// Who accesses something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Who {
    /// The index of the stream, or 0.
    pub index: usize,
    /// What its clock says.
    pub when: u64,
    /// What a test calls the access.
    pub label: u64,
}

struct Access {
    low: u64,
    high: u64,
    write: bool,
    who: Who,
}

/// The accesses to one thing that a later one may still collide with.
#[derive(Default)]
pub struct History(Vec<Access>);

impl History {
    /// Notes an access to the bytes from `low` to `high`; says what it collides with.
    pub fn access(&mut self, (low, high): (u64, u64), write: bool, who: Who, clock: &Clock) -> Option<String> {
        let collides = |other: &&Access| {
            let overlap = other.low < high && low < other.high;
            overlap && (write || other.write) && !clock.knows(other.who.index, other.who.when)
        };
        let found = self.0.iter().find(collides).map(|other| {
            let said = [describe(write, who), describe(other.write, other.who)];
            format!("the {} is not ordered after the {}", said[0], said[1])
        });
        // What this access covers and comes after: who comes after this one comes after that, too.
        self.0.retain(|other| {
            let covered = low <= other.low && other.high <= high && (write || !other.write);
            !(covered && clock.knows(other.who.index, other.who.when))
        });
        self.0.push(Access { low, high, write, who });
        found
    }
}

fn describe(write: bool, who: Who) -> String {
    let what = if write { "write" } else { "read" };
    match who.index {
        0 => format!("{what} '{}' on the host", who.label),
        stream => format!("{what} '{}' on stream {stream}", who.label),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unordered_pair_is_found_in_either_order() {
        for first_is_write in [true, false] {
            let (mut history, mut clocks) = (History::default(), [Clock::default(), Clock::default()]);
            let when = clocks[0].tick(1);
            let first = Who { index: 1, when, label: 10 };
            assert_eq!(history.access((0, 1), first_is_write, first, &clocks[0]), None);
            let when = clocks[1].tick(2);
            let second = Who { index: 2, when, label: 20 };
            let found = history.access((0, 1), !first_is_write, second, &clocks[1]);
            assert!(found.is_some_and(|found| found.contains("'20' on stream 2") && found.contains("'10' on stream 1")));
        }
    }

    #[test]
    fn what_is_ordered_or_only_read_is_silent() {
        let (mut history, mut one, mut two) = (History::default(), Clock::default(), Clock::default());
        let who = |index, when| Who { index, when, label: 0 };
        let when = one.tick(1);
        assert_eq!(history.access((0, 1), true, who(1, when), &one), None);
        two.join(&one);
        for _ in 0..100 {
            let when = two.tick(2);
            assert_eq!(history.access((0, 1), false, who(2, when), &two), None);
        }
        assert_eq!(history.0.len(), 2, "the write, and the last read");
        one.join(&two);
        let when = one.tick(1);
        assert_eq!(history.access((0, 1), true, who(1, when), &one), None);
        assert_eq!(history.0.len(), 1, "the write covers all");
    }

    #[test]
    fn other_bytes_are_other_things() {
        let mut history = History::default();
        let clock = Clock::default();
        assert_eq!(history.access((0, 8), true, Who { index: 1, when: 1, label: 0 }, &clock), None);
        assert_eq!(history.access((8, 16), true, Who { index: 2, when: 1, label: 0 }, &clock), None);
    }
}
