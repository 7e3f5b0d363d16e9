//! Operations of devices: kernels and copies, and reads without a write between them.

use crate::counting::*;
use crate::{body, tell, wait_until, CHUNK, ENDED};
use seriatim::gpu::{DeviceData, Immediate, PinnedData};
use seriatim::{Completion, Context, Engine, Kind, Property, RunContext};
use std::sync::atomic::Ordering::*;

const READS: usize = 1_000_000;
/// On all timelines that a device has: more than the places of a variable's row.
const PROPERTIES: [Property; 4] =
    [Property::Normal, Property::GpuPrioritized, Property::CopyToGpu, Property::CopyFromGpu];
/// What the queues of the workers may grow by meanwhile.
const SLACK: isize = 256 << 10;

/// Kernels in a chain and side by side, operations that end behind a stream, and copies there, over
/// and back: no allocation, and the driver is not asked for memory.
pub fn kernels_and_copies_cost_nothing(faults: &mut Vec<String>) {
    [Kind::PerDevice, Kind::Naive].into_iter().for_each(|kind| they_cost_nothing_on(kind, faults));
}

fn they_cost_nothing_on(kind: Kind, faults: &mut Vec<String>) {
    const OPERATIONS: usize = 20 * CHUNK;
    let engine = Engine::builder().kind(kind).cpu_workers(1).pin(false).gpus(Immediate::new(1)).build().unwrap();
    let gpu = engine.device(Context::gpu(0)).unwrap();
    let host = PinnedData::from_slice(&gpu, &[1_u64; 64]).unwrap();
    let [x, y] = [(); 2].map(|()| DeviceData::<u64>::zeros(&gpu, 64).unwrap());
    let variables: Vec<_> = (0..16).map(|_| engine.new_variable()).collect();
    let in_chunks = |each: &dyn Fn(usize)| {
        for chunk in 0..OPERATIONS / CHUNK {
            (0..CHUNK).for_each(|number| each(chunk * CHUNK + number));
            engine.wait_for_all().unwrap();
        }
    };
    let kernel = |variable| {
        let kernel = engine.op("kernel").context(Context::gpu(0)).write(variable);
        kernel.push(|_| body()).unwrap();
    };
    let ends = |variable| {
        let start = |run: &RunContext<'_>, completion: Completion| {
            body();
            // SAFETY: the stream is the operation's.
            unsafe { completion.complete_after(run.stream().expect("it is on a device")) };
        };
        engine.op("library").context(Context::gpu(0)).write(variable).push_async(start).unwrap();
    };
    let mut check = |what: &str, each: &dyn Fn(usize)| {
        in_chunks(each);
        let costs = least_cost(Costs::no_allocation, || in_chunks(each));
        tell(&format!("device, {kind}"), what, costs, OPERATIONS, costs.no_allocation(), faults);
    };
    check("kernels in a chain", &|_| kernel(variables[0]));
    check("kernels side by side", &|number| kernel(variables[number % 16]));
    check("operations that end behind a stream", &|number| ends(variables[number % 16]));
    check("copies there", &|_| engine.copy(&host, &x).unwrap());
    check("copies over", &|_| engine.copy(&x, &y).unwrap());
    check("copies back", &|_| engine.copy(&y, &host).unwrap());
}

/// A read leaves one number, in the place of its timeline, however many there have been.
pub fn a_million_reads_need_no_more_memory_than_a_few(faults: &mut Vec<String>) {
    let engine = Engine::builder().cpu_workers(1).pin(false).gpus(Immediate::new(1)).build().unwrap();
    let x = engine.new_variable();
    let push = |reads: usize| {
        for chunk in 0..reads / CHUNK {
            let until = ENDED.load(Relaxed) + CHUNK;
            for number in 0..CHUNK {
                let property = PROPERTIES[(chunk + number) % PROPERTIES.len()];
                let read = engine.op("read").context(Context::gpu(0)).property(property).reads([x]);
                read.push(|_| body()).unwrap();
            }
            wait_until(until);
        }
        engine.wait_for_all().unwrap();
    };
    push(20 * CHUNK);
    let before = live();
    let costs = cost(|| push(READS));
    let grown = live() - before;
    tell("device", &format!("reads, {grown} bytes more"), costs, READS, grown < SLACK, faults);
}
