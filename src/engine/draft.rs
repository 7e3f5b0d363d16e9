//! An operation while a builder puts it together: what it is, and its variables. Used by the
//! builders and pushes of `src/api/`, each on its own thread.
//!
//! All of it lies in a [`DraftPlace`], which the thread keeps from one operation to the next. A
//! builder has only a pointer to it: each call moves the builder, and moving what was just written
//! in parts takes longer than the rest of a push. One thread at a time has it. A builder may be
//! sent to another thread: then the thread that ends the builder keeps the place (`KEPT_PLACE`).

#![forbid(unsafe_code)]

use crate::device::Context;
use crate::engine::claims::{order, ClaimSource, TypedClaims};
use crate::engine::request::{Claim, Request};
use crate::operation::access::Mode;
use crate::operation::flags::FLAG_PHASED;
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::sync::{thread_local, MODELLED};
use crate::util::bucket_array::Location;
use crate::variable::handle::Variable;
use std::cell::Cell;
use std::fmt;
use std::mem::forget;

/// How many claims a new place has room for. A place keeps the room that it has once had.
const ROOM: usize = 8;
/// The most places that a thread keeps. It uses as many as it puts operations together inside each
/// other.
const MOST_PLACES: u32 = 64;

thread_local! {
    /// The places of the thread that are not in use, in a list.
    static KEPT_PLACE: Cell<Option<Box<DraftPlace>>> = const { Cell::new(None) };
}

/// The memory of a [`Draft`].
struct DraftPlace {
    request: Request,
    claims: Vec<Claim>,
    /// The next place that is not in use; `behind` counts how many follow this one.
    next: Option<Box<DraftPlace>>,
    behind: u32,
}

/// An operation that is being put together.
pub struct Draft(Option<Box<DraftPlace>>);

impl Draft {
    /// Begins an ordinary operation with this name and no variables.
    #[inline]
    pub fn new(name: Name) -> Draft {
        let kept = KEPT_PLACE.try_with(|kept| {
            let mut place = kept.take()?;
            // The value that is replaced is `None`, as it was just taken: there is nothing to drop.
            forget(kept.replace(place.next.take()));
            Some(place)
        });
        let mut place = match kept {
            Ok(Some(place)) => place,
            _ => Draft::add_place(),
        };
        // Each field is written by itself: a request that is put together elsewhere first is copied
        // whole.
        let request = &mut place.request;
        request.context = Context::cpu(0);
        request.property = Property::Normal;
        request.priority = 0;
        request.name = name;
        request.flags = 0;
        Draft(Some(place))
    }

    #[cold]
    #[inline(never)]
    fn add_place() -> Box<DraftPlace> {
        let request = Request::named(Name::default());
        Box::new(DraftPlace { request, claims: Vec::with_capacity(ROOM), next: None, behind: 0 })
    }

    #[inline(always)]
    fn place(&self) -> &DraftPlace {
        // The place is there until the draft is dropped.
        self.0.as_deref().expect("a draft has a place")
    }

    #[inline(always)]
    fn place_mut(&mut self) -> &mut DraftPlace {
        self.0.as_deref_mut().expect("a draft has a place")
    }

    /// What the operation is.
    #[inline(always)]
    pub fn request(&self) -> &Request {
        &self.place().request
    }

    /// What the operation is, and the variables as they were named.
    #[inline(always)]
    pub fn parts(&mut self) -> (&Request, &mut [Claim]) {
        let place = self.place_mut();
        (&place.request, &mut place.claims)
    }

    /// The same, where the claims from number `typed` on are for values that the closure is lent.
    #[inline(always)]
    pub fn typed_parts(&mut self, typed: usize) -> (&Request, TypedClaims<'_>) {
        let place = self.place_mut();
        (&place.request, TypedClaims { claims: &mut place.claims, typed })
    }

    /// How many claims there are, repeats included.
    #[inline(always)]
    pub fn count(&self) -> usize {
        self.place().claims.len()
    }

    #[inline(always)]
    pub fn request_mut(&mut self) -> &mut Request {
        &mut self.place_mut().request
    }

    #[inline(always)]
    pub fn add(&mut self, variable: Variable, mode: Mode) {
        self.place_mut().claims.push(Claim { variable, mode });
    }

    /// Adds a variable on which the operation commutes.
    #[inline]
    pub fn commute(&mut self, variable: Variable) {
        let place = self.place_mut();
        place.claims.push(Claim { variable, mode: Mode::Commute });
        place.request.flags |= FLAG_PHASED;
    }

    pub fn add_all(&mut self, variables: &[impl Copy + Into<Variable>], mode: Mode) {
        variables.iter().for_each(|variable| self.add((*variable).into(), mode));
    }

    /// The variables in order and without repeats: see [`order`].
    #[inline]
    pub fn ordered(&mut self) -> &[Claim] {
        order(&mut self.place_mut().claims)
    }
}

impl fmt::Debug for Draft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Draft('{}')", self.request().name.as_str())
    }
}

impl Drop for Draft {
    /// Gives the place back, for the thread's next operation.
    #[inline]
    fn drop(&mut self) {
        let Some(mut place) = self.0.take() else { return };
        if MODELLED {
            // A place that a model's thread keeps is of no use to the next execution of the model.
            return;
        }
        place.claims.clear();
        let _ = KEPT_PLACE.try_with(|kept| {
            let next = kept.take();
            place.behind = next.as_ref().map_or(0, |next| next.behind + 1);
            // The value that is replaced is `None`, as it was just taken.
            if place.behind >= MOST_PLACES {
                forget(kept.replace(next));
            } else {
                forget(std::mem::replace(&mut place.next, next));
                forget(kept.replace(Some(place)));
            }
        });
    }
}

/// The variables of a push in its long form (`src/api/push.rs`), as lists, in the form `V` in which
/// the caller has them. They need not be collected into claims if the operation is not enlisted.
pub struct VariableLists<'a, V> {
    pub reads: &'a [V],
    pub writes: &'a [V],
}

impl<V: Copy + Into<Variable>> ClaimSource for VariableLists<'_, V> {
    #[inline(always)]
    fn all(&self, mut take: impl FnMut(&Claim, Location) -> bool) -> bool {
        // Loops, for the reason given at `all` in `claims.rs`, with one call of `take`, so that
        // `take` becomes part of them.
        for (variables, mode) in [(self.reads, Mode::Read), (self.writes, Mode::Write)] {
            for variable in variables {
                let variable: Variable = (*variable).into();
                if !take(&Claim { variable, mode }, Location::of(variable.index)) {
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
    fn as_named<T>(&self, go_on: impl FnOnce(&[Claim]) -> T) -> T {
        go_on(self.collect().parts().1)
    }

    #[inline(never)]
    fn in_order<T>(self, go_on: impl FnOnce(&[Claim]) -> T) -> T {
        let only = |variable: V, mode| [Claim { variable: variable.into(), mode }];
        match (self.reads, self.writes) {
            // A single variable is in order, and has no repeats.
            ([], [variable]) => go_on(&only(*variable, Mode::Write)),
            ([variable], []) => go_on(&only(*variable, Mode::Read)),
            _ => go_on(self.collect().ordered()),
        }
    }
}

impl<V: Copy + Into<Variable>> VariableLists<'_, V> {
    fn collect(&self) -> Draft {
        let mut draft = Draft::new(Name::default());
        draft.add_all(self.reads, Mode::Read);
        draft.add_all(self.writes, Mode::Write);
        draft
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_so_many_places_and_no_more() {
        let draft = || Draft::new(Name::default());
        for _ in 0..2 {
            let drafts: Vec<Draft> = (0..2 * MOST_PLACES).map(|_| draft()).collect();
            drop(drafts);
            let first = KEPT_PLACE.take().expect("they are kept");
            assert_eq!(first.behind, MOST_PLACES - 1);
            KEPT_PLACE.set(Some(first));
        }
        let variable = Variable { engine: 1, index: 2, generation: 3 };
        let mut first = draft();
        first.add(variable, Mode::Write);
        let mut second = draft();
        assert!(second.parts().1.is_empty(), "each has a place of its own");
        drop(first);
        second.add(variable, Mode::Read);
        assert_eq!(draft().parts().1.len(), 0, "nothing of an operation stays");
        assert_eq!(second.ordered().len(), 1);
    }
}
