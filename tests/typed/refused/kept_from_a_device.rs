//~ error
//~ borrowed data escapes outside of closure
// What an operation is lent of an array of a device does not leave its closure.
use seriatim::gpu::{DeviceData, DeviceSlice, Immediate};
use seriatim::{Context, Engine};

fn main() {
    let engine = Engine::builder().gpus(Immediate::new(1)).build().unwrap();
    let x = DeviceData::<f32>::zeros(&engine.device(Context::gpu(0)).unwrap(), 8).unwrap();
    let (send, _receive) = std::sync::mpsc::channel::<DeviceSlice<'static, f32>>();
    engine.op("look").context(Context::gpu(0)).run(&x, |x| assert_eq!(x.len(), 8)).unwrap();
    engine.op("keep").context(Context::gpu(0)).run(&x, move |x| _ = send.send(x)).unwrap(); // refused
}
