//~ error[E0631]: type mismatch in closure arguments
//~ Input0
// The gradient by the output comes before the operand.
use seriatim_tensor::operator::{binary_map, unary_map, Input0, OutputGrad, SimpleOp};
fn main() {
    let op = SimpleOp::unary("double", |x, _, out, req| unary_map(x.0, out, req, |x| 2.0 * x));
    let op = op.gradient_by_input(|g: OutputGrad, x: Input0, _, out, req| binary_map(g.0, x.0, out, req, |g, _| 2.0 * g));
    let op = op.gradient_by_input(|x: Input0, g: OutputGrad, _, out, req| binary_map(g.0, x.0, out, req, |g, _| 2.0 * g)); // refused
    op.register().unwrap();
}
