//! Random arrays: fills and permutations. Each is an operation that changes the generator, so the
//! numbers follow from the seed and from the order of pushes, and not from timing.

#![forbid(unsafe_code)]

use crate::dtype::{DType, Element};
use crate::error::{Error, ErrorKind};
use crate::ndarray::access::BlobMut;
use crate::ndarray::array::NDArray;
use crate::ndarray::runtime::Runtime;
use crate::operator::shuffle::permute;
use crate::request::OpReq;
use crate::resource::{Distribution, Philox};

/// How many elements are made at a time; an even number, as two share a block of the generator.
const BLOCK: usize = 256;

impl Runtime {
    /// An array of random numbers.
    ///
    /// # Errors
    /// [`BadParameter`](crate::ErrorKind::BadParameter) if the distribution is none,
    /// [`TooLarge`](crate::ErrorKind::TooLarge), and those of a push.
    ///
    /// ```
    /// use seriatim_tensor::{DType, Distribution, Runtime};
    /// let of = Distribution::Whole { low: 1, high: 7 };
    /// let dice = Runtime::global()?.random([100], DType::U8, of)?.to_vec::<u8>()?;
    /// assert!(dice.iter().all(|dots| (1..=6).contains(dots)));
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn random(
        &self,
        shape: impl AsRef<[usize]>,
        dtype: DType,
        distribution: Distribution,
    ) -> Result<NDArray, Error> {
        let array = self.empty(shape, dtype)?;
        array.fill_random(distribution)?;
        Ok(array)
    }

    /// The numbers from 0 to `count - 1` in a random order, each order alike, as `i64`.
    ///
    /// # Errors
    /// Those of [`random`](Runtime::random).
    ///
    /// ```
    /// let mut order = seriatim_tensor::Runtime::global()?.permutation(5)?.to_vec::<i64>()?;
    /// order.sort();
    /// assert_eq!(order, [0, 1, 2, 3, 4]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn permutation(&self, count: usize) -> Result<NDArray, Error> {
        let array = self.empty([count], DType::I64)?;
        array.draw("permutation", count, move |generator, blob| {
            let Some(order) = blob.as_mut_slice::<i64>() else { return };
            permute(generator, order);
        })?;
        Ok(array)
    }

    /// An array of numbers of classes, from 0 on, as `i64`: each class comes with its share of the
    /// sum of `weights` (`sample_multinomial`).
    ///
    /// # Errors
    /// [`BadParameter`](crate::ErrorKind::BadParameter) unless the weights are finite and not
    /// negative, and one at least is above 0; those of [`random`](Runtime::random).
    ///
    /// ```
    /// let drawn = seriatim_tensor::Runtime::global()?.multinomial(&[0.0, 3.0, 1.0], [100])?;
    /// assert!(drawn.to_vec::<i64>()?.iter().all(|class| [1, 2].contains(class)));
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn multinomial(&self, weights: &[f64], shape: impl AsRef<[usize]>) -> Result<NDArray, Error> {
        let add = |sum: &mut f64, weight: &f64| {
            *sum += weight;
            Some(*sum)
        };
        let ends: Vec<f64> = weights.iter().scan(0.0, add).collect();
        let sum = ends.last().copied().unwrap_or_default();
        if !(sum.is_finite() && sum > 0.0) || weights.iter().any(|weight| *weight < 0.0) {
            let message = format!("weights {weights:?} of classes: give finite ones from 0 on, not all of them 0");
            return Err(Error::new(ErrorKind::BadParameter, message));
        }
        let array = self.empty(shape, DType::I64)?;
        let (size, of) = (array.size(), Distribution::Uniform { low: 0.0, high: 1.0 });
        array.draw("multinomial", size.div_ceil(2), move |generator, blob| {
            // The first class whose end is beyond the point. A point is below the sum but for
            // rounding, and then it belongs to the last class that has a share.
            let last = ends.partition_point(|end| *end < sum);
            let class = |point: f64| ends.partition_point(|end| *end <= point * sum).min(last) as i64;
            fill(size, blob, |pair, block| {
                let mut points = [0.0; BLOCK];
                of.fill(generator, pair, &mut points[..block.len()]);
                block.iter_mut().zip(&points).for_each(|(place, point)| *place = class(*point));
            });
        })?;
        Ok(array)
    }
}

impl NDArray {
    /// Writes random numbers into the array, converted to its type.
    ///
    /// # Errors
    /// Those of [`Runtime::random`]; [`OverlappingView`](crate::ErrorKind::OverlappingView).
    ///
    /// ```
    /// use seriatim_tensor::{DType, Distribution, NDArray};
    /// let x = NDArray::empty([3], DType::F32)?;
    /// x.fill_random(Distribution::Uniform { low: 2.0, high: 3.0 })?;
    /// assert!(x.to_vec::<f32>()?.iter().all(|x| (2.0..=3.0).contains(x)));
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn fill_random(&self, distribution: Distribution) -> Result<(), Error> {
        distribution.check()?;
        self.check_writable()?;
        let size = self.size();
        self.draw("random", size.div_ceil(2), move |generator, blob| {
            let floats = |pair, block: &mut [f64]| distribution.fill(generator, pair, block);
            if let Some(values) = blob.as_mut_slice::<f32>() {
                fill_slice(values, floats);
            } else if blob.dtype().is_float() {
                fill(size, blob, floats);
            } else {
                fill(size, blob, |pair, block| distribution.fill_whole(generator, pair, block));
            }
        })
    }

    /// Pushes an operation that fills the array by a generator, and moves that on by some blocks.
    fn draw(
        &self,
        name: &'static str,
        blocks: usize,
        fill: impl Fn(&Philox, &mut BlobMut<'_>) + Send + 'static,
    ) -> Result<(), Error> {
        let generator = self.runtime().resources().next_generator().clone();
        let variable = generator.variable();
        self.push_write_also(name, Some(variable), move |mut blob| {
            let mut generator = generator.write()?;
            fill(&generator, &mut blob);
            generator.skip(blocks as u64);
            Ok(())
        })
    }
}

/// Has `make` draw block after block, each from its first pair of elements on, and writes them.
fn fill<W: Element>(size: usize, blob: &mut BlobMut<'_>, make: impl Fn(u64, &mut [W])) {
    let (mut writer, mut block) = (blob.writer::<W>(OpReq::Write), [W::default(); BLOCK]);
    for first in (0..size).step_by(BLOCK) {
        let block = &mut block[..BLOCK.min(size - first)];
        make(first as u64 / 2, block);
        writer.put(block);
    }
}

/// The same for elements that lie one after the other.
fn fill_slice(values: &mut [f32], make: impl Fn(u64, &mut [f64])) {
    let mut block = [0.0; BLOCK];
    for (first, values) in (0..).step_by(BLOCK / 2).zip(values.chunks_mut(BLOCK)) {
        make(first, &mut block[..values.len()]);
        values.iter_mut().zip(&block).for_each(|(place, value)| *place = *value as f32);
    }
}
