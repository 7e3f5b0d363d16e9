//! When the last access of a variable may be the one again that lies in its chain.
//!
//! Loans of a variable on which nothing was ever enlisted need no pin ([`Chain::lend_at_home`](super::chain::Chain::lend_at_home)). Once something was, its last access lies in
//! a block. When it has been lent a few times after that, it comes home: its own access is linked behind the last one, lent from the start. Nobody may then still be looking at that
//! access who has found it at the tail before; so somebody asks the reclaimer, and comes home when it has answered.
//!
//! A variable that goes away again and again is asked for half as often each time: what is asked costs, in the long run, nothing.

use crate::sync::{AtomicU64, Ordering::*, MODELLED};

/// How the matter stands: the generation of the variable that it is about in the high half; below it how often it has come home, how often it was lent since it
/// went, and a stage. In the child of a `fork` an answer may be missing for ever: such a variable stays away, which costs a pin each time.
pub struct Home(AtomicU64);

/// Nothing was asked.
const SILENT: u64 = 0;
/// The reclaimer was asked.
const ASKED: u64 = 1;
/// It has answered.
const FREE: u64 = 2;
/// Somebody was told to bring it home.
const COMING: u64 = 3;
const STAGE: u64 = 3;
const ONE_LOAN: u64 = 1 << 2;
const LOANS: u64 = (1 << 20) - 1;
const ONE_RETURN: u64 = ONE_LOAN << 20;
const RETURNS: u64 = (1 << 10) - 1;
const GENERATION: u32 = 32;

/// A variable is asked for when it was lent so often, and twice as often each further time, up to half a million.
const FIRST: u64 = if MODELLED { 1 } else { 4 };
const DOUBLED: u64 = 17;

/// What to do about a variable that is lent and whose last access lies in a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Errand {
    /// Nothing.
    None,
    /// Ask the reclaimer, and call [`Home::answered`] with this when nobody can be looking at the access any more.
    Ask(u64),
    /// Link it: nobody looks at it.
    Come,
}

impl Home {
    pub fn new() -> Home {
        Home(AtomicU64::new(0))
    }

    /// Counts a loan of the variable with that generation, if its last access is not its own: the caller looks when he is asked.
    pub fn consider(&self, generation: u32, is_away: impl FnOnce() -> bool) -> Errand {
        // Acquire: pairs with `answered`, and with `came`: who finds the variable away after that finds that it has left again.
        let now = self.0.load(Acquire);
        let own = u64::from(generation) << GENERATION;
        let waits = now >> GENERATION == u64::from(generation) && matches!(now & STAGE, ASKED | COMING);
        if waits || !is_away() {
            return Errand::None;
        }
        if now >> GENERATION != u64::from(generation) {
            let _ = self.0.compare_exchange(now, own | ONE_LOAN, Relaxed, Relaxed);
            return Errand::None;
        }
        let (loans, returns) = ((now / ONE_LOAN) & LOANS, (now / ONE_RETURN) & RETURNS);
        let (next, errand) = match now & STAGE {
            FREE => (now & !STAGE | COMING, Errand::Come),
            _ if loans + 1 < FIRST << returns.min(DOUBLED) => (now + ONE_LOAN, Errand::None),
            _ => {
                let asked = now & !STAGE | ASKED;
                (asked, Errand::Ask(asked))
            }
        };
        // Acquire: as above. One thread does it; should another be quicker, there will be other loans.
        match self.0.compare_exchange(now, next, Acquire, Relaxed) {
            Ok(_) => errand,
            Err(_) => Errand::None,
        }
    }

    /// Whoever could be looking at the access when `asked` was given out does not any more.
    pub fn answered(&self, asked: u64) {
        // If the variable was deleted meanwhile the word is another one. Release: who comes home comes after them.
        let _ = self.0.compare_exchange(asked, asked & !STAGE | FREE, Release, Relaxed);
    }

    /// It has come, as it was told. Only for who was told, and still holds what lets nobody make the chain that of another variable.
    pub fn came(&self) {
        let now = self.0.load(Relaxed);
        let returns = ((now / ONE_RETURN) & RETURNS) + 1;
        // Release: who finds this finds the variable at home, or away again.
        self.0.store(now >> GENERATION << GENERATION | (returns.min(RETURNS) * ONE_RETURN) | SILENT, Release);
    }

    /// It could not come after all: it may at another time. As [`Home::came`].
    pub fn stays(&self) {
        self.0.store(self.0.load(Relaxed) & !STAGE | FREE, Release);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    /// Loans until the reclaimer is to be asked, and with what.
    fn until_asked(home: &Home, generation: u32) -> (u64, u64) {
        for loans in 1.. {
            match home.consider(generation, || true) {
                Errand::None => {}
                Errand::Ask(asked) => return (loans, asked),
                Errand::Come => panic!("nobody was asked"),
            }
        }
        unreachable!()
    }

    #[test]
    fn it_is_asked_for_half_as_often_each_time_and_comes_once() {
        let home = Home::new();
        let mut before = 0;
        for _ in 0..10 {
            let (loans, asked) = until_asked(&home, 7);
            assert!(loans > before * 3 / 2, "{loans} loans after {before}");
            before = loans;
            assert_eq!(home.consider(7, || true), Errand::None, "the answer is not there");
            home.answered(asked);
            assert_eq!(home.consider(7, || false), Errand::None, "it is at home");
            assert_eq!(home.consider(7, || true), Errand::Come);
            assert_eq!(home.consider(7, || true), Errand::None, "one is told");
            home.stays();
            assert_eq!(home.consider(7, || true), Errand::Come, "it may try again");
            for _ in 0..1_000_000 {
                assert_eq!(home.consider(7, || true), Errand::None, "nobody asks while somebody comes");
            }
            home.came();
        }
    }

    #[test]
    fn answers_for_a_variable_that_is_gone_are_not_for_the_next() {
        let home = Home::new();
        let (_, asked) = until_asked(&home, 1);
        let (_, again) = until_asked(&home, 3);
        home.answered(asked);
        assert_eq!(home.consider(3, || true), Errand::None);
        home.answered(again);
        assert_eq!(home.consider(3, || true), Errand::Come);
    }
}
