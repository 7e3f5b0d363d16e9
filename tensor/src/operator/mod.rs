//! Operators: what they mean, how they are found and called, and those that there are.
//!
//! `property.rs` has the two traits, `op.rs` an operator with parameters, `registry.rs` all of them
//! by name, `implementations.rs` what does the work in each context, `call.rs` with
//! `kernel_call.rs`, `places.rs` and `device_call.rs` a call, `parameters.rs` with `fields.rs` and
//! `lists.rs` parameters, and `simple.rs` with `simple_kinds.rs` operators of one or two operands.
//! `elementwise.rs`, `reduce.rs`, `broadcast.rs`, `cast.rs`, `matrix.rs`, `shuffle.rs`,
//! `softmax.rs`, `activation.rs` and `update/` have the operators of this crate, with those that
//! move elements in `shaping/`, those that go by places in `picking/`, and those of networks in
//! `layers/`. `map.rs`, `element_copy.rs`, `ordered.rs`, `products.rs`, `reduction.rs` with
//! `fold.rs`, and `parts.rs` have what several of them do. `arithmetic.rs`, `along.rs`, `views.rs`
//! and `random.rs` have the methods of arrays, and `tape.rs` what is recorded for gradients, with
//! `function.rs` for what programs differentiate themselves.

mod activation;
mod along;
mod arithmetic;
mod broadcast;
mod call;
mod cast;
mod device_call;
mod element_copy;
mod elementwise;
mod fields;
mod fold;
pub(crate) mod function;
mod implementations;
mod kernel_call;
mod layers;
mod lists;
mod map;
mod matrix;
mod op;
mod ordered;
mod parameters;
mod parts;
mod picking;
mod places;
mod products;
mod property;
mod random;
mod reduce;
mod reduction;
mod registry;
mod shaping;
mod shuffle;
mod simple;
mod simple_kinds;
mod simple_property;
mod softmax;
pub(crate) mod tape;
mod update;
mod views;

pub use call::Outputs;
pub use elementwise::{binary_map, unary_map};
pub use fields::Field;
#[doc(hidden)]
pub use fields::{check_names, given_to, named, read_field};
pub use lists::{Dims, Places};
pub use op::Op;
#[doc(hidden)]
pub use parameters::Within;
pub use parameters::{Axes, Choices, ParameterType, Parameters};
pub use property::{assign_shape, Given, OpContext, Operator, OperatorProperty, Scratch, FLOATS, NUMBERS};
pub use registry::{implement, list_all_ops, list_parameters, register};
pub use simple::SimpleOp;
pub use simple_kinds::{
    BinaryGradient, EnvArguments, Inplace, Input0, Input1, OutputGrad, OutputValue, TwoGradients, UnaryGradient,
};

use registry::Maker;

/// Takes an operator: its name, what it does, and how its property is made.
type Builtin<'a> = dyn FnMut(&'static str, &str, Maker) + 'a;

/// Gives all operators of this crate to the registry.
fn builtin(add: &mut Builtin<'_>) {
    for op in elementwise::all() {
        let (name, about, maker) = op.ready().expect("none of them enables both a scalar and keywords");
        add(name, &about, maker);
    }
    broadcast::all(add);
    reduce::all(add);
    matrix::all(add);
    softmax::all(add);
    activation::all(add);
    cast::all(add);
    update::all(add);
    shaping::all(add);
    picking::all(add);
    shuffle::all(add);
    layers::all(add);
}
