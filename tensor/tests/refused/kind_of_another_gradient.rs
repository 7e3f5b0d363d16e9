//~ error[E0308]: mismatched types
//~ expected `UnaryGradient`, found `BinaryGradient`
// A unary operator has no gradient of a binary one.
use seriatim_tensor::operator::{unary_map, BinaryGradient, SimpleOp, UnaryGradient};
fn main() {
    let op = SimpleOp::unary("same", |x, _, out, req| unary_map(x.0, out, req, |x| x));
    let op = op.unary_gradient(UnaryGradient::T0(Box::new(|g, _, out, req| unary_map(g.0, out, req, |g| g))));
    let op = op.unary_gradient(BinaryGradient::T0(Box::new(|_, _, _| Ok(())))); // refused
    op.register().unwrap();
}
