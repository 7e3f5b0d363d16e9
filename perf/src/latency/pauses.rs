//! How long a thread sleeps before each operation: always as long, or at random with the same mean.
//!
//! A runtime can foresee regular pauses, and have its threads up in time. What it takes to wake a
//! thread shows after pauses that nobody can foresee. They are drawn from one seed, so they are the
//! same for all entrants.

use std::time::Duration;

/// Draws of an exponential distribution whose mean is 1: the same ones every time.
pub(super) struct Exponential(u64);

impl Exponential {
    pub(super) fn new() -> Exponential {
        Exponential(0x9E37_79B9_7F4A_7C15)
    }

    pub(super) fn draw(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // Between 0 and 1, and neither.
        let part = ((self.0 >> 12) as f64 + 0.5) / (1_u64 << 52) as f64;
        -part.ln()
    }
}

/// The pauses of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pauses {
    /// None: everything is back to back.
    None,
    /// All of this length.
    Regular(Duration),
    /// At random, with this mean.
    Random(Duration),
}

impl Pauses {
    /// How long they are on average, in microseconds.
    pub(super) fn mean_us(self) -> u64 {
        match self {
            Pauses::None => 0,
            Pauses::Regular(mean) | Pauses::Random(mean) => mean.as_micros() as u64,
        }
    }

    /// The first so many. Those at random are scaled so that their mean is that of the regular
    /// ones, however few they are.
    pub(super) fn take(self, count: usize) -> Vec<Duration> {
        match self {
            Pauses::None => vec![Duration::ZERO; count],
            Pauses::Regular(pause) => vec![pause; count],
            Pauses::Random(mean) => {
                let mut draws = Exponential::new();
                let drawn: Vec<f64> = (0..count).map(|_| draws.draw()).collect();
                let scale = count as f64 / drawn.iter().sum::<f64>();
                drawn.into_iter().map(|draw| mean.mul_f64(draw * scale)).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEAN: Duration = Duration::from_millis(5);

    #[test]
    fn pauses_at_random_have_the_mean_of_regular_ones_and_their_own_spread() {
        for count in [8, 64, 10_000] {
            let pauses = Pauses::Random(MEAN).take(count);
            let mean = pauses.iter().sum::<Duration>() / count as u32;
            assert!(mean.abs_diff(MEAN) < Duration::from_micros(1), "{mean:?}");
        }
        // Of an exponential distribution 1 in e is longer than the mean, and 39 % are shorter than
        // half of it. Two in a row are seldom alike, so that no rhythm can be found.
        let pauses = Pauses::Random(MEAN).take(10_000);
        let share = |is: &dyn Fn(&&Duration) -> bool| pauses.iter().filter(is).count() as f64 / 10_000.0;
        assert!((share(&|pause| **pause > MEAN) - 0.368).abs() < 0.02);
        assert!((share(&|pause| **pause < MEAN / 2) - 0.393).abs() < 0.02);
        let alike = pauses.windows(2).filter(|two| two[0].abs_diff(two[1]) < two[0] / 16).count();
        assert!(alike < 1_000, "{alike} of 10,000 are like the one before");
    }

    #[test]
    fn they_are_the_same_for_all() {
        assert_eq!(Pauses::Random(MEAN).take(64), Pauses::Random(MEAN).take(64));
        assert_eq!(Pauses::Regular(MEAN).take(3), [MEAN; 3]);
        assert_eq!(Pauses::None.take(2), [Duration::ZERO; 2]);
    }
}
