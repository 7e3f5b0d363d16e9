//! The kernel of the measurements, `mix` in `kernels/kernels.cu`, and what it computes.

use seriatim::gpu::{RawMemory, RawStream};

/// What one launch of the kernel does: each of `count` numbers of `out` becomes a mixture of
/// itself, of the numbers of `from`, and of `id`.
#[derive(Clone, Copy, Debug)]
pub struct Mixture {
    pub out: RawMemory,
    pub from: [Option<RawMemory>; 3],
    pub id: u64,
    /// Steps that make it last, and are part of the result.
    pub spin: u64,
    pub count: usize,
}

/// A device that has the kernel.
pub trait Mix: Send + Sync + 'static {
    /// Queues the kernel on a stream of a device.
    ///
    /// # Safety
    /// The arrays have so many numbers, are the caller's as long as the kernel runs, and are of
    /// that device, which is current.
    ///
    /// # Errors
    /// What the driver says.
    unsafe fn mix(&self, device: usize, stream: RawStream, what: &Mixture) -> Result<(), String>;
}

/// What the kernel makes of one number.
pub fn mixed(value: u64, from: [u64; 3], id: u64, spin: u64) -> u64 {
    let start = value
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(id)
        .wrapping_add(from[0])
        .wrapping_add(from[1].wrapping_mul(3))
        .wrapping_add(from[2].wrapping_mul(5));
    // The steps are v ← v·a + c, so many at once as there are bits in their number.
    let (mut factor, mut term) = (1u64, 0u64);
    let (mut a, mut c) = (2_862_933_555_777_941_757u64, 3_037_000_493u64);
    let mut left = spin;
    while left > 0 {
        if left & 1 == 1 {
            (factor, term) = (factor.wrapping_mul(a), term.wrapping_mul(a).wrapping_add(c));
        }
        (a, c) = (a.wrapping_mul(a), c.wrapping_mul(a).wrapping_add(c));
        left >>= 1;
    }
    start.wrapping_mul(factor).wrapping_add(term)
}

/// The kernel on the processor, done when the call returns.
#[derive(Debug)]
pub struct OnProcessor;

impl Mix for OnProcessor {
    unsafe fn mix(&self, _: usize, _: RawStream, what: &Mixture) -> Result<(), String> {
        let read = |from: Option<RawMemory>, at: usize| {
            // SAFETY: by the contract.
            from.map_or(0, |from| unsafe { from.raw().cast::<u64>().add(at).read() })
        };
        for at in 0..what.count {
            let from = what.from.map(|from| read(from, at));
            // SAFETY: by the contract.
            unsafe {
                let out = what.out.raw().cast::<u64>().add(at);
                out.write(mixed(out.read(), from, what.id, what.spin));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::mixed;

    #[test]
    fn steps_at_once_are_those_steps_one_by_one() {
        for spin in [0, 1, 2, 3, 7, 64, 1000, 12_345] {
            let mut expected = mixed(5, [1, 2, 3], 9, 0);
            for _ in 0..spin {
                expected = expected.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(3_037_000_493);
            }
            assert_eq!(mixed(5, [1, 2, 3], 9, spin), expected, "{spin}");
        }
    }

    #[test]
    fn every_part_counts() {
        let all = mixed(5, [1, 2, 3], 9, 4);
        let others = [
            mixed(6, [1, 2, 3], 9, 4),
            mixed(5, [2, 1, 3], 9, 4),
            mixed(5, [1, 3, 2], 9, 4),
            mixed(5, [1, 2, 3], 8, 4),
            mixed(5, [1, 2, 3], 9, 5),
        ];
        assert!(others.iter().all(|other| *other != all));
    }
}
