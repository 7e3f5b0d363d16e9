//! Variables: what users hold of one ([`handle`]), what each is ([`slot`]), and the table that they
//! live in ([`table`]).

pub mod handle;
pub mod slot;
pub mod table;
