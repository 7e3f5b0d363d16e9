//! The LU factors of a matrix of which most blocks are empty. The program of that name of the
//! Barcelona OpenMP Tasks Suite, written anew (docs/src/ports.md compares).
//!
//!   cargo run --release --example sparselu [BLOCKS [SIZE [ROUNDS]]]

use seriatim::{Engine, Error, Value, Write};
use std::time::Instant;

/// The cells of a block, row by row.
type Block = Vec<f32>;

/// The factors of a block on the diagonal.
fn factor(size: usize, block: &mut [f32]) {
    for k in 0..size {
        let (above, below) = block.split_at_mut((k + 1) * size);
        let pivots = &above[k * size..];
        for row in below.chunks_exact_mut(size) {
            row[k] /= pivots[k];
            let by = row[k];
            row[k + 1..].iter_mut().zip(&pivots[k + 1..]).for_each(|(cell, pivot)| *cell -= by * pivot);
        }
    }
}

/// A block to the right of the diagonal.
fn forward(size: usize, diagonal: &[f32], block: &mut [f32]) {
    for k in 0..size {
        let (above, below) = block.split_at_mut((k + 1) * size);
        for (row, below) in (k + 1..).zip(below.chunks_exact_mut(size)) {
            let by = diagonal[row * size + k];
            below.iter_mut().zip(&above[k * size..]).for_each(|(cell, above)| *cell -= by * above);
        }
    }
}

/// A block below the diagonal.
fn divide(size: usize, diagonal: &[f32], block: &mut [f32]) {
    for row in block.chunks_exact_mut(size) {
        for k in 0..size {
            row[k] /= diagonal[k * size + k];
            let by = row[k];
            let pivots = &diagonal[k * size + k + 1..(k + 1) * size];
            row[k + 1..].iter_mut().zip(pivots).for_each(|(cell, pivot)| *cell -= by * pivot);
        }
    }
}

/// Takes the product of two blocks from a third one.
fn subtract(size: usize, left: &[f32], above: &[f32], block: &mut [f32]) {
    for (row, factors) in block.chunks_exact_mut(size).zip(left.chunks_exact(size)) {
        for (by, above) in factors.iter().zip(above.chunks_exact(size)) {
            row.iter_mut().zip(above).for_each(|(cell, above)| *cell -= by * above);
        }
    }
}

/// Pushes all blocks, and waits for them. A block that was empty and is filled is made here.
fn factors(
    engine: &Engine,
    matrix: Vec<Option<Block>>,
    blocks: usize,
    size: usize,
) -> Result<Vec<Option<Value<Block>>>, Error> {
    let mut matrix: Vec<_> = matrix.into_iter().map(|block| Some(engine.value(block?))).collect();
    for k in 0..blocks {
        let diagonal = matrix[k * blocks + k].clone().expect("no block on the diagonal is empty");
        engine.op("factor").run(Write(&diagonal), move |block| factor(size, block))?;
        for right in matrix[k * blocks + k + 1..(k + 1) * blocks].iter().flatten() {
            engine.op("forward").run((&diagonal, Write(right)), move |(diagonal, block)| {
                forward(size, diagonal, block);
            })?;
        }
        for row in k + 1..blocks {
            let Some(left) = matrix[row * blocks + k].clone() else { continue };
            engine.op("divide").run((&diagonal, Write(&left)), move |(diagonal, block)| {
                divide(size, diagonal, block);
            })?;
            for column in k + 1..blocks {
                let Some(above) = matrix[k * blocks + column].clone() else { continue };
                let block = matrix[row * blocks + column].get_or_insert_with(|| engine.value(vec![0.0; size * size]));
                engine.op("subtract").run((&left, &above, Write(&*block)), move |(left, above, block)| {
                    subtract(size, left, above, block);
                })?;
            }
        }
    }
    engine.wait_for_all()?;
    Ok(matrix)
}

/// The matrix: which blocks there are, and random numbers in them.
fn matrix(blocks: usize, size: usize) -> Vec<Option<Block>> {
    let mut state = 1325;
    let mut random = || {
        state = state * 3125 % 65536;
        (state as f32 - 32768.0) / 16384.0
    };
    let is_there = |row: usize, column: usize| match row.abs_diff(column) {
        0 | 1 => true,
        _ => row % 2 == 0 && column % 2 == 0 && row.min(column) % 3 == 0,
    };
    let places = (0..blocks * blocks).map(|at| is_there(at / blocks, at % blocks));
    places.map(|there| there.then(|| (0..size * size).map(|_| random()).collect())).collect()
}

/// The same factors, block by block on one thread.
fn alone(mut matrix: Vec<Option<Block>>, blocks: usize, size: usize) -> Vec<Option<Block>> {
    for k in 0..blocks {
        let mut diagonal = matrix[k * blocks + k].take().expect("no block on the diagonal is empty");
        factor(size, &mut diagonal);
        for right in matrix[k * blocks + k + 1..(k + 1) * blocks].iter_mut().flatten() {
            forward(size, &diagonal, right);
        }
        for row in k + 1..blocks {
            let Some(mut left) = matrix[row * blocks + k].take() else { continue };
            divide(size, &diagonal, &mut left);
            for column in k + 1..blocks {
                let Some(above) = matrix[k * blocks + column].take() else { continue };
                let block = matrix[row * blocks + column].get_or_insert_with(|| vec![0.0; size * size]);
                subtract(size, &left, &above, block);
                matrix[k * blocks + column] = Some(above);
            }
            matrix[row * blocks + k] = Some(left);
        }
        matrix[k * blocks + k] = Some(diagonal);
    }
    matrix
}

fn main() -> Result<(), Error> {
    let numbers: Vec<usize> = std::env::args().skip(1).map(|number| number.parse().expect("a number")).collect();
    let number = |at: usize, or: usize| numbers.get(at).copied().unwrap_or(or).max(1);
    let (blocks, size, rounds) = (number(0, 10), number(1, 8), number(2, 3));

    let engine = Engine::new()?;
    engine.prepare()?;
    let expected = alone(matrix(blocks, size), blocks, size);
    let mut times = Vec::new();
    for _ in 0..rounds {
        let matrix = matrix(blocks, size);
        let start = Instant::now();
        let found = factors(&engine, matrix, blocks, size)?;
        times.push(start.elapsed());
        for (found, expected) in found.into_iter().zip(&expected) {
            assert_eq!(found.map(Value::into_inner).transpose()?, *expected);
        }
    }
    times.sort();
    let cells = expected.iter().flatten().flatten();
    println!("sum {:.9e}", cells.map(|&cell| f64::from(cell).abs()).sum::<f64>());
    println!("median {:.9} s", times[rounds / 2].as_secs_f64());
    Ok(())
}
