//! Errors: one operation fails, what depends on it is skipped, the wait says why, and all goes on.
//!
//!   cargo run --release --example errors

use seriatim::{Data, Engine, Error, ErrorKind};
use std::error::Error as _;
use std::num::ParseIntError;

/// Pushes two operations: `number` is read from a text, then `double` is made of it.
fn push(engine: &Engine, text: &'static str, number: &Data<u32>, double: &Data<u32>) -> Result<(), Error> {
    let to = number.clone();
    engine.op("parse").write(number).push(move |_| {
        let parsed = text.parse()?; // a closure may return any error; a panic counts as well
        *to.write()? = parsed;
        Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    })?;
    let (from, to) = (number.clone(), double.clone());
    engine.op("double").read(number).write(double).push(move |_| {
        println!("double runs, for '{text}'");
        *to.write()? = 2 * *from.read()?;
        Ok::<(), Error>(())
    })
}

fn main() -> Result<(), Error> {
    let engine = Engine::new()?;
    let (number, double) = (Data::new(&engine, 0), Data::new(&engine, 0));

    // 'parse' fails and marks `number`. 'double' is skipped, and its mark goes on to `double`.
    push(&engine, "12a", &number, &double)?;
    let error = engine.wait_for_var(double.variable()).unwrap_err();
    println!("{error}");
    assert_eq!((error.kind(), error.operation()), (ErrorKind::OperationFailed, Some("parse")));
    assert!(error.source().is_some_and(|source| source.is::<ParseIntError>()), "the closure's own error");
    assert_eq!((*number.read()?, *double.read()?), (0, 0)); // as they were

    // That wait took the error, so both are free of it, and the next writes run.
    engine.wait_for_var(number.variable())?;
    push(&engine, "21", &number, &double)?;
    engine.wait_for_var(double.variable())?;
    println!("twice {} is {}", *number.read()?, *double.read()?);
    assert_eq!(*double.read()?, 42);

    // Misuse is an error with a kind: this operation changes what it has declared to read.
    let wrong = double.clone();
    engine.op("wrong").read(&double).write(&number).push(move |_| wrong.write().map(|mut value| *value = 0))?;
    let error = engine.wait_for_var(number.variable()).unwrap_err();
    println!("{error}");
    assert_eq!(error.kind(), ErrorKind::UndeclaredAccess);
    assert_eq!(*double.read()?, 42);
    Ok(())
}
