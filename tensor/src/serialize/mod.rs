//! Files: NumPy's `.npy` and `.npz`, `safetensors`, and MXNet's `.params`; and [`Format`], by which
//! they are read and written in memory.
//!
//! Each format reads bytes that anybody may have written: what is torn or beyond the end is an
//! error, never a panic, and no memory is taken for values that the file does not have.

mod bytes;
mod format;
mod npy;
mod npz;
mod params;
mod safetensors;
#[cfg(test)]
mod tests;
mod zip;

pub use format::Format;
pub use npz::{load_npz, save_npz, save_npz_compressed};
pub use params::{load_params, save_params};
pub use safetensors::{load_safetensors, save_safetensors};
