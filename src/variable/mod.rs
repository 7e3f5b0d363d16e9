//! Variables: how operations use them ([`access`]), what each is ([`slot`]), and the table that
//! they live in ([`table`]).

pub mod access;
pub mod handle;
pub mod slot;
pub mod table;
