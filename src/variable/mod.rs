//! Variables: how operations use them ([`access`]), and the table that they live in ([`table`]).

pub mod access;
pub mod table;
