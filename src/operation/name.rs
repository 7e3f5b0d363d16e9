//! Names of operations: static text, or text that is interned once. Programs give them to the
//! builders of `src/api/`, on any thread. [`Name::parts`] cuts a name to what a block can hold, and
//! `header.rs` stores that.

#![forbid(unsafe_code)]

use crate::sync::lock;
use std::collections::HashSet;
use std::fmt;
use std::sync::Mutex;

/// The texts that are interned, for all engines of the process. Only this file uses them: any
/// thread that makes a name of a `String` looks and adds under the lock, also for C (`capi/`).
/// `engine/fork.rs` holds the lock around a fork.
pub type Names = Option<HashSet<&'static str>>;
pub static NAMES: Mutex<Names> = Mutex::new(None);

/// The name of an operation: cheap to copy, and never freed.
///
/// Made from a string literal at no cost. A name made from a `String` is interned: the first use of
/// each text takes a lock, and keeps the text for the life of the process. So make such names ahead
/// of time and not for every push. Operations that wait for their turn keep only the beginning of a
/// text that is longer than 65,535 bytes.
///
/// ```
/// use seriatim::Name;
/// let literal: Name = "axpy".into();
/// let tile: Name = format!("gemm {}", 3).into();
/// assert_eq!(literal.as_str(), "axpy");
/// assert_eq!(tile.as_str(), "gemm 3");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Name(&'static str);

impl Name {
    /// The text.
    ///
    /// ```
    /// assert_eq!(seriatim::Name::from("copy").as_str(), "copy");
    /// ```
    #[inline]
    pub fn as_str(self) -> &'static str {
        self.0
    }

    /// The address and the length of the text; a very long text is cut off.
    #[inline]
    pub(crate) fn parts(self) -> (*const u8, u16) {
        (self.0.as_ptr(), u16::try_from(self.0.len()).unwrap_or_else(|_| shortened(self.0)))
    }
}

/// The largest length that fits into 16 bits and does not cut a character in two.
#[cold]
fn shortened(text: &str) -> u16 {
    let fits = (0..=u16::MAX).rev().find(|length| text.is_char_boundary(usize::from(*length)));
    fits.unwrap_or(0)
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        self.0
    }
}

impl From<&'static str> for Name {
    #[inline]
    fn from(text: &'static str) -> Name {
        Name(text)
    }
}

impl From<String> for Name {
    fn from(text: String) -> Name {
        let mut names = lock::of_static(&NAMES);
        let names = names.get_or_insert_with(HashSet::new);
        if let Some(known) = names.get(text.as_str()) {
            return Name(known);
        }
        let text: &'static str = Box::leak(text.into_boxed_str());
        names.insert(text);
        Name(text)
    }
}
