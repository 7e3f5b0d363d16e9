//! Short rows of elements, copied and added some elements at a time: no call is made for one.
//!
//! Used by `convolve.rs`, `convolve/windows.rs` and `pool.rs`, whose images are often small.

#![forbid(unsafe_code)]

use crate::kernel::gemm::Real;

/// Copies rows that are `width` long, and begin `from.1` and `into.1` elements apart: as many as
/// there are in both.
pub(crate) fn copy_rows<T: Copy>(from: (&[T], usize), into: (&mut [T], usize), width: usize) {
    match width {
        0 => (),
        8.. => copy_rows_by::<T, 8>(from, into, width),
        4.. => copy_rows_by::<T, 4>(from, into, width),
        _ => copy_rows_by::<T, 1>(from, into, width),
    }
}

/// Copies rows by so many elements at a time. The last of a row may have been copied before. A
/// function for each `N`: in one, loops of several become one with a call that copies.
#[inline(never)]
fn copy_rows_by<T: Copy, const N: usize>(from: (&[T], usize), into: (&mut [T], usize), width: usize) {
    let rows = into.0.chunks_mut(into.1).zip(from.0.chunks(from.1));
    for (into, from) in rows {
        let (into, from) = (&mut into[..width], &from[..width]);
        let (mut at, last) = (0, width - N);
        while at < last {
            into[at..at + N].copy_from_slice(&from[at..at + N]);
            at += N;
        }
        into[last..].copy_from_slice(&from[last..last + N]);
    }
}

/// How many elements make a register.
const WIDE: usize = 8;

/// Copies the elements that a mask lets through, and zeros in place of others.
#[inline(always)]
pub(crate) fn copy_where<T: Real>(mask: &[T], from: &[T], into: &mut [T]) {
    let count = into.len();
    let (mask, from, mut at) = (&mask[..count], &from[..count], 0);
    while at + WIDE <= count {
        let (mask, from) = (&mask[at..at + WIDE], &from[at..at + WIDE]);
        let chosen: [T; WIDE] = std::array::from_fn(|at| from[at].masked(mask[at]));
        into[at..at + WIDE].copy_from_slice(&chosen);
        at += WIDE;
    }
    while at < count {
        into[at] = from[at].masked(mask[at]);
        at += 1;
    }
}

/// Adds the elements that a mask lets through.
#[inline(always)]
pub(crate) fn add_where<T: Real>(mask: &[T], from: &[T], to: &mut [T]) {
    let count = to.len();
    let (mask, from, mut at) = (&mask[..count], &from[..count], 0);
    while at + WIDE <= count {
        let (mask, from, to) = (&mask[at..at + WIDE], &from[at..at + WIDE], &mut to[at..at + WIDE]);
        let sums: [T; WIDE] = std::array::from_fn(|at| to[at] + from[at].masked(mask[at]));
        to.copy_from_slice(&sums);
        at += WIDE;
    }
    while at < count {
        to[at] = to[at] + from[at].masked(mask[at]);
        at += 1;
    }
}
