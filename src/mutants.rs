//! Bugs on purpose: what the models, the oracle and the other checks must find.
//!
//! `mutate!("name": bug, right)` is `right`, and `mutant("name")` is `false`, unless the crate is
//! built with `--cfg seriatim_mutants`, which no feature can switch on. Then `SERIATIM_MUTANT=name`
//! in the environment makes it `bug`. `loom-tests/mutants.txt` lists them with the invariant that
//! each one breaks and the check that finds it; `scripts/mutants.sh` shows that it does.

#[cfg(not(seriatim_mutants))]
macro_rules! mutate {
    ($name:literal: $bug:expr, $right:expr) => {
        $right
    };
}

#[cfg(seriatim_mutants)]
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
#[cfg(not(seriatim_mutants))]
#[inline(always)]
pub const fn mutant(_: &str) -> bool {
    false
}

/// Whether this is the bug to run with.
#[cfg(seriatim_mutants)]
pub fn mutant(name: &str) -> bool {
    static CHOSEN: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var("SERIATIM_MUTANT").unwrap_or_default()) == name
}
