//! Operators that move elements and change none: they join, part, turn, repeat, pad and choose.
//!
//! `join.rs` has `Concat` and `stack`, `part.rs` `split`; `show.rs` has those that show elements in
//! another way (`slice`, `slice_axis`, `transpose`, `expand_dims`, `squeeze`), `flatten.rs` those
//! that keep their order. `repeat.rs` has `tile` and `repeat`, `pad.rs` `Pad`, `choose.rs` `where`
//! and `clip`, and `methods.rs` the methods of arrays.

mod choose;
mod flatten;
mod join;
pub(super) mod methods;
mod pad;
mod part;
mod repeat;
mod show;

use crate::operator::Builtin;

/// All of them.
pub(super) fn all(add: &mut Builtin<'_>) {
    join::all(add);
    part::all(add);
    show::all(add);
    flatten::all(add);
    repeat::all(add);
    pad::all(add);
    choose::all(add);
}
