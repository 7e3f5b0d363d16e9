//! What a push asks for: what the operation is ([`Request`]), and which variables it uses
//! ([`Claim`]).
//!
//! Both belong to the thread that pushes. A builder fills both in a `Draft` (`draft.rs`);
//! `Draft::new` resets each field of [`Request`] by hand, so a new field is added there too, and
//! where `api/capture_builder.rs` copies single fields. The quick ways of a push take only ordinary
//! requests (`runs_here` in `push/mod.rs`, and `push/logged.rs`); all others are enlisted, and
//! `fill` in `push/enlist.rs` writes the request into the block. A profiled operation is always
//! enlisted: while the engine profiles, the quick ways refuse every push. An operator and a graph
//! keep theirs (`api/operator.rs`, `replay/program.rs`), which any thread reads and none changes.

#![forbid(unsafe_code)]

use crate::device::Context;
use crate::operation::access::Mode;
use crate::operation::block::FLAG_WAIT;
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::variable::handle::Variable;

/// What an operation is, without its closure and its variables.
#[derive(Clone, Copy)]
pub struct Request {
    pub context: Context,
    pub property: Property,
    pub priority: i32,
    pub name: Name,
    pub flags: u16,
}

impl Request {
    /// An ordinary operation with this name: on the processor, of priority 0, without flags.
    #[inline]
    pub fn named(name: Name) -> Request {
        Request { context: Context::cpu(0), property: Property::Normal, priority: 0, name, flags: 0 }
    }

    /// A wait: an operation without a name that tells a waiter, also of a failure.
    pub fn wait() -> Request {
        Request { property: Property::NoSkip, flags: FLAG_WAIT, ..Request::named(Name::default()) }
    }
}

/// One variable that an operation uses.
#[derive(Clone, Copy)]
pub struct Claim {
    pub variable: Variable,
    pub mode: Mode,
}
