//! The variables of an operation while it is put together: collected, ordered and freed of repeats without allocation.

#![forbid(unsafe_code)]

use super::push::Claim;
use super::variable::Variable;
use crate::array_vec::ArrayVec;
use crate::mutants::mutate;
use crate::sync::thread_local;
use crate::variable::access::Mode;
use std::cell::Cell;

/// Claims up to this number are kept in place; more go to a list that the thread keeps for the next time.
const INLINE: usize = 8;

thread_local! {
    static SPARE: Cell<Vec<Claim>> = const { Cell::new(Vec::new()) };
}

/// A growing set of claims.
pub struct Claims {
    inline: ArrayVec<Claim, INLINE>,
    /// All of them, once there are too many.
    spilled: Vec<Claim>,
}

impl Claims {
    #[inline(always)]
    pub fn new() -> Claims {
        Claims { inline: ArrayVec::new(), spilled: Vec::new() }
    }

    #[inline]
    pub fn add(&mut self, variable: Variable, mode: Mode) {
        if !self.inline.add(Claim { variable, mode }) {
            // In parts: a claim that lies in memory for this is copied whole into its place, and that
            // waits for the parts to reach the cache.
            self.spill(variable.engine, variable.index, variable.generation, mode);
        }
    }

    #[cold]
    fn spill(&mut self, engine: u32, index: u32, generation: u32, mode: Mode) {
        if self.spilled.is_empty() {
            self.spilled = SPARE.try_with(Cell::take).unwrap_or_default();
            self.spilled.clear();
            self.spilled.extend_from_slice(&self.inline);
        }
        self.spilled.push(Claim { variable: Variable { engine, index, generation }, mode });
    }

    #[inline]
    fn named(&self) -> &[Claim] {
        if self.spilled.is_empty() {
            &self.inline
        } else {
            &self.spilled
        }
    }

    pub fn add_all(&mut self, claims: &[Claim]) {
        claims.iter().for_each(|claim| self.add(claim.variable, claim.mode));
    }

    /// The claims in the one order of all operations, each variable once: a write swallows reads and other writes.
    #[inline]
    pub fn ordered(&mut self) -> &[Claim] {
        let claims = if self.spilled.is_empty() { &mut self.inline[..] } else { &mut self.spilled[..] };
        // Writes first among equals. Claims of other engines or of earlier generations stay beside each other: they are refused.
        let key = |claim: &Claim| {
            let variable = claim.variable;
            (variable.index, variable.engine, variable.generation, claim.mode == Mode::Read)
        };
        if claims.len() <= 20 {
            for end in 1..claims.len() {
                let mut at = end;
                while at > 0 && mutate!("claims-in-the-order-named": false, key(&claims[at - 1]) > key(&claims[at])) {
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
}

/// Where a push finds what its operation uses.
pub trait Source {
    /// Calls `take` for each claim, as they were named, repeats included, until one is not taken; says whether all were.
    fn all(&self, take: impl FnMut(&Claim) -> bool) -> bool;

    /// How many there are, with repeats.
    fn count(&self) -> usize;

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

impl Source for &mut Claims {
    #[inline(always)]
    fn all(&self, take: impl FnMut(&Claim) -> bool) -> bool {
        all(self.named(), take)
    }

    #[inline]
    fn count(&self) -> usize {
        self.named().len()
    }

    #[inline]
    fn in_order<T>(self, go_on: impl FnOnce(&[Claim]) -> T) -> T {
        go_on(self.ordered())
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
    fn in_order<T>(self, go_on: impl FnOnce(&[Claim]) -> T) -> T {
        go_on(self)
    }
}

/// What the long forms of a push are given: lists, which need not be collected if the operation is not enlisted.
pub struct Lists<'a> {
    pub reads: &'a [Variable],
    pub writes: &'a [Variable],
}

impl Source for Lists<'_> {
    #[inline(always)]
    fn all(&self, mut take: impl FnMut(&Claim) -> bool) -> bool {
        // Loops, as in `all`, around one place in which `take` becomes part of them.
        for (variables, mode) in [(self.reads, Mode::Read), (self.writes, Mode::Write)] {
            for variable in variables {
                if !take(&Claim { variable: *variable, mode }) {
                    return false;
                }
            }
        }
        true
    }

    #[inline]
    fn count(&self) -> usize {
        self.reads.len() + self.writes.len()
    }

    #[inline(never)]
    fn in_order<T>(self, go_on: impl FnOnce(&[Claim]) -> T) -> T {
        let only = |variable: Variable, mode| [Claim { variable, mode }];
        match (self.reads, self.writes) {
            // One variable is in order, and has no repeats.
            ([], [variable]) => go_on(&only(*variable, Mode::Write)),
            ([variable], []) => go_on(&only(*variable, Mode::Read)),
            (reads, writes) => {
                let mut claims = Claims::new();
                reads.iter().for_each(|variable| claims.add(*variable, Mode::Read));
                writes.iter().for_each(|variable| claims.add(*variable, Mode::Write));
                go_on(claims.ordered())
            }
        }
    }
}

impl Claims {
    /// Leaves the list to the thread's next operation.
    #[cold]
    fn leave_spilled(&mut self) {
        let spilled = std::mem::take(&mut self.spilled);
        let _ = SPARE.try_with(|spare| spare.set(spilled));
    }
}

impl Drop for Claims {
    #[inline]
    fn drop(&mut self) {
        if !self.spilled.is_empty() {
            self.leave_spilled();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_and_drops_repeats_in_place_and_spilled() {
        for repeats in [1, 2, 9] {
            let mut claims = Claims::new();
            for _ in 0..repeats {
                for index in [3, 1, 2] {
                    claims.add(Variable { engine: 1, index, generation: 1 }, Mode::Read);
                }
            }
            claims.add(Variable { engine: 1, index: 2, generation: 1 }, Mode::Write);
            let ordered = claims.ordered();
            let seen: Vec<_> = ordered.iter().map(|c| (c.variable.index, c.mode)).collect();
            assert_eq!(seen, [(1, Mode::Read), (2, Mode::Write), (3, Mode::Read)]);
        }
    }
}
