//! Random trees of scopes, against the same programs without an engine.
//!
//! A node has a row of numbers. It changes them, or cuts the row into pieces and has operations of
//! a scope change those: each on its own piece, which its closure borrows, or on parts, of which
//! each operation changes one and reads others, in the order of the pushes. An operation is a node
//! of its own, down to some depth.

use crate::common::*;
use crate::inside::inside;
use seriatim::{Engine, Error, Write};

const ROW: usize = 48;
const PROGRAMS: u64 = if cfg!(miri) { 1 } else { 40 };
const DEPTH: usize = if cfg!(miri) { 2 } else { 4 };

/// A piece of the row, and what was read of others.
fn node(engine: Option<&Engine>, row: &mut [u64], read: u64, seed: u64, depth: usize) -> Result<(), Error> {
    let mut random = Random(seed);
    row.iter_mut().for_each(|number| *number = mix(*number ^ read ^ random.next()));
    if depth == 0 || row.len() < 4 {
        return Ok(());
    }
    for _ in 0..random.between(1, 2) {
        let pieces = random.between(2, 4);
        let length = row.len().div_ceil(pieces);
        if random.chance(50) {
            borrowed(engine, row, length, random.next(), depth)?;
        } else {
            parts(engine, row, length, &mut random, depth)?;
        }
        row.rotate_left(1);
    }
    Ok(())
}

/// Each operation on a piece of its own; the body is one of them.
fn borrowed(engine: Option<&Engine>, row: &mut [u64], length: usize, seed: u64, depth: usize) -> Result<(), Error> {
    let seed = |number: usize| mix(seed ^ number as u64);
    let Some(scoped) = engine else {
        let mut pieces = row.chunks_mut(length).enumerate();
        return pieces.try_for_each(|(number, piece)| node(None, piece, 0, seed(number), depth - 1));
    };
    scoped.scope(|s| {
        let mut pieces = row.chunks_mut(length).enumerate();
        let first = pieces.next();
        for (number, piece) in pieces {
            s.op("piece").push(move |_| node(engine, piece, 0, seed(number), depth - 1))?;
        }
        first.map_or(Ok(()), |(number, piece)| node(engine, piece, 0, seed(number), depth - 1))
    })
}

/// Operations that change a part and read another.
fn parts(
    engine: Option<&Engine>,
    row: &mut [u64],
    length: usize,
    random: &mut Random,
    depth: usize,
) -> Result<(), Error> {
    let pieces = row.len().div_ceil(length);
    let mut step = || {
        let (to, from, seed) = (random.below(pieces), random.below(pieces), random.next());
        (to, (from != to).then_some(from), seed)
    };
    let steps: [_; 6] = std::array::from_fn(|_| step());
    let total = |from: &[u64]| from.iter().fold(1, |sum: u64, number| sum.wrapping_mul(31).wrapping_add(*number));
    let Some(scoped) = engine else {
        let mut pieces: Vec<&mut [u64]> = row.chunks_mut(length).collect();
        return steps.into_iter().try_for_each(|(to, from, seed)| {
            let read = from.map_or(0, |from| total(pieces[from]));
            node(None, pieces[to], read, seed, depth - 1)
        });
    };
    scoped.scope(|s| {
        let pieces: Vec<_> = row.chunks_mut(length).map(|piece| s.part(piece)).collect();
        steps.into_iter().try_for_each(|(to, from, seed)| {
            let resources = (Write(&pieces[to]), from.map(|from| &pieces[from]));
            s.op("part").run(resources, move |(to, from)| node(engine, to, from.map_or(0, total), seed, depth - 1))
        })
    })
}

fn row(seed: u64) -> Vec<u64> {
    (0..ROW as u64).map(|number| mix(number ^ seed)).collect()
}

#[test]
fn random_trees_of_scopes_do_what_they_do_without_an_engine() {
    // `SCOPES_SEED=7` for one program again.
    let only = std::env::var("SCOPES_SEED").ok().and_then(|seed| seed.parse().ok());
    on_every_engine(|engine| {
        for seed in only.map_or(0..by_length(PROGRAMS, 10 * PROGRAMS), |seed: u64| seed..seed + 1) {
            let _watchdog = Watchdog::new(100, format!("the tree of seed {seed} on {engine:?}"));
            let mut expected = row(seed);
            node(None, &mut expected, 0, seed, DEPTH).unwrap();
            let found = inside(&engine, move |engine| {
                let mut found = row(seed);
                node(Some(engine), &mut found, 0, seed, DEPTH).map(|()| found)
            });
            assert_eq!(found.unwrap(), expected, "SCOPES_SEED={seed}, inside");
            let mut found = row(seed);
            node(Some(&engine), &mut found, 0, seed, DEPTH).unwrap();
            assert_eq!(found, expected, "SCOPES_SEED={seed}, outside");
        }
        engine.wait_for_all().unwrap();
    });
}
