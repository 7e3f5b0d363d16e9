//! Variables: the public handle ([`handle`]), the slot with the state of one variable ([`slot`]),
//! the table of an engine's slots ([`table`]), and the names that programs give ([`names`]). Which
//! pusher owns a variable is decided in `src/tickets/owner/`.

pub mod handle;
pub mod names;
pub mod slot;
pub mod table;
