//! The times of a profile: those of the device, and in the order of the variables.

use super::{holds, say, GPU, LIMIT};
use crate::device::{Device, Which};
use seriatim::gpu::{DeviceData, PinnedData};
use seriatim::DeviceSpan;

const ROUNDS: u64 = 20;
const LENGTH: usize = 1 << 14;
/// Steps of the kernels: of every other one more.
const STEPS: [u64; 2] = [10, 20_000];

pub fn profiled(device: &Device) -> Result<String, String> {
    let engine = device.engine().build().map_err(say)?;
    let gpu = engine.device(GPU).map_err(say)?;
    let x = DeviceData::<u64>::zeros(&gpu, LENGTH).map_err(say)?;
    let host = PinnedData::<u64>::zeros(&gpu, LENGTH).map_err(say)?;
    engine.wait_for_all_timeout(LIMIT).map_err(say)?;
    engine.start_profiling();
    for round in 0..ROUNDS {
        engine.copy(&host, &x).map_err(say)?;
        super::push(device, &engine, &x, round, STEPS[(round % 2) as usize])?;
        engine.copy(&x, &host).map_err(say)?;
    }
    engine.wait_for_all_timeout(LIMIT).map_err(say)?;
    let profile = engine.profile();
    engine.stop_profiling();
    let mut events: Vec<_> = profile.events().iter().collect();
    events.sort_by_key(|event| event.push);
    let spans: Vec<&DeviceSpan> = events.iter().filter_map(|event| event.device()).collect();
    holds(spans.len() as u64 == 3 * ROUNDS, format!("{} of {} operations have a span", spans.len(), 3 * ROUNDS))?;
    holds(spans.iter().all(|span| span.accuracy.is_some()), "some times are the processor's")?;
    // All are on one array: each begins when the one before has ended, as well as that is known.
    let slack = |span: &DeviceSpan| span.accuracy.unwrap_or_default();
    let astray = spans.windows(2).position(|two| two[1].start + slack(two[0]) + slack(two[1]) < two[0].end);
    holds(astray.is_none(), format!("operation {astray:?} and the next are timed as if beside each other"))?;
    holds(spans.iter().all(|span| span.end >= span.start), "a span ends before it starts")?;
    let overlap = profile.overlap(GPU).ok_or("the profile knows of no device")?;
    holds((overlap.operations, overlap.host_timed) == (3 * ROUNDS, 0), format!("{overlap:?}"))?;
    holds(overlap.copying > 0 && overlap.computing > 0, format!("{overlap:?}"))?;
    holds(profile.table().contains("gpu(0) copied for"), "the table says nothing of the overlap")?;
    // The clock of the stand-in counts commands.
    if device.which == Which::Cuda {
        let length =
            |at: usize| spans.iter().skip(1 + 3 * at).step_by(6).map(|span| span.end - span.start).sum::<u64>();
        let (short, long) = (length(0), length(1));
        holds(long > 2 * short, format!("kernels of {STEPS:?} steps take {short} and {long} ns"))?;
    }
    Ok(overlap.to_string())
}
