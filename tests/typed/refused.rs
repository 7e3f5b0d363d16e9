//! Programs that must not compile: the promises of typed access that are kept before anything runs.
//!
//! Each file of `tests/typed/refused/` is a program; `tests/common/refused.rs` says how it is
//! written. The texts are those that compilers from Rust 1.85 on have in common.

#[path = "../common/refused.rs"]
mod programs;

#[test]
fn programs_that_break_a_promise_do_not_compile() {
    let count = programs::check("seriatim", "tests/typed/refused");
    assert!(count.is_none_or(|count| count >= 12), "{count:?} programs");
}
