//! Replays of graphs: each costs no more than one operation does. The last operation of each counts
//! as the end.

use super::{body, Stage};
use seriatim::{Capture, Completion, Engine, Error, Graph, Parameter, Property, RunContext, Variable};

/// The graphs of a stage.
pub struct Graphs {
    /// Run by one thread, and by all.
    pub chain: Graph,
    pub spread: Graph,
    /// Operations of every kind.
    pub mixed: Graph,
    pub with_parameter: (Graph, Parameter<u64>),
}

const STEPS: usize = 20;

impl Graphs {
    pub fn new(engine: &Engine) -> Graphs {
        let variables: Vec<Variable> = (0..5).map(|_| engine.new_variable()).collect();
        let last = |c: &mut Capture| c.op("last").reads(variables.iter().copied()).push(|_| body());
        let chain = engine.capture(|c| {
            (0..STEPS).try_for_each(|_| c.op("step").writes([variables[0]]).push(|_| ()))?;
            last(c)
        });
        let spread = engine.capture(|c| {
            seriatim::testing::spreads_after(c, 3);
            for step in 0..STEPS {
                let op = c.op("step").writes([variables[step % 5]]).reads([variables[step * 3 % 5]]);
                op.priority(step as i32 % 2).push(|_| ())?;
            }
            last(c)
        });
        let mixed = engine.capture(|c| {
            for step in 0..STEPS {
                // Each kind by itself: few waits for other threads, which take long where there are
                // more threads than cores.
                let op = c.op("step").writes([variables[step % 4]]);
                match step % 4 {
                    0 => op.property(Property::CpuPrioritized).push(|_| ())?,
                    1 => op.property(Property::CopyToGpu).push(|_| ())?,
                    2 => op.push_async(|_: &RunContext<'_>, completion: Completion| completion.complete())?,
                    _ => op.context(seriatim::Context::cpu(step as u32)).push(|_| ())?,
                }
            }
            last(c)
        });
        let with_parameter = engine.capture(|c| {
            let parameter = c.parameter(0);
            let inside = parameter.clone();
            c.op("look").push(move |run| {
                std::hint::black_box(inside.get(run)?);
                body();
                Ok::<(), Error>(())
            })?;
            Ok(parameter)
        });
        Graphs {
            chain: chain.unwrap().0,
            spread: spread.unwrap().0,
            mixed: mixed.unwrap().0,
            with_parameter: with_parameter.unwrap(),
        }
    }
}

pub fn chain(stage: &Stage, _: usize) {
    stage.graphs.chain.replay().unwrap();
}

pub fn limited(stage: &Stage, _: usize) {
    stage.graphs.chain.replay_limited(0, stage.limits.clone()).unwrap();
}

pub fn spread(stage: &Stage, number: usize) {
    stage.graphs.spread.replay_with_priority(number as i32 % 3).unwrap();
}

/// One in ten: it takes a while for three kinds of threads to get their turns.
pub fn mixed(stage: &Stage, number: usize) {
    if number % 10 == 0 {
        stage.graphs.mixed.replay().unwrap();
    } else {
        stage.engine.op("op").push(|_| body()).unwrap();
    }
}

pub fn with_parameter(stage: &Stage, number: usize) {
    let (graph, parameter) = &stage.graphs.with_parameter;
    parameter.set(number as u64).unwrap();
    graph.replay().unwrap();
}
