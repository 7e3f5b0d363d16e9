//! shred, which schedules by declared access: systems say what they read and write, and a
//! dispatcher built once runs them all in an order that respects it. It cannot take single pushes,
//! so a program becomes dispatchers of 64 operations, built beforehand and dispatched one after
//! another.
//!
//! Its systems here fetch nothing from their world, which saves it the run-time checks of its
//! cells.

use std::collections::HashMap;
use std::sync::Arc;

use shred::{Accessor, AccessorCow, Dispatcher, DispatcherBuilder, DynamicSystemData, ResourceId, System, World};

use super::Runner;
use crate::program::Program;

/// Operations in one dispatcher.
const BLOCK: usize = 64;
/// The most dispatchers to build for a program.
const MOST_DISPATCHERS: usize = 256;

/// A marker for the resources' identities; the resources themselves need not exist.
struct Variable;

/// What a system declares.
struct Declared {
    reads: Vec<ResourceId>,
    writes: Vec<ResourceId>,
}

impl Accessor for Declared {
    fn try_new() -> Option<Declared> {
        None
    }

    fn reads(&self) -> Vec<ResourceId> {
        self.reads.clone()
    }

    fn writes(&self) -> Vec<ResourceId> {
        self.writes.clone()
    }
}

/// What a system fetches.
struct Nothing;

impl<'a> DynamicSystemData<'a> for Nothing {
    type Accessor = Declared;

    fn setup(_: &Declared, _: &mut World) {}

    fn fetch(_: &Declared, _: &'a World) -> Nothing {
        Nothing
    }
}

/// An operation as a system.
struct Operation {
    program: &'static Program,
    number: u32,
    declared: Declared,
}

impl<'a> System<'a> for Operation {
    type SystemData = Nothing;

    fn run(&mut self, _: Nothing) {
        self.program.execute(self.number);
    }

    fn accessor<'b>(&'b self) -> AccessorCow<'a, 'b, Operation> {
        AccessorCow::Ref(&self.declared)
    }
}

/// A pool of threads, and the dispatchers that were prepared for it.
pub struct Shred {
    pool: Arc<rayon::ThreadPool>,
    world: World,
    dispatchers: Vec<Dispatcher<'static, 'static>>,
    /// Which of them to run, in order.
    order: Vec<usize>,
}

impl Shred {
    pub fn start(workers: usize) -> Result<Shred, String> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build().map_err(|error| error.to_string())?;
        Ok(Shred { pool: Arc::new(pool), world: World::empty(), dispatchers: Vec::new(), order: Vec::new() })
    }

    fn dispatcher(&self, program: &'static Program, block: &[u32]) -> Dispatcher<'static, 'static> {
        let resources = |variables: &[u32]| -> Vec<ResourceId> {
            let resource = |variable: &u32| ResourceId::new_with_dynamic_id::<Variable>(u64::from(*variable));
            variables.iter().map(resource).collect()
        };
        let names: Vec<String> = (0..block.len()).map(|place| place.to_string()).collect();
        let mut builder = DispatcherBuilder::new().with_pool(Arc::clone(&self.pool));
        for (place, number) in block.iter().copied().enumerate() {
            // Its own order among systems that conflict is not that of their addition, so every
            // conflict is named.
            let earlier = (0..place).filter(|earlier| conflict(program, block[*earlier], number));
            let before: Vec<&str> = earlier.map(|earlier| names[earlier].as_str()).collect();
            let declared =
                Declared { reads: resources(program.reads(number)), writes: resources(program.writes(number)) };
            builder.add(Operation { program, number, declared }, &names[place], &before);
        }
        builder.build()
    }
}

fn conflict(program: &Program, one: u32, other: u32) -> bool {
    let uses = |operation: u32, variable: &u32| {
        program.reads(operation).contains(variable) || program.writes(operation).contains(variable)
    };
    program.writes(one).iter().any(|variable| uses(other, variable))
        || program.writes(other).iter().any(|variable| uses(one, variable))
}

impl Runner for Shred {
    fn prepare(&mut self, program: &'static Program) -> Result<(), String> {
        if program.is_paced() {
            return Err(String::from("it takes no single pushes"));
        }
        let mut known: HashMap<&[u32], usize> = HashMap::new();
        let (mut distinct, mut order) = (Vec::new(), Vec::new());
        for block in program.sequence().chunks(BLOCK) {
            let number = *known.entry(block).or_insert_with(|| {
                distinct.push(block);
                distinct.len() - 1
            });
            order.push(number);
        }
        if distinct.len() > MOST_DISPATCHERS {
            return Err(format!("it would need {} dispatchers of {BLOCK} operations", distinct.len()));
        }
        self.dispatchers = distinct.into_iter().map(|block| self.dispatcher(program, block)).collect();
        self.order = order;
        Ok(())
    }

    fn run(&mut self) {
        for number in &self.order {
            self.dispatchers[*number].dispatch_par(&self.world);
        }
    }

    fn version(&self) -> String {
        crate::versions::of("shred")
    }
}
