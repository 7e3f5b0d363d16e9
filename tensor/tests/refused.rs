//! Programs that must not compile: what simple operators are given has types of its own, so
//! arguments in a wrong order are refused.
//!
//! Each file of `tests/refused/` is a program; `../tests/common/refused.rs` says how it is written.

#![cfg(not(miri))]

#[path = "../../tests/common/refused.rs"]
mod programs;

#[test]
fn arguments_of_gradients_in_a_wrong_order_do_not_compile() {
    let count = programs::check("seriatim_tensor", "tests/refused");
    assert!(count.is_none_or(|count| count == 4), "{count:?} programs");
}
