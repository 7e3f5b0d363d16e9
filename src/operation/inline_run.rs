//! The operation that a thread runs inside a push and without a block, published for the thread
//! that asks what is pending.
//!
//! `src/engine/inline/fast_path.rs` writes it, and `src/engine/diagnose.rs` reads it; each thread
//! cache has one (`src/pool/thread_cache.rs`). Only the thread that has the cache writes. Any
//! thread may look: one that draws the engine, or one whose wait runs out of time. It is a sequence
//! lock (Lameter 2005; Boehm, MSPC 2012, for the orderings) whose number is the operation's own,
//! and so never comes back. Nobody waits: a look that meets a change sees nothing.

use crate::sync::{fence, AtomicPtr, AtomicU64, AtomicUsize, Ordering::*};
use std::ptr::null_mut;

/// The most variables of such an operation that are shown: the first ones.
pub const SHOWN: usize = 8;

/// The operation that a thread runs inside its outermost push, if any.
pub struct InlineRun {
    /// The operation's number in push order; 0 if there is none, or while the other fields are
    /// written.
    sequence: AtomicU64,
    /// The start of the operation's name.
    text: AtomicPtr<u8>,
    length: AtomicUsize,
    /// The number of variables that the operation uses. `uses` has the first of them: the index,
    /// and in the lowest bit whether the operation only reads it.
    count: AtomicUsize,
    uses: [AtomicU64; SHOWN],
}

/// A consistent copy of an [`InlineRun`].
pub struct Glimpse {
    pub sequence: u64,
    pub name: &'static str,
    /// The index of each variable, and whether it is only read.
    pub uses: Vec<(u32, bool)>,
}

impl InlineRun {
    pub fn new() -> InlineRun {
        InlineRun {
            sequence: AtomicU64::new(0),
            text: AtomicPtr::new(null_mut()),
            length: AtomicUsize::new(0),
            count: AtomicUsize::new(0),
            uses: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Publishes an operation with `count` variables, of which `used` gives each: its index, and
    /// whether it is only read. The thread has published none.
    #[inline]
    pub fn begin(&self, sequence: u64, name: &'static str, count: usize, used: impl Fn(usize) -> Option<(u32, bool)>) {
        // Release: pairs with the acquire loads in `look`. A thread that sees a new field also sees
        // that the number of the operation before is gone.
        self.text.store(name.as_ptr().cast_mut(), Release);
        self.length.store(name.len(), Release);
        self.count.store(count, Release);
        let mut next = 0;
        while let (Some(place), Some((index, reads))) = (self.uses.get(next), used(next)) {
            place.store(u64::from(index) << 1 | u64::from(reads), Release);
            next += 1;
        }
        // Release: pairs with the acquire load in `look`. A thread that sees the number sees the
        // fields.
        self.sequence.store(sequence, Release);
    }

    /// Takes the operation back: the thread runs none.
    #[inline]
    pub fn end(&self) {
        self.sequence.store(0, Relaxed);
    }

    /// The operation that the thread runs; `None` also if it begins or ends one at this moment.
    pub fn look(&self) -> Option<Glimpse> {
        let sequence = self.sequence.load(Acquire);
        if sequence == 0 {
            return None;
        }
        let (text, length) = (self.text.load(Acquire), self.length.load(Acquire));
        let uses = &self.uses[..self.count.load(Acquire).min(SHOWN)];
        let uses: Vec<u64> = uses.iter().map(|place| place.load(Acquire)).collect();
        fence(Acquire);
        if self.sequence.load(Relaxed) != sequence {
            return None;
        }
        // SAFETY: the number was the same before and after, and each is used once: so pointer and
        // length are of one `begin`, and names are static.
        let name = unsafe { std::str::from_utf8_unchecked(std::slice::from_raw_parts(text, length)) };
        let uses = uses.into_iter().map(|packed| ((packed >> 1) as u32, packed & 1 == 1)).collect();
        Some(Glimpse { sequence, name, uses })
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_look_sees_one_operation_or_none() {
        const NAMES: [&str; 3] = ["a", "four", "something longer"];
        let (running, over) = (InlineRun::new(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for sequence in 1..200_000_u64 {
                    let index = sequence as u32;
                    running.begin(sequence, NAMES[sequence as usize % 3], index as usize % 9, |place| {
                        (place < index as usize % 9).then_some((index, index % 2 == 0))
                    });
                    running.end();
                }
                over.store(true, Relaxed);
            });
            let mut seen = 0;
            while !over.load(Relaxed) || seen == 0 && running.look().is_some() {
                let Some(glimpse) = running.look() else { continue };
                seen += 1;
                let index = glimpse.sequence as u32;
                assert_eq!(glimpse.name, NAMES[glimpse.sequence as usize % 3]);
                assert_eq!(glimpse.uses, vec![(index, index % 2 == 0); index as usize % 9]);
            }
        });
        assert!(running.look().is_none());
    }
}
