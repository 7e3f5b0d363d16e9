//! Initialisers: what weights are at first. Programs call them.
//!
//! Each fill is an operation that changes the runtime's generator, so the weights follow from the
//! seed and the order of calls. The formulas are those of MXNet 1.9
//! (`python/mxnet/initializer.py`).

#![forbid(unsafe_code)]

use crate::dtype::DType;
use crate::error::{Error, ErrorKind};
use crate::ndarray::array::NDArray;
use crate::ndarray::runtime::Runtime;
use crate::resource::Distribution;
use crate::shape::Shape;

/// Which sizes of a weight say how far its values spread.
///
/// The first axis of a weight is the fan out, the second the fan in. Further axes, the window of a
/// convolution, multiply both.
///
/// ```
/// use seriatim_tensor::initializer::{Fan, Initializer};
/// let he = Initializer::Xavier { is_normal: true, fan: Fan::In, magnitude: 2.0 };
/// # let _ = he;
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fan {
    /// The inputs of an element.
    In,
    /// The outputs that an input goes to.
    Out,
    /// The mean of both.
    Average,
}

/// What an array is filled with at first.
///
/// ```
/// use seriatim_tensor::{initializer::Initializer, DType, Runtime};
/// let weight = Initializer::xavier().make(Runtime::global()?, [10, 20], DType::F32)?;
/// let bound = (3.0f32 / 15.0).sqrt();
/// assert!(weight.to_vec::<f32>()?.iter().all(|value| value.abs() <= bound));
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum Initializer {
    /// One value everywhere; 0 and 1 are MXNet's `Zero` and `One`.
    Constant(f64),
    /// From minus this to this, each alike.
    Uniform {
        /// The bound; MXNet's default is 0.07.
        scale: f64,
    },
    /// The normal distribution around 0.
    Normal {
        /// The standard deviation; MXNet's default is 0.01.
        deviation: f64,
    },
    /// Spread by √(magnitude / fan), so that signals keep their size from layer to layer (Glorot
    /// and Bengio, 2010).
    Xavier {
        /// Whether values are normal with this deviation, instead of uniform within this bound.
        is_normal: bool,
        /// Which sizes count.
        fan: Fan,
        /// How large the square of the spread is, times the fan.
        magnitude: f64,
    },
}

impl Initializer {
    /// Xavier's with MXNet's defaults: uniform, by the average fan, with magnitude 3.
    ///
    /// ```
    /// use seriatim_tensor::initializer::{Fan, Initializer};
    /// let same = Initializer::Xavier { is_normal: false, fan: Fan::Average, magnitude: 3.0 };
    /// assert_eq!(Initializer::xavier(), same);
    /// ```
    pub fn xavier() -> Initializer {
        Initializer::Xavier { is_normal: false, fan: Fan::Average, magnitude: 3.0 }
    }

    /// For layers behind a rectifier whose negative side has this slope (He et al., 2015): normal
    /// with magnitude 2 / (1 + slope²). MXNet's `MSRAPrelu` has slope 0.25 and the average fan.
    ///
    /// ```
    /// use seriatim_tensor::initializer::{Fan, Initializer};
    /// let he = Initializer::Xavier { is_normal: true, fan: Fan::In, magnitude: 2.0 };
    /// assert_eq!(Initializer::msra_prelu(Fan::In, 0.0), he);
    /// ```
    pub fn msra_prelu(fan: Fan, slope: f64) -> Initializer {
        Initializer::Xavier { is_normal: true, fan, magnitude: 2.0 / (1.0 + slope * slope) }
    }

    /// Fills an array.
    ///
    /// # Errors
    /// [`ShapeMismatch`](ErrorKind::ShapeMismatch) if the array has less than two axes and its fan
    /// counts, or a fan of 0; [`BadParameter`](ErrorKind::BadParameter) if a number is below 0 or
    /// not finite; those of [`fill_random`](NDArray::fill_random).
    ///
    /// ```
    /// use seriatim_tensor::{initializer::Initializer, DType, ErrorKind, NDArray};
    /// let bias = NDArray::empty([10], DType::F32)?;
    /// assert_eq!(Initializer::xavier().fill(&bias).unwrap_err().kind(), ErrorKind::ShapeMismatch);
    /// Initializer::Constant(0.5).fill(&bias)?;
    /// assert_eq!(bias.to_vec::<f32>()?, [0.5; 10]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn fill(self, array: &NDArray) -> Result<(), Error> {
        let spread = |is_normal, spread: f64| match is_normal {
            true => Distribution::Normal { mean: 0.0, deviation: spread },
            false => Distribution::Uniform { low: -spread, high: spread },
        };
        let distribution = match self {
            Initializer::Constant(value) => return array.fill(value),
            Initializer::Uniform { scale } => spread(false, scale),
            Initializer::Normal { deviation } => spread(true, deviation),
            Initializer::Xavier { is_normal, fan, magnitude } => {
                spread(is_normal, (magnitude / fan.of(array.shape())?).sqrt())
            }
        };
        array.fill_random(distribution)
    }

    /// Makes an array and fills it.
    ///
    /// # Errors
    /// Those of [`fill`](Initializer::fill), and [`TooLarge`](ErrorKind::TooLarge).
    ///
    /// ```
    /// use seriatim_tensor::{initializer::Initializer, DType, Runtime};
    /// let ones = Initializer::Constant(1.0).make(Runtime::global()?, [2], DType::F64)?;
    /// assert_eq!(ones.to_vec::<f64>()?, [1.0; 2]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn make(self, runtime: &Runtime, shape: impl AsRef<[usize]>, dtype: DType) -> Result<NDArray, Error> {
        let array = runtime.empty(shape, dtype)?;
        self.fill(&array)?;
        Ok(array)
    }

    /// Fills an array by its name, as MXNet does: `…bias`, `…beta` and moving means are 0, `…gamma`
    /// and moving variances 1, and `…weight` is filled by this.
    ///
    /// # Errors
    /// Those of [`fill`](Initializer::fill); [`BadParameter`](ErrorKind::BadParameter) if the name
    /// ends in none of these.
    ///
    /// ```
    /// use seriatim_tensor::{initializer::Initializer, DType, NDArray};
    /// let gamma = NDArray::empty([3], DType::F32)?;
    /// Initializer::xavier().fill_named("norm0_gamma", &gamma)?;
    /// assert_eq!(gamma.to_vec::<f32>()?, [1.0; 3]);
    /// assert!(Initializer::xavier().fill_named("norm0", &gamma).is_err());
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn fill_named(self, name: &str, array: &NDArray) -> Result<(), Error> {
        const ZEROS: [&str; 5] = ["bias", "beta", "moving_mean", "running_mean", "moving_avg"];
        const ONES: [&str; 3] = ["gamma", "moving_var", "running_var"];
        let ends = |with: &[&str]| with.iter().any(|end| name.ends_with(end));
        match () {
            () if ends(&["weight"]) => self.fill(array),
            () if ends(&ZEROS) => Initializer::Constant(0.0).fill(array),
            () if ends(&ONES) => Initializer::Constant(1.0).fill(array),
            () => {
                let message = format!("no rule for '{name}': it ends neither in weight nor in {ZEROS:?} or {ONES:?}");
                Err(Error::new(ErrorKind::BadParameter, message))
            }
        }
    }
}

impl Fan {
    fn of(self, shape: Shape) -> Result<f64, Error> {
        let [outputs, inputs, window @ ..] = shape.dims() else {
            let message = format!("an array of shape {shape} has no fan: fill it by a constant or by one spread");
            return Err(Error::new(ErrorKind::ShapeMismatch, message));
        };
        let window: usize = window.iter().product();
        let (outputs, inputs) = ((outputs * window) as f64, (inputs * window) as f64);
        let fan = match self {
            Fan::In => inputs,
            Fan::Out => outputs,
            Fan::Average => (inputs + outputs) / 2.0,
        };
        match fan > 0.0 {
            true => Ok(fan),
            false => Err(Error::new(ErrorKind::ShapeMismatch, format!("an array of shape {shape} has a fan of 0"))),
        }
    }
}
