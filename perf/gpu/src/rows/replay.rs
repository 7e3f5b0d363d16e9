//! A captured graph of empty kernels, beside a graph of the driver.

use super::micros;
use crate::lab::{say, Lab};
use crate::measure::Contestant;
use crate::mix::Mixture;
use crate::record::{Limit, Question, Table};
use seriatim::gpu::DeviceData;
use seriatim::{Context, Error, Graph};
use std::sync::Arc;
use std::time::Instant;

/// A graph of so many kernels on one number, which is launched as a graph of the driver.
fn captured(lab: &Lab, array: &DeviceData<u64>, count: usize) -> Result<Graph, Error> {
    let record = |capture: &mut seriatim::Capture| {
        for id in 0..count as u64 {
            let (mix, own) = (Arc::clone(&lab.device.mix), array.clone());
            capture.op("part").context(Context::gpu(0)).write(array).device_graph().push(move |run| {
                let stream = run.stream().ok_or("this operation has no stream")?;
                let out = own.write_on(run).map_err(say)?;
                // SAFETY: the operation has declared the number, of its own device.
                unsafe { mix.mix(0, stream, &Mixture { out, from: [None; 3], id, spin: 0, count: 1 }) }
            })?;
        }
        Ok(())
    };
    lab.engine.capture(record).map(|(graph, ())| graph)
}

/// The replay of 1,000 empty kernels.
pub fn replay(lab: &Lab, table: &mut Table) -> Result<(), String> {
    let count = lab.count(1000);
    let question = Question::new("a replay of 1,000 empty kernels", "µs a kernel").beside("a graph of the driver");
    let limit = Limit::AtMost(|figures| Some(figures.bare? * 1.1));
    let question = question.goal("1.1 × the driver's graph", limit).rival("replay", count);
    let (stream, bare_word) = (lab.streams(1)?[0], lab.bare_word()?);
    // The capture runs nothing, so what its launches expect is forgotten, and noted at each run.
    let graph =
        lab.driver.graph(stream, || (0..count as u64).try_for_each(|id| lab.launch(stream, &bare_word, &[], id, 0)));
    let graph = match graph {
        Ok(graph) => graph,
        Err(why) => return table.unavailable(question, why),
    };
    bare_word.forget();
    let bare: Contestant<'_> = Box::new(move || {
        (0..count as u64).for_each(|id| bare_word.note(id));
        let began = Instant::now();
        lab.driver.launch_graph(graph, stream)?;
        lab.driver.synchronize(stream)?;
        let took = micros(began, count);
        lab.settle_bare([&bare_word])?;
        Ok(took)
    });
    let word = lab.word()?;
    let recorded = match captured(lab, &word.data, count) {
        Ok(recorded) => recorded,
        Err(why) => {
            // The floor is worth knowing all the same.
            table.measure(lab, Question::new("floor: a graph of the driver", "µs a kernel"), bare, None)?;
            return table.unavailable(question, why.to_string());
        }
    };
    let ours: Contestant<'_> = Box::new(move || {
        (0..count as u64).for_each(|id| word.note(id));
        let began = Instant::now();
        recorded.replay().map_err(say)?;
        lab.engine.wait_for_var(word.data.variable()).map_err(say)?;
        let took = micros(began, count);
        lab.settle([&word])?;
        Ok(took)
    });
    table.measure(lab, question, ours, Some(bare))
}
