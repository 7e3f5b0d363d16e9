//! Pooling in one, two and three dimensions against a loop over all places, with means and norms.
//! `layers.rs` has more of two dimensions, and `gradients.rs` the gradients.

mod common;

use common::Draws;
use seriatim_tensor::operator::Op;
use seriatim_tensor::{autograd, ErrorKind, NDArray, OpReq};

fn text(sizes: &[usize]) -> String {
    format!("({})", sizes.iter().map(|size| format!("{size},")).collect::<String>())
}

/// All places of an array of these sizes, in order.
fn places(sizes: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for size in sizes {
        let longer = |place: &Vec<usize>| (0..*size).map(|at| [place.as_slice(), &[at]].concat()).collect::<Vec<_>>();
        all = all.iter().flat_map(longer).collect();
    }
    all
}

/// A value of a window: of its elements, and how many places it has with those around.
fn value(kind: &str, elements: &[f64], around: usize) -> f64 {
    let sum = |power: i32| elements.iter().map(|element| element.powi(power)).sum::<f64>();
    match kind {
        "max" => elements.iter().copied().fold(f64::MIN, f64::max),
        "avg" => sum(1) / around as f64,
        "2" => sum(2).sqrt(),
        "3" => sum(3).cbrt(),
        _ => sum(1),
    }
}

#[test]
fn windows_of_all_dimensions_are_pooled_as_a_loop_pools_them() {
    let mut draws = Draws::new(8);
    let mut compared = [0; 3];
    for _ in 0..300 {
        let dimensions = 1 + draws.below(3);
        let mut draw = |least: usize, count: usize| -> Vec<usize> {
            (0..dimensions).map(|_| least + draws.below(count)).collect()
        };
        let (size, kernel, stride, mut pad) = (draw(3, 4), draw(1, 3), draw(1, 3), draw(0, 3));
        pad.iter_mut().zip(&kernel).for_each(|(pad, kernel)| *pad = (*pad).min(kernel - 1));
        let kind = ["max", "avg", "sum", "1", "2", "3"][draws.below(6)];
        let (is_full, counts_pad) = (draws.below(2) == 0, draws.below(2) == 0);
        let left = |axis: usize| size[axis] + 2 * pad[axis] - kernel[axis];
        let counts = |axis: usize| if is_full { left(axis).div_ceil(stride[axis]) } else { left(axis) / stride[axis] };
        let out: Vec<usize> = (0..dimensions).map(|axis| 1 + counts(axis)).collect();
        let is_norm = kind.parse::<usize>().is_ok();
        let op = Op::new(
            "Pooling",
            &[
                ("kernel", &*text(&kernel)),
                ("stride", &text(&stride)),
                ("pad", &text(&pad)),
                ("pool_type", if is_norm { "lp" } else { kind }),
                ("p_value", if is_norm { kind } else { "None" }),
                ("pooling_convention", if is_full { "full" } else { "valid" }),
                ("count_include_pad", &counts_pad.to_string()),
            ],
        );
        let shape = [&[2, 2], size.as_slice()].concat();
        let data = draws.values(shape.iter().product(), -1.0, 1.0);
        let result = op.unwrap().invoke(&[&NDArray::from_slice(&data, &shape[..]).unwrap()]);
        if (0..dimensions).any(|axis| (out[axis] - 1) * stride[axis] >= size[axis] + pad[axis]) {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::ShapeMismatch);
            continue;
        }
        let mut expected = Vec::new();
        for image in data.chunks(size.iter().product()) {
            for window in places(&out) {
                let (mut elements, mut around) = (Vec::new(), 0);
                for inside in places(&kernel) {
                    let at: Vec<usize> =
                        (0..dimensions).map(|axis| window[axis] * stride[axis] + inside[axis]).collect();
                    if (0..dimensions).any(|axis| at[axis] >= size[axis] + 2 * pad[axis]) {
                        continue;
                    }
                    around += 1;
                    let on = |axis: usize| at[axis].checked_sub(pad[axis]).filter(|at| *at < size[axis]);
                    let place = (0..dimensions).try_fold(0, |place, axis| on(axis).map(|at| place * size[axis] + at));
                    elements.extend(place.map(|place| image[place]));
                }
                let around = if counts_pad { around } else { elements.len() };
                expected.push(value(kind, &elements, around));
            }
        }
        let found = result.unwrap();
        assert_eq!(found.shape().dims(), [&[2, 2], out.as_slice()].concat());
        for (found, expected) in found.to_vec::<f64>().unwrap().iter().zip(&expected) {
            let near = (found - expected).abs() <= 1e-6 * (1.0 + expected.abs());
            assert!(near, "{kind}: {found}, {expected}; {size:?} {kernel:?} {stride:?} {pad:?}");
        }
        compared[dimensions - 1] += 1;
    }
    assert!(compared.iter().all(|count| *count > 40), "{compared:?}");
}

#[test]
fn many_images_are_pooled_in_parts_as_each_by_itself() {
    let (shape, mut draws) = ([5, 3, 100, 101], Draws::new(9));
    let values: Vec<f32> = draws.values(shape.iter().product(), -1.0, 1.0).iter().map(|value| *value as f32).collect();
    let pooled = |values: &[f32], shape: &[usize]| {
        let images = NDArray::from_slice(values, shape).unwrap();
        images.attach_grad(OpReq::Write).unwrap();
        let out = autograd::record(|| images.max_pool(&[2, 2], &[2, 2], &[])?.square()).unwrap();
        autograd::backward(&[&out]).unwrap();
        [out, images.grad().unwrap()].map(|array| array.to_vec::<f32>().unwrap())
    };
    let together = pooled(&values, &shape);
    let each: Vec<[Vec<f32>; 2]> = values.chunks(100 * 101).map(|image| pooled(image, &[1, 1, 100, 101])).collect();
    for (at, together) in together.iter().enumerate() {
        assert_eq!(*together, each.iter().flat_map(|both| both[at].clone()).collect::<Vec<f32>>());
    }
}

#[test]
fn a_whole_image_is_one_window() {
    let x = NDArray::from_slice(&[1.0f64, -2.0, 2.0, 4.0, 0.0, -3.0, 1.0, 1.0], [1, 1, 2, 2, 2]).unwrap();
    let of = |parameters: &[(&str, &str)]| {
        let parameters = [&[("global_pool", "true")], parameters].concat();
        let out = Op::new("Pooling", &parameters).unwrap().invoke(&[&x]).unwrap();
        assert_eq!(out.shape().dims(), [1, 1, 1, 1, 1]);
        out.as_scalar::<f64>().unwrap()
    };
    assert_eq!(of(&[]), 4.0);
    assert_eq!(of(&[("pool_type", "avg")]), 0.5);
    assert_eq!(of(&[("pool_type", "lp"), ("p_value", "1")]), 4.0);
    assert_eq!(of(&[("pool_type", "lp"), ("p_value", "2")]), 6.0);
    // The signs of powers count, as in MXNet: 1 - 8 + 8 + 64 + 0 - 27 + 1 + 1.
    assert!((of(&[("pool_type", "lp"), ("p_value", "3")]) - 40.0f64.cbrt()).abs() < 1e-12);
}

#[test]
fn a_norm_of_zero_has_no_slope() {
    for order in ["2", "3"] {
        let x = NDArray::from_slice(&[0.0f64, 0.0, 3.0, 4.0], [1, 1, 4]).unwrap();
        x.attach_grad(OpReq::Write).unwrap();
        let pool = [("kernel", "2"), ("stride", "2"), ("pool_type", "lp"), ("p_value", order)];
        let out = autograd::record(|| Op::new("Pooling", &pool).unwrap().invoke(&[&x])).unwrap();
        autograd::backward(&[&out]).unwrap();
        let grad = x.grad().unwrap().to_vec::<f64>().unwrap();
        assert_eq!(grad[..2], [0.0, 0.0]);
        assert!(grad[2] > 0.3 && grad[3] > grad[2]);
    }
}

/// The parameters of a call.
type Given<'a> = &'a [(&'a str, &'a str)];

#[test]
fn what_cannot_be_pooled_is_refused() {
    let images = NDArray::from_slice(&[0.0f64; 16], [1, 1, 2, 2, 2, 2]).unwrap();
    let refused = |parameters: &[(&str, &str)]| {
        let error = Op::new("Pooling", parameters).and_then(|op| op.invoke(&[&images])).unwrap_err();
        (error.kind(), error.to_string())
    };
    let cases: [(Given<'_>, ErrorKind, &str); 8] = [
        (&[("kernel", "(1,1,1)")], ErrorKind::ShapeMismatch, "3 of places"),
        (&[("global_pool", "true")], ErrorKind::ShapeMismatch, "4 of places"),
        (&[("kernel", "(1,1,1,1)")], ErrorKind::BadParameter, "one, two and three"),
        (&[("kernel", "(2,2,0)")], ErrorKind::BadParameter, "out of its range"),
        (&[("kernel", "(2,2)"), ("stride", "2")], ErrorKind::BadParameter, "stride = [2] is no list of 2 numbers"),
        (&[("kernel", "2"), ("pool_type", "lp")], ErrorKind::BadParameter, "needs p_value"),
        (&[("kernel", "2"), ("p_value", "4")], ErrorKind::BadParameter, "1..=3"),
        (&[("kernel", "2"), ("p_value", "two")], ErrorKind::BadParameter, "a whole number from 0 or None"),
    ];
    for (parameters, kind, said) in cases {
        let (found, message) = refused(parameters);
        assert!(found == kind && message.contains(said), "{parameters:?}: {message}");
    }
}
