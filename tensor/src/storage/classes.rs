//! Size classes: which sizes of blocks a storage has, and which one a request gets.
//!
//! Used by `pool.rs`. Pure arithmetic.

#![forbid(unsafe_code)]

/// The smallest block, and the alignment of all: a cache line.
pub(crate) const LINE: usize = 64;

/// The largest block of the powers of two: 1 MiB. Beyond it each doubling is cut into eight sizes.
const POWERS_TO: u32 = 20;
const LINE_LOG: u32 = LINE.ilog2();
/// No block is larger than 2⁴⁷ bytes.
const LARGEST_LOG: u32 = 46;

/// A page of memory. Blocks of pinned memory begin with one, as a device asks for that registers
/// them.
pub(crate) const PAGE: usize = 4096;

/// How many classes there are, of that kind of pool which has the most: of pages.
pub(crate) const CLASSES: usize = (1 << POWERS_TO) / PAGE + 8 * (LARGEST_LOG - POWERS_TO + 1) as usize;

/// How a storage rounds requests, and whether it keeps what is freed.
///
/// ```
/// use seriatim_tensor::storage::{Pooling, Storage};
/// let storage = Storage::builder().pooling(Pooling::PowersOfTwo).build();
/// assert_eq!(storage.alloc(3 << 20, Default::default())?.capacity(), 4 << 20);
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Pooling {
    /// Blocks are kept. Their sizes are powers of two up to 1 MiB, and above it eighths of them: at
    /// most an eighth is wasted there.
    #[default]
    Eighths,
    /// Blocks are kept. All sizes are powers of two.
    PowersOfTwo,
    /// Blocks are kept. Their sizes are whole pages of 4,096 bytes up to 1 MiB, and above it as for
    /// `Eighths`.
    Pages,
    /// Every block goes back to the system at once, and is as long as was asked for, rounded up to
    /// a cache line.
    None,
}

/// The class of a request and the bytes of its blocks; `None` if it is too large.
pub(crate) fn class_of(bytes: usize, pooling: Pooling) -> Option<(usize, usize)> {
    let bytes = bytes.max(LINE);
    if pooling == Pooling::None {
        return Some((0, bytes.checked_next_multiple_of(LINE)?)).filter(|(_, size)| *size <= 1 << LARGEST_LOG);
    }
    let power = bytes.checked_next_power_of_two()?;
    let (log, small) = (power.ilog2(), last_small(pooling));
    if log > LARGEST_LOG {
        return None;
    }
    if log <= POWERS_TO {
        return Some(match pooling {
            Pooling::Pages => (bytes.div_ceil(PAGE) - 1, bytes.next_multiple_of(PAGE)),
            _ => ((log - LINE_LOG) as usize, power),
        });
    }
    // Between `half` and `power` lie eight sizes, the last of which is `power`.
    let (half, above) = (power / 2, (log - POWERS_TO - 1) as usize);
    let eighths = match pooling {
        Pooling::PowersOfTwo => 8,
        _ => (bytes - half).div_ceil(half / 8),
    };
    Some((small + above * 8 + eighths, half + half / 8 * eighths))
}

/// The class of 1 MiB, the last one that is not an eighth of a power of two.
fn last_small(pooling: Pooling) -> usize {
    match pooling {
        Pooling::Pages => (1 << POWERS_TO) / PAGE - 1,
        _ => (POWERS_TO - LINE_LOG) as usize,
    }
}

/// The classes after one whose blocks are at most twice as large, at most eight of them. A request
/// takes a block of these before the system is asked for more.
pub(crate) fn next_classes(class: usize, pooling: Pooling) -> std::ops::Range<usize> {
    let more = match pooling {
        Pooling::None => 0,
        Pooling::Pages => (class + 1).min(8),
        _ if class < last_small(pooling) => 1,
        _ => 8,
    };
    class + 1..(class + 1 + more).min(CLASSES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_has_one_size_and_fits() {
        let mut sizes = std::collections::BTreeMap::new();
        let near = |log: u32| {
            (0..64).flat_map(move |step| [(1usize << log) + step * ((1usize << log) / 64), (1 << log) + step])
        };
        let powers = if cfg!(miri) { 18..23 } else { 0..46 };
        for bytes in powers.flat_map(near).chain([0, (1 << 46) - 1, 1 << 46]) {
            for pooling in [Pooling::Eighths, Pooling::PowersOfTwo] {
                let (class, size) = class_of(bytes, pooling).unwrap();
                assert!(class < CLASSES && size >= bytes && size % LINE == 0, "{bytes}: {class}, {size}");
                assert_eq!(*sizes.entry(class).or_insert(size), size, "{bytes}");
                let most = if bytes > 1 << 20 && pooling == Pooling::Eighths { bytes / 8 } else { bytes.max(64) };
                assert!(size - bytes <= most, "{bytes}: {size}");
            }
            let (class, size) = class_of(bytes, Pooling::Pages).unwrap();
            assert!(class < CLASSES && size >= bytes && size % PAGE == 0, "{bytes}: {class}, {size}");
            assert!(size - bytes <= (bytes / 8).max(PAGE), "{bytes}: {size}");
            assert!(class_of(bytes, Pooling::None).unwrap().1 - bytes <= LINE);
        }
        assert_eq!(class_of((1 << 46) + 1, Pooling::Eighths), None);
        assert_eq!(class_of(usize::MAX, Pooling::None), None);
    }

    #[test]
    fn next_classes_have_blocks_of_at_most_twice_the_size() {
        for pooling in [Pooling::Eighths, Pooling::PowersOfTwo, Pooling::Pages] {
            // Of each class the size, where the kind of pool has the class.
            let mut sizes = std::collections::BTreeMap::new();
            let near = (6..32).flat_map(|log| (0..512).map(move |step| (1usize << log) + step * ((1 << log) / 512)));
            sizes.extend(near.map(|bytes| class_of(bytes, pooling).unwrap()));
            let last = *sizes.keys().next_back().unwrap();
            for (class, size) in sizes.iter().filter(|(class, _)| **class + 8 < last) {
                let next = next_classes(*class, pooling);
                assert!(next
                    .clone()
                    .all(|next| sizes.get(&next).is_none_or(|next| (size + 1..=2 * size).contains(next))));
                assert!(next.clone().any(|next| sizes.contains_key(&next)), "{pooling:?} {class}");
                assert!(next.len() == 8 || sizes.get(&next.end).is_none_or(|beyond| *beyond > 2 * size));
            }
        }
        assert!(next_classes(0, Pooling::None).is_empty());
        assert_eq!(next_classes(CLASSES - 1, Pooling::Eighths), CLASSES..CLASSES);
    }
}
