//! Nothing: the questions of `cargo bench` are the other files, and every package needs a library
//! or a program.
