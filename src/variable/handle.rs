//! The public handle of a variable, [`Variable`]: a number and a generation, which never change and
//! which any thread may copy. `engine/resolve.rs` and `engine/push/acquire.rs` find the slot of a
//! handle (`variable/slot.rs`) and compare its generation, which a deletion ends. It is shown with
//! its name, if it has one (`variable/names.rs`).

#![forbid(unsafe_code)]

use crate::variable::names;
use std::fmt;

/// A token for anything that operations read or change: a light handle that knows its engine and
/// its generation.
///
/// Copying it copies the handle, not the variable. After
/// [`delete_variable`](crate::Engine::delete_variable) every copy is refused with a typed error,
/// also when the slot of the variable has been given to a new variable.
///
/// ```
/// let engine = seriatim::Engine::new()?;
/// let x = engine.new_variable();
/// engine.op("fill").writes([x]).push(|_| ())?;
/// engine.wait_for_var(x)?;
/// assert_eq!(engine.version(x)?, 1);
/// # Ok::<(), seriatim::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Variable {
    pub(crate) engine: u32,
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl Variable {
    /// The handle as two words, for interfaces to other languages.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let x = engine.new_variable();
    /// assert_eq!(seriatim::Variable::from_raw(x.into_raw()), x);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn into_raw(self) -> (u64, u32) {
        (u64::from(self.engine) << 32 | u64::from(self.index), self.generation)
    }

    /// Returns the handle that [`into_raw`](Variable::into_raw) made into words. Any other words
    /// make a handle that engines refuse.
    ///
    /// ```
    /// let stray = seriatim::Variable::from_raw((0, 0));
    /// let engine = seriatim::Engine::new()?;
    /// assert!(engine.version(stray).is_err());
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    #[inline]
    pub fn from_raw((place, generation): (u64, u32)) -> Variable {
        Variable { engine: (place >> 32) as u32, index: place as u32, generation }
    }

    /// Returns whether the handle may be that of a variable of this engine, as far as the handle
    /// alone tells: variables are alive in odd generations, and even ones were never handed out.
    #[inline(always)]
    pub(crate) fn may_be_of(self, engine: u32) -> bool {
        self.engine == engine && self.generation % 2 == 1
    }
}

impl fmt::Debug for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "variable {}.{}", self.index, self.generation / 2)?;
        match names::get((self.engine, self.index), names::ordinal(self.generation)) {
            Some(name) => write!(f, " '{name}'"),
            None => Ok(()),
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use crate::{Context, Engine, ErrorKind, Kind};
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn a_place_whose_generations_are_used_up_is_not_used_again() {
        let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
        let delete = |variable| engine.delete_variable(|_| (), Context::cpu(0), variable).unwrap();
        let first = engine.new_variable();
        delete(first);
        // This is the state after two thousand million deletions: the next variable here is the
        // last.
        let slot = engine.core().memory.table.get(first.index).unwrap();
        slot.generation.store(u32::MAX - 1, Relaxed);
        let last = engine.new_variable();
        assert_eq!((last.index, last.generation), (first.index, u32::MAX));
        assert_eq!(engine.version(last).unwrap(), 0);
        delete(last);
        for _ in 0..200 {
            let next = engine.new_variable();
            assert_ne!(next.index, first.index);
            delete(next);
            for gone in [first, last] {
                assert_eq!(engine.version(gone).unwrap_err().kind(), ErrorKind::VariableDeleted);
            }
        }
    }
}
