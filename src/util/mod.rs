//! Utilities that know nothing of the engine.

pub mod array_vec;
pub mod bucket_array;
pub mod spin;
pub mod work_counter;
