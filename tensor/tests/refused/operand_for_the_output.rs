//~ error[E0308]: mismatched types
//~ expected `OutputValue<'_>`, found `Input0<'_>`
// A gradient by the output is not given the operand.
use seriatim_tensor::operator::{EnvArguments, Input0, OutputGrad, OutputValue};
use seriatim_tensor::{BlobMut, Error, OpReq};
fn by_output(_: OutputGrad, _: OutputValue, _: &mut BlobMut, _: OpReq) -> Result<(), Error> {
    Ok(())
}
pub fn by_input(g: OutputGrad, x: Input0, y: OutputValue, _: &mut EnvArguments, out: &mut BlobMut, req: OpReq) {
    by_output(g, y, out, req).unwrap();
    by_output(g, x, out, req).unwrap(); // refused
}
fn main() {}
