//! One operation at a time: there and back, to the processor, and with workers that sleep.

use super::micros;
use crate::lab::{say, Lab};
use crate::measure::Contestant;
use crate::record::{Limit, Question, Table};
use seriatim::gpu::PinnedData;
use std::time::{Duration, Instant};

/// A launch, an event, and asking for it.
fn by_hand(lab: &Lab, count: usize, pause: Duration) -> Result<Contestant<'_>, String> {
    let (stream, event, word) = (lab.streams(1)?[0], lab.events(1)?[0], lab.bare_word()?);
    Ok(Box::new(move || {
        let mut took = Duration::ZERO;
        for at in 0..count {
            std::thread::sleep(pause);
            let began = Instant::now();
            lab.launch(stream, &word, &[], at as u64, 0)?;
            lab.driver.record(event, stream)?;
            lab.spin_until(event)?;
            took += began.elapsed();
        }
        lab.settle_bare([&word])?;
        Ok(took.as_secs_f64() * 1e6 / count as f64)
    }))
}

fn pushed(lab: &Lab, count: usize, pause: Duration) -> Result<Contestant<'_>, String> {
    let word = lab.word()?;
    Ok(Box::new(move || {
        let mut took = Duration::ZERO;
        for at in 0..count {
            std::thread::sleep(pause);
            let began = Instant::now();
            lab.push(&word, &[], at as u64, 0)?;
            lab.engine.wait_for_var(word.data.variable()).map_err(say)?;
            took += began.elapsed();
        }
        lab.settle([&word])?;
        Ok(took.as_secs_f64() * 1e6 / count as f64)
    }))
}

/// A push, an empty kernel, and a wait.
pub fn round_trip(lab: &Lab, table: &mut Table) -> Result<(), String> {
    let count = lab.count(500);
    let question = Question::new("push → kernel → wait", "µs").beside("launch and spin on the event");
    let limit = Limit::AtMost(|figures| Some(figures.bare? * 1.2));
    let question = question.goal("1.2 × launch + spin on the event", limit);
    let bare = by_hand(lab, count, Duration::ZERO)?;
    table.measure(lab, question, pushed(lab, count, Duration::ZERO)?, Some(bare))
}

/// A copy from the device to pinned memory, then an operation of the processor on it: what the
/// second adds to the first, beside two hops of operations of the processor and one query.
pub fn to_the_processor(lab: &Lab, table: &mut Table) -> Result<(), String> {
    let (count, word) = (lab.count(500), lab.word()?);
    let back = PinnedData::<u64>::zeros(&lab.gpu, 1).map_err(say)?;
    lab.push(&word, &[], 1, 0)?;
    lab.settle([&word])?;
    let (seen, engine) = (std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0)), &lab.engine);
    let there_and_seen = {
        let (word, back, seen) = (&word, &back, seen.clone());
        move |with_processor: bool| -> Result<f64, String> {
            let began = Instant::now();
            for _ in 0..count {
                engine.copy(&word.data, back).map_err(say)?;
                if with_processor {
                    let (own, seen) = (back.clone(), seen.clone());
                    let look = move |_: &seriatim::RunContext<'_>| {
                        own.read().map(|value| seen.store(value[0], std::sync::atomic::Ordering::Relaxed))
                    };
                    // It writes, so that the wait is for it.
                    engine.op("look").write(back).push(look).map_err(say)?;
                }
                engine.wait_for_var(back.variable()).map_err(say)?;
            }
            Ok(micros(began, count))
        }
    };
    let idle = engine.new_variable();
    let event = lab.events(1)?[0];
    let stream = lab.streams(1)?[0];
    lab.driver.record(event, stream)?;
    lab.driver.synchronize(stream)?;
    let ours: Contestant<'_> = Box::new(|| {
        seen.store(0, std::sync::atomic::Ordering::Relaxed);
        let added = there_and_seen(true)? - there_and_seen(false)?;
        let expected = crate::mix::mixed(0, [0; 3], 1, 0);
        match seen.load(std::sync::atomic::Ordering::Relaxed) == expected {
            true => Ok(added.max(0.0)),
            false => Err("the processor has not seen what the device wrote".to_owned()),
        }
    });
    let bare: Contestant<'_> = Box::new(|| {
        let began = Instant::now();
        for _ in 0..count {
            engine.op("hop").writes([idle]).push(|_| ()).map_err(say)?;
            engine.wait_for_var(idle).map_err(say)?;
            lab.driver.reached(event)?;
        }
        Ok(micros(began, count))
    });
    let question = Question::new("from the device to an operation of the processor", "µs added");
    let question = question.beside("two hops and a query");
    let question = question.goal("one query + 2 hops", Limit::AtMost(|figures| figures.bare));
    table.measure(lab, question, ours, Some(bare))
}

/// One operation, pushed when every worker has gone to sleep.
pub fn sleeping(lab: &Lab, table: &mut Table) -> Result<(), String> {
    let count = lab.count(20);
    let pause = Duration::from_millis(if lab.quick { 1 } else { 5 });
    let question = Question::new("one operation on sleeping workers", "µs").beside("launch and spin on the event");
    // A wake of a thread is a call of the system, and its scheduler.
    let goal = "the rival + one wake (5 µs)";
    let question = question.goal(goal, Limit::AtMost(|figures| Some(figures.rival? + 5.0))).rival("asleep", count);
    table.measure(lab, question, pushed(lab, count, pause)?, Some(by_hand(lab, count, pause)?))
}
