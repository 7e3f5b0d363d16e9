//! An operation of a random program: which cells it uses, where, and what it does to them.

use crate::common::Random;
use crate::memory::{compute, copy, kernel, kernel_of_graph, Place};
use crate::plan::Plan;
use seriatim::{Completion, Context, Engine, Error, Property, RunContext, Variable};

/// Cells in memory of the host, which kernels may use as well.
pub const HOST: usize = 5;
/// All cells; the others are in memory of devices.
pub const CELLS: usize = 10;
/// The cells that captured graphs use: so many of the host, and from the other number on those of
/// devices.
pub const OF_GRAPHS: usize = 3;
pub const FIRST_OF_DEVICE: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    Computes,
    /// From the only cell that it reads to the only one that it writes.
    Copies,
    /// Reads, and returns an error.
    Fails,
}

#[derive(Clone, Debug)]
pub struct Operation {
    pub id: u64,
    pub reads: Vec<usize>,
    pub writes: Vec<usize>,
    pub context: Context,
    pub property: Property,
    priority: i32,
    is_async: bool,
    /// Whether it asks to be launched with others, as a part of a captured graph.
    pub joins: bool,
    pub work: Work,
}

/// Cells to read and to write, of the first `cells`.
fn used(random: &mut Random, cells: usize) -> (Vec<usize>, Vec<usize>) {
    let (mut reads, mut writes) = (Vec::new(), Vec::new());
    for cell in 0..cells {
        // Three cells on average.
        match random.below(2 * cells) {
            0..=3 => reads.push(cell),
            4..=5 => writes.push(cell),
            _ => {}
        }
    }
    (reads, writes)
}

impl Operation {
    /// An operation; one that fails only if it `may`.
    pub fn drawn(id: u64, random: &mut Random, plan: &Plan, may_fail: bool) -> Operation {
        let gpu = Context::gpu(random.below(plan.devices) as u32);
        let (kernels, copies) = (Property::Normal, [Property::CopyToGpu, Property::CopyFromGpu]);
        let (device, host) = (random.between(HOST, CELLS - 1), random.below(HOST));
        let (work, context, property, (reads, writes)) = match random.below(if plan.on_devices { 13 } else { 20 }) {
            0 | 1 => (Work::Copies, gpu, copies[0], (vec![host], vec![device])),
            2 | 3 => (Work::Copies, gpu, copies[1], (vec![device], vec![host])),
            4 => (Work::Copies, gpu, kernels, (vec![device], vec![HOST + (device - HOST + 1) % (CELLS - HOST)])),
            5..=12 => {
                let property = random.pick(&[kernels, kernels, kernels, Property::GpuPrioritized, Property::NoSkip]);
                (Work::Computes, gpu, property, used(random, CELLS))
            }
            // On the pushing thread, if it is ready: no stream, so the host's memory only.
            13 => (Work::Computes, gpu, Property::Async, used(random, HOST)),
            _ => {
                let property = random.pick(&[kernels, Property::Short, Property::CpuPrioritized, Property::Async]);
                (Work::Computes, Context::cpu(random.below(3) as u32), property, used(random, HOST))
            }
        };
        let work = if may_fail && work == Work::Computes && random.chance(2) { Work::Fails } else { work };
        Operation {
            id,
            reads,
            writes,
            context,
            property,
            priority: if random.chance(12) { random.between(1, 3) as i32 } else { 0 },
            is_async: context.device() == seriatim::Device::Cpu && random.chance(12),
            joins: false,
            work,
        }
    }

    /// An operation of a captured graph.
    pub fn of_graph(id: u64, random: &mut Random, plan: &Plan) -> Operation {
        let gpu = Context::gpu(random.below(plan.devices) as u32);
        let (device, host) = (random.between(FIRST_OF_DEVICE, CELLS - 1), random.below(OF_GRAPHS));
        let copies = [(Property::CopyToGpu, host, device), (Property::CopyFromGpu, device, host)];
        let (work, context, property, (reads, writes)) = match random.below(6) {
            0 => {
                let (property, from, to) = random.pick(&copies);
                (Work::Copies, gpu, property, (vec![from], vec![to]))
            }
            1..=3 => {
                let property = random.pick(&[Property::Normal, Property::Normal, Property::GpuPrioritized]);
                let (mut reads, mut writes) = used(random, OF_GRAPHS);
                random.pick(&[true, false]).then(|| reads.push(FIRST_OF_DEVICE));
                random.pick(&[true, false]).then(|| writes.push(CELLS - 1));
                (Work::Computes, gpu, property, (reads, writes))
            }
            _ => (Work::Computes, Context::cpu(0), Property::Normal, used(random, OF_GRAPHS)),
        };
        let joins = random.chance(60);
        Operation { id, reads, writes, context, property, priority: 0, is_async: false, joins, work }
    }

    /// Whether a failure before does not stop it.
    pub fn runs_anyway(&self) -> bool {
        self.property == Property::NoSkip
    }

    pub fn push(&self, engine: &Engine, variables: &[Variable], cells: &[Place]) -> Result<(), Error> {
        let of = |list: &[usize]| list.iter().map(|cell| variables[*cell]).collect::<Vec<_>>();
        let builder = engine.op("drawn").reads(of(&self.reads)).writes(of(&self.writes)).context(self.context);
        let builder = builder.property(self.property).priority(self.priority);
        let run = self.body(cells);
        if self.is_async {
            let start = move |context: &RunContext<'_>, completion: Completion| match run(context) {
                Ok(()) => completion.complete(),
                Err(said) => completion.fail(said),
            };
            return builder.push_async(start);
        }
        builder.push(run)
    }

    /// What the operation does.
    pub fn body(&self, cells: &[Place]) -> impl Fn(&RunContext<'_>) -> Result<(), String> + Send + 'static {
        let of = |list: &[usize]| list.iter().map(|cell| cells[*cell]).collect::<Vec<_>>();
        let (id, work, reads, writes) = (self.id, self.work, of(&self.reads), of(&self.writes));
        let joins = self.joins;
        move |run| match (work, run.stream()) {
            (Work::Computes, Some(stream)) if joins => kernel_of_graph(stream, id, reads.clone(), writes.clone()),
            (Work::Computes, Some(stream)) => kernel(stream, id, reads.clone(), writes.clone(), || ()),
            (Work::Computes, None) => compute(id, &reads, &writes),
            (Work::Copies, Some(stream)) => copy(stream, reads[0], writes[0]),
            (Work::Copies, None) => Err("an operation of a device has no stream".to_owned()),
            (Work::Fails, stream) => {
                // What it has queued is done all the same.
                stream.map_or(Ok(()), |stream| kernel(stream, id, reads.clone(), Vec::new(), || ()))?;
                Err(failure(id))
            }
        }
    }
}

/// What the operation says that is to fail.
pub fn failure(id: u64) -> String {
    format!("operation {id} is to fail")
}
