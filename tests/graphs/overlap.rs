//! Replays that follow each other overlap: a lane goes on to the next replay when the lanes with
//! which it has variables in common have ended this one.

use super::helpers::{variables, versions};
use crate::common::*;
use seriatim::{Data, Engine, Error, Graph, IdlePolicy, Kind, RunContext, Variable};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Which replay each of two operations is in, and how many of them were left alone.
#[derive(Default)]
struct Steps {
    began: Mutex<([usize; 2], usize)>,
    more: Condvar,
}

impl Steps {
    /// Operation `own` begins in its next replay. It waits until the other one has begun as many
    /// replays as `wanted` says, or for so long that this will never be.
    fn step(&self, own: usize, wanted: impl Fn(usize) -> usize) {
        let mut state = self.began.lock().unwrap();
        state.0[own] += 1;
        self.more.notify_all();
        let wanted = wanted(state.0[own]);
        let lacks = |state: &mut ([usize; 2], usize)| state.0[1 - own] < wanted && state.1 == 0;
        let (mut state, waited) = self.more.wait_timeout_while(state, Duration::from_secs(20), lacks).unwrap();
        state.1 += usize::from(waited.timed_out());
    }
}

/// A graph of two operations that have nothing to do with each other. The first one ends only when
/// the second one has begun in the next replay: never, if replays do not overlap.
fn one_ahead(engine: &Engine, [x, y]: [Variable; 2], replays: usize) -> (Graph, Arc<Steps>) {
    let steps = Arc::new(Steps::default());
    let captured = engine.capture(|c| {
        seriatim::testing::spreads_after(c, 0);
        let own = Arc::clone(&steps);
        c.op("slow").write(x).push(move |_: &RunContext<'_>| own.step(0, |number| (number + 1).min(replays)))?;
        let own = Arc::clone(&steps);
        c.op("ahead").write(y).push(move |_: &RunContext<'_>| own.step(1, |_| 0))
    });
    (captured.unwrap().0, steps)
}

fn with_two_threads(test: impl Fn(Engine)) {
    for kind in [Kind::Pooled, Kind::PerDevice] {
        for idle in [IdlePolicy::SpinThenPark, IdlePolicy::Park] {
            test(Engine::builder().kind(kind).cpu_workers(2).idle(idle).waiters_help(false).build().unwrap());
        }
    }
}

#[test]
fn an_operation_begins_in_the_next_replay_before_another_has_ended_in_this_one() {
    let _watchdog = Watchdog::new(120, "replays that overlap");
    const REPLAYS: usize = 200;
    with_two_threads(|engine| {
        let all = variables::<2>(&engine);
        let (graph, steps) = one_ahead(&engine, all, REPLAYS);
        for _ in 0..REPLAYS {
            graph.replay().unwrap();
        }
        engine.wait_for_all().unwrap();
        assert_eq!(*steps.began.lock().unwrap(), ([REPLAYS, REPLAYS], 0), "{engine:?}");
        assert_eq!(versions(&engine, all), [REPLAYS as u64; 2]);
    });
}

#[test]
fn what_is_pushed_between_two_replays_comes_between_them() {
    let _watchdog = Watchdog::new(120, "replays with a push between them");
    with_two_threads(|engine| {
        let [x, y, z] = [0u64; 3].map(|zero| Data::new(&engine, zero));
        let (graph, ()) = engine
            .capture(|c| {
                seriatim::testing::spreads_after(c, 0);
                let (own, nap) = (x.clone(), Duration::from_micros(100));
                c.op("slow").write(&x).push(move |_| {
                    std::thread::sleep(nap);
                    *own.write()? += 1;
                    Ok::<(), Error>(())
                })?;
                let (own, from) = (y.clone(), z.clone());
                c.op("ahead").read(&z).write(&y).push(move |_| {
                    let mut own = own.write()?;
                    *own = mix(*own ^ *from.read()?);
                    Ok::<(), Error>(())
                })
            })
            .unwrap();
        let mut expected = (0u64, 0u64, 0u64);
        let mut looked = Vec::new();
        for number in 0..by_length(200, 1_000) {
            graph.replay().unwrap();
            expected = (expected.0 + 1, mix(expected.1 ^ expected.2), expected.2);
            match number % 5 {
                0 => {
                    // Changes what the graph only reads.
                    let own = z.clone();
                    expected.2 += 1;
                    let change = move |_: &RunContext<'_>| own.write().map(|mut value| *value += 1);
                    engine.op("change").write(&z).push(change).unwrap();
                }
                1 => {
                    // Reads what the graph changes.
                    let (send, receive) = std::sync::mpsc::channel();
                    let own = y.clone();
                    let look = move |_: &RunContext<'_>| own.read().map(|value| send.send(*value).unwrap());
                    engine.op("look").read(&y).push(look).unwrap();
                    looked.push((receive, expected.1));
                }
                2 => engine.wait_for_var(y.variable()).unwrap(),
                _ => {}
            }
        }
        engine.wait_for_all().unwrap();
        assert_eq!((*x.read().unwrap(), *y.read().unwrap(), *z.read().unwrap()), expected);
        assert!(looked.iter().all(|(found, expected)| found.recv() == Ok(*expected)));
    });
}

#[test]
fn neighbours_of_a_ring_are_at_most_a_replay_apart() {
    let _watchdog = Watchdog::new(120, "replays of a ring");
    const POINTS: usize = 6;
    with_two_threads(|engine| {
        let all = variables::<POINTS>(&engine);
        let runs: Arc<[AtomicUsize; POINTS]> = Arc::new(std::array::from_fn(|_| AtomicUsize::new(0)));
        let wrong = Arc::new(AtomicUsize::new(0));
        let (graph, ()) = engine
            .capture(|c| {
                seriatim::testing::spreads_after(c, 0);
                (0..POINTS).try_for_each(|point| {
                    let (runs, wrong) = (Arc::clone(&runs), Arc::clone(&wrong));
                    let next = (point + 1) % POINTS;
                    // In push order, so each point comes behind the one before, and the next replay
                    // of a point behind this one of the point after it.
                    c.op("point").read(all[next]).write(all[point]).push(move |_: &RunContext<'_>| {
                        let own = runs[point].fetch_add(1, SeqCst);
                        let expected = own + usize::from(next < point);
                        wrong.fetch_add(usize::from(runs[next].load(SeqCst) != expected), SeqCst);
                    })
                })
            })
            .unwrap();
        let replays = by_length(2_000, 20_000);
        for _ in 0..replays {
            graph.replay().unwrap();
        }
        engine.wait_for_all().unwrap();
        assert_eq!(wrong.load(SeqCst), 0);
        assert!(runs.iter().all(|runs| runs.load(SeqCst) == replays));
    });
}
