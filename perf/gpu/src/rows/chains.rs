//! Chains of empty kernels through the engine, and programs that are hardly more.

use super::micros;
use crate::lab::{say, Lab, Word};
use crate::measure::Contestant;
use crate::mix::{mixed, Mixture};
use crate::record::{Figures, Limit, Question, Table};
use seriatim::gpu::{DeviceData, PinnedData};
use seriatim::{Context, Property};
use std::sync::Arc;
use std::time::Instant;

/// A third of what the rival takes above the launches.
fn third_of_the_rival(figures: &Figures) -> Option<f64> {
    Some(figures.bare? + (figures.rival? - figures.bare?) / 3.0)
}

/// The launches and 0.3 µs; and, if there is a rival, no more than a third of what it takes above
/// them.
fn of_a_chain(figures: &Figures) -> Option<f64> {
    let own = figures.bare? + 0.3;
    Some(third_of_the_rival(figures).map_or(own, |third| own.min(third)))
}

/// Launches of the bare kernel on one stream.
fn launches(lab: &Lab, count: usize) -> Result<Contestant<'_>, String> {
    let (stream, word) = (lab.streams(1)?[0], lab.bare_word()?);
    Ok(Box::new(move || {
        let began = Instant::now();
        for at in 0..count {
            lab.launch(stream, &word, &[], at as u64, 0)?;
        }
        lab.driver.synchronize(stream)?;
        let took = micros(began, count);
        lab.settle_bare([&word])?;
        Ok(took)
    }))
}

/// Operations that each change the same number.
pub fn chain(lab: &Lab, table: &mut Table) -> Result<(), String> {
    let (count, word) = (lab.count(2000), lab.word()?);
    let ours: Contestant<'_> = Box::new(move || {
        let began = Instant::now();
        for at in 0..count {
            lab.push(&word, &[], at as u64, 0)?;
        }
        lab.engine.wait_for_var(word.data.variable()).map_err(say)?;
        let took = micros(began, count);
        lab.settle([&word])?;
        Ok(took)
    });
    let question = Question::new("a chain of empty kernels", "µs an operation").beside("a loop of launches");
    let goal = "the loop of launches + 0.3 µs, and a third of the rival's cost over the loop";
    let question = question.goal(goal, Limit::AtMost(of_a_chain)).rival("chain", count);
    table.measure(lab, question, ours, Some(launches(lab, count)?))
}

/// The same number, changed on two streams in turn: those of the two directions of copies.
pub fn two_streams(lab: &Lab, table: &mut Table) -> Result<(), String> {
    let (count, word) = (lab.count(2000), lab.word()?);
    let ours: Contestant<'_> = Box::new(move || {
        let began = Instant::now();
        for at in 0..count {
            let property = [Property::CopyToGpu, Property::CopyFromGpu][at % 2];
            lab.pusher.push(property, &word, &[], at as u64, 0)?;
        }
        lab.engine.wait_for_var(word.data.variable()).map_err(say)?;
        let took = micros(began, count);
        lab.settle([&word])?;
        Ok(took)
    });
    let (streams, events, word) = (lab.streams(2)?, lab.events(2)?, lab.bare_word()?);
    let bare: Contestant<'_> = Box::new(move || {
        let began = Instant::now();
        for at in 0..count {
            let (own, other) = (at % 2, (at + 1) % 2);
            lab.launch(streams[own], &word, &[], at as u64, 0)?;
            lab.driver.record(events[own], streams[own])?;
            lab.driver.wait(streams[other], events[own])?;
        }
        lab.driver.synchronize(streams[0])?;
        lab.driver.synchronize(streams[1])?;
        let took = micros(began, count);
        lab.settle_bare([&word])?;
        Ok(took)
    });
    let question = Question::new("two streams in turn", "µs an operation").beside("launch, record and wait by hand");
    let limit = Limit::AtMost(|figures| Some(figures.bare? + 0.3));
    let question = question.goal("by hand + 0.3 µs", limit).rival("two-streams", count);
    table.measure(lab, question, ours, Some(bare))
}

/// Each operation reads two of ten numbers and changes a third.
pub fn random(lab: &Lab, table: &mut Table) -> Result<(), String> {
    let (count, words) = (lab.count(2000), lab.words(10)?);
    let ours: Contestant<'_> = Box::new(move || {
        let mut state = 1u64;
        let mut below = |bound: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % bound
        };
        let began = Instant::now();
        for at in 0..count {
            let out = below(10);
            let (first, second) = ((out + 1 + below(9)) % 10, (out + 1 + below(9)) % 10);
            let from: Vec<&Word> =
                if first == second { vec![&words[first]] } else { vec![&words[first], &words[second]] };
            lab.push(&words[out], &from, at as u64, 0)?;
        }
        lab.engine.wait_for_all().map_err(say)?;
        let took = micros(began, count);
        lab.settle(&words)?;
        Ok(took)
    });
    let question = Question::new("at random, two reads and a write of ten", "µs an operation");
    let question = question.beside("a loop of launches").rival("random", count);
    let goal = "a third of the rival's cost over the loop of launches";
    let question = question.goal(goal, Limit::AtMost(third_of_the_rival));
    table.measure(lab, question, ours, Some(launches(lab, count)?))
}

/// Operations that only read one number, and then one that changes it.
pub fn readers(lab: &Lab, table: &mut Table) -> Result<(), String> {
    let (count, word) = (lab.count(2000), lab.word()?);
    let ours: Contestant<'_> = Box::new(move || {
        let began = Instant::now();
        for _ in 0..count {
            lab.pusher.push_reader(&word)?;
        }
        lab.push(&word, &[], 1, 0)?;
        lab.engine.wait_for_var(word.data.variable()).map_err(say)?;
        let took = micros(began, count);
        lab.settle([&word])?;
        Ok(took)
    });
    let question = Question::new("readers without a writer between", "µs an operation").beside("a loop of launches");
    let goal = "a third of the rival's cost over the loop of launches";
    let question = question.goal(goal, Limit::AtMost(third_of_the_rival)).rival("readers", count);
    table.measure(lab, question, ours, Some(launches(lab, count)?))
}

/// A number that goes to and fro between two devices, and is changed on each.
pub fn two_devices(lab: &Lab, table: &mut Table) -> Result<(), String> {
    const LENGTH: usize = 64;
    let question = Question::new("to and fro between two devices", "µs a copy and a kernel");
    if lab.driver.devices() < 2 {
        return table.unavailable(question, "there is one device");
    }
    let second = lab.engine.device(Context::gpu(1)).map_err(say)?;
    let arrays = [
        DeviceData::<u64>::zeros(&lab.gpu, LENGTH).map_err(say)?,
        DeviceData::<u64>::zeros(&second, LENGTH).map_err(say)?,
    ];
    let back = PinnedData::<u64>::zeros(&second, LENGTH).map_err(say)?;
    let (count, mut expected) = (lab.count(200), 0);
    let ours: Contestant<'_> = Box::new(move || {
        let began = Instant::now();
        for at in 0..count {
            let (from, to) = (&arrays[at % 2], &arrays[(at + 1) % 2]);
            lab.engine.copy(from, to).map_err(say)?;
            let (mix, array, device, id) = (Arc::clone(&lab.device.mix), to.clone(), (at + 1) % 2, at as u64);
            let pushed = lab.engine.op("mix").context(Context::gpu(device as u32)).write(to).push(move |run| {
                let stream = run.stream().ok_or("this operation has no stream")?;
                let out = array.write_on(run).map_err(say)?;
                // SAFETY: the operation has declared the array, of its own device.
                unsafe { mix.mix(device, stream, &Mixture { out, from: [None; 3], id, spin: 0, count: LENGTH }) }
            });
            pushed.map_err(say)?;
            expected = mixed(expected, [0; 3], id, 0);
        }
        let last = &arrays[count % 2];
        lab.engine.wait_for_var(last.variable()).map_err(say)?;
        let took = micros(began, count);
        lab.engine.copy(last, &back).map_err(say)?;
        lab.engine.wait_for_var(back.variable()).map_err(say)?;
        match back.read().map_err(say)?.iter().all(|found| *found == expected) {
            true => Ok(took),
            false => Err("a value has not come over as it was".to_owned()),
        }
    });
    table.measure(lab, question, ours, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_has_both_goals_to_reach() {
        let limit = |rival| of_a_chain(&Figures { ours: 0.0, bare: Some(2.0), rival });
        assert_eq!((limit(None), limit(Some(5.0))), (Some(2.3), Some(2.3)));
        assert!((limit(Some(2.3)).unwrap() - 2.1).abs() < 1e-9);
    }
}
