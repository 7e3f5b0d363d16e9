//! Random numbers of many blocks of a generator at a time: those distributions whose numbers are
//! functions of one block, without branches.
//!
//! Used by `distributions.rs`. All operations are rounded as IEEE 754 has it, and none is fused. So
//! the numbers follow from the generator alone, on any machine.

#![forbid(unsafe_code)]

use crate::kernel::simd::{self, Loops};
use crate::resource::philox::Philox;

/// What two numbers of a block are turned into, each from 0 on and below 1.
#[derive(Clone, Copy, Debug)]
pub(super) enum Turn {
    /// Into as many from `low` on that are spread over `width`.
    Uniform { low: f64, width: f64 },
    /// Into two of the normal distribution.
    Normal { mean: f64, deviation: f64 },
    /// Into two of the exponential distribution.
    Exponential { rate: f64 },
    /// Into 1 if they are below the bound, and else into 0.
    Below(f64),
}

/// Fills a slice: the first two elements from the block that is `ahead`, and so on.
pub(super) fn fill(generator: &Philox, ahead: u64, turn: Turn, out: &mut [f64]) {
    simd::run(Fill { generator, ahead, turn, out });
}

struct Fill<'a> {
    generator: &'a Philox,
    ahead: u64,
    turn: Turn,
    out: &'a mut [f64],
}

/// How many blocks are made at a time, while there are as many to be made, and then.
const MANY: usize = 64;
const FEW: usize = 4;

impl Loops for Fill<'_> {
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let (many, few) = self.out.split_at_mut(self.out.len() / (2 * MANY) * (2 * MANY));
        let mut ahead = self.ahead;
        for out in many.chunks_exact_mut(2 * MANY) {
            some::<MANY>(self.generator, ahead, self.turn, out);
            ahead += MANY as u64;
        }
        for out in few.chunks_mut(2 * FEW) {
            some::<FEW>(self.generator, ahead, self.turn, out);
            ahead += FEW as u64;
        }
    }
}

/// Two numbers from each of `N` blocks, of which `out` may have no room for the last.
#[inline(always)]
fn some<const N: usize>(generator: &Philox, ahead: u64, turn: Turn, out: &mut [f64]) {
    let [a, b, c, d] = generator.blocks_ahead::<N>(ahead);
    let (mut one, mut two) = ([0.0; N], [0.0; N]);
    for at in 0..N {
        one[at] = unit(a[at], b[at]);
        two[at] = unit(c[at], d[at]);
    }
    turn.apply(&mut one, &mut two);
    for (at, out) in out.chunks_mut(2).enumerate().take(N) {
        out[0] = one[at];
        if let Some(out) = out.get_mut(1) {
            *out = two[at];
        }
    }
}

/// A number from 0 on and below 1 with 53 random bits.
#[inline(always)]
fn unit(low: u32, high: u32) -> f64 {
    // No conversion of 64 bits: both parts are exact, and so is their sum.
    let (above, below) = (high >> 11, high << 21 | low >> 11);
    (f64::from(above as i32) * 4_294_967_296.0 + float(u64::from(below))) * (1.0 / (1u64 << 53) as f64)
}

/// A whole number below 2⁵².
#[inline(always)]
fn float(whole: u64) -> f64 {
    const BEGIN: f64 = (1u64 << 52) as f64;
    f64::from_bits(whole | BEGIN.to_bits()) - BEGIN
}

impl Turn {
    #[inline(always)]
    fn apply(self, one: &mut [f64], two: &mut [f64]) {
        let pairs = one.iter_mut().zip(two);
        match self {
            Turn::Uniform { low, width } => {
                for (one, two) in pairs {
                    *one = low + *one * width;
                    *two = low + *two * width;
                }
            }
            Turn::Normal { mean, deviation } => {
                // Box and Muller's formula.
                for (one, two) in pairs {
                    let radius = (-2.0 * ln(1.0 - *one)).sqrt() * deviation;
                    let (sine, cosine) = sin_cos(*two);
                    *one = mean + radius * cosine;
                    *two = mean + radius * sine;
                }
            }
            Turn::Exponential { rate } => {
                for (one, two) in pairs {
                    *one = -ln(1.0 - *one) / rate;
                    *two = -ln(1.0 - *two) / rate;
                }
            }
            Turn::Below(bound) => {
                for (one, two) in pairs {
                    *one = if *one < bound { 1.0 } else { 0.0 };
                    *two = if *two < bound { 1.0 } else { 0.0 };
                }
            }
        }
    }
}

/// The natural logarithm of a normal number above 0: `log` of FreeBSD's msun.
#[inline(always)]
fn ln(x: f64) -> f64 {
    const ROOT: u64 = std::f64::consts::FRAC_1_SQRT_2.to_bits();
    const ONE: u64 = 1.0f64.to_bits();
    const FRACTION: u64 = (1 << 52) - 1;
    let beyond = x.to_bits().wrapping_add(ONE - ROOT);
    let n = float(beyond >> 52) - 1023.0;
    let f = f64::from_bits((beyond & FRACTION) + ROOT) - 1.0;
    let half_square = 0.5 * f * f;
    let s = f / (2.0 + f);
    let z = s * s;
    let w = z * z;
    let even = w * (0.399_999_999_994_094_2 + w * (0.222_221_984_321_497_84 + w * 0.153_138_376_992_093_73));
    let odd = 0.285_714_287_436_623_9 + w * (0.181_835_721_616_180_5 + w * 0.147_981_986_051_165_86);
    let above = even + z * (0.666_666_666_666_673_5 + w * odd);
    s * (half_square + above) + n * 1.908_214_929_270_587_7e-10 - half_square + f + n * 0.693_147_180_369_123_8
}

/// The sine and the cosine of so many turns, from 0 on and below 1: within an eighth of a turn by
/// `k_sin` and `k_cos` of FreeBSD's msun.
#[inline(always)]
fn sin_cos(turns: f64) -> (f64, f64) {
    /// Added and taken off again, it leaves the nearest whole number, which is in the last bits.
    const ROUND: f64 = 6_755_399_441_055_744.0;
    let quarters = turns * 4.0;
    let shifted = quarters + ROUND;
    let x = (quarters - (shifted - ROUND)) * std::f64::consts::FRAC_PI_2;
    let z = x * x;
    let of_sine = 8.333_333_333_322_49e-3
        + z * (-1.984_126_982_985_795e-4
            + z * (2.755_731_370_707_006_8e-6 + z * (-2.505_076_025_340_686_3e-8 + z * 1.589_690_995_211_55e-10)));
    let sine = x + z * x * (-0.166_666_666_666_666_32 + z * of_sine);
    let of_cosine = -1.388_888_888_887_411e-3
        + z * (2.480_158_728_947_673e-5
            + z * (-2.755_731_435_139_066_3e-7 + z * (2.087_572_321_298_175e-9 + z * -1.135_964_755_778_819_5e-11)));
    let (half, w) = (0.5 * z, 1.0 - 0.5 * z);
    let cosine = w + ((1.0 - w) - half + z * (z * (0.041_666_666_666_666_6 + z * of_cosine)));
    let quarter = shifted.to_bits();
    let is_odd = quarter & 1 == 1;
    let (first, second) = (if is_odd { cosine } else { sine }, if is_odd { sine } else { cosine });
    // The sine is negative in the last two quarters, and the cosine in those between.
    let (negative, crossed) = ((quarter >> 1 & 1) << 63, ((quarter + 1) >> 1 & 1) << 63);
    (f64::from_bits(first.to_bits() ^ negative), f64::from_bits(second.to_bits() ^ crossed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_the_values_of_the_library() {
        for at in 0..1 << 20 {
            let u = unit((at as u32).wrapping_mul(0x9E37_79B9), (at as u32).wrapping_mul(0x85EB_CA6B));
            let (x, (sine, cosine)) = (1.0 - u, sin_cos(u));
            assert!((ln(x) - x.ln()).abs() <= 4e-16 * x.ln().abs(), "{x}");
            let expected = (std::f64::consts::TAU * u).sin_cos();
            assert!((sine - expected.0).abs() < 1e-15 && (cosine - expected.1).abs() < 1e-15, "{u}");
        }
        assert_eq!((ln(1.0), sin_cos(0.25), sin_cos(0.5).1), (0.0, (1.0, 0.0), -1.0));
        let least = 0.5f64.powi(53);
        assert!((ln(least) - least.ln()).abs() < 1e-14);
    }

    /// The numbers are those of the formula on single blocks, wherever a fill begins and ends.
    #[test]
    fn an_element_does_not_depend_on_its_neighbours() {
        let generator = Philox::new(11, 5);
        let (mean, deviation) = (1.0, 3.0);
        for turn in [Turn::Uniform { low: -1.0, width: 3.0 }, Turn::Normal { mean, deviation }, Turn::Below(0.3)] {
            let mut whole = vec![0.0; 1001];
            fill(&generator, 0, turn, &mut whole);
            for (from, count) in [(0, 1), (2, 7), (10, 128), (12, 129), (200, 801)] {
                let mut part = vec![0.0; count];
                fill(&generator, from as u64 / 2, turn, &mut part);
                assert_eq!(part, whole[from..from + count], "{turn:?} {from} {count}");
            }
            if let Turn::Uniform { .. } = turn {
                for (at, found) in whole.iter().enumerate() {
                    let words = generator.block_ahead(at as u64 / 2);
                    let word = u64::from(words[at % 2 * 2]) | u64::from(words[at % 2 * 2 + 1]) << 32;
                    let expected = -1.0 + (word >> 11) as f64 / (1u64 << 53) as f64 * 3.0;
                    assert_eq!(found.to_bits(), expected.to_bits(), "{at}");
                }
            }
        }
    }
}
