//! Distributions: which numbers elements get from the blocks of a generator.
//!
//! Used by `operator/random.rs`. Element *i* of a fill is a pure function of the generator and of
//! *i*: the blocks that it takes are counted from the beginning of the fill. So any part of an
//! array may be filled by itself, and the numbers do not depend on how it was cut.

#![forbid(unsafe_code)]

use crate::error::{Error, ErrorKind};
use crate::resource::lanes::{self, Turn};
use crate::resource::philox::Philox;
use crate::resource::rejection;

/// What random numbers are like.
///
/// ```
/// use seriatim_tensor::{DType, Distribution, Runtime};
/// let runtime = Runtime::global()?;
/// runtime.seed(7)?;
/// let x = runtime.random([1000], DType::F64, Distribution::Normal { mean: 5.0, deviation: 0.1 })?;
/// let mean = x.to_vec::<f64>()?.iter().sum::<f64>() / 1000.0;
/// assert!((mean - 5.0).abs() < 0.02);
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum Distribution {
    /// From `low` on and below `high`, each alike; both finite, and so is their difference.
    Uniform {
        /// The least value.
        low: f64,
        /// No value reaches it, unless rounding to the type of the elements does.
        high: f64,
    },
    /// The normal distribution, by Box and Muller's formula.
    Normal {
        /// The middle.
        mean: f64,
        /// The standard deviation, at least 0.
        deviation: f64,
    },
    /// The exponential distribution.
    Exponential {
        /// The mean is its inverse; above 0.
        rate: f64,
    },
    /// The gamma distribution, by Marsaglia and Tsang's method.
    Gamma {
        /// Above 0.
        shape: f64,
        /// The mean is `shape * scale`; above 0.
        scale: f64,
    },
    /// How often something happens that happens `mean` times on average.
    Poisson {
        /// From 0 to 2³¹.
        mean: f64,
    },
    /// How often something of the other kind comes before the `successes`-th success.
    NegativeBinomial {
        /// Above 0, and not necessarily whole.
        successes: f64,
        /// Of a success: above 0 and at most 1.
        probability: f64,
    },
    /// 1 with this probability, otherwise 0.
    Bernoulli {
        /// From 0 to 1.
        probability: f64,
    },
    /// Whole numbers from `low` on and below `high`, each alike but for 2⁻⁶⁴ of their number.
    Whole {
        /// The least value.
        low: i64,
        /// No value reaches it; above `low`.
        high: i64,
    },
}

impl Distribution {
    /// Checks the parameters.
    pub(crate) fn check(self) -> Result<(), Error> {
        let is_right = match self {
            Distribution::Uniform { low, high } => low <= high && (high - low).is_finite(),
            Distribution::Normal { mean, deviation } => mean.is_finite() && deviation.is_finite() && deviation >= 0.0,
            Distribution::Exponential { rate } => rate.is_finite() && rate > 0.0,
            Distribution::Gamma { shape, scale } => [shape, scale].iter().all(|x| x.is_finite() && *x > 0.0),
            Distribution::Poisson { mean } => (0.0..=rejection::LARGEST_MEAN).contains(&mean),
            Distribution::NegativeBinomial { successes, probability } => {
                let mean = successes * (1.0 - probability) / probability;
                successes > 0.0 && probability > 0.0 && probability <= 1.0 && mean <= rejection::LARGEST_MEAN / 16.0
            }
            Distribution::Bernoulli { probability } => (0.0..=1.0).contains(&probability),
            Distribution::Whole { low, high } => low < high,
        };
        match is_right {
            true => Ok(()),
            false => {
                let message = format!("{self:?} is no distribution: see the ranges of its parameters");
                Err(Error::new(ErrorKind::BadParameter, message))
            }
        }
    }

    /// Elements from `2 * pair` on of a fill that begins where `generator` stands. Whole numbers
    /// beyond 2⁵³ have more bits than an `f64`, so they come apart.
    pub(crate) fn fill(self, generator: &Philox, pair: u64, out: &mut [f64]) {
        let turn = match self {
            Distribution::Uniform { low, high } => Turn::Uniform { low, width: high - low },
            Distribution::Normal { mean, deviation } => Turn::Normal { mean, deviation },
            Distribution::Exponential { rate } => Turn::Exponential { rate },
            Distribution::Bernoulli { probability } => Turn::Below(probability),
            _ => {
                for (pair, out) in (pair..).zip(out.chunks_mut(2)) {
                    out.copy_from_slice(&self.drawn_pair(generator, pair)[..out.len()]);
                }
                return;
            }
        };
        lanes::fill(generator, pair, turn, out);
    }

    /// The same for whole numbers.
    pub(crate) fn fill_whole(self, generator: &Philox, pair: u64, out: &mut [i64]) {
        const BLOCK: usize = 128;
        if let Distribution::Whole { .. } = self {
            for (pair, out) in (pair..).zip(out.chunks_mut(2)) {
                out.copy_from_slice(&self.whole_pair(generator, pair)[..out.len()]);
            }
            return;
        }
        let mut values = [0.0; BLOCK];
        for (pair, out) in (pair..).step_by(BLOCK / 2).zip(out.chunks_mut(BLOCK)) {
            self.fill(generator, pair, &mut values[..out.len()]);
            out.iter_mut().zip(&values).for_each(|(place, value)| *place = *value as i64);
        }
    }

    /// Two elements of a distribution that `lanes.rs` has not.
    fn drawn_pair(self, generator: &Philox, pair: u64) -> [f64; 2] {
        if let Distribution::Whole { .. } = self {
            return self.whole_pair(generator, pair).map(|whole| whole as f64);
        }
        let [a, b, c, d] = generator.block_ahead(pair);
        // An element may take any number of draws: it has a generator of its own.
        let word = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        [word(a, b), word(c, d)].map(|seed| self.reject(&mut Philox::new(seed, 1)))
    }

    /// One number of a distribution that is drawn by rejection.
    fn reject(self, own: &mut Philox) -> f64 {
        match self {
            Distribution::Gamma { shape, scale } => rejection::gamma(own, shape) * scale,
            Distribution::Poisson { mean } => rejection::poisson(own, mean),
            Distribution::NegativeBinomial { successes, probability } => {
                let mean = rejection::gamma(own, successes) * (1.0 - probability) / probability;
                rejection::poisson(own, mean.min(rejection::LARGEST_MEAN))
            }
            _ => unreachable!("it is called for the three above"),
        }
    }

    /// Elements `2 * pair` and `2 * pair + 1`, as whole numbers.
    pub(crate) fn whole_pair(self, generator: &Philox, pair: u64) -> [i64; 2] {
        match self {
            Distribution::Whole { low, high } => {
                let [a, b, c, d] = generator.block_ahead(pair);
                let range = high.wrapping_sub(low) as u64;
                let scale = |low_word: u32, high_word: u32| {
                    let word = u64::from(low_word) | u64::from(high_word) << 32;
                    low.wrapping_add(((u128::from(word) * u128::from(range)) >> 64) as i64)
                };
                [scale(a, b), scale(c, d)]
            }
            _ => {
                let mut values = [0.0; 2];
                self.fill(generator, pair, &mut values);
                values.map(|value| value as i64)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: u64 = 50_000;

    fn draws(distribution: Distribution) -> Vec<f64> {
        let generator = Philox::new(2026, 3);
        let mut drawn = vec![0.0; 2 * COUNT as usize];
        distribution.fill(&generator, 0, &mut drawn);
        drawn
    }

    /// The largest distance between the drawn distribution and the true one (Kolmogorov and
    /// Smirnov). By chance it is above 1.95 / √n once in a thousand times.
    fn distance(distribution: Distribution, cumulated: impl Fn(f64) -> f64) -> f64 {
        let mut drawn = draws(distribution);
        drawn.sort_by(f64::total_cmp);
        let count = drawn.len() as f64;
        let apart = drawn.iter().enumerate().map(|(at, value)| {
            let (before, after) = (at as f64 / count, (at + 1) as f64 / count);
            (cumulated(*value) - before).abs().max((cumulated(*value) - after).abs())
        });
        apart.fold(0.0, f64::max) * count.sqrt()
    }

    /// The cumulated normal distribution, by the midpoint rule.
    fn normal(x: f64) -> f64 {
        let (steps, from) = (2_000, -8.0);
        let width = (x.min(8.0) - from) / f64::from(steps);
        let density = |at: f64| (-at * at / 2.0).exp() / std::f64::consts::TAU.sqrt();
        (0..steps).map(|step| density(from + width * (f64::from(step) + 0.5)) * width).sum()
    }

    #[test]
    fn draws_are_distributed_as_they_should_be() {
        let uniform = Distribution::Uniform { low: -1.0, high: 3.0 };
        assert!(distance(uniform, |x| (x + 1.0) / 4.0) < 1.95);
        let exponential = Distribution::Exponential { rate: 2.0 };
        assert!(distance(exponential, |x| 1.0 - (-2.0 * x).exp()) < 1.95);
        // The normal distribution is drawn a tenth as often: its integral takes long.
        let generator = Philox::new(2026, 4);
        let of = Distribution::Normal { mean: 1.0, deviation: 2.0 };
        let mut drawn = vec![0.0; COUNT as usize / 5];
        of.fill(&generator, 0, &mut drawn);
        drawn.sort_by(f64::total_cmp);
        let count = drawn.len() as f64;
        let apart = drawn.iter().enumerate().map(|(at, x)| (normal((x - 1.0) / 2.0) - at as f64 / count).abs());
        assert!(apart.fold(0.0, f64::max) * count.sqrt() < 1.95);
        // A wrong distribution is noticed.
        assert!(distance(uniform, |x| ((x + 1.0) / 4.0).powf(1.02)) > 1.95);
    }

    /// χ² of drawn counts against the probabilities of 0, 1, …; what is beyond is the last class.
    fn chi_squared(drawn: &[f64], probabilities: &[f64]) -> f64 {
        let last = probabilities.len();
        let mut counts = vec![0.0; last + 1];
        drawn.iter().for_each(|value| counts[(*value as usize).min(last)] += 1.0);
        let rest = 1.0 - probabilities.iter().sum::<f64>();
        let all = probabilities.iter().copied().chain([rest]);
        let of = |(count, probability): (&f64, f64)| {
            let expected = probability * drawn.len() as f64;
            (count - expected).powi(2) / expected
        };
        counts.iter().zip(all).map(of).sum()
    }

    #[test]
    fn gamma_is_distributed_as_it_should_be() {
        // Of a whole shape k the cumulated distribution is 1 - e⁻ˣ Σ xⁱ / i!, for i below k.
        let erlang = |x: f64, shape: i32| {
            let terms = (0..shape).scan(1.0, |term, i| Some(std::mem::replace(term, *term * x / f64::from(i + 1))));
            1.0 - (-x).exp() * terms.sum::<f64>()
        };
        assert!(distance(Distribution::Gamma { shape: 3.0, scale: 2.0 }, |x| erlang(x / 2.0, 3)) < 1.95);
        assert!(distance(Distribution::Gamma { shape: 1.0, scale: 0.5 }, |x| erlang(2.0 * x, 1)) < 1.95);
        // Of shape 1/2 it is the square of a normal number: the error function of √x.
        assert!(distance(Distribution::Gamma { shape: 0.5, scale: 1.0 }, |x| libm::erf(x.sqrt())) < 1.95);
        assert!(distance(Distribution::Gamma { shape: 3.0, scale: 2.05 }, |x| erlang(x / 2.0, 3)) > 1.95);
    }

    #[test]
    fn counts_are_distributed_as_they_should_be() {
        // Below each: 99.9 % of χ² with as many degrees of freedom as there are probabilities.
        let poisson = |mean: f64, count: usize| -> Vec<f64> {
            let next = |at: &mut f64, number: usize| Some(std::mem::replace(at, *at * mean / (number + 1) as f64));
            (0..count).scan((-mean).exp(), next).collect()
        };
        let few = draws(Distribution::Poisson { mean: 3.5 });
        assert!(chi_squared(&few, &poisson(3.5, 10)) < 29.6);
        assert!(chi_squared(&few, &poisson(3.6, 10)) > 29.6);
        // From 10 on numbers are drawn in another way. Counts below 20 are one class.
        let many = draws(Distribution::Poisson { mean: 40.0 });
        let probabilities = poisson(40.0, 60);
        let lumped: Vec<f64> =
            [probabilities[..25].iter().sum::<f64>()].iter().chain(&probabilities[25..]).copied().collect();
        let shifted: Vec<f64> = many.iter().map(|count| (count - 24.0).max(0.0)).collect();
        assert!(chi_squared(&shifted, &lumped) < 68.0, "36 degrees of freedom");
        assert!(draws(Distribution::Poisson { mean: 0.0 }).iter().all(|count| *count == 0.0));
        // Γ(r + k) / (k! Γ(r)) pʳ (1 - p)ᵏ
        let (successes, probability) = (2.5, 0.4f64);
        let next = |at: &mut f64, k: usize| {
            let factor = (successes + k as f64) / (k + 1) as f64 * (1.0 - probability);
            Some(std::mem::replace(at, *at * factor))
        };
        let negative: Vec<f64> = (0..14).scan(probability.powf(successes), next).collect();
        let drawn = draws(Distribution::NegativeBinomial { successes, probability });
        assert!(chi_squared(&drawn, &negative) < 36.1);
    }

    #[test]
    fn whole_numbers_fall_alike() {
        let mut counts = [0f64; 10];
        let of = Distribution::Whole { low: -3, high: 7 };
        let generator = Philox::new(1, 0);
        (0..COUNT).flat_map(|pair| of.whole_pair(&generator, pair)).for_each(|at| counts[(at + 3) as usize] += 1.0);
        let expected = 2.0 * COUNT as f64 / 10.0;
        let chi_squared: f64 = counts.iter().map(|count| (count - expected).powi(2) / expected).sum();
        assert!(chi_squared < 27.9, "once in a thousand times with nine degrees of freedom: {chi_squared}");
        let ones: f64 = draws(Distribution::Bernoulli { probability: 0.25 }).iter().sum();
        assert!((ones - 25_000.0).abs() < 3.3 * (100_000.0f64 * 0.25 * 0.75).sqrt(), "{ones}");
        let [least, most] = Distribution::Whole { low: i64::MIN, high: i64::MAX }.whole_pair(&generator, 0);
        assert!(least != most);
    }

    #[test]
    fn parameters_out_of_range_are_refused() {
        let nan = f64::NAN;
        let wrong = [
            Distribution::Uniform { low: 1.0, high: 0.0 },
            Distribution::Uniform { low: nan, high: 0.0 },
            Distribution::Uniform { low: f64::INFINITY, high: f64::INFINITY },
            // They are too far apart for an `f64`.
            Distribution::Uniform { low: f64::MIN, high: f64::MAX },
            Distribution::Normal { mean: 0.0, deviation: -1.0 },
            Distribution::Exponential { rate: 0.0 },
            Distribution::Gamma { shape: 0.0, scale: 1.0 },
            Distribution::Gamma { shape: 1.0, scale: f64::INFINITY },
            Distribution::Poisson { mean: -1.0 },
            Distribution::Poisson { mean: 1e300 },
            Distribution::NegativeBinomial { successes: 1.0, probability: 0.0 },
            Distribution::NegativeBinomial { successes: nan, probability: 0.5 },
            Distribution::Bernoulli { probability: 1.5 },
            Distribution::Whole { low: 1, high: 1 },
        ];
        wrong.into_iter().for_each(|of| assert_eq!(of.check().unwrap_err().kind(), ErrorKind::BadParameter, "{of:?}"));
    }
}
