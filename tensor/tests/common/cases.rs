//! Calls of every operator, which `gradients.rs` makes: parameters, shapes, and from where inputs
//! are drawn. Inputs keep away from kinks, and from each other where they would be ties.

use super::Draws;
use seriatim_tensor::operator::Op;

/// What elements of an input are.
#[derive(Clone, Copy, Debug)]
pub enum Draw {
    /// Numbers from here to there.
    Between(f64, f64),
    /// Numbers from here to there in a random order, of which no two are near each other.
    Apart(f64, f64),
    /// Whole numbers from 0 on and below this one.
    Below(usize),
}

impl Draw {
    pub fn values(self, draws: &mut Draws, count: usize) -> Vec<f64> {
        match self {
            Draw::Between(low, high) => draws.values(count, low, high),
            Draw::Below(end) => (0..count).map(|_| draws.below(end) as f64).collect(),
            Draw::Apart(low, high) => {
                let step = (high - low) / count as f64;
                let mut values: Vec<f64> = (0..count).map(|at| low + step * (at as f64 + 0.5)).collect();
                (1..count).for_each(|last| values.swap(last, draws.below(last + 1)));
                values
            }
        }
    }
}

/// Inputs of one call.
pub struct Case {
    pub parameters: Vec<(&'static str, String)>,
    pub shapes: Vec<Vec<usize>>,
    pub inputs: Vec<Draw>,
    /// The inputs that have a gradient; that by the others is 0.
    pub by: Vec<usize>,
    /// Auxiliary states.
    pub states: Vec<(Vec<usize>, Draw)>,
    /// Whether the gradient is that of the values.
    pub is_checked: bool,
}

impl Case {
    /// The texts of the parameters.
    pub fn parameters(&self) -> Vec<(&str, &str)> {
        self.parameters.iter().map(|(name, text)| (*name, text.as_str())).collect()
    }

    fn with(mut self, parameters: &[(&'static str, &str)]) -> Case {
        self.parameters = parameters.iter().map(|(name, text)| (*name, (*text).to_owned())).collect();
        self
    }

    /// Draws the elements of an input from elsewhere.
    fn draw(mut self, input: usize, draw: Draw) -> Case {
        self.inputs[input] = draw;
        self
    }

    /// An input of places, which has no gradient.
    fn places(mut self, input: usize, below: usize) -> Case {
        self.by.retain(|by| *by != input);
        self.draw(input, Draw::Below(below))
    }

    /// Means and variances of so many channels as auxiliary states.
    fn moving(mut self, channels: usize) -> Case {
        self.states = vec![(vec![channels], Draw::Between(-0.5, 0.5)), (vec![channels], Draw::Between(0.5, 2.0))];
        self
    }

    /// Leaves the gradient to a test of its own.
    fn unchecked(mut self) -> Case {
        self.is_checked = false;
        self
    }
}

fn case(shapes: &[&[usize]], (low, high): (f64, f64)) -> Case {
    let shapes: Vec<Vec<usize>> = shapes.iter().map(|shape| shape.to_vec()).collect();
    let inputs = vec![Draw::Between(low, high); shapes.len()];
    Case {
        parameters: Vec::new(),
        by: (0..shapes.len()).collect(),
        inputs,
        shapes,
        states: Vec::new(),
        is_checked: true,
    }
}

fn with(case: Case, parameters: &[(&'static str, &str)]) -> Case {
    case.with(parameters)
}

/// Where a unary function is smooth.
fn domain(name: &str) -> (f64, f64) {
    match name {
        "arcsin" | "arccos" | "arctanh" => (-0.9, 0.9),
        "arccosh" => (1.2, 3.0),
        "reciprocal" | "sqrt" | "rsqrt" | "cbrt" | "rcbrt" | "log" | "log2" | "log10" | "log1p" | "gamma"
        | "gammaln" | "abs" | "sign" | "relu" | "softsign" | "max" | "min" | "norm" | "prod" => (0.3, 2.4),
        "rint" | "ceil" | "floor" | "trunc" | "fix" | "round" => (0.1, 0.4),
        _ => (-1.2, 1.3),
    }
}

/// The cases of an operator; none for one that this test does not know.
pub fn cases(name: &str, draws: &mut Draws) -> Option<Vec<Case>> {
    let scalar = |text| move |case| with(case, &[("scalar", text)]);
    let shape = draws.shape();
    let two: Vec<Case> = vec![case(&[&shape, &shape], (0.4, 1.9)), case(&[&[2, 3], &[2, 3]], (0.4, 1.9))];
    let broadcast = [(&[2, 3][..], &[3][..]), (&[2, 1, 2], &[3, 1]), (&[], &[2, 2]), (&[2, 2], &[2, 2]), (&[1], &[4])];
    if let Some(cases) = shaping(name).or_else(|| picking(name)).or_else(|| layers(name)) {
        return Some(cases);
    }
    Some(match name {
        "sum" | "mean" | "prod" | "max" | "min" | "norm" => {
            let range = if name == "prod" { (0.9, 1.1) } else { domain(name) };
            let of = |shape: &[usize], parameters: &[(&'static str, &str)]| with(case(&[shape], range), parameters);
            vec![
                of(&shape, &[]),
                of(&[2, 3, 4], &[("axis", "1")]),
                of(&[2, 3, 4], &[("axis", "(0,-1)"), ("keepdims", "true")]),
                of(&[2, 3, 4], &[("axis", "1"), ("exclude", "true")]),
                of(&[3, 300], &[("axis", "1")]),
            ]
        }
        "broadcast_to" => vec![
            with(case(&[&[2, 1]], (-1.0, 1.0)), &[("shape", "(2,3)")]),
            with(case(&[&[]], (-1.0, 1.0)), &[("shape", "(4,)")]),
        ],
        "dot" => {
            let (no, yes) = ("false", "true");
            let turned = |a, b, shapes: [&[usize]; 2]| {
                with(case(&shapes, (-1.0, 1.0)), &[("transpose_a", a), ("transpose_b", b)])
            };
            vec![
                turned(no, no, [&[2, 3], &[3, 4]]),
                turned(yes, no, [&[3, 2], &[3, 4]]),
                turned(no, yes, [&[2, 3], &[4, 3]]),
                turned(yes, yes, [&[3, 2], &[4, 3]]),
                turned(no, no, [&[5], &[5]]),
                turned(no, no, [&[2, 2, 3], &[3, 2]]),
                turned(no, no, [&[7, 40], &[40, 33]]),
            ]
        }
        "batch_dot" => vec![
            case(&[&[2, 3, 4], &[2, 4, 2]], (-1.0, 1.0)),
            with(case(&[&[2, 4, 3], &[2, 2, 4]], (-1.0, 1.0)), &[("transpose_a", "true"), ("transpose_b", "true")]),
        ],
        "FullyConnected" => vec![
            with(case(&[&[4, 3], &[2, 3], &[2]], (-1.0, 1.0)), &[("num_hidden", "2")]),
            with(case(&[&[4, 3, 2], &[2, 6]], (-1.0, 1.0)), &[("num_hidden", "2"), ("no_bias", "true")]),
            with(case(&[&[2, 3, 4], &[5, 4], &[5]], (-1.0, 1.0)), &[("num_hidden", "5"), ("flatten", "false")]),
        ],
        "softmax" | "log_softmax" => vec![
            case(&[&[3, 4]], (-2.0, 2.0)),
            with(case(&[&[2, 3, 2]], (-2.0, 2.0)), &[("axis", "1"), ("temperature", "0.7")]),
        ],
        "Activation" => ["relu", "sigmoid", "tanh", "softrelu", "softsign"]
            .map(|function| with(case(&[&shape], (0.2, 1.5)), &[("act_type", function)]))
            .into(),
        "Cast" => vec![with(case(&[&shape], (-1.0, 1.0)), &[("dtype", "float64")])],
        "smooth_l1" => vec![
            scalar("1.5")(case(&[&shape], (-0.4, 0.4))),
            scalar("1.5")(case(&[&shape], (0.5, 2.0))),
            scalar("1.5")(case(&[&shape], (-2.0, -0.5))),
        ],
        // Their gradients are not by their values: tests of their own below.
        "SoftmaxOutput" | "BlockGrad" => Vec::new(),
        // No gradient.
        "sgd_update" => vec![with(case(&[&[3], &[3]], (-1.0, 1.0)), &[("lr", "0.1"), ("wd", "0.01")])],
        _ if name.ends_with("_update") => Vec::new(),
        "argmax" | "argmin" => Vec::new(),
        _ if name.ends_with("_scalar") => {
            vec![scalar("1.2")(case(&[&shape], (1.3, 2.0))), scalar("1.2")(case(&[&[2, 300]], (0.2, 1.1)))]
        }
        _ if name.starts_with("broadcast_") => {
            broadcast.map(|(one, other)| case(&[one, other], (0.4, 1.9))).into_iter().collect()
        }
        _ => match Op::new(name, &[]).ok()?.property().list_arguments().len() {
            1 => vec![case(&[&shape], domain(name)), case(&[&[2, 300]], domain(name))],
            2 => two,
            _ => return None,
        },
    })
}

/// The cases of `operator/shaping/`.
fn shaping(name: &str) -> Option<Vec<Case>> {
    let all = |shapes: &[&[usize]], parameters: &[(&'static str, &str)]| case(shapes, (-1.0, 1.0)).with(parameters);
    let of = |shape: &[usize], parameters: &[(&'static str, &str)]| all(&[shape], parameters);
    Some(match name {
        "Concat" | "concat" => vec![
            all(&[&[2, 1], &[2, 3], &[2, 2]], &[("num_args", "3")]),
            all(&[&[3, 2, 2], &[1, 2, 2]], &[("num_args", "2"), ("dim", "0")]),
            all(&[&[4], &[0], &[300]], &[("num_args", "3"), ("dim", "-1")]),
        ],
        "stack" => vec![
            all(&[&[2, 3], &[2, 3]], &[("num_args", "2")]),
            all(&[&[2, 3], &[2, 3], &[2, 3]], &[("num_args", "3"), ("axis", "-1")]),
            all(&[&[], &[]], &[("num_args", "2")]),
        ],
        "SliceChannel" | "split" => vec![
            of(&[2, 6], &[("num_outputs", "3")]),
            of(&[4, 3], &[("num_outputs", "4"), ("axis", "0"), ("squeeze_axis", "true")]),
            of(&[2, 3], &[("num_outputs", "1"), ("axis", "-1")]),
        ],
        "slice" => vec![
            of(&[4, 5], &[("begin", "(1,None)"), ("end", "(None,-1)"), ("step", "(2,1)")]),
            of(&[4, 5, 2], &[("begin", "(None,-2)"), ("end", "(None,0)"), ("step", "(-1,-2)")]),
            of(&[3], &[("begin", "(2)"), ("end", "(1)")]),
        ],
        "slice_axis" => vec![
            of(&[4, 5], &[("axis", "1"), ("begin", "-4"), ("end", "-1")]),
            of(&[4, 5], &[("axis", "0"), ("begin", "1"), ("end", "None")]),
        ],
        "transpose" => vec![of(&[2, 3, 4], &[]), of(&[2, 3, 4], &[("axes", "(1,-1,0)")]), of(&[], &[])],
        "expand_dims" => vec![of(&[2, 3], &[("axis", "1")]), of(&[2], &[("axis", "-1")]), of(&[], &[("axis", "0")])],
        "squeeze" => vec![of(&[1, 3, 1, 2], &[]), of(&[1, 3, 1, 2], &[("axis", "(-2,)")])],
        "Flatten" => vec![of(&[2, 3, 4], &[]), of(&[5], &[])],
        "Reshape" | "reshape" => vec![of(&[2, 3, 4], &[("shape", "(0,-1)")]), of(&[4, 3], &[("shape", "(2,6)")])],
        "tile" => vec![
            of(&[2, 3], &[("reps", "(2,3)")]),
            of(&[2, 3], &[("reps", "(2,1,2)")]),
            of(&[1, 3], &[("reps", "(4)")]),
            of(&[2], &[("reps", "(0)")]),
        ],
        "repeat" => vec![
            of(&[2, 3], &[("repeats", "2")]),
            of(&[2, 3, 2], &[("repeats", "3"), ("axis", "1")]),
            of(&[3], &[("repeats", "1"), ("axis", "-1")]),
        ],
        "Pad" | "pad" => vec![
            of(&[2, 3], &[("pad_width", "(1,0,2,1)"), ("constant_value", "0.5")]),
            of(&[2, 3], &[("pad_width", "(3,1,0,2)"), ("mode", "edge")]),
            of(&[2, 3, 4], &[("pad_width", "(1,1,2,0,3,3)"), ("mode", "reflect")]),
        ],
        "where" => vec![
            all(&[&[2, 3], &[2, 3], &[2, 3]], &[]).places(0, 2),
            all(&[&[4], &[4, 80], &[4, 80]], &[]).places(0, 2),
        ],
        "clip" => {
            let bounds = [("a_min", "-1"), ("a_max", "1.5")];
            let ranges = [(-0.9, 1.4), (1.6, 2.0), (-3.0, -1.1)];
            ranges.map(|range| case(&[&[2, 3]], range).with(&bounds)).into()
        }
        _ => return None,
    })
}

/// The cases of `operator/picking/`.
fn picking(name: &str) -> Option<Vec<Case>> {
    let all = |shapes: &[&[usize]], parameters: &[(&'static str, &str)]| case(shapes, (-1.0, 1.0)).with(parameters);
    let apart = |shape: &[usize], parameters: &[(&'static str, &str)]| {
        all(&[shape], parameters).draw(0, Draw::Apart(-1.0, 1.0))
    };
    Some(match name {
        "take" => vec![
            all(&[&[4, 3], &[2, 2]], &[]).places(1, 6),
            all(&[&[2, 3, 4], &[5]], &[("axis", "-2"), ("mode", "wrap")]).places(1, 9),
            all(&[&[4], &[]], &[("mode", "raise")]).places(1, 4),
        ],
        "Embedding" => vec![
            all(&[&[3, 2], &[5, 4]], &[("input_dim", "5"), ("output_dim", "4")]).places(0, 5),
            all(&[&[], &[3, 1]], &[("input_dim", "3"), ("output_dim", "1")]).places(0, 9),
        ],
        "pick" => vec![
            all(&[&[3, 4], &[3]], &[]).places(1, 4),
            all(&[&[3, 4, 2], &[3, 1, 2]], &[("axis", "1"), ("keepdims", "true")]).places(1, 7),
            all(&[&[3, 4], &[4]], &[("axis", "0"), ("mode", "wrap")]).places(1, 7),
        ],
        // One row has one order.
        "_shuffle" => vec![all(&[&[1, 3]], &[]).unchecked(), all(&[&[]], &[]).unchecked()],
        "one_hot" => vec![
            all(&[&[2, 3]], &[("depth", "4"), ("dtype", "float64")]).places(0, 5),
            all(&[&[]], &[("depth", "2"), ("off_value", "-1"), ("dtype", "float64")]).places(0, 2),
        ],
        "topk" => vec![
            apart(&[3, 5], &[("k", "2"), ("ret_typ", "value")]),
            apart(&[3, 5, 2], &[("k", "3"), ("axis", "1"), ("ret_typ", "both"), ("dtype", "float64")]),
            apart(&[3, 4], &[("k", "5"), ("axis", "None"), ("ret_typ", "value"), ("is_ascend", "true")]),
            apart(&[3, 4], &[("k", "2"), ("axis", "0"), ("ret_typ", "mask")]),
            apart(&[3, 4], &[("dtype", "float64")]),
        ],
        "sort" => vec![apart(&[3, 5], &[("axis", "0")]), apart(&[2, 30], &[("is_ascend", "false")])],
        "argsort" => vec![apart(&[3, 5], &[("axis", "0"), ("dtype", "float64")])],
        _ => return None,
    })
}

/// The cases of `operator/layers/`.
fn layers(name: &str) -> Option<Vec<Case>> {
    let all = |shapes: &[&[usize]], parameters: &[(&'static str, &str)]| case(shapes, (-1.0, 1.0)).with(parameters);
    let apart = |shape: &[usize], parameters: &[(&'static str, &str)]| {
        all(&[shape], parameters).draw(0, Draw::Apart(-1.2, 1.3))
    };
    let positive = |shape: &[usize], parameters: &[(&'static str, &str)]| {
        all(&[shape], parameters).draw(0, Draw::Between(0.3, 1.0))
    };
    Some(match name {
        "LeakyReLU" => {
            let prelu =
                |gamma: &[usize]| all(&[&[2, 3, 2], gamma], &[("act_type", "prelu")]).draw(0, Draw::Apart(-1.2, 1.3));
            let each =
                ["leaky", "elu", "gelu", "selu", "rrelu"].map(|function| apart(&[3, 4], &[("act_type", function)]));
            each.into_iter().chain([prelu(&[3]), prelu(&[1])]).collect()
        }
        "LayerNorm" => {
            vec![all(&[&[3, 5], &[5], &[5]], &[]), all(&[&[2, 3, 4], &[3], &[3]], &[("axis", "1"), ("eps", "0.1")])]
        }
        "Dropout" => {
            vec![apart(&[4, 5], &[("p", "0.3")]), apart(&[4, 5], &[("axes", "(0)")]), apart(&[3], &[("p", "0")])]
        }
        "MakeLoss" | "make_loss" => vec![apart(&[4, 5], &[]).unchecked()],
        "LinearRegressionOutput" | "LogisticRegressionOutput" | "MAERegressionOutput" => {
            vec![all(&[&[4, 1], &[4]], &[]).unchecked(), all(&[&[4, 3], &[4, 3]], &[]).unchecked()]
        }
        "Convolution" => vec![
            all(&[&[2, 2, 5, 6], &[3, 2, 3, 2], &[3]], &[("kernel", "(3,2)"), ("num_filter", "3"), ("pad", "(1,0)")]),
            all(
                &[&[2, 4, 6, 7], &[6, 2, 2, 3]],
                &[
                    ("kernel", "(2,3)"),
                    ("num_filter", "6"),
                    ("num_group", "2"),
                    ("stride", "(2,1)"),
                    ("dilate", "(1,2)"),
                    ("pad", "(1,2)"),
                    ("no_bias", "true"),
                ],
            ),
            all(
                &[&[2, 3, 9], &[2, 3, 3], &[2]],
                &[("kernel", "(3)"), ("num_filter", "2"), ("stride", "(3)"), ("pad", "(1)")],
            ),
            // More images than make one product.
            all(&[&[3, 1, 9, 20], &[2, 1, 2, 3], &[2]], &[("kernel", "(2,3)"), ("num_filter", "2"), ("pad", "(0,1)")]),
            // Small enough to be computed without a matrix.
            all(&[&[2, 2, 6, 8], &[5, 2, 3, 3], &[5]], &[("kernel", "(3,3)"), ("num_filter", "5"), ("pad", "(1,1)")]),
            all(
                &[&[1, 2, 3, 26], &[2, 1, 1, 3], &[2]],
                &[("kernel", "(1,3)"), ("num_filter", "2"), ("num_group", "2")],
            ),
        ],
        "Deconvolution" => vec![
            all(&[&[2, 2, 3, 4], &[2, 3, 3, 2]], &[("kernel", "(3,2)"), ("num_filter", "3"), ("pad", "(1,0)")]),
            all(
                &[&[2, 4, 3, 2], &[4, 3, 2, 3], &[6]],
                &[
                    ("kernel", "(2,3)"),
                    ("num_filter", "6"),
                    ("num_group", "2"),
                    ("stride", "(2,3)"),
                    ("adj", "(1,2)"),
                    ("dilate", "(1,2)"),
                    ("pad", "(0,1)"),
                    ("no_bias", "false"),
                ],
            ),
            all(
                &[&[2, 3, 4], &[3, 2, 3]],
                &[("kernel", "(3)"), ("num_filter", "2"), ("stride", "(2)"), ("target_shape", "(8)")],
            ),
            all(&[&[2, 3, 8], &[3, 2, 3]], &[("kernel", "(3)"), ("num_filter", "2"), ("target_shape", "(9)")]),
        ],
        "Pooling" => vec![
            apart(&[2, 2, 4, 6], &[("kernel", "(2,3)"), ("stride", "(2,3)")]),
            apart(
                &[1, 2, 5, 5],
                &[("kernel", "(3,2)"), ("stride", "(2,2)"), ("pad", "(1,0)"), ("pooling_convention", "full")],
            ),
            apart(&[2, 2, 5, 5], &[("kernel", "(3,3)"), ("pad", "(1,1)"), ("pool_type", "avg")]),
            apart(
                &[2, 2, 5, 5],
                &[
                    ("kernel", "(3,3)"),
                    ("pad", "(1,2)"),
                    ("stride", "(2,2)"),
                    ("pool_type", "avg"),
                    ("count_include_pad", "false"),
                    ("pooling_convention", "full"),
                ],
            ),
            apart(&[2, 3, 7], &[("kernel", "(3)"), ("stride", "(2)"), ("pool_type", "sum")]),
            apart(&[2, 3, 2, 3], &[("global_pool", "true")]),
            apart(&[2, 3, 5], &[("global_pool", "true"), ("pool_type", "avg")]),
            apart(&[1, 2, 3, 4, 3], &[("kernel", "(2,3,2)"), ("stride", "(1,2,1)"), ("pad", "(1,1,0)")]),
            apart(
                &[2, 1, 3, 3, 4],
                &[("kernel", "(2,2,3)"), ("pad", "(1,0,1)"), ("pool_type", "avg"), ("count_include_pad", "false")],
            ),
            apart(&[2, 2, 5, 4], &[("kernel", "(3,2)"), ("pad", "(1,1)"), ("pool_type", "lp"), ("p_value", "2")]),
            positive(&[2, 2, 3, 3, 2], &[("kernel", "(2,2,2)"), ("pool_type", "lp"), ("p_value", "3")]),
            positive(&[2, 2, 6], &[("global_pool", "true"), ("pool_type", "lp"), ("p_value", "3")]),
        ],
        "BatchNorm" => vec![
            all(&[&[4, 3], &[3], &[3]], &[("fix_gamma", "false")]).moving(3),
            all(&[&[2, 3, 2, 2], &[3], &[3]], &[("fix_gamma", "true"), ("eps", "0.01")]).moving(3),
            all(&[&[2, 3, 4], &[4], &[4]], &[("fix_gamma", "false"), ("use_global_stats", "true"), ("axis", "-1")])
                .moving(4),
        ],
        _ => return None,
    })
}
