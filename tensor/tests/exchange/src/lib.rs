//! Nothing but tests: what `seriatim-tensor` writes and lends other libraries take, and the other
//! way round. A package of its own, since these libraries ask for a newer Rust and have nothing to
//! do with the workspace. CI runs the tests, see `.ci/run`.

#![forbid(unsafe_code)]
