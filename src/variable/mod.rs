//! Variables: the lock-free protocol that orders operations ([`chain`]), and the table that they live in ([`table`]).

pub mod access;
pub mod chain;
pub mod home;
pub mod loan;
mod propagate;
pub mod state;
pub mod table;
