//! Scopes: a recursive multiplication of matrices that forks inside an operation, and borrows.
//!
//!   cargo run --release --example scopes

use seriatim::{Engine, Error, Write};

/// A square part of a matrix whose rows are so long.
#[derive(Clone, Copy)]
struct Square<'a> {
    cells: &'a [f64],
    at: (usize, usize),
    row: usize,
}

impl Square<'_> {
    fn get(&self, row: usize, column: usize) -> f64 {
        self.cells[(self.at.0 + row) * self.row + self.at.1 + column]
    }

    fn quarter(self, down: usize, right: usize) -> Self {
        Square { at: (self.at.0 + down, self.at.1 + right), ..self }
    }
}

/// Adds the product of `a` and `b`, of `size` rows and columns, to `sum`, whose quarters lie one
/// behind the other, and whose quarters' quarters do, and so on.
fn multiply(engine: &Engine, a: Square<'_>, b: Square<'_>, sum: &mut [f64], size: usize) -> Result<(), Error> {
    if size <= 32 {
        for (cell, sum) in sum.iter_mut().enumerate() {
            let (row, column) = (cell / size, cell % size);
            *sum += (0..size).map(|k| a.get(row, k) * b.get(k, column)).sum::<f64>();
        }
        return Ok(());
    }
    let half = size / 2;
    engine.scope(|s| {
        for (number, quarter) in sum.chunks_mut(half * half).enumerate() {
            let (down, right) = (number / 2 * half, number % 2 * half);
            let quarter = s.part(quarter);
            // The two products of a quarter are added in turn; quarters go on beside each other.
            for k in [0, half] {
                s.op("quarter").run(Write(&quarter), move |quarter| {
                    multiply(engine, a.quarter(down, k), b.quarter(k, right), quarter, half)
                })?;
            }
        }
        Ok(())
    })
}

fn main() -> Result<(), Error> {
    const SIZE: usize = 256;
    let engine = Engine::new()?;
    let cells = |factor: usize| (0..SIZE * SIZE).map(|cell| ((cell * factor) % 11) as f64).collect::<Vec<_>>();
    let (a, b) = (engine.value(cells(3)), engine.value(cells(7)));
    let product = engine.value(vec![0.0; SIZE * SIZE]);

    let inside = engine.clone();
    engine.op("multiply").run((&a, &b, Write(&product)), move |(a, b, product)| {
        let [a, b] = [a, b].map(|cells| Square { cells, at: (0, 0), row: SIZE });
        multiply(&inside, a, b, product, SIZE)
    })?;

    let (a, b, product) = (a.read()?, b.read()?, product.read()?);
    let first: f64 = (0..SIZE).map(|k| a[k] * b[k * SIZE]).sum();
    let all: f64 = (0..SIZE)
        .map(|k| (0..SIZE).map(|i| a[i * SIZE + k]).sum::<f64>() * b[k * SIZE..][..SIZE].iter().sum::<f64>())
        .sum();
    println!("the first cell is {}, and the sum of all cells {}", product[0], product.iter().sum::<f64>());
    assert_eq!((product[0], product.iter().sum::<f64>()), (first, all));
    Ok(())
}
