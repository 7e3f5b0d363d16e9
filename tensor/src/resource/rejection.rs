//! Distributions whose numbers take a number of draws that is not known before: gamma and Poisson.
//! Used by `distributions.rs`, with a generator for each element.

#![forbid(unsafe_code)]

use crate::resource::philox::Philox;
use rand_core::RngCore;

/// The largest mean of a Poisson distribution.
pub(super) const LARGEST_MEAN: f64 = (1u64 << 31) as f64;

/// A number above 0 and below 1.
fn unit(own: &mut Philox) -> f64 {
    ((own.next_u64() >> 11) as f64 + 0.5) * (1.0 / (1u64 << 53) as f64)
}

fn normal(own: &mut Philox) -> f64 {
    (-2.0 * unit(own).ln()).sqrt() * (std::f64::consts::TAU * unit(own)).cos()
}

/// A number of the gamma distribution with scale 1 (Marsaglia and Tsang, 2000).
pub(super) fn gamma(own: &mut Philox, shape: f64) -> f64 {
    if shape < 1.0 {
        return gamma(own, shape + 1.0) * unit(own).powf(1.0 / shape);
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = normal(own);
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && unit(own).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

/// A number of the Poisson distribution: by products of uniform numbers for a small mean (Knuth),
/// and by transformed rejection for a large one (Hörmann, 1993, PTRS).
pub(super) fn poisson(own: &mut Philox, mean: f64) -> f64 {
    if mean < 10.0 {
        let (end, mut product, mut count) = ((-mean).exp(), unit(own), 0.0);
        while product > end {
            product *= unit(own);
            count += 1.0;
        }
        return count;
    }
    let b = 0.931 + 2.53 * mean.sqrt();
    let a = -0.059 + 0.02483 * b;
    let inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
    let quick = 0.9277 - 3.6224 / (b - 2.0);
    loop {
        let (u, v) = (unit(own) - 0.5, unit(own));
        let us = 0.5 - u.abs();
        let count = ((2.0 * a / us + b) * u + mean + 0.43).floor();
        if us >= 0.07 && v <= quick {
            return count;
        }
        let is_inside = count >= 0.0 && !(us < 0.013 && v > us);
        let bound = count * mean.ln() - mean - libm::lgamma(count + 1.0);
        if is_inside && (v * inverse_alpha / (a / (us * us) + b)).ln() <= bound {
            return count;
        }
    }
}
