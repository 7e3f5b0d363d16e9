//! Cache lines: asking for one before it is needed.
//!
//! A line that was last written by another core takes a trip to fetch. If it is read first and then
//! written it takes two: one for a copy, one to make the copy the only one. So who is going to
//! write asks for it as its own before it reads.

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
