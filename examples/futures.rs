//! Futures: a task that waits for the engine without a thread, on an executor of a few lines. Any
//! other executor will do: tokio's, smol's, or that of a user interface.
//!
//!   cargo run --release --example futures

use seriatim::{Data, Engine, Error};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// Wakes the thread that runs the task.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(task: F) -> F::Output {
    let mut task = pin!(task);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match task.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

async fn task(engine: &Engine) -> Result<f64, Error> {
    let x = Data::new(engine, vec![0.0; 1000]);
    let to = x.clone();
    engine.op("fill").write(&x).push(move |_| to.write().map(|mut x| x.fill(0.5)))?;
    engine.ready(&x).await?; // until x is written; an error of 'fill' would come out here

    // A future that is an operation: it keeps x, and awaits what other operations find.
    let (own, to) = (engine.clone(), x.clone());
    engine.op("scale").write(&x).push_future(async move {
        let factor = own.op("factor").compute(|_| 4.0)?.await?;
        to.write()?.iter_mut().for_each(|x| *x *= factor);
        Ok::<(), Error>(())
    })?;

    let from = x.clone();
    engine.op("sum").read(&x).try_compute(move |_| Ok::<f64, Error>(from.read()?.iter().sum()))?.await
}

fn main() -> Result<(), Error> {
    let engine = Engine::new()?;
    let sum = block_on(task(&engine))?;
    println!("{sum}");
    assert_eq!(sum, 2000.0);
    block_on(engine.all_ended())
}
