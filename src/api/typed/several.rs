//! Several resources as one: options, arrays, vectors and tuples of them. The closure is given the
//! same of what each of them is lent as.
//!
//! Nothing is decided here: each call is passed on to every part.

use crate::api::typed::resources::{Entering, Keepers, Lendable, Resources};
use crate::error::Error;
use std::array;

impl<R: Lendable> Lendable for Vec<R> {}

impl<R: Resources<W>, W> Resources<W> for Vec<R> {
    type Item<'a> = Vec<R::Item<'a>>;
    type Held = Box<[R::Held]>;

    fn enter(&self, entry: &mut Entering<'_>) -> Box<[R::Held]> {
        self.iter().map(|resources| resources.enter(entry)).collect()
    }

    #[inline(always)]
    fn check(&self, entry: &Entering<'_>) -> Result<(), Error> {
        self.iter().try_for_each(|resources| resources.check(entry))
    }

    fn keep(&self, kept: &mut Keepers) {
        self.iter().for_each(|resources| resources.keep(kept));
    }

    unsafe fn lend<'a>(held: &'a Box<[R::Held]>) -> Vec<R::Item<'a>> {
        // SAFETY: by the contract.
        held.iter().map(|held| unsafe { R::lend(held) }).collect()
    }
}

impl<R: Lendable> Lendable for Option<R> {}

impl<R: Resources<W>, W> Resources<W> for Option<R> {
    type Item<'a> = Option<R::Item<'a>>;
    type Held = Option<R::Held>;

    #[inline(always)]
    fn enter(&self, entry: &mut Entering<'_>) -> Option<R::Held> {
        self.as_ref().map(|resources| resources.enter(entry))
    }

    #[inline(always)]
    fn check(&self, entry: &Entering<'_>) -> Result<(), Error> {
        self.iter().try_for_each(|resources| resources.check(entry))
    }

    fn keep(&self, kept: &mut Keepers) {
        self.iter().for_each(|resources| resources.keep(kept));
    }

    #[inline(always)]
    unsafe fn lend<'a>(held: &'a Option<R::Held>) -> Option<R::Item<'a>> {
        // SAFETY: by the contract.
        held.as_ref().map(|held| unsafe { R::lend(held) })
    }
}

impl<R: Lendable, const N: usize> Lendable for [R; N] {}

impl<R: Resources<W>, W, const N: usize> Resources<W> for [R; N] {
    type Item<'a> = [R::Item<'a>; N];
    type Held = [R::Held; N];

    #[inline(always)]
    fn enter(&self, entry: &mut Entering<'_>) -> [R::Held; N] {
        array::from_fn(|at| self[at].enter(entry))
    }

    #[inline(always)]
    fn check(&self, entry: &Entering<'_>) -> Result<(), Error> {
        self.iter().try_for_each(|resources| resources.check(entry))
    }

    fn keep(&self, kept: &mut Keepers) {
        self.iter().for_each(|resources| resources.keep(kept));
    }

    #[inline(always)]
    unsafe fn lend<'a>(held: &'a [R::Held; N]) -> [R::Item<'a>; N] {
        // SAFETY: by the contract.
        array::from_fn(|at| unsafe { R::lend(&held[at]) })
    }
}

macro_rules! tuple {
    ($($name:ident $at:tt),*) => {
        impl<$($name: Lendable),*> Lendable for ($($name,)*) {}

        #[allow(unused_variables, clippy::unused_unit)]
        impl<W, $($name: Resources<W>),*> Resources<W> for ($($name,)*) {
            type Item<'a> = ($($name::Item<'a>,)*);
            type Held = ($($name::Held,)*);

            #[inline(always)]
            fn check(&self, entry: &Entering<'_>) -> Result<(), Error> {
                $(self.$at.check(entry)?;)*
                Ok(())
            }

            #[inline(always)]
            fn enter(&self, entry: &mut Entering<'_>) -> Self::Held {
                ($(self.$at.enter(entry),)*)
            }

            fn keep(&self, kept: &mut Keepers) {
                $(self.$at.keep(kept);)*
            }

            #[inline(always)]
            unsafe fn lend<'a>(held: &'a Self::Held) -> Self::Item<'a> {
                // SAFETY: by the contract.
                ($(unsafe { $name::lend(&held.$at) },)*)
            }
        }
    };
}

tuple!();
tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
tuple!(A 0, B 1, C 2, D 3, E 4);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11);
