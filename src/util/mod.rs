//! Utilities that know nothing of the engine. Each file says which threads may use what it has.

pub mod array_vec;
pub mod bucket_array;
pub mod payload;
pub mod poll_state;
#[cfg(test)]
pub mod random;
pub mod spans;
pub mod spin;
pub mod waker_cell;
pub mod work_counter;
