//! Under smol: its tasks wait for the engine, and futures of the engine wait for it.

use seriatim::{Data, Engine, Error, Kind};
use std::time::Duration;

fn with_each_engine(test: impl Fn(Engine)) {
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        test(Engine::builder().kind(kind).cpu_workers(2).build().unwrap());
    }
}

#[test]
fn tasks_await_results_variables_and_everything() {
    with_each_engine(|engine| {
        smol::block_on(async {
            let x = Data::new(&engine, 0_u64);
            let mut tasks = Vec::new();
            for _ in 0..50 {
                let (engine, x) = (engine.clone(), x.clone());
                tasks.push(smol::spawn(async move {
                    let to = x.clone();
                    let step = engine.op("step").write(&x).try_compute(move |_| to.write().map(|mut x| *x += 1))?;
                    step.await?;
                    engine.ready(&x).await?;
                    engine.unused(&x).await
                }));
            }
            for task in tasks {
                task.await.unwrap();
            }
            engine.all_ended().await.unwrap();
            assert_eq!(*x.read().unwrap(), 50);
        });
    });
}

#[test]
fn operations_await_timers_channels_and_tasks() {
    with_each_engine(|engine| {
        let sum = Data::new(&engine, 0_usize);
        let (send, receive) = smol::channel::bounded::<usize>(2);
        for number in 0..20 {
            let send = send.clone();
            let produces = async move {
                smol::Timer::after(Duration::from_millis(1)).await;
                let number = smol::spawn(async move { number }).await;
                send.send(number).await
            };
            engine.op("produces").push_future(produces).unwrap();
        }
        drop(send);
        let to = sum.clone();
        let consumes = async move {
            while let Ok(number) = receive.recv().await {
                *to.write()? += number;
            }
            Ok::<(), Error>(())
        };
        engine.op("consumes").write(&sum).push_future(consumes).unwrap();
        smol::block_on(engine.all_ended()).unwrap();
        assert_eq!(*sum.read().unwrap(), 190);
    });
}
