//! Utilities that know nothing of the engine. Each file says which threads may use what it has.

pub mod array_vec;
pub mod bucket_array;
#[cfg(test)]
pub mod random;
pub mod spin;
pub mod work_counter;
