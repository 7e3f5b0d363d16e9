//! Random programs through the seam, and the checker that judges them: silent where every order is
//! kept, never where one is missing, and the same for the same seed.

use crate::client::{Count, Standin};
use crate::common::Random;
use crate::Entered;
use seriatim::gpu::{RawMark, RawStream};

const STREAMS: usize = 4;
const CELLS: usize = 8;
const STEPS: u64 = 300;

/// A cell, and which steps used it since, each with its stream and a mark behind it.
#[derive(Default, Clone)]
struct Users {
    writer: Option<(usize, RawMark)>,
    readers: Vec<(usize, RawMark)>,
}

/// Orders steps of one write and one read, on streams by lot, by a mark behind each of them. One
/// wait of so many is left out; none, if that is 0. Returns how many waits there were.
fn program(standin: &Standin, seed: u64, left_out: usize) -> usize {
    let gpu = Entered::new(standin);
    let streams: Vec<RawStream> = (0..STREAMS).map(|_| gpu.stream()).collect();
    let mut random = Random(seed);
    let mut cells = vec![Users::default(); CELLS];
    let (mut marks, mut waits) = (Vec::new(), 0);
    for step in 0..STEPS {
        let (at, write, read) = (random.below(STREAMS), random.below(CELLS), random.below(CELLS));
        let before: Vec<(usize, RawMark)> = {
            let written = &cells[write];
            written.readers.iter().copied().chain(written.writer).chain(cells[read].writer).collect()
        };
        for (_, mark) in before.into_iter().filter(|(stream, _)| *stream != at) {
            if left_out == 0 || waits % left_out != 0 {
                gpu.cuda.wait(streams[at], mark).unwrap();
            }
            waits += 1;
        }
        standin.access(streams[at].raw(), write as u64, true, step);
        standin.access(streams[at].raw(), read as u64, read == write, step);
        let mark = gpu.mark();
        gpu.cuda.record(mark, streams[at]).unwrap();
        // Half of the marks are looked at, so that the host learns of some and streams move.
        if random.chance(50) {
            gpu.cuda.reached(mark).unwrap();
        }
        cells[read].readers.push((at, mark));
        cells[write] = Users { writer: Some((at, mark)), readers: Vec::new() };
        marks.push(mark);
    }
    streams.iter().for_each(|stream| gpu.cuda.finish(*stream).unwrap());
    marks.into_iter().for_each(|mark| gpu.cuda.drop_mark(mark));
    streams.into_iter().for_each(|stream| gpu.cuda.drop_stream(stream));
    waits
}

#[test]
fn programs_that_keep_the_order_are_silent() {
    let standin = Standin::begin(1, 128);
    for seed in 1..=40 {
        standin.again(seed, 1 + seed * 6);
        assert!(program(&standin, seed, 0) > 100);
        assert_eq!(standin.reports(), [""; 0], "seed {seed}");
        let left = [Count::Streams, Count::Events, Count::Recordings, Count::Commands].map(|what| standin.count(what));
        assert_eq!(left, [0; 4], "seed {seed}");
    }
}

#[test]
fn programs_that_leave_waits_out_are_found() {
    let standin = Standin::begin(1, 128);
    let mut missed = 0;
    for seed in 1..=60 {
        standin.again(seed, 128);
        program(&standin, seed, 9);
        missed += usize::from(standin.reports().is_empty());
    }
    assert_eq!(missed, 0, "of 60");
}

#[test]
fn a_seed_gives_one_order_of_commands() {
    let standin = Standin::begin(1, 128);
    let run = |seed| {
        standin.again(seed, 100);
        program(&standin, 5, 9);
        (standin.trace(), standin.reports())
    };
    let first: Vec<_> = (1..=10).map(run).collect();
    let second: Vec<_> = (1..=10).map(run).collect();
    assert_eq!(first, second);
    let mut traces: Vec<u64> = first.iter().map(|(trace, _)| *trace).collect();
    traces.sort_unstable();
    traces.dedup();
    assert_eq!(traces.len(), 10, "ten seeds, ten orders");
}
