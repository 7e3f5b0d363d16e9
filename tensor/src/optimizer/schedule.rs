//! `Schedule`: the learning rate as a function of the number of the step.
//!
//! Used by `clock.rs`, which computes it in an operation, and by programs. The formulas are those
//! of MXNet 1.9 (`python/mxnet/lr_scheduler.py`).

#![forbid(unsafe_code)]

use crate::error::{Error, ErrorKind};

/// A learning rate that follows from the number of the step. Steps are counted from 1.
///
/// ```
/// use seriatim_tensor::optimizer::{Schedule, Sgd};
/// let schedule = Schedule::cosine(1.0, 100, 0.0)?.warm_up(10, 0.0)?;
/// assert_eq!(schedule.at(5), 0.5);
/// assert_eq!(schedule.at(55), 0.5);
/// assert_eq!(schedule.at(200), 0.0);
/// let sgd = Sgd::new(schedule, 0.9, 0.0)?;
/// # let _ = sgd;
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Schedule {
    base: f64,
    decay: Decay,
    /// How many steps it takes to the base rate, and the rate at the beginning.
    warm_up: (u64, f64),
}

#[derive(Clone, PartialEq, Debug)]
enum Decay {
    Constant,
    Factor { every: u64, factor: f64, least: f64 },
    MultiFactor { steps: Vec<u64>, factor: f64 },
    Poly { until: u64, power: f64, end: f64 },
    Cosine { until: u64, end: f64 },
}

/// Refuses what a schedule cannot be made of.
fn check(is_right: bool, what: impl FnOnce() -> String) -> Result<(), Error> {
    match is_right {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::BadParameter, format!("a schedule with {}", what()))),
    }
}

impl Schedule {
    fn new(base: f64, decay: Decay) -> Result<Schedule, Error> {
        check(base.is_finite(), || format!("the rate {base}, which is no number"))?;
        Ok(Schedule { base, decay, warm_up: (0, 0.0) })
    }

    /// The same rate in each step.
    ///
    /// # Errors
    /// [`BadParameter`](ErrorKind::BadParameter) if it is not finite.
    ///
    /// ```
    /// # use seriatim_tensor::optimizer::Schedule;
    /// assert_eq!(Schedule::constant(0.1)?.at(7), 0.1);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn constant(base: f64) -> Result<Schedule, Error> {
        Schedule::new(base, Decay::Constant)
    }

    /// The rate times `factor` after every so many steps, until it would be less than `least`
    /// (`FactorScheduler`).
    ///
    /// # Errors
    /// [`BadParameter`](ErrorKind::BadParameter) if `every` is 0, or the factor not above 0 and at
    /// most 1.
    ///
    /// ```
    /// # use seriatim_tensor::optimizer::Schedule;
    /// let schedule = Schedule::factor(0.5, 10, 0.5, 0.2)?;
    /// assert_eq!([1, 10, 11, 20, 21].map(|step| schedule.at(step)), [0.5, 0.5, 0.25, 0.25, 0.2]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn factor(base: f64, every: u64, factor: f64, least: f64) -> Result<Schedule, Error> {
        check(every > 0, || "a change every 0 steps: give a number from 1".into())?;
        check(factor > 0.0 && factor <= 1.0, || format!("factor {factor}, which is not in 0.0..=1.0"))?;
        Schedule::new(base, Decay::Factor { every, factor, least })
    }

    /// The rate times `factor` after each of these steps (`MultiFactorScheduler`).
    ///
    /// # Errors
    /// [`BadParameter`](ErrorKind::BadParameter) if the steps do not grow, or the factor is not
    /// above 0 and at most 1.
    ///
    /// ```
    /// # use seriatim_tensor::optimizer::Schedule;
    /// let schedule = Schedule::multi_factor(1.0, &[10, 15], 0.5)?;
    /// assert_eq!([10, 11, 15, 16].map(|step| schedule.at(step)), [1.0, 0.5, 0.5, 0.25]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn multi_factor(base: f64, steps: &[u64], factor: f64) -> Result<Schedule, Error> {
        check(steps.windows(2).all(|pair| pair[0] < pair[1]), || format!("steps {steps:?}, which do not grow"))?;
        check(factor > 0.0 && factor <= 1.0, || format!("factor {factor}, which is not in 0.0..=1.0"))?;
        Schedule::new(base, Decay::MultiFactor { steps: steps.into(), factor })
    }

    /// From the rate to `end` in step `until`, along a power of what is left (`PolyScheduler`).
    ///
    /// # Errors
    /// [`BadParameter`](ErrorKind::BadParameter) if `until` is 0, or the power is below 0.
    ///
    /// ```
    /// # use seriatim_tensor::optimizer::Schedule;
    /// let schedule = Schedule::poly(1.0, 10, 2.0, 0.0)?;
    /// assert_eq!([5, 10, 11].map(|step| schedule.at(step)), [0.25, 0.0, 0.0]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn poly(base: f64, until: u64, power: f64, end: f64) -> Result<Schedule, Error> {
        check(until > 0, || "an end in step 0: give a number from 1".into())?;
        check(power >= 0.0, || format!("power {power}, which is not in 0.0.."))?;
        Schedule::new(base, Decay::Poly { until, power, end })
    }

    /// From the rate to `end` in step `until`, along half a wave (`CosineScheduler`).
    ///
    /// # Errors
    /// [`BadParameter`](ErrorKind::BadParameter) if `until` is 0.
    ///
    /// ```
    /// # use seriatim_tensor::optimizer::Schedule;
    /// let schedule = Schedule::cosine(1.0, 10, 0.0)?;
    /// assert_eq!([5, 10, 11].map(|step| schedule.at(step)), [0.5, 0.0, 0.0]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn cosine(base: f64, until: u64, end: f64) -> Result<Schedule, Error> {
        check(until > 0, || "an end in step 0: give a number from 1".into())?;
        Schedule::new(base, Decay::Cosine { until, end })
    }

    /// The same, but for the steps before step `steps`: there the rate grows from `from` in a line.
    /// What ends in a step then takes only the steps in between.
    ///
    /// # Errors
    /// [`BadParameter`](ErrorKind::BadParameter) if the schedule has ended or has changed by then,
    /// or `from` is above its rate.
    ///
    /// ```
    /// # use seriatim_tensor::optimizer::Schedule;
    /// let schedule = Schedule::constant(1.0)?.warm_up(4, 0.0)?;
    /// assert_eq!([1, 2, 3, 4, 5].map(|step| schedule.at(step)), [0.25, 0.5, 0.75, 1.0, 1.0]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn warm_up(mut self, steps: u64, from: f64) -> Result<Schedule, Error> {
        let end = match &self.decay {
            Decay::Constant | Decay::Factor { .. } => u64::MAX,
            Decay::MultiFactor { steps, .. } => steps.first().copied().unwrap_or(u64::MAX),
            Decay::Poly { until, .. } | Decay::Cosine { until, .. } => *until,
        };
        check(steps < end, || format!("{steps} steps to warm up, and the first change in step {end}"))?;
        check(from <= self.base, || format!("a beginning at {from}, above the rate {}", self.base))?;
        self.warm_up = (steps, from);
        Ok(self)
    }

    /// The learning rate of a step.
    ///
    /// ```
    /// # use seriatim_tensor::optimizer::Schedule;
    /// assert_eq!(Schedule::constant(0.1)?.at(1), 0.1);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn at(&self, step: u64) -> f64 {
        let (warm, from) = self.warm_up;
        if step < warm {
            return from + (self.base - from) * step as f64 / warm as f64;
        }
        let part = |until: u64| (step.min(until) - warm) as f64 / (until - warm) as f64;
        match &self.decay {
            Decay::Constant => self.base,
            Decay::Factor { every, factor, least } => {
                let changes = step.saturating_sub(1) / every;
                let rate = self.base * factor.powf(changes as f64);
                if changes == 0 {
                    self.base
                } else {
                    rate.max(*least)
                }
            }
            Decay::MultiFactor { steps, factor } => {
                let changes = steps.iter().filter(|change| step > **change).count();
                self.base * factor.powf(changes as f64)
            }
            Decay::Poly { until, power, end } => end + (self.base - end) * (1.0 - part(*until)).powf(*power),
            Decay::Cosine { until, end } => {
                let wave = if step >= *until { -1.0 } else { (std::f64::consts::PI * part(*until)).cos() };
                end + (self.base - end) * (1.0 + wave) / 2.0
            }
        }
    }
}
