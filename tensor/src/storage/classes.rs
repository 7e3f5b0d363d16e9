//! Size classes: which sizes of blocks a storage has, and which one a request gets.
//!
//! Used by `pool.rs`. Pure arithmetic.

#![forbid(unsafe_code)]

/// The smallest block, and the alignment of all: a cache line.
pub(crate) const LINE: usize = 64;

/// No block is larger than 2⁴⁶ bytes.
const LARGEST_LOG: u32 = 46;

/// A page of memory. Blocks of pinned memory begin with one, as a device asks for that registers
/// them.
pub(crate) const PAGE: usize = 4096;

/// Beyond it `Pages` has the sizes of `Eighths`: 1 MiB.
const PAGES_TO: usize = 1 << 20;
const PAGES: usize = PAGES_TO / PAGE;

/// How many classes there are, of that kind of pool which has the most: of pages.
pub(crate) const CLASSES: usize = PAGES + 8 * (LARGEST_LOG - PAGES_TO.ilog2()) as usize;

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
    /// Blocks are kept. Each doubling is cut into eight sizes, but none is between two multiples of
    /// 64: a new block is longer than the request by at most an eighth, or 63 bytes.
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
    if bytes > 1 << LARGEST_LOG {
        return None;
    }
    Some(match pooling {
        Pooling::PowersOfTwo => {
            let size = bytes.next_power_of_two();
            ((size.ilog2() - LINE.ilog2()) as usize, size)
        }
        Pooling::Pages if bytes > PAGES_TO => {
            let (class, size) = eighths(bytes);
            (class - eighths(PAGES_TO).0 + PAGES - 1, size)
        }
        Pooling::Pages => {
            let pages = bytes.div_ceil(PAGE);
            (pages - 1, pages * PAGE)
        }
        _ => eighths(bytes),
    })
}

/// The class and the size of a request where each doubling has eight sizes, and none is below a
/// line.
const fn eighths(bytes: usize) -> (usize, usize) {
    // The last byte decides. Below eight lines an eighth of a doubling would be less than a line.
    let last = bytes - 1;
    if last < 8 * LINE {
        return (last / LINE, (last / LINE + 1) * LINE);
    }
    // It lies in the doubling from `1 << log` on, which begins with step 8 and ends with step 15.
    let log = last.ilog2();
    let step = last >> (log - 3);
    ((log - (8 * LINE).ilog2()) as usize * 8 + step, (step + 1) << (log - 3))
}

/// The classes after one whose blocks are at most twice as large, at most eight of them. A request
/// takes a block of these before the system is asked for more.
pub(crate) fn next_classes(class: usize, pooling: Pooling) -> std::ops::Range<usize> {
    let more = match pooling {
        Pooling::None => 0,
        Pooling::PowersOfTwo => 1,
        Pooling::Eighths | Pooling::Pages => (class + 1).min(8),
    };
    class + 1..(class + 1 + more).min(CLASSES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_has_one_size_and_fits() {
        let mut sizes = [(); 2].map(|()| std::collections::BTreeMap::new());
        let near = |log: u32| {
            (0..64).flat_map(move |step| [(1usize << log) + step * ((1usize << log) / 64), (1 << log) + step])
        };
        let powers = if cfg!(miri) { 18..23 } else { 0..46 };
        for bytes in powers.flat_map(near).chain([0, (1 << 46) - 1, 1 << 46]) {
            for (pooling, sizes) in [Pooling::Eighths, Pooling::PowersOfTwo].into_iter().zip(&mut sizes) {
                let (class, size) = class_of(bytes, pooling).unwrap();
                assert!(class < CLASSES && size >= bytes && size % LINE == 0, "{bytes}: {class}, {size}");
                assert_eq!(*sizes.entry(class).or_insert(size), size, "{bytes}");
                let most = if pooling == Pooling::Eighths { (bytes / 8).max(LINE) } else { bytes.max(LINE) };
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
            // Under Miri there are fewer, yet some in each class or in the next ones.
            let steps = (0..512).step_by(if cfg!(miri) { 16 } else { 1 });
            let near = |log: u32| steps.clone().map(move |step| (1usize << log) + step * ((1 << log) / 512));
            sizes.extend((6..32).flat_map(near).map(|bytes| class_of(bytes, pooling).unwrap()));
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
