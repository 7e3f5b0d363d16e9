//! Cache lines: asking for one before it is needed, and leaving one so that another core gets it
//! soon.
//!
//! A line that was last written by another core takes a trip to fetch. If it is read first and then
//! written it takes two: one for a copy, one to make the copy the only one. So who is going to
//! write asks for it as its own before it reads.
//!
//! A line goes back and forth between two cores if one writes it, the other one reads it, and the
//! first one writes it again. There the reader should write it too, anything and anywhere in it.
//! Where both write, a core that comes back to the line fetches it, and has many such trips under
//! way side by side. Where the other one has only read it, each trip waits for the one before, and
//! no request ahead of time helps. `perf/NOTES.md` has the figures: blocks of two lines that one
//! core writes and another one reads cost the writer 68 ns each on far cores, and 8 ns if the
//! reader writes to both lines (18 and 4 ns on near ones). There the reader pays nothing for it.
//!
//! Nor should lines that are handed over come in ascending order, if nothing else asks for that:
//! who reads them then has them fetched ahead by the processor, from under the hands of who still
//! writes them ([`scattered`]).

/// The distance from one line to the next.
pub const LINE: usize = 64;

/// Asks for the line of `place`, to be written. Never faults, whatever the address is.
#[inline(always)]
#[cfg_attr(seriatim_simulation, track_caller)]
pub fn fetch_to_write<T>(place: *const T) {
    #[cfg(seriatim_simulation)]
    crate::sync::ask(place);
    #[cfg(all(target_arch = "x86_64", not(any(loom, shuttle, miri))))]
    // SAFETY: a hint that changes nothing but caches. Processors without it take it for a `nop`.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) place, options(nostack, preserves_flags, readonly));
    }
    #[cfg(all(target_arch = "aarch64", not(any(loom, shuttle, miri))))]
    // SAFETY: a hint that changes nothing but caches.
    unsafe {
        std::arch::asm!("prfm pstl1keep, [{}]", in(reg) place, options(nostack, preserves_flags, readonly));
    }
    #[cfg(any(loom, shuttle, miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = place;
}

/// As [`fetch_to_write`], for a line that is used at once. A simulated machine counts it.
#[inline(always)]
#[cfg_attr(seriatim_simulation, track_caller)]
pub fn fetch_now<T>(place: *const T) {
    #[cfg(seriatim_simulation)]
    crate::sync::touch(place, 1, true);
    fetch_to_write(place);
}

/// A number below `count`, which is not 0, that has nothing to do with those for smaller counts.
/// Taken as the place with which the last of so many is exchanged, one count after the other, it
/// brings them out of order.
pub fn scattered(count: usize) -> usize {
    // Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (2014): the
    // finaliser.
    let mut number = (count as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((number ^ number >> 31) % count as u64) as usize
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_scattered() {
        let mut order = Vec::new();
        for count in 1..=2048 {
            order.push(count);
            order.swap(count - 1, scattered(count));
        }
        let near = order.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) < 8).count();
        assert!(near < 40, "{near} of 2047 neighbours are still near each other");
        order.sort_unstable();
        assert!(order.into_iter().eq(1..=2048));
    }
}
