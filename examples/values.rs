//! Values by type: heat spreads over tiles of one rod, which are read and changed by reference.
//!
//!   cargo run --release --example values

use seriatim::{Engine, Error, Value, Write};

const TILES: usize = 4;
const LENGTH: usize = 8;

/// Pushes one step for each tile: `to` is made of the same tile of `from` and of its neighbours.
fn step(engine: &Engine, from: &[Value<[f64]>], to: &[Value<[f64]>]) -> Result<(), Error> {
    for tile in 0..TILES {
        let left = tile.checked_sub(1).map(|left| &from[left]);
        let right = from.get(tile + 1);
        // What the operation uses, and what its closure gets: the rest cannot be touched.
        engine.op("step").run((left, &from[tile], right, Write(&to[tile])), |(left, middle, right, to)| {
            for at in 0..LENGTH {
                let before = at.checked_sub(1).map_or(left.map_or(middle[0], |left| left[LENGTH - 1]), |at| middle[at]);
                let after = middle.get(at + 1).copied().unwrap_or(right.map_or(middle[at], |right| right[0]));
                to[at] = middle[at] + 0.25 * (before - 2.0 * middle[at] + after);
            }
        })?;
    }
    Ok(())
}

fn main() -> Result<(), Error> {
    let engine = Engine::new()?;
    let mut rod = vec![0.0; TILES * LENGTH];
    rod[0] = 32.0; // hot at one end
    let (one, other) = (engine.tiles(rod.clone(), LENGTH), engine.tiles(rod, LENGTH));

    for _ in 0..10_000 {
        step(&engine, &one, &other)?; // steps follow each other tile by tile, without a wait
        step(&engine, &other, &one)?;
    }

    let heat = engine.value(0.0);
    engine.op("sum").run((&one[..], Write(&heat)), |(tiles, heat)| *heat = tiles.iter().flatten().sum())?;
    println!("the last cell has {:.6}, and all have {:.6}", one[TILES - 1].read()?[LENGTH - 1], *heat.read()?);
    assert!((*heat.read()? - 32.0).abs() < 1e-9, "no heat is lost");
    assert!((one[TILES - 1].read()?[LENGTH - 1] - 1.0).abs() < 1e-6, "it is the same everywhere");
    Ok(())
}
