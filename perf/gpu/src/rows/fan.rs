//! One operation, so many behind it at once, and one behind those.

use super::micros;
use crate::lab::{BareWord, Lab, Word};
use crate::measure::Contestant;
use crate::record::{Limit, Question, Table};
use std::time::Instant;

/// Streams by hand, as many as the engine has for kernels.
const STREAMS: usize = 4;

/// Steps of a branch's kernel, so that branches that run at once show.
const SPIN: u64 = 2000;

/// Fans of 1 to 64 branches.
pub fn fans(lab: &Lab, table: &mut Table) -> Result<(), String> {
    for width in [1, 4, 16, 64] {
        let repeats = lab.count(20) / if lab.quick { 12 } else { 1 };
        let question = Question::new(format!("a fan of {width}"), "µs a fan").beside("by hand");
        let limit = Limit::AtMost(|figures| Some(figures.bare? * 1.1));
        let question = question.goal("1.1 × by hand, with streams and events", limit);
        let question = question.rival(format!("fan-{width}"), repeats);
        table.measure(lab, question, ours(lab, width, repeats)?, Some(by_hand(lab, width, repeats)?))?;
    }
    Ok(())
}

fn ours(lab: &Lab, width: usize, repeats: usize) -> Result<Contestant<'_>, String> {
    let (first, last, branches) = (lab.word()?, lab.word()?, lab.words(width)?);
    Ok(Box::new(move || {
        let began = Instant::now();
        for id in 0..repeats as u64 {
            lab.push(&first, &[], id, 0)?;
            for branch in &branches {
                lab.push(branch, &[&first], id, SPIN)?;
            }
            // The kernel takes three numbers, so the join is as many kernels as that needs.
            let joined: Vec<&Word> = branches.iter().collect();
            for part in joined.chunks(3) {
                lab.push(&last, part, id, 0)?;
            }
        }
        lab.engine.wait_for_var(last.data.variable()).map_err(crate::lab::say)?;
        let took = micros(began, repeats);
        lab.settle(branches.iter().chain([&first, &last]))?;
        Ok(took)
    }))
}

fn by_hand(lab: &Lab, width: usize, repeats: usize) -> Result<Contestant<'_>, String> {
    let (first, last, branches) = (lab.bare_word()?, lab.bare_word()?, lab.bare_words(width)?);
    let (streams, events, begun, ended) =
        (lab.streams(STREAMS)?, lab.events(STREAMS)?, lab.events(1)?[0], lab.events(1)?[0]);
    Ok(Box::new(move || {
        let driver = &lab.driver;
        let began = Instant::now();
        for id in 0..repeats as u64 {
            lab.launch(streams[0], &first, &[], id, 0)?;
            driver.record(begun, streams[0])?;
            for stream in &streams[1..] {
                driver.wait(*stream, begun)?;
            }
            for (at, branch) in branches.iter().enumerate() {
                lab.launch(streams[at % STREAMS], branch, &[&first], id, SPIN)?;
            }
            // One event a stream is enough, behind its last branch.
            for (stream, event) in streams.iter().zip(&events).skip(1) {
                driver.record(*event, *stream)?;
                driver.wait(streams[0], *event)?;
            }
            let joined: Vec<&BareWord> = branches.iter().collect();
            for part in joined.chunks(3) {
                lab.launch(streams[0], &last, part, id, 0)?;
            }
            // The next fan changes what this one reads.
            driver.record(ended, streams[0])?;
            for stream in &streams[1..] {
                driver.wait(*stream, ended)?;
            }
        }
        driver.synchronize(streams[0])?;
        let took = micros(began, repeats);
        lab.settle_bare(branches.iter().chain([&first, &last]))?;
        Ok(took)
    }))
}
