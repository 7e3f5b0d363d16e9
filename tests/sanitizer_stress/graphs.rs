//! Graphs in the stress: captured by one thread, replayed beside what others push, dropped while
//! they are replayed.

use crate::common::Random;
use crate::pusher::{accepted, touch, variables, Accepted, Choice};
use crate::world::World;
use seriatim::{Context, Error, Graph, Operator, Parameter, Property};

/// A graph, and what a replay of it changes.
pub struct Recorded {
    graph: Graph,
    parameter: Parameter<Vec<u64>>,
    choices: Vec<Choice>,
}

pub fn capture(world: &'static World, random: &mut Random, operators: &[(Operator, Choice)]) -> Recorded {
    let mut choices = Vec::new();
    let spreads = random.pick(&[None, Some(0), Some(1), Some(4)]);
    let captured = world.engine.capture(|c| {
        if let Some(operations) = spreads {
            seriatim::testing::spreads_after(c, operations);
        }
        let parameter = c.parameter(vec![1; 8]);
        for _ in 0..random.between(1, 12) {
            if random.chance(10) {
                let (operator, choice) = &operators[random.below(operators.len())];
                c.push(operator, Context::default(), 0)?;
                choices.push(choice.clone());
                continue;
            }
            let choice = Choice::random(random);
            let (reads, writes) = choice.slots(world);
            let properties = [Property::Normal, Property::Normal, Property::CpuPrioritized, Property::CopyToGpu];
            let builder = c.op("captured").reads(variables(&reads)).writes(variables(&writes));
            let builder = builder.property(random.pick(&properties)).priority(random.below(3) as i32);
            if random.chance(20) {
                builder.push_async(move |_, completion| {
                    touch(&reads, &[]);
                    world.completer.give(completion, writes.clone());
                })?;
            } else {
                let inside = parameter.clone();
                builder.push(move |run| {
                    assert_eq!(inside.get(run)?.len(), 8);
                    touch(&reads, &writes);
                    Ok::<(), Error>(())
                })?;
            }
            choices.push(choice);
        }
        Ok(parameter)
    });
    let (graph, parameter) = captured.expect("the variables are alive");
    Recorded { graph, parameter, choices }
}

impl Recorded {
    pub fn replay(&self, world: &World, random: &mut Random, done: &mut Accepted) {
        if random.chance(30) {
            accepted(world, self.parameter.set(vec![random.next(); 8]));
        }
        let replayed = accepted(world, self.graph.replay_with_priority(random.below(3) as i32));
        self.choices.iter().for_each(|choice| done.add(replayed, choice));
    }
}
