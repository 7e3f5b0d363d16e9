//~ error[E0308]: mismatched types
//~ expected `DeviceSliceMut<'_, f32>`, found `DeviceSlice<'_, f32>`
// Who only reads an array of a device gets no address to change it by.
use seriatim::gpu::{DeviceData, DeviceSliceMut, Immediate};
use seriatim::{Context, Engine, Error, RunContext, Write};

fn fill(run: &RunContext<'_>, mut x: DeviceSliceMut<'_, f32>) -> Result<(), Error> {
    x.memory(run).map(drop)
}

fn main() {
    let engine = Engine::builder().gpus(Immediate::new(1)).build().unwrap();
    let x = DeviceData::<f32>::zeros(&engine.device(Context::gpu(0)).unwrap(), 8).unwrap();
    engine.op("fill").context(Context::gpu(0)).run_with(Write(&x), |run, x| fill(run, x)).unwrap();
    engine.op("fill").context(Context::gpu(0)).run_with(&x, |run, x| fill(run, x)).unwrap(); // refused
}
