//! The sizes of buffers: powers of two from 512 bytes to 1 MiB, then four steps to the next power.
//!
//! Used by `buffers.rs`, `allocate.rs` and `lease.rs`, on any thread. There is no state here.

#![forbid(unsafe_code)]

/// The smallest class, as a power of two.
const SMALLEST: u32 = 9;
/// From this power of two on there are four classes to a power.
const FINE: u32 = 20;
const STEPS: usize = 4;
/// The largest class, as a power of two: more than any device has, if addresses are that long.
const LARGEST: u32 = if usize::BITS < 64 { usize::BITS - 1 } else { 46 };
/// How many classes there are.
pub const CLASSES: usize = (FINE - SMALLEST) as usize + 1 + (LARGEST - FINE) as usize * STEPS;

/// The number of the class for so many bytes, if there is one.
pub fn class_of(bytes: usize) -> Option<usize> {
    let last_whole = (FINE - SMALLEST) as usize;
    if bytes <= 1 << FINE {
        let power = bytes.max(1).next_power_of_two().ilog2().max(SMALLEST);
        return Some((power - SMALLEST) as usize);
    }
    // Above 2^power, and at most twice that; in quarters of it.
    let power = (bytes - 1).ilog2();
    let quarter = 1usize << (power - 2);
    let steps = (bytes - (1 << power)).div_ceil(quarter);
    (power < LARGEST).then(|| last_whole + (power - FINE) as usize * STEPS + steps)
}

/// The size of a class.
pub fn bytes_of(class: usize) -> usize {
    let last_whole = (FINE - SMALLEST) as usize;
    let Some(above) = class.checked_sub(last_whole + 1) else { return 1 << (SMALLEST as usize + class) };
    let power = FINE as usize + above / STEPS;
    (1 << power) + (above % STEPS + 1) * (1 << (power - 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_the_smallest_that_holds_its_bytes() {
        let sizes: Vec<usize> = (0..CLASSES).map(bytes_of).collect();
        assert!(sizes.is_sorted_by(|one, next| one < next), "{sizes:?}");
        assert_eq!((sizes[0], sizes[11], sizes[12], sizes[CLASSES - 1]), (512, 1 << 20, 5 << 18, 1 << LARGEST));
        for (class, size) in sizes.iter().copied().enumerate() {
            assert_eq!(class_of(size), Some(class), "{size} bytes");
            assert_eq!(class_of(size + 1), (class + 1 < CLASSES).then_some(class + 1), "{size} bytes and one");
        }
        assert_eq!((class_of(0), class_of(usize::MAX)), (Some(0), None));
    }
}
