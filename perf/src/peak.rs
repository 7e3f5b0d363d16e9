//! The peak of this process's resident memory.

/// Gives back what the allocator keeps, forgets the peak so far, and returns what is resident now,
/// in kB. `None` where the system does not do that.
pub(crate) fn restart() -> Option<u64> {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: gives free memory back to the system; no live block is touched.
    unsafe {
        libc::malloc_trim(0);
    }
    // As proc(5) has it: a 5 sets the peak to what is resident.
    std::fs::write("/proc/self/clear_refs", "5").ok()?;
    resident_kb()
}

/// The peak since [`restart`], in kB.
pub(crate) fn resident_kb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_was_used_and_given_back_is_in_the_peak_and_no_later_one() {
        const KB: u64 = 64 << 10;
        let Some(before) = restart() else {
            return; // The system does not do that.
        };
        let used = vec![1_u8; KB as usize * 1024];
        assert!(std::hint::black_box(&used).iter().all(|byte| *byte == 1));
        drop(used);
        let grown = resident_kb().expect("it said so before") - before;
        // The system counts pages in batches for each core.
        assert!(grown >= KB / 4 * 3, "{grown} kB of {KB}");
        let again = restart().expect("it did so before");
        assert!(again < before + KB / 2, "{again} kB, and {before} before");
    }
}
