//! Medians of interleaved runs.

use std::time::{Duration, Instant};

/// How often each contestant is measured, if there is time.
pub const ROUNDS: usize = 9;

/// What repeated measurements of one thing came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub low: f64,
    pub high: f64,
    pub rounds: usize,
}

impl Spread {
    /// Of at least one value.
    pub fn of(mut values: Vec<f64>) -> Spread {
        values.sort_by(f64::total_cmp);
        let (low, high) = (values[0], values[values.len() - 1]);
        Spread { median: values[values.len() / 2], low, high, rounds: values.len() }
    }
}

/// A thing that is measured: each call is one run, and returns its figure.
pub type Contestant<'a> = Box<dyn FnMut() -> Result<f64, String> + 'a>;

/// Runs the contestants in turn: once to warm up, then `rounds` times each, or as often as fits
/// into `limit`, but at least once.
///
/// # Errors
/// The first failure of a run.
pub fn interleaved(rounds: usize, limit: Duration, contestants: &mut [Contestant<'_>]) -> Result<Vec<Spread>, String> {
    let began = Instant::now();
    for contestant in contestants.iter_mut() {
        contestant()?;
    }
    let mut values = vec![Vec::new(); contestants.len()];
    for round in 0..rounds {
        // As many rounds as were done, and one more.
        let next = began.elapsed() * (round as u32 + 2) / (round as u32 + 1);
        if round > 0 && next > limit {
            break;
        }
        for (contestant, values) in contestants.iter_mut().zip(&mut values) {
            values.push(contestant()?);
        }
    }
    Ok(values.into_iter().map(Spread::of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contestants_take_turns_after_a_warm_up() {
        let order = std::cell::RefCell::new(Vec::new());
        let order = &order;
        let contestant = |name: &'static str| -> Contestant<'_> {
            Box::new(move || {
                order.borrow_mut().push(name);
                Ok(order.borrow().len() as f64)
            })
        };
        let spreads = interleaved(3, Duration::from_secs(60), &mut [contestant("a"), contestant("b")]).unwrap();
        assert_eq!(*order.borrow(), ["a", "b"].repeat(4));
        assert_eq!(spreads[0], Spread { median: 5.0, low: 3.0, high: 7.0, rounds: 3 });
        assert_eq!(spreads[1], Spread { median: 6.0, low: 4.0, high: 8.0, rounds: 3 });
    }

    #[test]
    fn what_takes_long_has_fewer_rounds() {
        let run = || {
            std::thread::sleep(Duration::from_millis(2));
            Ok(1.0)
        };
        let spreads = interleaved(9, Duration::from_millis(1), &mut [Box::new(run)]).unwrap();
        assert_eq!(spreads[0].rounds, 1);
    }
}
