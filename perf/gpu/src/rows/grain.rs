//! METG(50 %): how short kernels may be before half of the time is lost, on a chain and on a
//! stencil of four columns.

use crate::lab::{say, BareWord, Lab, Word};
use crate::measure::Contestant;
use crate::record::{Limit, Question, Table};
use std::cell::Cell;
use std::time::Instant;

/// Columns of the stencil.
const WIDTH: usize = 4;

/// Steps of the longest kernels that are tried; every further try has half of them.
const LONGEST: u64 = 1 << 14;

/// Runs so many steps of a pattern with kernels of so many spins; returns the seconds.
type Run<'a> = Box<dyn Fn(usize, u64) -> Result<f64, String> + 'a>;

/// The shortest time of a kernel's place in the pattern, in microseconds, at which a device is busy
/// for half of it: between two tries the efficiency is taken for a straight line over the logarithm
/// of the time. `spin` is the seconds of one step of a kernel.
fn metg(run: &Run<'_>, steps: usize, spin: f64, tries: usize) -> Result<f64, String> {
    let mut before: Option<(f64, f64)> = None;
    for at in 0..tries {
        let spins = LONGEST >> at;
        let a_step = run(steps, spins)? / steps as f64;
        let efficiency = (spins as f64 * spin / a_step).min(1.0);
        if efficiency < 0.5 {
            let Some((time, above)) = before else { return Ok(a_step * 1e6) };
            let share = (above - 0.5) / (above - efficiency).max(1e-9);
            return Ok((time.ln() + share * (a_step.ln() - time.ln())).exp() * 1e6);
        }
        before = Some((a_step, efficiency));
    }
    // Shorter kernels than these are not tried: half is kept down to here.
    before.map(|(time, _)| time * 1e6).ok_or_else(|| "nothing was tried".to_owned())
}

/// The seconds of one step of a kernel: long kernels one behind the other, less the same number
/// without steps.
fn spin_time(lab: &Lab) -> Result<f64, String> {
    let (count, spins) = (lab.count(20), LONGEST * 4);
    let (stream, word) = (lab.streams(1)?[0], lab.bare_word()?);
    let run = |spins: u64| {
        let began = Instant::now();
        (0..count as u64).try_for_each(|id| lab.launch(stream, &word, &[], id, spins))?;
        lab.driver.synchronize(stream)?;
        Ok::<f64, String>(began.elapsed().as_secs_f64())
    };
    run(spins)?;
    let time = (run(spins)? - run(0)?) / (count as u64 * spins) as f64;
    lab.settle_bare([&word])?;
    Ok(time.max(1e-12))
}

fn measured(lab: &Lab, table: &mut Table, text: &str, ours: Run<'_>, bare: Run<'_>) -> Result<(), String> {
    let (steps, tries) = (lab.count(200), if lab.quick { 3 } else { 15 });
    let spin = spin_time(lab)?;
    // What half of the time is lost to, at the least: the launches.
    let (stream, word) = (lab.streams(1)?[0], lab.bare_word()?);
    let floor = Cell::new(f64::INFINITY);
    let launches = lab.count(2000);
    let (floor, word) = (&floor, &word);
    let bare: Contestant<'_> = Box::new(move || {
        let began = Instant::now();
        (0..launches as u64).try_for_each(|id| lab.launch(stream, word, &[], id, 0))?;
        lab.driver.synchronize(stream)?;
        floor.set(super::micros(began, launches));
        metg(&bare, steps, spin, tries)
    });
    let ours: Contestant<'_> = Box::new(move || metg(&ours, steps, spin, tries));
    let question = Question::new(text, "µs a step").beside("the same by hand").time(20);
    // By hand a step cannot be shorter than a launch, so this is no easier than twice the floor.
    let limit = Limit::AtMost(|figures| figures.bare.map(|bare| bare * 2.0));
    table.measure(lab, question.goal("2 × by hand, whose floor is the launch", limit), ours, Some(bare))?;
    lab.settle_bare([word])?;
    table.fact(&format!("launch floor beside '{text}'"), format!("{:.2} µs", floor.get()))
}

/// One kernel after the other.
pub fn chain(lab: &Lab, table: &mut Table) -> Result<(), String> {
    let (word, stream, bare_word) = (lab.word()?, lab.streams(1)?[0], lab.bare_word()?);
    let ours: Run<'_> = Box::new(move |steps, spins| {
        let began = Instant::now();
        (0..steps as u64).try_for_each(|id| lab.push(&word, &[], id, spins))?;
        lab.engine.wait_for_var(word.data.variable()).map_err(say)?;
        let took = began.elapsed().as_secs_f64();
        lab.settle([&word]).map(|()| took)
    });
    let bare: Run<'_> = Box::new(move |steps, spins| {
        let began = Instant::now();
        (0..steps as u64).try_for_each(|id| lab.launch(stream, &bare_word, &[], id, spins))?;
        lab.driver.synchronize(stream)?;
        let took = began.elapsed().as_secs_f64();
        lab.settle_bare([&bare_word]).map(|()| took)
    });
    measured(lab, table, "METG(50 %), chain", ours, bare)
}

/// Four columns; each kernel reads what its column and both neighbours were a step before.
pub fn stencil(lab: &Lab, table: &mut Table) -> Result<(), String> {
    let words: [Vec<Word>; 2] = [lab.words(WIDTH)?, lab.words(WIDTH)?];
    let ours: Run<'_> = Box::new(move |steps, spins| {
        let began = Instant::now();
        for step in 0..steps {
            let (from, to) = (&words[step % 2], &words[(step + 1) % 2]);
            for (column, own) in to.iter().enumerate() {
                let read: Vec<&Word> = around(column).map(|at| &from[at]).collect();
                lab.push(own, &read, step as u64, spins)?;
            }
        }
        lab.engine.wait_for_all().map_err(say)?;
        let took = began.elapsed().as_secs_f64();
        lab.settle(words.iter().flatten()).map(|()| took)
    });
    let (streams, events) = (lab.streams(WIDTH)?, [lab.events(WIDTH)?, lab.events(WIDTH)?]);
    let bare_words: [Vec<BareWord>; 2] = [lab.bare_words(WIDTH)?, lab.bare_words(WIDTH)?];
    let bare: Run<'_> = Box::new(move |steps, spins| {
        let driver = &lab.driver;
        let began = Instant::now();
        for step in 0..steps {
            let (from, to) = (&bare_words[step % 2], &bare_words[(step + 1) % 2]);
            for (column, own) in to.iter().enumerate() {
                // The neighbours' last kernels: what this one reads, and whose numbers it changes
                // they have read by then.
                for neighbour in around(column).filter(|at| *at != column && step > 0) {
                    driver.wait(streams[column], events[(step + 1) % 2][neighbour])?;
                }
                let read: Vec<&BareWord> = around(column).map(|at| &from[at]).collect();
                lab.launch(streams[column], own, &read, step as u64, spins)?;
                driver.record(events[step % 2][column], streams[column])?;
            }
        }
        streams.iter().try_for_each(|stream| driver.synchronize(*stream))?;
        let took = began.elapsed().as_secs_f64();
        lab.settle_bare(bare_words.iter().flatten()).map(|()| took)
    });
    measured(lab, table, "METG(50 %), stencil of four", ours, bare)
}

/// A column and its neighbours.
fn around(column: usize) -> impl Iterator<Item = usize> {
    column.saturating_sub(1)..=(column + 1).min(WIDTH - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device on which a kernel costs its spins of a microsecond, and nothing is shorter than a
    /// launch of 8 µs.
    fn model(spins: u64) -> f64 {
        (spins as f64).max(8.0) * 1e-6
    }

    #[test]
    fn half_is_lost_where_kernels_are_half_a_launch() {
        let run: Run<'_> = Box::new(|steps, spins| Ok(steps as f64 * model(spins)));
        // Down to kernels of 4 µs half of each launch of 8 µs is used.
        let found = metg(&run, 10, 1e-6, 15).unwrap();
        assert!((7.9..8.1).contains(&found), "{found}");
        let free: Run<'_> = Box::new(|steps, spins| Ok(steps as f64 * spins as f64 * 1e-6));
        let found = metg(&free, 10, 1e-6, 15).unwrap();
        assert!((0.9..1.1).contains(&found), "nothing is lost down to the shortest: {found}");
    }

    #[test]
    fn columns_have_neighbours() {
        let of = |column| around(column).collect::<Vec<_>>();
        assert_eq!([of(0), of(1), of(3)], [vec![0, 1], vec![0, 1, 2], vec![2, 3]]);
    }
}
