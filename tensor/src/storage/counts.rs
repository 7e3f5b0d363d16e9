//! `Counts`, which say what was given out and asked for, and `Statistics`, as programs see them.
//!
//! `pool.rs` has counts of each kind of memory and, once a tag is used, of each tag;
//! `ndarray/placing.rs` has those of tags on devices.

#![forbid(unsafe_code)]

use crate::storage::sync::{AtomicUsize, Ordering::*};
use crate::storage::tags::{Tag, TAGS};
use std::sync::OnceLock;

/// What a storage has given out and kept, in bytes, of one kind of memory.
///
/// ```
/// let storage = seriatim_tensor::storage::Storage::builder().build();
/// let block = storage.alloc(64, Default::default())?;
/// let now = storage.statistics(Default::default())?;
/// assert_eq!((now.live, now.pooled, now.peak, now.requests), (64, 0, 64, 1));
/// # drop(block);
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Statistics {
    /// Bytes of the blocks that are given out.
    pub live: usize,
    /// Bytes of the blocks that are kept for later. Of a tag none, as they are for all requests.
    pub pooled: usize,
    /// The most bytes that were ever given out at once.
    pub peak: usize,
    /// How many blocks were asked for.
    pub requests: usize,
    /// How many of them came from the system's allocator.
    pub system_calls: usize,
}

/// What was given out and asked for.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    live: AtomicUsize,
    peak: AtomicUsize,
    requests: AtomicUsize,
    system_calls: AtomicUsize,
}

impl Counts {
    /// Counts a request.
    pub fn ask(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    /// Counts that a request came to the system's allocator.
    pub fn ask_system(&self) {
        self.system_calls.fetch_add(1, Relaxed);
    }

    /// Counts bytes that are given out.
    pub fn begin(&self, bytes: usize) {
        let live = self.live.fetch_add(bytes, Relaxed) + bytes;
        self.peak.fetch_max(live, Relaxed);
    }

    /// The same, if no more than the limit is given out then.
    pub fn begin_within(&self, limit: usize, bytes: usize) -> bool {
        let fits = |live: usize| live.checked_add(bytes).filter(|live| *live <= limit);
        // Acquire: pairs with the release in `end`.
        let begun = self.live.fetch_update(Acquire, Relaxed, fits);
        if let Ok(before) = begun {
            self.peak.fetch_max(before + bytes, Relaxed);
        }
        begun.is_ok()
    }

    /// Counts bytes that come back.
    pub fn end(&self, bytes: usize) {
        // Release: who counts bytes in their room finds what was kept of them. Counting between is
        // by read-modify-writes, which keep the release sequence.
        self.live.fetch_sub(bytes, Release);
    }

    /// What is counted, and nothing kept.
    pub fn statistics(&self) -> Statistics {
        Statistics {
            live: self.live.load(Relaxed),
            pooled: 0,
            peak: self.peak.load(Relaxed),
            requests: self.requests.load(Relaxed),
            system_calls: self.system_calls.load(Relaxed),
        }
    }
}

/// The counts of all tags, made when the first one is used.
#[derive(Debug, Default)]
pub(crate) struct TagCounts(OnceLock<Box<[Counts]>>);

impl TagCounts {
    /// Those of a tag, to count under it; none of [`Tag::NONE`].
    #[inline]
    pub fn to_count(&self, tag: Tag) -> Option<&Counts> {
        if tag == Tag::NONE {
            return None;
        }
        let all = self.0.get_or_init(|| (0..TAGS).map(|_| Counts::default()).collect());
        all.get(tag.number())
    }

    /// What is counted under a tag.
    pub fn statistics(&self, tag: Tag) -> Statistics {
        self.0.get().map(|all| all[tag.number()].statistics()).unwrap_or_default()
    }
}
