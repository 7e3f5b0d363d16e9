//! The ways through the engine, each as one function that `perf/journeys.sh` looks into: which
//! files of the source it comes through.
//!
//! Each way is gone some times before, so that stocks and queues have the size that they need.

use seriatim::{Completion, Data, Engine, Error, Graph, IdlePolicy, Kind};
use std::sync::mpsc::channel;

/// Times that a way is gone before it is looked at, by a function of another name.
const BEFORE: usize = 400;

/// A push of an operation that a worker runs.
#[inline(never)]
fn journey_push(engine: &Engine, x: &Data<u64>) -> Result<(), Error> {
    engine.op("push").write(x).push(|_| ())
}

/// A push that runs its operation.
#[inline(never)]
fn journey_inline(engine: &Engine, x: &Data<u64>) -> Result<(), Error> {
    engine.op("inline").write(x).push(|_| ())
}

/// The end of an asynchronous operation.
#[inline(never)]
fn journey_completion(completion: Completion) {
    completion.complete();
}

/// A wait for a variable that nobody is writing any more.
#[inline(never)]
fn journey_wait(engine: &Engine, x: &Data<u64>) -> Result<(), Error> {
    engine.wait_for_var(x.variable())
}

/// A replay of a graph that its pusher runs.
#[inline(never)]
fn journey_replay(graph: &Graph) -> Result<(), Error> {
    graph.replay()
}

fn asynchronous(engine: &Engine, x: &Data<u64>) -> Result<Completion, Error> {
    let (give, take) = channel();
    engine.op("asynchronous").write(x).push_async(move |_, completion| _ = give.send(completion))?;
    Ok(take.recv().expect("it is called"))
}

fn main() -> Result<(), Error> {
    let way = std::env::args().nth(1).unwrap_or_default();
    let naive = Engine::builder().kind(Kind::Naive).build()?;
    let shipped = Engine::builder().cpu_workers(1).pin(false).waiters_help(false).idle(IdlePolicy::Park).build()?;
    let (x, y) = (Data::new(&naive, 0), Data::new(&shipped, 0));
    match way.as_str() {
        "push" => {
            // The last push finds blocks whose operations have ended.
            for _ in 0..BEFORE {
                shipped.op("push").write(&y).push(|_| ())?;
            }
            shipped.wait_for_all()?;
            // The worker is held up, so that it is not woken.
            let (open, gate) = channel::<()>();
            let (arrive, arrived) = channel::<()>();
            shipped.op("gate").push(move |_| _ = (arrive.send(()), gate.recv()))?;
            arrived.recv().expect("the worker comes");
            for _ in 0..BEFORE / 4 {
                shipped.op("push").write(&y).push(|_| ())?;
            }
            journey_push(&shipped, &y)?;
            open.send(()).expect("the worker waits for it");
        }
        "inline" => {
            for _ in 0..BEFORE {
                naive.op("inline").write(&x).push(|_| ())?;
            }
            journey_inline(&naive, &x)?;
        }
        "completion" => {
            for _ in 0..BEFORE {
                asynchronous(&naive, &x)?.complete();
            }
            journey_completion(asynchronous(&naive, &x)?);
        }
        "wait" => {
            for _ in 0..BEFORE {
                naive.op("inline").write(&x).push(|_| ())?;
                naive.wait_for_var(x.variable())?;
            }
            journey_wait(&naive, &x)?;
        }
        "replay" => {
            let (graph, ()) = naive.capture(|c| {
                let own = x.clone();
                c.op("first").write(&x).push(move |_| _ = own.write().map(|mut x| *x += 1))?;
                c.op("second").read(&x).push(|_| ())
            })?;
            for _ in 0..BEFORE {
                graph.replay()?;
            }
            journey_replay(&graph)?;
        }
        _ => {
            eprintln!(
                "journeys push|inline|completion|wait|replay: one of these, under callgrind; see perf/journeys.sh"
            );
            std::process::exit(2);
        }
    }
    naive.wait_for_all()?;
    shipped.wait_for_all()
}
