//! `ByContext`: what there is once for each context, made when it is first needed.
//!
//! Used by `resource/manager.rs` and `operator/implementations.rs`. It is a list that only grows,
//! so calls look for their context without a lock.

#![forbid(unsafe_code)]

use crate::error::Error;
use seriatim::Context;
use std::iter::successors;
use std::sync::OnceLock;

/// One value for each context.
#[derive(Debug)]
pub(crate) struct ByContext<T>(Link<T>);

/// The next entry.
type Link<T> = OnceLock<Box<Entry<T>>>;

#[derive(Debug)]
struct Entry<T> {
    context: Context,
    value: T,
    next: Link<T>,
}

/// The value of a context behind a link, or the link at the end.
fn find<T>(mut link: &Link<T>, context: Context) -> Result<&T, &Link<T>> {
    while let Some(entry) = link.get() {
        if entry.context == context {
            return Ok(&entry.value);
        }
        link = &entry.next;
    }
    Err(link)
}

impl<T> ByContext<T> {
    /// No values.
    pub fn new() -> ByContext<T> {
        ByContext(Link::new())
    }

    /// The values that have been made.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        successors(self.0.get(), |entry| entry.next.get()).map(|entry| &entry.value)
    }

    /// The value of a context. If threads make it at once, all get what the first one has made.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn get_or_make(&self, context: Context, make: impl FnOnce() -> Result<T, Error>) -> Result<&T, Error> {
        let mut end = match find(&self.0, context) {
            Ok(found) => return Ok(found),
            Err(end) => end,
        };
        let mut new = Box::new(Entry { context, value: make()?, next: Link::new() });
        loop {
            let back = end.set(new).err();
            match (find(end, context), back) {
                (Ok(found), _) => return Ok(found),
                (Err(later), Some(back)) => (end, new) = (later, back),
                (Err(_), None) => unreachable!("it was set just now"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn all_threads_have_the_value_that_was_made_first() {
        let all = ByContext::new();
        let of = |number| all.get_or_make(Context::gpu(number), || Ok(std::thread::current().id())).copied().unwrap();
        let found: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| [3, 1, 2].map(of))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(found.windows(2).all(|pair| pair[0] == pair[1]), "{found:?}");
        assert_eq!(all.iter().count(), 3);
        let refused = all.get_or_make(Context::gpu(0), || Err(Error::new(ErrorKind::OutOfMemory, "none")));
        assert_eq!((refused.unwrap_err().kind(), all.iter().count()), (ErrorKind::OutOfMemory, 3));
    }
}
