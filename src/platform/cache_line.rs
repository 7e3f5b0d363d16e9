//! Cache-line prefetching for writes, and an order of lines that the processor does not fetch
//! ahead. Used for blocks (`operation/block.rs`, `tickets/ring.rs`, `tickets/segment.rs`), for
//! tails (`tickets/linking.rs`) and for inboxes (`worker/inbox.rs`).
//!
//! A line that was last written by another core takes a trip to fetch. If it is read first and then
//! written, it takes two trips: one for a copy, and one to make the copy the only one. So a thread
//! that is going to write asks for the line as its own before it reads.
//!
//! A line goes back and forth between two cores if one writes it, the other one reads it, and the
//! first one writes it again. The reader should then write to the line too, at any place in it.
//! Where both write, a core that comes back to the line fetches it, and has many such trips under
//! way side by side. Where the other core has only read the line, each trip waits for the one
//! before, and no request ahead of time helps. `perf/NOTES.md` has the figures. Blocks of two lines
//! that one core writes and another one reads cost the writer 68 ns each on far cores (18 on near
//! ones). If the reader writes to both lines, they cost 8 ns (4 ns). The reader pays nothing for
//! its writes.
//!
//! Lines that are handed over should not come in ascending order, unless something else asks for
//! that. Else the reader's processor fetches the next lines ahead, while the other core still
//! writes them ([`scattered`]).

/// The distance from one line to the next.
pub const LINE: usize = 64;

/// Asks for the line of `place`, in order to write it. Never faults, whatever the address is.
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

/// Like [`fetch_to_write`], but for a line that is used at once, so a simulated machine charges the
/// wait for it.
#[inline(always)]
#[cfg_attr(seriatim_simulation, track_caller)]
pub fn fetch_now<T>(place: *const T) {
    #[cfg(seriatim_simulation)]
    crate::sync::touch(place, 1, true);
    fetch_to_write(place);
}

/// Returns a number below `count`, unrelated to the numbers for smaller counts; `count` is not 0. A
/// list to which items are added one by one comes out of order if each new item, the last of
/// `count`, is exchanged with the item at this position (`tickets/ring.rs`).
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
