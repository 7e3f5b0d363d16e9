//! The operations of random programs: what they do on a device, on the processor and in a
//! sequential run.

use crate::backend::OpenCl;
use crate::cells::Cell;
use crate::common::Random;
use crate::kernels::{blend, blend_alone, look, Factors, Values, WORDS};
use seriatim::gpu::DriverError;
use seriatim::{Context, Engine, Error, Property, RunContext, Variable};
use std::sync::Arc;

/// The cells that an operation may use, by their numbers.
#[derive(Clone)]
pub struct Choice {
    pub device: Vec<usize>,
    pub host: Vec<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Blends what is written with what is read.
    Blend(Factors),
    /// Looks at what is read, and leaves a number.
    Look,
    /// Copies what is read to what is written.
    Copy,
}

#[derive(Clone)]
pub struct Operation {
    work: Work,
    pub reads: Vec<usize>,
    pub writes: Vec<usize>,
    rounds: u32,
    context: Context,
    property: Property,
    priority: i32,
    flushes: bool,
    pub fails: bool,
}

/// The cells of a program, and their variables.
#[derive(Clone)]
pub struct Place {
    pub cell: Arc<Cell>,
    pub variable: Variable,
}

/// An operation that was pushed, and the cell where it leaves what it sees, if it looks.
pub struct Pushed {
    pub operation: Operation,
    pub found: Option<Arc<Cell>>,
}

/// So many of a list, by lot.
fn some(from: &[usize], count: usize, random: &mut Random) -> Vec<usize> {
    let (mut from, last) = (from.to_vec(), from.len() - 1);
    (0..last).for_each(|at| from.swap(at, random.between(at, last)));
    from.truncate(count);
    from
}

impl Operation {
    pub fn drawn(random: &mut Random, choice: &Choice, devices: usize) -> Operation {
        let on_device = random.below(4) > 0;
        let all: Vec<usize> = choice.device.iter().chain(&choice.host).copied().collect();
        let used = some(if on_device { &choice.device } else { &all }, 1 + random.below(4), random);
        let written = random.below(used.len().min(2) + 1);
        let (mut writes, mut reads) = (used[..written].to_vec(), used[written..].to_vec());
        let mut work = match writes.is_empty() {
            true => Work::Look,
            false => Work::Blend([random.next() as u32 | 1, random.next() as u32 | 1, random.next() as u32]),
        };
        let mut property = match on_device {
            true => random.pick(&[Property::Normal, Property::Normal, Property::Normal, Property::GpuPrioritized]),
            false => Property::Normal,
        };
        if on_device && random.below(4) == 0 {
            work = Work::Copy;
            let host = random.pick(&choice.host);
            let [one, other] = <[usize; 2]>::try_from(some(&choice.device, 2, random)).expect("there are two");
            let (from, to);
            (from, to, property) = match random.below(3) {
                0 => (host, one, Property::CopyToGpu),
                1 => (one, host, Property::CopyFromGpu),
                _ => (one, other, Property::Normal),
            };
            (reads, writes) = (vec![from], vec![to]);
        }
        Operation {
            work,
            reads,
            writes,
            rounds: random.pick(&[1, 1, 3, 50, 500, 2500]),
            context: if on_device { Context::gpu(random.below(devices) as u32) } else { Context::cpu(0) },
            property,
            priority: if random.below(8) == 0 { 1 + random.below(3) as i32 } else { 0 },
            flushes: random.below(2) == 0,
            fails: random.below(250) == 0,
        }
    }

    /// The cells that it uses.
    pub fn cells(&self) -> impl Iterator<Item = usize> + '_ {
        self.reads.iter().chain(&self.writes).copied()
    }

    /// Carries it out, as a sequential run does. Returns what it has seen, if it looks.
    pub fn apply(&self, cells: &mut [Values]) -> u32 {
        let mut found = 0;
        match self.work {
            Work::Blend(factors) => {
                for y in &self.writes {
                    if self.reads.is_empty() {
                        blend_alone(&mut cells[*y], factors, self.rounds);
                    }
                    for x in &self.reads {
                        let x = cells[*x];
                        blend(&mut cells[*y], &x, factors, self.rounds);
                    }
                }
            }
            Work::Look => self.reads.iter().for_each(|x| found = look(found, &cells[*x], self.rounds)),
            Work::Copy => cells[self.writes[0]] = cells[self.reads[0]],
        }
        found
    }

    fn queue(
        &self,
        opencl: &OpenCl,
        run: &RunContext<'_>,
        cells: &[Arc<Cell>],
        found: Option<&Arc<Cell>>,
    ) -> Result<(), DriverError> {
        let stream = run.stream().expect("it is on a device");
        match self.work {
            Work::Blend(factors) => {
                for y in &self.writes {
                    let alone = if self.reads.is_empty() { vec![*y] } else { Vec::new() };
                    for x in self.reads.iter().chain(&alone) {
                        opencl.blend(stream, [&cells[*y], &cells[*x]], factors, self.rounds)?;
                    }
                }
            }
            Work::Look => {
                for x in &self.reads {
                    opencl.look(stream, found.expect("it looks"), &cells[*x], self.rounds)?;
                }
            }
            Work::Copy => opencl.copy(stream, &cells[self.writes[0]], &cells[self.reads[0]])?,
        }
        if self.flushes {
            opencl.flush(stream)?;
        }
        Ok(())
    }

    fn run_here(&self, opencl: &OpenCl, cells: &[Arc<Cell>], found: Option<&Arc<Cell>>) {
        let mut values = vec![[0; WORDS]; cells.len()];
        self.cells().for_each(|cell| values[cell] = opencl.load(&cells[cell]));
        let seen = self.apply(&mut values);
        self.writes.iter().for_each(|cell| opencl.store(&cells[*cell], &values[*cell]));
        found.into_iter().for_each(|found| opencl.store(found, &[seen; WORDS]));
    }

    /// Pushes it.
    ///
    /// # Errors
    /// If the engine refuses it.
    pub fn push(self, engine: &Engine, opencl: &Arc<OpenCl>, places: &[Place]) -> Result<Pushed, Error> {
        let new = || if self.context == Context::cpu(0) { opencl.host_cell() } else { opencl.cell() };
        let found = (self.work == Work::Look).then(new);
        let of = |list: &[usize]| list.iter().map(|cell| places[*cell].variable).collect::<Vec<_>>();
        let builder = engine.op("drawn").reads(of(&self.reads)).writes(of(&self.writes)).context(self.context);
        let cells: Vec<Arc<Cell>> = places.iter().map(|place| Arc::clone(&place.cell)).collect();
        let (own, opencl, to) = (self.clone(), Arc::clone(opencl), found.clone());
        let body = move |run: &RunContext<'_>| {
            match run.stream() {
                Some(_) => own.queue(&opencl, run, &cells, to.as_ref()).map_err(|error| error.to_string())?,
                None => own.run_here(&opencl, &cells, to.as_ref()),
            }
            if own.fails {
                return Err("it fails by lot".to_owned());
            }
            Ok(())
        };
        builder.property(self.property).priority(self.priority).push(body)?;
        Ok(Pushed { operation: self, found })
    }
}
