//! Bugs on purpose: what the models, the oracle and the other checks must find.
//!
//! This file is part of the source only where the patches beside it are applied. There
//! `mutate!("name": bug, right)` is `right`, and `mutant("name")` is `false`, unless
//! `CHOSEN_MUTANT=name` is in the environment. Not SERIATIM_…: engines made from the
//! environment refuse variables of that name that they do not know.

macro_rules! mutate {
    ($name:literal: $bug:expr, $right:expr) => {
        if $crate::mutants::mutant($name) {
            $bug
        } else {
            $right
        }
    };
}

pub(crate) use mutate;

/// Whether this is the bug to run with.
pub fn mutant(name: &str) -> bool {
    static CHOSEN: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var("CHOSEN_MUTANT").unwrap_or_default()) == name
}
