//! Reads of a variable by a device, without a write between them.

use crate::counting::*;
use crate::{body, tell, wait_until, CHUNK, ENDED};
use seriatim::gpu::Immediate;
use seriatim::{Context, Engine, Property};
use std::sync::atomic::Ordering::*;

const READS: usize = 1_000_000;
/// On all timelines that a device has: more than the places of a variable's row.
const PROPERTIES: [Property; 4] =
    [Property::Normal, Property::GpuPrioritized, Property::CopyToGpu, Property::CopyFromGpu];
/// What the queues of the workers may grow by meanwhile.
const SLACK: isize = 256 << 10;

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
