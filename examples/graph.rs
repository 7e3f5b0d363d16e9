//! A graph: four operations are captured once and replayed 300 times, with a rate that changes.
//!
//!   cargo run --release --example graph

use seriatim::{Data, Engine, Error};

/// The line through these points, y = a + b x, is searched for by gradient descent.
const POINTS: [(f64, f64); 4] = [(-1.0, -1.0), (0.0, 1.0), (1.0, 3.0), (2.0, 5.0)];

fn main() -> Result<(), Error> {
    let engine = Engine::new()?;
    let line = Data::new(&engine, [0.0, 0.0]); // a and b
    let slopes = [Data::new(&engine, 0.0), Data::new(&engine, 0.0)];

    let (step, rate) = engine.capture(|c| {
        let rate = c.parameter(0.0);
        // Both only read the line: they can run at the same time.
        for (number, slope) in slopes.iter().enumerate() {
            let (of, to) = (line.clone(), slope.clone());
            c.op("slope").read(&line).write(slope).push(move |_| {
                let [a, b] = *of.read()?;
                *to.write()? = POINTS.iter().map(|(x, y)| (a + b * x - y) * [1.0, *x][number]).sum();
                Ok::<(), Error>(())
            })?;
        }
        // These come after both, one after the other, since each changes the line.
        for (number, slope) in slopes.iter().enumerate() {
            let (from, to, rate) = (slope.clone(), line.clone(), rate.clone());
            c.op("descend").read(slope).write(&line).push(move |run| {
                to.write()?[number] -= rate.get(run)? * *from.read()?;
                Ok::<(), Error>(())
            })?;
        }
        Ok(rate)
    })?;

    for (steps, by) in [(10, 0.02), (290, 0.2)] {
        rate.set(by)?; // for the replays that are pushed from now on
        (0..steps).try_for_each(|_| step.replay())?; // one push each, of all four operations
        engine.wait_for_var(line.variable())?;
        let [a, b] = *line.read()?;
        println!("{steps} steps at a rate of {by} lead to y = {a:.6} + {b:.6} x");
    }
    let [a, b] = *line.read()?;
    assert!((a - 1.0).abs() < 1e-9 && (b - 2.0).abs() < 1e-9, "y = {a} + {b} x");
    Ok(())
}
