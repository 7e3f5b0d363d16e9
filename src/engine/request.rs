//! What a push asks for: what the operation is, and which variables it uses.

#![forbid(unsafe_code)]

use crate::device::Context;
use crate::operation::access::Mode;
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::variable::handle::Variable;

/// What an operation is, but for its closure and its variables.
#[derive(Clone, Copy)]
pub struct Request {
    pub context: Context,
    pub property: Property,
    pub priority: i32,
    pub name: Name,
    pub flags: u8,
}

impl Request {
    /// An ordinary operation of that name.
    #[inline]
    pub fn named(name: Name) -> Request {
        Request { context: Context::cpu(0), property: Property::Normal, priority: 0, name, flags: 0 }
    }
}

/// One variable that an operation uses.
#[derive(Clone, Copy)]
pub struct Claim {
    pub variable: Variable,
    pub mode: Mode,
}
