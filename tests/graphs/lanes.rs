//! Which threads run which parts of a graph, and that no replay is over too early or never.

use crate::common::*;
use seriatim::{Context, Data, Engine, Error, ErrorKind, IdlePolicy, Kind, Property, Variable};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::Arc;

#[test]
fn a_replay_can_begin_where_none_of_its_operations_run() {
    let _watchdog = Watchdog::new(120, "replays that begin on a lane without operations");
    let engine = Engine::builder().kind(Kind::PerDevice).cpu_workers(2).idle(IdlePolicy::Park).build().unwrap();
    let [x, y] = [0u64; 2].map(|zero| Data::new(&engine, zero));
    // Two other groups of workers, of which the second waits for the first: it has no use for being
    // started.
    let (graph, ()) = engine
        .capture(|c| {
            let own = x.clone();
            c.op("copies").write(&x).property(Property::CopyToGpu).push(move |_| {
                *own.write()? += 1;
                Ok::<(), Error>(())
            })?;
            let (from, to) = (x.clone(), y.clone());
            c.op("soon").read(&x).write(&y).property(Property::CpuPrioritized).push(move |_| {
                *to.write()? += *from.read()?;
                Ok::<(), Error>(())
            })
        })
        .unwrap();
    const REPLAYS: u64 = 30_000;
    for number in 0..REPLAYS {
        graph.replay().unwrap();
        if number % 5 == 0 {
            engine.wait_for_var(y.variable()).unwrap();
        }
    }
    engine.wait_for_all().unwrap();
    assert_eq!((*x.read().unwrap(), *y.read().unwrap()), (REPLAYS, REPLAYS * (REPLAYS + 1) / 2));
}

#[test]
fn what_is_left_of_a_replay_can_be_all_on_other_lanes() {
    let _watchdog = Watchdog::new(120, "replays that are spread with nothing left at home");
    for after in [1, 2, 5] {
        let engine = Engine::builder().kind(Kind::Pooled).cpu_workers(2).build().unwrap();
        let data: Vec<Data<u64>> = (0..4).map(|_| Data::new(&engine, 0)).collect();
        let (graph, ()) = engine
            .capture(|c| {
                seriatim::testing::spreads_after(c, after);
                for step in 0..12usize {
                    let (from, to) = (data[step * 7 % 4].clone(), data[(step + 1) * 3 % 4].clone());
                    let builder = c.op("step").context(Context::cpu(0)).reads([&from]).writes([&to]);
                    builder.priority(step as i32 % 2).push(move |_| {
                        if from.variable() != to.variable() {
                            let found = *from.read()?;
                            let mut to = to.write()?;
                            *to = mix(*to ^ found);
                        }
                        Ok::<(), Error>(())
                    })?;
                }
                Ok(())
            })
            .unwrap();
        for number in 0..10_000 {
            graph.replay().unwrap();
            if number % 100 == 0 {
                engine.wait_for_all().unwrap();
            }
        }
        engine.wait_for_all().unwrap();
    }
}

#[test]
fn many_replays_with_operations_of_every_kind_all_end() {
    let _watchdog = Watchdog::new(500, "replays of every kind");
    for idle in [IdlePolicy::Spin, IdlePolicy::SpinThenPark, IdlePolicy::Park] {
        let builder = Engine::builder().kind(Kind::PerDevice).cpu_workers(1).priority_workers(1).idle(idle);
        let engine = builder.waiters_help(false).build().unwrap();
        let variables: Vec<Variable> = (0..5).map(|_| engine.new_variable()).collect();
        let ran = Arc::new(AtomicUsize::new(0));
        let captured = engine.capture(|c| {
            for step in 0..40 {
                let op = c.op("step").writes([variables[step % 5]]);
                match step % 4 {
                    0 => op.property(Property::CpuPrioritized).push(nothing)?,
                    1 => op.property(Property::CopyToGpu).push(nothing)?,
                    2 => op.push_async(|_, completion| completion.complete())?,
                    _ => op.context(Context::cpu(step as u32)).push(nothing)?,
                }
            }
            c.op("last").reads(variables.iter().copied()).push(counting(&ran))
        });
        let (graph, ()) = captured.unwrap();
        let replays = by_length(500, 2_000);
        let mut seen = 0;
        for number in 1..=replays {
            graph.replay().unwrap();
            if number % 500 == 0 {
                // Every replay passes from thread to thread eight times, and where they look for
                // work they share two cores. So it may take its time, but not stand still.
                while let Err(error) = engine.wait_for_all_timeout(std::time::Duration::from_secs(30)) {
                    let now = ran.load(SeqCst);
                    let goes_on = error.kind() == ErrorKind::TimedOut && now > seen;
                    assert!(goes_on, "{error}; {now} of {number} have run, {idle:?}\n{}", engine.dump_dot());
                    seen = now;
                }
                seen = number;
            }
        }
        assert_eq!(ran.load(SeqCst), replays);
    }
}
