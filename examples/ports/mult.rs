//! The product of two matrices by blocks. StarPU's basic example of that name, written anew
//! (docs/src/ports.md compares).
//!
//!   cargo run --release --example mult [ROWS [COLUMNS [INNER [SLICES [ROUNDS]]]]]

use seriatim::{Engine, Error, Value, Write};
use std::time::Instant;

/// A matrix, column by column.
struct Matrix {
    rows: usize,
    cells: Vec<f32>,
}

impl Matrix {
    fn random(rows: usize, columns: usize, random: &mut impl FnMut() -> f32) -> Matrix {
        Matrix { rows, cells: (0..rows * columns).map(|_| random()).collect() }
    }
}

/// A block of the product: from this row and this column on, so many rows.
#[derive(Clone, Copy)]
struct Place {
    row: usize,
    column: usize,
    rows: usize,
}

/// Writes a block of the product of `a` and `b`, column by column.
fn multiply(a: &Matrix, b: &Matrix, at: Place, block: &mut [f32]) {
    for (column, cells) in block.chunks_exact_mut(at.rows).enumerate() {
        let factors = &b.cells[(at.column + column) * b.rows..][..b.rows];
        for (row, cell) in cells.iter_mut().enumerate() {
            let column_of_a = a.cells[at.row + row..].iter().step_by(a.rows);
            *cell = column_of_a.zip(factors).map(|(x, y)| x * y).sum();
        }
    }
}

/// Pushes the product, block by block, and waits for it.
fn product(engine: &Engine, factors: &[Value<Matrix>; 2], blocks: &[(Place, Value<[f32]>)]) -> Result<(), Error> {
    let [a, b] = factors;
    for (at, block) in blocks {
        let at = *at;
        engine.op("mult").run((a, b, Write(block)), move |(a, b, block)| multiply(a, b, at, block))?;
    }
    engine.wait_for_all()
}

fn main() -> Result<(), Error> {
    let numbers: Vec<usize> = std::env::args().skip(1).map(|number| number.parse().expect("a number")).collect();
    let number = |at: usize, or: usize| numbers.get(at).copied().unwrap_or(or).max(1);
    let (slices, rounds) = (number(3, 4), number(4, 3));
    let [rows, columns] = [number(0, 64), number(1, 64)].map(|length| length.next_multiple_of(slices));
    let inner = number(2, 32);

    // Row by row, as the numbers of `drand48` after `srand48(2009)`.
    let mut state = (2009_u64 << 16) | 0x330e;
    let mut random = || {
        state = state.wrapping_mul(0x5_deec_e66d).wrapping_add(11) & ((1 << 48) - 1);
        (state as f64 / (1_u64 << 48) as f64) as f32
    };
    let mut filled = |rows: usize, columns: usize| {
        let by_row = Matrix::random(columns, rows, &mut random);
        let cells = (0..rows * columns).map(|at| by_row.cells[at % rows * columns + at / rows]).collect();
        Matrix { rows, cells }
    };
    let (a, b) = (filled(rows, inner), filled(inner, columns));

    let engine = Engine::new()?;
    engine.prepare()?;
    let factors = [a, b].map(|matrix| engine.value(matrix));
    let (height, width) = (rows / slices, columns / slices);
    let mut times = Vec::new();
    let mut sum = 0.0;
    for _ in 0..rounds {
        let cells = vec![0.0; rows * columns];
        let start = Instant::now();
        let places = (0..slices * slices).map(|block| {
            let (row, column) = (block % slices * height, block / slices * width);
            Place { row, column, rows: height }
        });
        let blocks: Vec<_> = places.zip(engine.tiles(cells, height * width)).collect();
        product(&engine, &factors, &blocks)?;
        times.push(start.elapsed());
        sum = 0.0;
        for (_, block) in &blocks {
            sum += block.read()?.iter().map(|&cell| f64::from(cell)).sum::<f64>();
        }
    }
    // The sum of all cells is that of the products of the columns of `a` and the rows of `b`.
    let (a, b) = (factors[0].read()?, factors[1].read()?);
    let sum_of = |cells: &mut dyn Iterator<Item = &f32>| cells.map(|&cell| f64::from(cell)).sum::<f64>();
    let expected: f64 = (0..inner)
        .map(|k| sum_of(&mut a.cells[k * rows..][..rows].iter()) * sum_of(&mut b.cells[k..].iter().step_by(inner)))
        .sum();
    assert!((sum - expected).abs() < 1e-5 * expected, "{sum} is not {expected}");
    times.sort();
    println!("sum {sum:.9e}");
    println!("median {:.9} s", times[rounds / 2].as_secs_f64());
    Ok(())
}
