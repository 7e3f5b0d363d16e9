//! Typed access: an operation says in one place which values it uses and how its closure gets them,
//! and the closure gets plain references.
//!
//! `value.rs` has the values, and says why all of it is sound; `tiles.rs` makes several of one
//! array. `resources.rs`, `several.rs`, `slices.rs` (with `each_iter.rs`) and `device_slice.rs`
//! have what an operation may name, `run.rs` the ends of the builders that take it, and
//! `compute.rs` those that give a result. `guard.rs` is for threads outside of operations,
//! `part.rs` for operations of a scope, `reduction.rs` with `reduce.rs` for values that operations
//! add to at once.
//!
//! Three spellings were written and compared:
//!
//! ```text
//! engine.op("axpy").run((&x, Write(&y)), |(x, y)| …)          one call, the closure takes a tuple
//! engine.op("axpy").on((&x, Write(&y))).run(|x, y| …)         the closure takes them one by one
//! engine.op("axpy").with(&x).with_mut(&y).run(|x, y| …)       a call for each value
//! ```
//!
//! The first one is kept. It is one method for every number and nesting of values. So there is one
//! page of documentation and one message for each mistake, and generic code can be written over it.
//! The others need a method for each number of values: stable Rust has no name for closures of any
//! number of parameters. The first one also infers the types of the closure's parameters, which a
//! trait of our own over closures would not.

pub mod compute;
pub mod device_slice;
pub mod each_iter;
pub mod guard;
pub mod part;
pub mod reduce;
pub mod reduction;
pub mod resources;
pub mod run;
pub mod several;
pub mod slices;
pub mod tiles;
pub mod value;
