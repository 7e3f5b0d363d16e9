//! The two examples as rows: three stages with overlap, and the digits.

use crate::digits_gpu::{Digits, RIGHT};
use crate::lab::Lab;
use crate::measure::{Contestant, Spread, ROUNDS};
use crate::pipeline_gpu::{Pipeline, Shape};
use crate::record::{Limit, Question, Row, Table, Verdict};
use std::path::PathBuf;
use std::time::Duration;

/// Chunks in, compute, out: beside the longest stage, and how much of the copies is hidden.
pub fn pipeline(lab: &Lab, table: &mut Table) -> Result<(), String> {
    let shape = match lab.quick {
        true => Shape { chunks: 4, length: 256, spin: 8 },
        false => Shape { chunks: 16, length: 1 << 21, spin: 1000 },
    };
    let together = Question::new("chunks in, compute, out", "ms").beside("the longest stage alone");
    let together = together.goal("1.1 × the longest stage", Limit::AtMost(|figures| Some(figures.bare? * 1.1)));
    let hidden = Question::new("copies under other work, at the least", "%");
    let hidden = hidden.goal("90 % of their time", Limit::AtLeast(|_| Some(90.0)));
    let rounds = if lab.quick { 1 } else { ROUNDS };
    let measured = Pipeline::new(&lab.device, shape)
        .and_then(|it| Ok((it.measure(rounds, Duration::from_secs(20))?, it.profiled()?)));
    let (outcome, picture) = match measured {
        Ok(measured) => measured,
        Err(why) => {
            return table.add(Row::empty(together, Verdict::Void(why)));
        }
    };
    let stages = [outcome.copy_in, outcome.compute, outcome.copy_out];
    let longest = stages.into_iter().max_by(|one, other| one.median.total_cmp(&other.median));
    let millis = |spread: Spread| Spread {
        median: spread.median * 1e3,
        low: spread.low * 1e3,
        high: spread.high * 1e3,
        rounds: spread.rounds,
    };
    table.add(Row::judged(lab, together, millis(outcome.together), longest.map(millis)))?;
    let share = Spread::of(vec![100.0 * picture.overlap.share()]);
    let clocked = Question::new("copies under computation, by a profile", "%");
    let clocked = clocked.goal("90 % of their time", Limit::AtLeast(|_| Some(90.0)));
    table.add(Row::judged(lab, clocked, share, None))?;
    match outcome.hidden() {
        Some(share) => table.add(Row::judged(lab, hidden, Spread::of(vec![share * 100.0]), None)),
        None => table.unavailable(hidden, "the copies took no time"),
    }
}

/// The file of the images: beside the program, or where it lies in the repository.
fn images() -> Result<PathBuf, String> {
    let beside = std::env::current_exe().ok().and_then(|path| Some(path.parent()?.join("digits.csv.gz")));
    let in_repository = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../digits/data/digits.csv.gz"));
    let mut places = beside.into_iter().chain([in_repository]);
    places.find(|path| path.exists()).ok_or_else(|| "digits.csv.gz is not beside the program".to_owned())
}

/// The digits with their tiles on the device. A wrong answer voids the row.
pub fn digits(lab: &Lab, table: &mut Table) -> Result<(), String> {
    let question =
        Question::new(format!("digits, {RIGHT} of 297 right, scores to 1e-9"), "ms with all copies").time(20);
    if let Err(why) = &lab.device.tiles {
        return table.unavailable(question, why.clone());
    }
    let digits = match images().and_then(|images| Digits::new(&lab.device, &images, 125)) {
        Ok(digits) => digits,
        Err(why) => return table.unavailable(question, why),
    };
    let ours: Contestant<'_> = Box::new(move || {
        let outcome = digits.run()?;
        outcome.check()?;
        Ok(outcome.seconds * 1e3)
    });
    table.measure(lab, question, ours, None)
}
