//! A wavefront: each block of a matrix is smoothed after the blocks above and to the left of it.
//! Taskflow's benchmark of that name, written anew (docs/src/ports.md compares).
//!
//!   cargo run --release --example wavefront [SIZE [BLOCK [ROUNDS]]]

use seriatim::{Engine, Error, Value, Write};
use std::time::Instant;

/// The cells of a square block, row by row.
type Block = Value<[f64]>;

/// Smooths a block by the neighbours of each cell, in order. Outside the matrix all is 0.
fn smooth(size: usize, [up, left, right, down]: [Option<&[f64]>; 4], block: &mut [f64]) {
    let last = size - 1;
    for row in 0..size {
        for column in 0..size {
            let at = row * size + column;
            let beyond = |other: Option<&[f64]>, at: usize| other.map_or(0.0, |other| other[at]);
            let mut cell = block[at];
            cell += if row > 0 { block[at - size] } else { beyond(up, last * size + column) };
            cell += if row < last { block[at + size] } else { beyond(down, column) };
            cell += if column > 0 { block[at - 1] } else { beyond(left, at + last) };
            cell += if column < last { block[at + 1] } else { beyond(right, row * size) };
            block[at] = cell * 0.25;
        }
    }
}

/// Pushes the blocks row by row, and waits for them.
fn wavefront(engine: &Engine, cells: Vec<f64>, size: usize, across: usize) -> Result<Vec<Block>, Error> {
    let blocks = engine.tiles(cells, size * size);
    for (at, block) in blocks.iter().enumerate() {
        let (row, column) = (at / across, at % across);
        let neighbours = [
            (row > 0).then(|| &blocks[at - across]),
            (column > 0).then(|| &blocks[at - 1]),
            (column + 1 < across).then(|| &blocks[at + 1]),
            blocks.get(at + across),
        ];
        engine.op("block").run((neighbours, Write(block)), move |(near, block)| smooth(size, near, block))?;
    }
    engine.wait_for_all()?;
    Ok(blocks)
}

/// The same without an engine, over the whole matrix in a frame of zeros. Its cells, row by row.
fn alone(width: usize, size: usize) -> Vec<f64> {
    let frame = width + 2;
    let mut cells = vec![0.0; frame * frame];
    for at in 0..width * width - 1 {
        cells[(at / width + 1) * frame + at % width + 1] = at as f64;
    }
    for block in 0..(width / size).pow(2) {
        let (top, left) = (block / (width / size) * size, block % (width / size) * size);
        for cell in 0..size * size {
            let at = (top + cell / size + 1) * frame + left + cell % size + 1;
            let near = [at - frame, at + frame, at - 1, at + 1];
            cells[at] = 0.25 * near.iter().fold(cells[at], |sum, &near| sum + cells[near]);
        }
    }
    (0..width * width).map(|at| cells[(at / width + 1) * frame + at % width + 1]).collect()
}

fn main() -> Result<(), Error> {
    let numbers: Vec<usize> = std::env::args().skip(1).map(|number| number.parse().expect("a number")).collect();
    let [size, rounds] = [(1, 8), (2, 3)].map(|(at, or)| numbers.get(at).copied().unwrap_or(or).max(1));
    let across = numbers.first().map_or(32, |width| width / size).max(1);
    let width = across * size;
    // Where the cell of a row and a column lies, block by block.
    let place = |row: usize, column: usize| {
        let block = row / size * across + column / size;
        block * size * size + row % size * size + column % size
    };

    let engine = Engine::new()?;
    engine.prepare()?;
    let (expected, mut times) = (alone(width, size), Vec::new());
    for _ in 0..rounds {
        let mut cells = vec![0.0; width * width];
        for at in 0..width * width - 1 {
            cells[place(at / width, at % width)] = at as f64;
        }
        let start = Instant::now();
        let blocks = wavefront(&engine, cells, size, across)?;
        times.push(start.elapsed());
        let blocks = blocks.iter().map(Value::read).collect::<Result<Vec<_>, _>>()?;
        let found: Vec<f64> = blocks.iter().flat_map(|block| block.iter().copied()).collect();
        assert!((0..width * width).all(|at| found[place(at / width, at % width)] == expected[at]));
    }
    times.sort();
    println!("sum {:.17e}", expected.iter().sum::<f64>());
    println!("median {:.9} s", times[rounds / 2].as_secs_f64());
    Ok(())
}
