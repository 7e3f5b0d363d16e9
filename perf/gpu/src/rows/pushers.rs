//! One to four threads push, each on a number of its own, and all read one in common.

use super::micros;
use crate::lab::{say, Lab};
use crate::measure::Contestant;
use crate::record::{Limit, Question, Table};
use seriatim::Property;
use std::time::Instant;

fn run(lab: &Lab, threads: usize, count: usize) -> Result<Contestant<'_>, String> {
    let (common, words) = (lab.word()?, lab.words(threads)?);
    Ok(Box::new(move || {
        let each = count / threads;
        let (common, began) = (&common, Instant::now());
        let pushes = |word| {
            let pusher = lab.pusher.clone();
            move || (0..each).try_for_each(|at| pusher.push(Property::Normal, word, &[common], at as u64, 0))
        };
        std::thread::scope(|scope| {
            let started: Vec<_> = words.iter().map(|word| scope.spawn(pushes(word))).collect();
            let ended = started.into_iter().map(|thread| thread.join().map_err(|_| "a pusher panicked".to_owned())?);
            ended.collect::<Result<(), String>>()
        })?;
        lab.engine.wait_for_all().map_err(say)?;
        let took = micros(began, each * threads);
        lab.settle(words.iter().chain([common]))?;
        Ok(took)
    }))
}

/// Two and four pushers beside one.
pub fn pushers(lab: &Lab, table: &mut Table) -> Result<(), String> {
    let count = lab.count(4000);
    for threads in [2, 4] {
        let text = format!("{threads} pushers with a common read");
        let question = Question::new(text, "µs of wall time an operation").beside("one pusher");
        let limit = Limit::AtMost(|figures| figures.bare);
        let question = question.goal("no slower than one pusher", limit).rival(format!("pushers-{threads}"), count);
        table.measure(lab, question, run(lab, threads, count)?, Some(run(lab, 1, count)?))?;
    }
    Ok(())
}
