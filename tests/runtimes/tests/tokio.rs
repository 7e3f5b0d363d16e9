//! Under tokio: its tasks wait for the engine, and futures of the engine wait for it.

use seriatim::{Data, Engine, Error, Kind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// Runtimes with one thread and with several, and each kind of engine.
fn with_each(test: impl Fn(&Runtime, Engine)) {
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        let engine = || Engine::builder().kind(kind).cpu_workers(2).build().unwrap();
        test(&Builder::new_current_thread().enable_time().build().unwrap(), engine());
        test(&Builder::new_multi_thread().worker_threads(3).enable_time().build().unwrap(), engine());
    }
}

#[test]
fn tasks_await_results_variables_and_everything() {
    with_each(|runtime, engine| {
        runtime.block_on(async {
            let x = Data::new(&engine, 0_u64);
            let mut tasks = Vec::new();
            for _ in 0..50 {
                let (engine, x) = (engine.clone(), x.clone());
                tasks.push(tokio::spawn(async move {
                    let to = x.clone();
                    let step = engine.op("step").write(&x).try_compute(move |_| to.write().map(|mut x| *x += 1))?;
                    step.await?;
                    engine.ready(&x).await?;
                    engine.unused(&x).await?;
                    Ok::<(), Error>(())
                }));
            }
            for task in tasks {
                task.await.unwrap().unwrap();
            }
            engine.all_ended().await.unwrap();
            assert_eq!(*x.read().unwrap(), 50);
            let failed = engine.op("fails").try_compute(|_| Err::<u8, _>("on purpose")).unwrap();
            assert!(failed.await.unwrap_err().to_string().contains("on purpose"));
        });
    });
}

#[test]
fn a_wait_is_given_up_and_its_task_goes_on() {
    with_each(|runtime, engine| {
        runtime.block_on(async {
            let x = engine.new_variable();
            let (open, opened) = tokio::sync::oneshot::channel::<()>();
            engine.op("waits").write(x).push_future(opened).unwrap();
            for _ in 0..20 {
                let short = Duration::from_micros(200);
                assert!(tokio::time::timeout(short, engine.ready(x)).await.is_err());
                assert!(tokio::time::timeout(short, engine.all_ended()).await.is_err());
            }
            open.send(()).unwrap();
            engine.ready(x).await.unwrap();
            engine.all_ended().await.unwrap();
            assert_eq!(engine.version(x).unwrap(), 1);
        });
    });
}

#[test]
fn operations_await_timers_channels_and_tasks() {
    with_each(|runtime, engine| {
        let sum = Data::new(&engine, 0_usize);
        let count = Arc::new(AtomicUsize::new(0));
        runtime.block_on(async {
            let (send, mut receive) = tokio::sync::mpsc::channel::<usize>(2);
            for number in 0..20 {
                let (send, counts) = (send.clone(), Arc::clone(&count));
                // Made here, where the runtime is known; polled by the engine's workers.
                let nap = tokio::time::sleep(Duration::from_millis(1));
                let task = tokio::spawn(async move { number });
                let produces = async move {
                    nap.await;
                    let number = task.await?;
                    counts.fetch_add(1, SeqCst);
                    send.send(number).await?;
                    Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
                };
                engine.op("produces").push_future(produces).unwrap();
            }
            drop(send);
            let to = sum.clone();
            let consumes = async move {
                while let Some(number) = receive.recv().await {
                    *to.write()? += number;
                }
                Ok::<(), Error>(())
            };
            engine.op("consumes").write(&sum).push_future(consumes).unwrap();
            engine.all_ended().await.unwrap();
        });
        assert_eq!((*sum.read().unwrap(), count.load(SeqCst)), (190, 20));
    });
}
