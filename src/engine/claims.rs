//! The variables of an operation: where a push finds them, and their order.

#![forbid(unsafe_code)]

use crate::engine::request::Claim;
use crate::operation::access::Mode;

/// Brings claims into the one order of all operations, each variable once: a write swallows reads
/// and other writes.
pub fn order(claims: &mut [Claim]) -> &[Claim] {
    // Writes first among equals. Claims of other engines or of earlier generations stay beside each
    // other: they are refused.
    let key = |claim: &Claim| {
        let variable = claim.variable;
        (variable.index, variable.engine, variable.generation, claim.mode == Mode::Read)
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

/// Where a push finds what its operation uses.
pub trait Source {
    /// Calls `take` for each claim, as they were named, repeats included, until one is not taken;
    /// says whether all were.
    fn all(&self, take: impl FnMut(&Claim) -> bool) -> bool;

    /// How many there are, with repeats.
    fn count(&self) -> usize;

    /// Hands on the claims as [`Source::all`] has them.
    fn as_named<T>(&self, go_on: impl FnOnce(&[Claim]) -> T) -> T;

    /// Hands on the claims by variable and without repeats.
    fn in_order<T>(self, go_on: impl FnOnce(&[Claim]) -> T) -> T;
}

/// A loop: `Iterator::all` may become a call for each claim. By reference: a claim that is copied
/// whole, just after its parts were written, waits for these to reach the cache.
#[inline(always)]
fn all(claims: &[Claim], mut take: impl FnMut(&Claim) -> bool) -> bool {
    for claim in claims {
        if !take(claim) {
            return false;
        }
    }
    true
}

/// Claims as they were named.
impl Source for &mut [Claim] {
    #[inline(always)]
    fn all(&self, take: impl FnMut(&Claim) -> bool) -> bool {
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

/// Claims that are in order.
impl Source for &[Claim] {
    #[inline(always)]
    fn all(&self, take: impl FnMut(&Claim) -> bool) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variable::handle::Variable;

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
