//! How many calls of the driver an operation takes beside its launch, and how many the rival's:
//! counted over the stand-in, whose device rests until all is queued. A GPU does not tell.

use crate::device::{Device, Which};
use crate::lab::{say, Lab, Word};
use crate::rival::Rival;
use crate::standin;
use seriatim::Property;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What is compared: what a driver makes, gives back or queues. Each may take a lock of its.
const COMPARED: [&str; 4] = ["cuStreamWaitEvent", "cuEventRecord", "cuEventCreate", "cuEventDestroy_v2"];
/// What the engine asks behind each closure, and the driver answers from what it keeps of the
/// thread. It counts as one of our calls, and not as one of the rival's: how often that asks
/// depends on how CUDA's runtime is made, and over the stand-in the runtime is ours.
const QUESTION: &str = "cuCtxGetCurrent";
/// How much more of ours the comparison counts than there were. How often streams wait depends on
/// which worker is free, so the sum differs from run to run: by less than a tenth, the questions
/// included (`README.md` has the extremes). So no program passes which would not in another run.
const MARGIN: f64 = 0.1;
/// What the closures themselves queue, and other questions that the driver answers from what it
/// keeps of the thread, the stream or the event. How many of these there are depends on time, or on
/// how a runtime is made.
const OTHERS: [&str; 6] = [
    "cuLaunchKernel",
    QUESTION,
    "cuCtxSetCurrent",
    "cuEventQuery",
    "cuStreamQuery",
    "cuThreadExchangeStreamCaptureMode",
];
/// More than any program queues on a stream.
const AHEAD: usize = 1024;
/// Queueing takes no longer.
const LIMIT: Duration = Duration::from_secs(30);
/// Steps of a fan's branches, as in `rows/fan.rs`.
const SPIN: u64 = 2000;

/// The programs of the protocol whose calls can be counted, and how often each is done.
const PROGRAMS: [(&str, usize); 10] = [
    ("chain", 480),
    ("two-streams", 480),
    ("fan-1", 40),
    ("fan-4", 40),
    ("fan-16", 16),
    ("fan-64", 4),
    ("random", 480),
    ("readers", 480),
    ("pushers-2", 480),
    ("pushers-4", 480),
];

type Calls = BTreeMap<String, f64>;

/// The numbers of a program, and how often each was changed.
struct Program<'a> {
    lab: &'a Lab,
    words: Vec<Word>,
    changes: RefCell<Vec<u64>>,
}

impl Program<'_> {
    fn push(&self, property: Property, out: usize, from: &[usize], id: usize, spin: u64) -> Result<(), String> {
        self.changes.borrow_mut()[out] += 1;
        let read: Vec<&Word> = from.iter().map(|at| &self.words[*at]).collect();
        self.lab.pusher.push(property, &self.words[out], &read, id as u64, spin)
    }

    fn usual(&self, out: usize, from: &[usize], id: usize) -> Result<(), String> {
        self.push(Property::Normal, out, from, id, 0)
    }

    /// Submits the program: what is in `rows/`, and in the rival's.
    fn submit(&self, program: &str, count: usize) -> Result<(), String> {
        let number = || program.rsplit('-').next().and_then(|number| number.parse::<usize>().ok()).unwrap_or(0);
        match program {
            "chain" => (0..count).try_for_each(|id| self.usual(0, &[], id)),
            "two-streams" => (0..count).try_for_each(|id| {
                let property = [Property::CopyToGpu, Property::CopyFromGpu][id % 2];
                self.push(property, 0, &[], id, 0)
            }),
            "random" => self.random(count),
            "readers" => {
                (0..count).try_for_each(|_| self.lab.pusher.push_reader(&self.words[0]))?;
                self.usual(0, &[], 1)
            }
            _ if program.starts_with("fan") => (0..count).try_for_each(|id| self.fan(number(), id)),
            _ => self.pushers(number(), count),
        }
    }

    fn fan(&self, width: usize, id: usize) -> Result<(), String> {
        self.usual(0, &[], id)?;
        (0..width).try_for_each(|at| self.push(Property::Normal, 2 + at, &[0], id, SPIN))?;
        let branches: Vec<usize> = (2..2 + width).collect();
        branches.chunks(3).try_for_each(|part| self.usual(1, part, id))
    }

    fn random(&self, count: usize) -> Result<(), String> {
        let mut state = 1u64;
        let mut below = |bound: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % bound
        };
        (0..count).try_for_each(|id| {
            let out = below(10);
            let (first, second) = ((out + 1 + below(9)) % 10, (out + 1 + below(9)) % 10);
            let both = [first, second];
            self.usual(out, if first == second { &both[..1] } else { &both }, id)
        })
    }

    fn pushers(&self, threads: usize, count: usize) -> Result<(), String> {
        let each = count / threads;
        self.changes.borrow_mut()[1..=threads].fill(each as u64);
        std::thread::scope(|scope| {
            let push = |at: usize| {
                let (pusher, out, common) = (self.lab.pusher.clone(), &self.words[1 + at], &self.words[0]);
                move || (0..each).try_for_each(|id| pusher.push(Property::Normal, out, &[common], id as u64, 0))
            };
            let started: Vec<_> = (0..threads).map(|at| scope.spawn(push(at))).collect();
            started.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a pusher panicked".to_owned())?)
        })
    }

    /// Waits until everything is on a stream: versions count what is.
    fn is_queued(&self) -> Result<(), String> {
        let began = Instant::now();
        for (word, changes) in self.words.iter().zip(self.changes.borrow().iter()) {
            // The first operation of a word has filled it with zeros.
            while self.lab.engine.version(word.data.variable()).map_err(say)? < 1 + changes {
                if began.elapsed() > LIMIT {
                    return Err("the operations are not queued".to_owned());
                }
                std::thread::yield_now();
            }
        }
        Ok(())
    }
}

/// The calls of a program on the engine, for each time that it is done.
fn ours(program: &str, count: usize) -> Result<Calls, String> {
    let device = Device::open(Which::Standin)?;
    let engine = device.engine().gpu_ahead(AHEAD).build().map_err(say)?;
    let lab = Lab::over(device, engine, true, None)?;
    let words = lab.words(66)?;
    // The workers and the marks of all streams are made before that.
    for round in 0..8 {
        for property in [Property::Normal, Property::Normal, Property::CopyToGpu, Property::CopyFromGpu] {
            lab.engine.op("first").context(lab.gpu.context()).property(property).push(|_| ()).map_err(say)?;
        }
        lab.engine.wait_for_all().map_err(|error| format!("round {round}: {error}"))?;
    }
    let program_of = Program { lab: &lab, changes: RefCell::new(vec![0; words.len()]), words };
    standin::rest();
    let before: BTreeMap<String, u64> = standin::called().into_iter().collect();
    program_of.submit(program, count)?;
    program_of.is_queued()?;
    let after = standin::called();
    standin::late();
    lab.engine.wait_for_all().map_err(say)?;
    lab.settle(&program_of.words)?;
    let calls = after.into_iter().map(|(name, calls)| {
        let own = calls - before.get(&name).copied().unwrap_or(0);
        (name, own as f64 / count as f64)
    });
    let calls: Calls = calls.filter(|(_, calls)| *calls > 0.0).collect();
    match calls.keys().find(|name| !COMPARED.contains(&name.as_str()) && !OTHERS.contains(&name.as_str())) {
        Some(other) => Err(format!("{program}: {other} was called, which is in no list")),
        None => Ok(calls),
    }
}

fn theirs(rival: &mut Rival, program: &str, count: usize) -> Result<Calls, String> {
    // The streams that it uses are made in the first run.
    rival.answer(program, count)?;
    let answer = rival.answer(program, count)?;
    let calls = answer["calls"].as_object().ok_or("the rival counts no calls: it is not over the stand-in")?;
    Ok(calls.iter().filter_map(|(name, calls)| Some((name.clone(), calls.as_f64()?))).collect())
}

fn compared(calls: &Calls) -> f64 {
    COMPARED.iter().map(|name| of(calls, name)).sum()
}

fn of(calls: &Calls, name: &str) -> f64 {
    calls.get(name).copied().unwrap_or(0.0)
}

/// Whether ours needs more calls than the rival's, or may in another run.
fn needs_more(own: &Calls, other: &Calls) -> bool {
    (compared(own) + of(own, QUESTION)) * (1.0 + MARGIN) > compared(other)
}

fn line(whose: &str, calls: &Calls) -> String {
    let [waits, marks, made, given] = COMPARED.map(|name| of(calls, name));
    let (sum, asked) = (compared(calls), of(calls, QUESTION));
    format!(
        "  {whose:<6} {waits:>7.2} waits {marks:>7.2} marks {made:>7.2} made {given:>7.2} given back {sum:>8.2}, and \
         {asked:>7.2} questions"
    )
}

/// Counts each program, beside the rival if there is one: then none of ours may need more calls,
/// with our questions and [`MARGIN`] counted on our side.
///
/// # Errors
/// Which needs more, or cannot be run.
pub fn calls(mut rival: Option<Rival>) -> Result<String, String> {
    println!("calls of the driver beside the launches, for each time that a program is done:");
    let mut more = Vec::new();
    for (program, count) in PROGRAMS {
        let own = ours(program, count)?;
        println!("{program}\n{}", line("ours", &own));
        let Some(rival) = &mut rival else { continue };
        let other = theirs(rival, program, count)?;
        println!("{}", line("rival", &other));
        if needs_more(&own, &other) {
            more.push(program);
        }
    }
    match (more.is_empty(), rival) {
        (false, _) => Err(format!("more calls than the rival's: {}", more.join(", "))),
        (true, Some(_)) => Ok(format!(
            "no call more than the rival's in any program, also with our questions and {:.0} % more",
            100.0 * MARGIN
        )),
        (true, None) => Ok("counted without a rival: SERIATIM_CUDASTF names one".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(counts: &[(&str, f64)]) -> Calls {
        counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    #[test]
    fn our_questions_and_a_margin_count_on_our_side() {
        let rival = calls(&[("cuEventRecord", 1.0), ("cuEventCreate", 1.0), (QUESTION, 9.0)]);
        let own = |waits, questions| calls(&[("cuStreamWaitEvent", waits), (QUESTION, questions)]);
        for (waits, questions, more) in [(0.8, 1.0, false), (0.85, 1.0, true), (1.9, 0.0, true), (1.8, 0.0, false)] {
            assert_eq!(needs_more(&own(waits, questions), &rival), more, "{waits} waits, {questions} questions");
        }
    }
}
