//! Captured graphs: replays beside single operations, with a parameter that changes, copies and an
//! operation of the processor; replayed one by one, and by graphs of the driver.

use super::{holds, say, GPU, LIMIT};
use crate::device::Device;
use crate::mix::{mixed, Mixture};
use seriatim::gpu::{DeviceData, PinnedData};
use seriatim::{Capture, CaptureBuilder, Engine, Error, Graph, Parameter};
use std::sync::{Arc, Mutex};

const LENGTH: usize = 1000;
const ROUNDS: u64 = 12;
/// Steps that make a kernel last.
const LONG: u64 = 20_000;

/// What the graph uses.
struct Arrays {
    x: DeviceData<u64>,
    y: DeviceData<u64>,
    host: PinnedData<u64>,
    /// What the operation of the processor has seen, replay by replay.
    seen: Arc<Mutex<Vec<u64>>>,
}

/// Makes an operation one of a graph of the driver, or leaves it as it is.
fn part(operation: CaptureBuilder<'_>, whole: bool) -> CaptureBuilder<'_> {
    if whole {
        operation.device_graph()
    } else {
        operation
    }
}

/// Records: `x` changes by the parameter, `y` by `x`, `y` goes to the processor, which looks at it,
/// and `x` changes by `y`.
fn captured(device: &Device, engine: &Engine, arrays: &Arrays, whole: bool) -> Result<(Graph, Parameter<u64>), Error> {
    let Arrays { x, y, host, seen } = arrays;
    let kernel = |c: &mut Capture, to: &DeviceData<u64>, from: Option<&DeviceData<u64>>, id: &Parameter<u64>| {
        let (mix, out, by, id) = (Arc::clone(&device.mix), to.clone(), from.cloned(), id.clone());
        let operation = part(c.op("part").context(GPU).reads(from).write(to), whole);
        operation.push(move |run| {
            let stream = run.stream().ok_or("this operation has no stream")?;
            let by = by.as_ref().map(|by| by.read_on(run)).transpose().map_err(say)?;
            let (out, id) = (out.write_on(run).map_err(say)?, *id.get(run).map_err(say)?);
            // SAFETY: the operation has declared the arrays, of its own device.
            unsafe { mix.mix(0, stream, &Mixture { out, from: [by, None, None], id, spin: LONG, count: LENGTH }) }
        })
    };
    engine.capture(|c| {
        let (id, other) = (c.parameter(1), c.parameter(1000));
        kernel(c, x, None, &id)?;
        kernel(c, y, Some(x), &other)?;
        c.copy(y, host)?;
        let (own, seen) = (host.clone(), Arc::clone(seen));
        c.op("look").read(host).push(move |_| {
            let values = own.read()?;
            seen.lock().expect("nothing panics").push(values[LENGTH - 1]);
            Ok::<(), Error>(())
        })?;
        kernel(c, x, Some(y), &other)?;
        Ok(id)
    })
}

/// Replays a graph in turn with kernels that are pushed one by one.
fn rounds(device: &Device, whole: bool) -> Result<(), String> {
    let engine = device.engine().build().map_err(say)?;
    let gpu = engine.device(GPU).map_err(say)?;
    let zeros = || DeviceData::zeros(&gpu, LENGTH).map_err(say);
    let host = PinnedData::zeros(&gpu, LENGTH).map_err(say)?;
    let arrays = Arrays { x: zeros()?, y: zeros()?, host, seen: Arc::default() };
    let (graph, id) = captured(device, &engine, &arrays, whole).map_err(say)?;
    let (mut x, mut y, mut looked) = (0, 0, Vec::new());
    for round in 0..ROUNDS {
        // Most replays are queued while the one before is under way.
        let set = 1 + round / 4;
        id.set(set).map_err(say)?;
        graph.replay().map_err(say)?;
        x = mixed(x, [0; 3], set, LONG);
        y = mixed(y, [x, 0, 0], 1000, LONG);
        looked.push(y);
        x = mixed(x, [y, 0, 0], 1000, LONG);
        super::push(device, &engine, &arrays.x, round, 10)?;
        x = mixed(x, [0; 3], round, 10);
    }
    drop(graph);
    let back = [(&arrays.x, x), (&arrays.y, y)];
    for (array, expected) in back {
        let back = PinnedData::zeros(&gpu, LENGTH).map_err(say)?;
        engine.copy(array, &back).map_err(say)?;
        engine.wait_for_var_timeout(back.variable(), LIMIT).map_err(say)?;
        let wrong = back.read().map_err(say)?.iter().position(|found| *found != expected);
        holds(wrong.is_none(), format!("number {wrong:?} is wrong, with graphs of the driver: {whole}"))?;
    }
    engine.wait_for_all_timeout(LIMIT).map_err(say)?;
    let found = arrays.seen.lock().map_err(|_| "an operation panicked")?.clone();
    holds(found == looked, format!("the processor saw {found:x?} and not {looked:x?}, with graphs: {whole}"))
}

pub fn replayed(device: &Device) -> Result<String, String> {
    [false, true].into_iter().try_for_each(|whole| rounds(device, whole))?;
    Ok(format!("{ROUNDS} replays one by one, and as many by graphs of the driver"))
}
