//! The order of an operation's variables ([`order`]), and the forms in which a push is given them
//! ([`ClaimSource`]).
//!
//! Used by `push/`, `scope/open.rs`, `inline/fast_path.rs`, `draft.rs`, `replay/assemble.rs`,
//! `api/graph.rs`, `api/operator.rs`, `api/pipeline.rs` and `api/typed/reduction.rs`, on the thread
//! that pushes or captures. [`order`] is the only place that removes repeats: a variable that is
//! named twice is no error. The quick ways of a push take the claims as they were named. If they
//! meet a variable a second time (`count` in `tickets/owner/place.rs`), they give up, and the push
//! goes the long way, which calls [`order`]. Claims that are errors are found by
//! `engine/resolve.rs`.
//!
//! Nothing is kept here: [`order`] sorts the caller's own list. `Declared` borrows the lists of an
//! operator or a graph (`api/operator.rs`, `replay/program.rs`), which any thread reads and none
//! changes.

#![forbid(unsafe_code)]

use crate::engine::request::Claim;
use crate::error::{Error, ErrorKind};
use crate::operation::access::Mode;
use crate::util::bucket_array::Location;

/// Which of the claims of one variable is kept: the first in this order.
#[inline(always)]
fn rank(mode: Mode) -> u8 {
    match mode {
        Mode::Write | Mode::Delete => 0,
        Mode::Commute => 1,
        Mode::Read | Mode::PhasedRead => 2,
    }
}

/// Sorts claims by variable, which is the order of all operations, and keeps each variable once: a
/// write swallows all other uses of the same variable, and a commuting one reads.
pub fn order(claims: &mut [Claim]) -> &[Claim] {
    // Writes come first among the claims of one variable, so that a write is kept. A claim of
    // another engine or of an earlier generation is another variable here; the push makes an error
    // of it later.
    let key = |claim: &Claim| {
        let variable = claim.variable;
        (variable.index, variable.engine, variable.generation, rank(claim.mode))
    };
    if claims.len() <= 20 {
        for end in 1..claims.len() {
            let mut at = end;
            while at > 0 && key(&claims[at - 1]) > key(&claims[at]) {
                claims.swap(at - 1, at);
                at -= 1;
            }
        }
    } else {
        claims.sort_unstable_by_key(key);
    }
    let mut kept = 0;
    for next in 0..claims.len() {
        if kept == 0 || claims[kept - 1].variable != claims[next].variable {
            claims[kept] = claims[next];
            kept += 1;
        }
    }
    &claims[..kept]
}

/// The claims of an operation, in the form in which its push was given them.
pub trait ClaimSource {
    /// Whether all variables are known to be of the engine that the operation is pushed to.
    const OF_THIS_ENGINE: bool = false;

    /// Calls `take` for each claim as it was named, repeats included, until `take` returns `false`;
    /// says whether all were taken. `take` is also given where the places of the variable lie.
    fn all(&self, take: impl FnMut(&Claim, Location) -> bool) -> bool;

    /// How many claims there are, repeats included.
    fn count(&self) -> usize;

    /// Calls `go_on` with the claims as [`ClaimSource::all`] has them.
    fn as_named<T>(&self, go_on: impl FnOnce(&[Claim]) -> T) -> T;

    /// Refuses claims that must not be merged. Called by `push/mod.rs` before an operation is
    /// enlisted. The quick ways of a push refuse every repeat, so they need not ask.
    fn check(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// Calls `go_on` with the claims sorted by variable and without repeats.
    fn in_order<T>(self, go_on: impl FnOnce(&[Claim]) -> T) -> T;
}

/// A loop, as `Iterator::all` may become a call for each claim. The claims are passed by reference:
/// a copy of a whole claim just after its parts were written waits for these to reach the cache.
#[inline(always)]
fn all(claims: &[Claim], mut take: impl FnMut(&Claim, Location) -> bool) -> bool {
    for claim in claims {
        if !take(claim, Location::of(claim.variable.index)) {
            return false;
        }
    }
    true
}

/// Claims as they were named: not in order, perhaps with repeats.
impl ClaimSource for &mut [Claim] {
    #[inline(always)]
    fn all(&self, take: impl FnMut(&Claim, Location) -> bool) -> bool {
        all(self, take)
    }

    #[inline]
    fn count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn as_named<T>(&self, go_on: impl FnOnce(&[Claim]) -> T) -> T {
        go_on(self)
    }

    #[inline]
    fn in_order<T>(self, go_on: impl FnOnce(&[Claim]) -> T) -> T {
        go_on(order(self))
    }
}

/// The claims of a builder, of which those from number `typed` on are for values that the closure
/// is lent: not in order, perhaps with repeats.
pub struct TypedClaims<'a> {
    pub claims: &'a mut [Claim],
    pub typed: usize,
}

impl TypedClaims<'_> {
    /// Refuses an operation that would be lent one value twice, once to change it: [`order`] would
    /// merge the two claims, and the closure would have two references to one value. Repeats among
    /// the other claims are harmless, since no reference comes with them.
    pub fn check(&mut self) -> Result<(), Error> {
        let typed = &mut self.claims[self.typed..];
        // Up to so many, comparing each with each takes less time than sorting them.
        if typed.len() <= 20 {
            for (at, claim) in typed.iter().enumerate() {
                typed[..at].iter().try_for_each(|before| lend_both(before, claim))?;
            }
            return Ok(());
        }
        // In place: the claims are put in order afterwards anyway.
        typed.sort_unstable_by_key(|claim| {
            let variable = claim.variable;
            (variable.index, variable.engine, variable.generation, rank(claim.mode))
        });
        // Of the claims of one variable a change comes first, so that it is next to another claim.
        typed.windows(2).try_for_each(|pair| lend_both(&pair[0], &pair[1]))
    }
}

/// Refuses two claims of one variable that are not both reads.
fn lend_both(one: &Claim, other: &Claim) -> Result<(), Error> {
    if one.variable != other.variable || one.mode == Mode::Read && other.mode == Mode::Read {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::BorrowConflict,
        format!(
            "one operation is given the value of {:?} twice, once to change it: name it once, with Write()",
            one.variable
        ),
    ))
}

impl ClaimSource for TypedClaims<'_> {
    #[inline(always)]
    fn all(&self, take: impl FnMut(&Claim, Location) -> bool) -> bool {
        all(self.claims, take)
    }

    #[inline]
    fn count(&self) -> usize {
        self.claims.len()
    }

    #[inline]
    fn as_named<T>(&self, go_on: impl FnOnce(&[Claim]) -> T) -> T {
        go_on(self.claims)
    }

    fn check(&mut self) -> Result<(), Error> {
        TypedClaims::check(self)
    }

    #[inline]
    fn in_order<T>(self, go_on: impl FnOnce(&[Claim]) -> T) -> T {
        go_on(order(self.claims))
    }
}

/// Claims that are in order already, without repeats.
impl ClaimSource for &[Claim] {
    #[inline(always)]
    fn all(&self, take: impl FnMut(&Claim, Location) -> bool) -> bool {
        all(self, take)
    }

    #[inline]
    fn count(&self) -> usize {
        self.len()
    }

    #[inline]
    fn as_named<T>(&self, go_on: impl FnOnce(&[Claim]) -> T) -> T {
        go_on(self)
    }

    #[inline]
    fn in_order<T>(self, go_on: impl FnOnce(&[Claim]) -> T) -> T {
        go_on(self)
    }
}

/// The claims of an operator or a graph, which was made for the engine that it is pushed to: in
/// order, without repeats, and of variables of that engine, whose locations are known.
pub struct Declared<'a> {
    pub claims: &'a [Claim],
    pub located: &'a [(Claim, Location)],
}

impl ClaimSource for Declared<'_> {
    const OF_THIS_ENGINE: bool = true;

    #[inline(always)]
    fn all(&self, mut take: impl FnMut(&Claim, Location) -> bool) -> bool {
        for (claim, at) in self.located {
            if !take(claim, *at) {
                return false;
            }
        }
        true
    }

    #[inline]
    fn count(&self) -> usize {
        self.located.len()
    }

    #[inline]
    fn as_named<T>(&self, go_on: impl FnOnce(&[Claim]) -> T) -> T {
        go_on(self.claims)
    }

    #[inline]
    fn in_order<T>(self, go_on: impl FnOnce(&[Claim]) -> T) -> T {
        go_on(self.claims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variable::handle::Variable;

    #[test]
    fn a_value_is_lent_once_to_be_changed_or_any_number_of_times_to_be_read() {
        let claim = |index, mode| Claim { variable: Variable { engine: 1, index, generation: 1 }, mode };
        // In lists short and long, at each place.
        for (length, at) in [1, 5, 30].into_iter().flat_map(|length| (0..=length).map(move |at| (length, at))) {
            for (mode, is_refused) in [(Mode::Read, false), (Mode::Write, true)] {
                let mut claims: Vec<Claim> = (0..length).map(|index| claim(index, Mode::Read)).collect();
                claims.insert(at as usize, claim(length / 2, mode));
                // A claim that no reference comes with may be repeated.
                claims.insert(0, claim(0, Mode::Write));
                let mut typed = TypedClaims { claims: &mut claims, typed: 1 };
                assert_eq!(typed.check().is_err(), is_refused, "{length} {at} {mode:?}");
            }
        }
    }

    #[test]
    fn orders_and_drops_repeats() {
        for repeats in [1, 2, 9] {
            let claim = |index, mode| Claim { variable: Variable { engine: 1, index, generation: 1 }, mode };
            let mut claims = [3, 1, 2].map(|index| claim(index, Mode::Read)).repeat(repeats);
            claims.push(claim(2, Mode::Write));
            let seen: Vec<_> = order(&mut claims).iter().map(|c| (c.variable.index, c.mode)).collect();
            assert_eq!(seen, [(1, Mode::Read), (2, Mode::Write), (3, Mode::Read)]);
        }
    }
}
