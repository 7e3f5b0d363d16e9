//~ error[E0631]: type mismatch in closure arguments
//~ Input1
// The first operand of a binary function comes first.
use seriatim_tensor::operator::{binary_map, Input0, Input1, SimpleOp};
fn main() {
    let _ = SimpleOp::binary("less", |a: Input0, b: Input1, _, out, req| binary_map(a.0, b.0, out, req, |a, b| a - b));
    let _ = SimpleOp::binary("less", |b: Input1, a: Input0, _, out, req| binary_map(a.0, b.0, out, req, |a, b| a - b)); // refused
}
