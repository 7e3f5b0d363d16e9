//! Variables: the public handle ([`handle`]), the slot with the state of one variable ([`slot`]),
//! and the table of an engine's slots ([`table`]). Which pusher owns a variable is decided in
//! `src/tickets/owner/`.

pub mod handle;
pub mod slot;
pub mod table;
