//! `Tag`: a name under which storages count what a program allocates.
//!
//! Programs make tags and call closures with them. `ndarray/array.rs` and `pool.rs` ask which tag
//! the thread has. Names are those of the process, so a tag is a number that all storages know.

#![forbid(unsafe_code)]

use crate::error::{Error, ErrorKind};
use std::cell::Cell;
use std::fmt;
use std::sync::OnceLock;

/// How many tags there are, with [`Tag::NONE`].
pub(crate) const TAGS: usize = 256;

/// The names of all tags but the first, which has none.
static NAMES: [OnceLock<Box<str>>; TAGS - 1] = [const { OnceLock::new() }; TAGS - 1];

thread_local! {
    static CURRENT: Cell<Tag> = const { Cell::new(Tag::NONE) };
}

/// A name under which storages count what is allocated.
///
/// An array has the tag in whose [`scope`](Tag::scope) it was made, and keeps it: its memory counts
/// under the tag whichever thread makes it later. So has a block that a program asks of a
/// [`Storage`](crate::storage::Storage) itself. What operations need for themselves has no tag.
/// `statistics_of`, of a storage and of a runtime, says how much there is.
///
/// ```
/// use seriatim_tensor::{storage::Tag, DType, NDArray, Runtime};
/// let (weights, runtime) = (Tag::new("weights")?, Runtime::global()?);
/// let w = weights.scope(|| runtime.zeros([10, 64], DType::F32))?;
/// let x = w.add_scalar(1.0)?;
/// runtime.wait_all()?;
/// assert_eq!(runtime.statistics_of(weights, w.context())?.live, 10 * 64 * 4);
/// # drop(x);
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Tag(u8);

impl Tag {
    /// The tag of what is allocated outside of all scopes. Nothing counts under it.
    pub const NONE: Tag = Tag(0);

    /// The tag of a name, a new one or that which has it already. Takes a lock if it is new.
    ///
    /// # Errors
    /// [`BadParameter`](ErrorKind::BadParameter) beyond 255 names in a process.
    ///
    /// ```
    /// use seriatim_tensor::storage::Tag;
    /// assert_eq!(Tag::new("activations")?, Tag::new("activations")?);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn new(name: &str) -> Result<Tag, Error> {
        let has_it = |place: &OnceLock<Box<str>>| &**place.get_or_init(|| name.into()) == name;
        NAMES.iter().position(has_it).map(|at| Tag(at as u8 + 1)).ok_or_else(|| {
            let message = format!("a tag '{name}' is more than the {} that a process has: share some", TAGS - 1);
            Error::new(ErrorKind::BadParameter, message)
        })
    }

    /// Its name; none of [`Tag::NONE`].
    ///
    /// ```
    /// use seriatim_tensor::storage::Tag;
    /// assert_eq!(Tag::new("states")?.name(), Some("states"));
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn name(self) -> Option<&'static str> {
        NAMES.get(self.number().checked_sub(1)?)?.get().map(|name| &**name)
    }

    /// All tags that the process has made, in their order.
    ///
    /// ```
    /// use seriatim_tensor::storage::Tag;
    /// let tag = Tag::new("gradients")?;
    /// assert!(Tag::all().any(|other| other == tag));
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn all() -> impl Iterator<Item = Tag> {
        (1..TAGS).map(|number| Tag(number as u8)).take_while(|tag| tag.name().is_some())
    }

    /// Calls a closure. What it allocates on this thread has the tag, but for scopes within.
    ///
    /// ```
    /// use seriatim_tensor::storage::{Storage, Tag};
    /// let (storage, cpu) = (Storage::builder().build(), seriatim::Context::cpu(0));
    /// let tag = Tag::new("tables")?;
    /// let block = tag.scope(|| storage.alloc(64, cpu))?;
    /// assert_eq!(storage.statistics_of(tag, cpu)?.live, 64);
    /// # drop(block);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn scope<R>(self, closure: impl FnOnce() -> R) -> R {
        let _before = Before(CURRENT.replace(self));
        closure()
    }

    /// That of the scope that the thread is in.
    #[inline]
    pub(crate) fn current() -> Tag {
        CURRENT.get()
    }

    /// Its place among all, from 0 on.
    #[inline]
    pub(crate) fn number(self) -> usize {
        usize::from(self.0)
    }

    /// The tag with a number that a tag had.
    #[inline]
    pub(crate) fn with_number(number: u32) -> Tag {
        Tag(number as u8)
    }
}

/// Sets back which tag the thread has, also if a closure panics.
struct Before(Tag);

impl Drop for Before {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tag({})", self.name().unwrap_or("none"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_end_also_by_a_panic_and_are_those_of_a_thread() {
        let (one, other) = (Tag::new("one").unwrap(), Tag::new("other").unwrap());
        assert_ne!(one, other);
        assert_eq!((Tag::current(), Tag::NONE.name(), Tag::default()), (Tag::NONE, None, Tag::NONE));
        one.scope(|| {
            let inside = other.scope(|| (Tag::current(), Tag::NONE.scope(Tag::current)));
            assert_eq!((inside, Tag::current()), ((other, Tag::NONE), one));
            assert!(std::panic::catch_unwind(|| other.scope(|| panic!("in a scope"))).is_err());
            assert_eq!(Tag::current(), one);
            std::thread::scope(|scope| scope.spawn(|| assert_eq!(Tag::current(), Tag::NONE)).join().unwrap());
        });
        assert_eq!(Tag::current(), Tag::NONE);
    }

    #[test]
    fn threads_that_name_a_tag_at_once_have_the_same() {
        let all = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| (0..20).map(|at| Tag::new(&format!("at once {at}")).unwrap()).collect()))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<Vec<Tag>>>()
        });
        assert!(all.windows(2).all(|pair| pair[0] == pair[1]));
        for (at, tag) in all[0].iter().enumerate() {
            assert_eq!(tag.name(), Some(&*format!("at once {at}")));
        }
        assert!(all[0].iter().all(|tag| Tag::all().any(|other| other == *tag)));
    }
}
