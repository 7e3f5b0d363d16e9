//! What a task computes, apart from its dependencies: Task Bench's kernels.

use std::cell::UnsafeCell;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// A kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kernel {
    /// Fused multiply-adds on 64 numbers that stay in registers.
    Compute,
    /// Copies within a scratch buffer of the tile; all of them together are larger than a cache.
    Memory,
    /// `Compute`, with between a half and three halves of the iterations, by a hash of the task.
    Imbalance,
    /// Nothing.
    Empty,
}

/// Floating-point operations of the compute kernel: two for each of 64 lanes in an iteration, and
/// the product at the end.
const FLOP_PER_ITERATION: u64 = 128;
const FLOP_OF_PRODUCT: u64 = 64;
/// What an iteration of the memory kernel copies, in bytes.
const CHUNK: usize = 512;
/// The scratch buffer of a tile, in bytes: those of 32 tiles are larger than most last-level
/// caches.
const SCRATCH: usize = 2 << 20;

impl Kernel {
    /// All of them.
    pub const ALL: [Kernel; 4] = [Kernel::Compute, Kernel::Memory, Kernel::Imbalance, Kernel::Empty];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kernel::Compute => "compute",
            Kernel::Memory => "memory",
            Kernel::Imbalance => "imbalance",
            Kernel::Empty => "empty",
        }
    }

    /// The kernel of that name.
    pub fn named(name: &str) -> Option<Kernel> {
        Kernel::ALL.into_iter().find(|kernel| kernel.name() == name)
    }

    /// How much work a task of `iterations` is: floating-point operations, or bytes.
    pub fn work(self, iterations: u32) -> u64 {
        let iterations = u64::from(iterations);
        match self {
            Kernel::Compute | Kernel::Imbalance => FLOP_PER_ITERATION * iterations + FLOP_OF_PRODUCT,
            Kernel::Memory => CHUNK as u64 * iterations,
            Kernel::Empty => 0,
        }
    }

    /// How many iterations task number `task` has when the sweep is at `iterations`.
    pub fn iterations(self, iterations: u32, task: u64) -> u32 {
        match self {
            Kernel::Imbalance => {
                // A share of 0 to 1023 of 1024, by the finaliser of splitmix64.
                let mut hash = task.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                hash = (hash ^ (hash >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
                let share = (hash >> 54) as u32;
                iterations / 2 + (u64::from(iterations) * u64::from(share) / 1024) as u32
            }
            _ => iterations,
        }
    }

    /// Runs it.
    #[inline]
    pub fn run(self, iterations: u32, scratch: &Scratch) {
        match self {
            Kernel::Compute | Kernel::Imbalance => {
                std::hint::black_box(compute(iterations));
            }
            Kernel::Memory => scratch.copy(iterations),
            Kernel::Empty => {}
        }
    }

    /// Work that one core does in a second while all `cores` do the same.
    pub fn peak(self, cores: usize, during: Duration) -> f64 {
        if self == Kernel::Empty {
            return 0.0;
        }
        let (barrier, slice) = (Barrier::new(cores), 1 << 14);
        let core = || {
            let scratch = Scratch::new(self);
            self.run(slice, &scratch);
            barrier.wait();
            let (start, mut done) = (Instant::now(), 0);
            while start.elapsed() < during {
                self.run(slice, &scratch);
                done += self.work(slice);
            }
            done as f64 / start.elapsed().as_secs_f64()
        };
        let rates: Vec<f64> = std::thread::scope(|scope| {
            let cores: Vec<_> = (0..cores).map(|_| scope.spawn(core)).collect();
            cores.into_iter().map(|core| core.join().expect("a kernel does not panic")).collect()
        });
        rates.iter().sum::<f64>() / cores as f64
    }
}

/// The buffer of a tile, for the memory kernel. Only the tasks that change the tile use it.
pub struct Scratch {
    buffer: UnsafeCell<Vec<u8>>,
    position: UnsafeCell<usize>,
}

// SAFETY: tasks that change one tile are never concurrent: that is the promise of the engine under
// test.
unsafe impl Sync for Scratch {}

impl Scratch {
    /// A buffer, if the kernel needs one.
    pub fn new(kernel: Kernel) -> Scratch {
        let bytes = if kernel == Kernel::Memory { SCRATCH } else { 0 };
        // Not zero: pages of zeros may be one and the same page.
        Scratch { buffer: UnsafeCell::new(vec![1; bytes]), position: UnsafeCell::new(0) }
    }

    /// Copies chunks from the lower half to the upper, from where the last task stopped.
    fn copy(&self, iterations: u32) {
        // SAFETY: the caller is a task that changes this tile, so no other task uses it now. That
        // is the promise of the engine under test; one that breaks it is found by the check of the
        // tiles.
        let (buffer, position) = unsafe { (&mut *self.buffer.get(), &mut *self.position.get()) };
        let (lower, upper) = buffer.split_at_mut(SCRATCH / 2);
        for _ in 0..iterations {
            let chunk = *position..*position + CHUNK;
            upper[chunk.clone()].copy_from_slice(&lower[chunk]);
            *position = (*position + CHUNK) % (SCRATCH / 2);
        }
        std::hint::black_box(upper);
    }
}

/// 16 vectors of the lanes 1, 2, 3, 4, each `a = a · a + a` as often as asked; the product of all
/// 64 lanes.
fn compute(iterations: u32) -> f64 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        // SAFETY: the processor has both features.
        return unsafe { compute_avx2(iterations) };
    }
    let mut lanes: [[f64; 4]; 16] = [[1.0, 2.0, 3.0, 4.0]; 16];
    for _ in 0..iterations {
        for lane in lanes.as_flattened_mut() {
            // Where it is one instruction; on x86 without FMA it would be a call, so there two
            // instructions.
            *lane = if cfg!(target_arch = "x86_64") { *lane * *lane + *lane } else { lane.mul_add(*lane, *lane) };
        }
    }
    lanes.as_flattened().iter().product()
}

/// # Safety
/// The processor must have AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
unsafe fn compute_avx2(iterations: u32) -> f64 {
    use std::arch::x86_64::{_mm256_fmadd_pd, _mm256_mul_pd, _mm256_set_pd, _mm256_storeu_pd};
    let mut vectors = [_mm256_set_pd(4.0, 3.0, 2.0, 1.0); 16];
    for _ in 0..iterations {
        for vector in &mut vectors {
            *vector = _mm256_fmadd_pd(*vector, *vector, *vector);
        }
    }
    let product = vectors.into_iter().reduce(|product, vector| _mm256_mul_pd(product, vector)).expect("16 vectors");
    let mut lanes = [0.0; 4];
    // SAFETY: the array has room for four lanes, and the store needs no alignment.
    unsafe { _mm256_storeu_pd(lanes.as_mut_ptr(), product) };
    lanes.iter().product()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_computes_what_a_loop_does() {
        // One iteration turns 1, 2, 3, 4 into 2, 6, 12, 20.
        let expected: f64 = [2.0_f64, 6.0, 12.0, 20.0].iter().map(|lane| lane.powi(16)).product();
        assert!((compute(1) / expected - 1.0).abs() < 1e-12);
        assert_eq!(compute(0), 24.0_f64.powi(16));
    }

    #[test]
    fn imbalanced_tasks_have_the_same_mean() {
        let total: u64 = (0..10_000).map(|task| u64::from(Kernel::Imbalance.iterations(1000, task))).sum();
        assert!((9_900_000..10_100_000).contains(&total), "{total}");
    }

    #[test]
    fn the_memory_kernel_copies_every_byte_once_around() {
        let scratch = Scratch::new(Kernel::Memory);
        // SAFETY: nobody else knows the buffer.
        let buffer = unsafe { &mut *scratch.buffer.get() };
        buffer[..SCRATCH / 2].fill(7);
        scratch.copy(u32::try_from(SCRATCH / 2 / CHUNK).unwrap());
        // SAFETY: as above; the first borrow has ended.
        let buffer = unsafe { &*scratch.buffer.get() };
        assert!(buffer.iter().all(|byte| *byte == 7));
    }
}
