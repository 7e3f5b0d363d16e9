//! Cancellation: requests whose operations are cancelled as a group, and a deadline for each.
//!
//!   cargo run --release --example cancellation

use seriatim::{CancelToken, Data, Engine, Error, ErrorKind, Pending};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Pushes what answers a request: `scale` is behind what holds the model, and `sum` behind `scale`.
fn push(engine: &Engine, model: &Data<u64>, request: u64, token: &CancelToken) -> Result<Pending<u64>, Error> {
    let scaled = Data::new(engine, 0);
    let (from, to) = (model.clone(), scaled.clone());
    engine.op("scale").read(model).write(&scaled).token(token).push(move |_| {
        *to.write()? = *from.read()? * request;
        Ok::<(), Error>(())
    })?;
    let from = scaled.clone();
    engine.op("sum").read(&scaled).token(token).try_compute(move |_| Ok::<_, Error>((1..=*from.read()?).sum()))
}

fn main() -> Result<(), Error> {
    let engine = Engine::new()?;
    let model = Data::new(&engine, 2);

    // Requests wait for a new model. The client of the second one goes away.
    let (open, gate) = channel::<u64>();
    let to = model.clone();
    engine.op("load").write(&model).push(move |_| {
        *to.write()? = gate.recv().unwrap_or(2);
        Ok::<(), Error>(())
    })?;
    let tokens = [CancelToken::new(), CancelToken::new()];
    let answers = [push(&engine, &model, 10, &tokens[0])?, push(&engine, &model, 20, &tokens[1])?];
    tokens[1].cancel(); // one store: what has not started is skipped in its turn
    open.send(3).unwrap();
    let [first, second] = answers.map(Pending::wait);
    println!("{first:?}, {second:?}");
    assert_eq!(first?, 465);
    let error = second.unwrap_err();
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Cancelled, Some("scale")));

    // An answer that would come too late is not worked out.
    let deadline = Instant::now() + Duration::from_millis(5);
    let slow = model.clone();
    engine.op("reload").write(&model).push(move |_| {
        std::thread::sleep(Duration::from_millis(20));
        slow.write().map(|mut model| *model += 1)
    })?;
    let from = model.clone();
    let late =
        engine.op("late").read(&model).deadline(deadline).try_compute(move |_| from.read().map(|model| *model))?;
    let error = late.wait().unwrap_err();
    println!("{error}");
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);

    engine.wait_for_all()?; // the results have taken the errors
    assert_eq!(*model.read()?, 4);
    Ok(())
}
