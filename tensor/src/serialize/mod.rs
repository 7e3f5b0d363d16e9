//! Files: NumPy's `.npy`, `safetensors`, and MXNet's `.params`.
//!
//! Each format reads bytes that anybody may have written: what is torn or beyond the end is an
//! error, never a panic, and no memory is taken for values that the file does not have.

mod bytes;
mod npy;
mod params;
mod safetensors;
#[cfg(test)]
mod tests;

pub use params::{load_params, save_params};
pub use safetensors::{load_safetensors, save_safetensors};
