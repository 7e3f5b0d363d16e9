//! Access modes: words of many texts are counted, each text when it has come, and the letters added
//! up in copies.
//!
//!   cargo run --release --example modes

use seriatim::{Commute, Engine, Error, Reduce, Write};
use std::collections::BTreeMap;

const TEXTS: [&str; 4] = ["one fish two fish", "red fish blue fish", "one and two", "red and blue and red"];

fn main() -> Result<(), Error> {
    let engine = Engine::new()?;
    let counts = engine.commutative(BTreeMap::new());
    let letters = engine.reduction(|| 0, |sum, part| *sum += part);
    for text in TEXTS {
        let words = engine.value(Vec::new());
        engine.op("split").run(Write(&words), move |words| words.extend(text.split(' ')))?;
        // Whichever text is split first comes first: one at a time, in any order.
        engine.op("count").run((&words, Commute(&counts)), |(words, counts)| {
            words.iter().for_each(|word| *counts.entry(*word).or_insert(0) += 1);
        })?;
        // At once, each in a copy of its own; the copies are combined for who reads.
        engine.op("add").run((&words, Reduce(&letters)), |(words, letters)| {
            *letters += words.iter().map(|word| word.len()).sum::<usize>();
        })?;
    }
    for (word, count) in &*counts.read()? {
        println!("{count} {word}");
    }
    assert_eq!((counts.read()?["fish"], *letters.read()?), (4, 54));
    Ok(())
}
