//! Joining, parting, turning, repeating, padding and choosing: results equal written-out loops on
//! random shapes, in every type, from views; and calls that do not go together are refused.

mod common;

use common::Draws;
use seriatim_tensor::operator::Op;
use seriatim_tensor::{autograd, DType, Error, ErrorKind, NDArray, OpReq};

/// The values with indices, in order: the number of an element of a shape as its place.
fn places(shape: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for dim in shape {
        all = all.into_iter().flat_map(|place| (0..*dim).map(move |at| [&place[..], &[at]].concat())).collect();
    }
    all
}

/// The number of an element at a place.
fn number(shape: &[usize], place: &[usize]) -> i64 {
    shape.iter().zip(place).fold(0, |number, (dim, at)| number * *dim + *at) as i64
}

/// An array whose elements are their own numbers, shown by a view with turned axes.
fn counted(shape: &[usize], dtype: DType) -> NDArray {
    let turned: Vec<usize> = shape.iter().rev().copied().collect();
    let view = NDArray::zeros(&turned[..], dtype).unwrap().transpose().unwrap();
    let values: Vec<i64> = (0..shape.iter().product::<usize>() as i64).collect();
    NDArray::from_slice(&values, shape).unwrap().astype(dtype).unwrap().copy_to(&view).unwrap();
    view
}

/// Checks that the result has the shape and, place by place, the elements.
fn check(result: Result<NDArray, Error>, shape: &[usize], of: impl Fn(&[usize]) -> i64, what: &str) {
    let result = result.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(result.shape().dims(), shape, "{what}");
    let dtype = result.dtype();
    let found = result.astype(DType::F64).unwrap().to_vec::<f64>().unwrap();
    // As the type has them: 1 or 0, or rounded.
    let expected: Vec<i64> = places(shape).iter().map(|place| of(place)).collect();
    let expected = NDArray::from_slice(&expected, shape).unwrap().astype(dtype).unwrap();
    assert_eq!(found, expected.astype(DType::F64).unwrap().to_vec::<f64>().unwrap(), "{what}");
}

/// A shape of one to four axes.
fn shape(draws: &mut Draws) -> Vec<usize> {
    (0..1 + draws.below(4)).map(|_| 1 + draws.below(4)).collect()
}

#[test]
fn arrays_are_joined_and_parted() {
    let mut draws = Draws::new(1);
    for round in 0..60 {
        let (of, dtype) = (shape(&mut draws), DType::ALL[round % 9]);
        let axis = draws.below(of.len());
        let lengths: Vec<usize> = (0..1 + draws.below(3)).map(|_| draws.below(4)).collect();
        let sized = |length: usize| {
            let mut of = of.clone();
            of[axis] = length;
            of
        };
        let parts: Vec<NDArray> = lengths.iter().map(|length| counted(&sized(*length), dtype)).collect();
        let from = |place: &[usize]| {
            let (mut place, mut part) = (place.to_vec(), 0);
            while place[axis] >= lengths[part] {
                place[axis] -= lengths[part];
                part += 1;
            }
            number(&sized(lengths[part]), &place)
        };
        let joined = NDArray::concat(&parts.iter().collect::<Vec<_>>(), axis as isize - of.len() as isize);
        check(joined, &sized(lengths.iter().sum()), from, "Concat");

        let many = 1 + draws.below(3);
        let (axis, one) = (draws.below(of.len() + 1), counted(&of, dtype));
        let mut stacked = of.clone();
        stacked.insert(axis, many);
        let from = |place: &[usize]| number(&of, &[&place[..axis], &place[axis + 1..]].concat());
        check(NDArray::stack(&vec![&one; many], axis as isize), &stacked, from, "stack");

        let axis = draws.below(of.len());
        let parts = (1..=of[axis]).rfind(|parts| of[axis] % parts == 0 && *parts <= 2).unwrap();
        let length = of[axis] / parts;
        for (part, array) in one.split(parts, axis as isize).unwrap().into_iter().enumerate() {
            let mut sized = of.clone();
            sized[axis] = length;
            let from = |place: &[usize]| {
                let mut place = place.to_vec();
                place[axis] += part * length;
                number(&of, &place)
            };
            check(Ok(array), &sized, from, "split");
        }
    }
}

#[test]
fn slices_are_those_of_a_list() {
    let mut draws = Draws::new(2);
    for round in 0..200 {
        let (of, dtype) = (shape(&mut draws), DType::ALL[round % 9]);
        let x = counted(&of, dtype);
        let (mut begin, mut end, mut step, mut chosen) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for dim in &of {
            let mut any = || (draws.below(3) > 0).then(|| draws.below(13) as isize - 6);
            let (from, to) = (any(), any());
            let by = [None, Some(1), Some(2), Some(-1), Some(-3)][draws.below(5)];
            chosen.push(listed(*dim as isize, from, to, by.unwrap_or(1)));
            begin.push(from);
            end.push(to);
            step.push(by);
        }
        let sizes: Vec<usize> = chosen.iter().map(Vec::len).collect();
        let from = |place: &[usize]| {
            let place: Vec<usize> = place.iter().zip(&chosen).map(|(at, chosen)| chosen[*at]).collect();
            number(&of, &place)
        };
        check(x.slice_ranges(&begin, &end, &step), &sizes, from, "slice");

        let axis = draws.below(of.len());
        let (from, to) = (draws.below(9) as isize - 4, (draws.below(3) > 0).then(|| draws.below(9) as isize - 4));
        let chosen = listed(of[axis] as isize, Some(from), to, 1);
        let mut sizes = of.clone();
        sizes[axis] = chosen.len();
        let of_place = |place: &[usize]| {
            let mut place = place.to_vec();
            place[axis] = chosen[place[axis]];
            number(&of, &place)
        };
        check(x.slice_axis(axis as isize, from, to), &sizes, of_place, "slice_axis");
    }
}

/// The places of `list[begin:end:step]` in Python, one by one.
fn listed(length: isize, begin: Option<isize>, end: Option<isize>, step: isize) -> Vec<usize> {
    let whole = |place: isize| if place < 0 { place + length } else { place };
    let (first, behind) = if step > 0 { (0, length) } else { (length - 1, -1) };
    let mut at =
        begin.map_or(first, whole).clamp(if step > 0 { 0 } else { -1 }, if step > 0 { length } else { length - 1 });
    let end = end.map_or(behind, whole);
    let mut found = Vec::new();
    while (0..length).contains(&at) && (if step > 0 { at < end } else { at > end }) {
        found.push(at as usize);
        at += step;
    }
    found
}

#[test]
fn axes_are_turned_added_and_taken_away() {
    let mut draws = Draws::new(3);
    for round in 0..60 {
        let (of, dtype) = (shape(&mut draws), DType::ALL[round % 9]);
        let x = counted(&of, dtype);
        let mut order: Vec<usize> = (0..of.len()).collect();
        (1..of.len()).for_each(|last| order.swap(last, draws.below(last + 1)));
        let turned: Vec<usize> = order.iter().map(|axis| of[*axis]).collect();
        let text = format!("({})", order.iter().map(|axis| format!("{axis},")).collect::<String>());
        let from = |place: &[usize]| {
            let mut before = vec![0; of.len()];
            order.iter().zip(place).for_each(|(axis, at)| before[*axis] = *at);
            number(&of, &before)
        };
        check(Op::new("transpose", &[("axes", &text)]).unwrap().invoke(&[&x]), &turned, from, "transpose");

        let axis = draws.below(of.len() + 1);
        let mut more = of.clone();
        more.insert(axis, 1);
        let from = |place: &[usize]| number(&of, &[&place[..axis], &place[axis + 1..]].concat());
        let expand = Op::new("expand_dims", &[("axis", &axis.to_string())]).unwrap();
        check(expand.invoke(&[&x]), &more, from, "expand_dims");
        check(x.expand_dims(axis as isize), &more, from, "expand_dims as a view");

        let less: Vec<usize> = of.iter().copied().filter(|dim| *dim != 1).collect();
        let from = |place: &[usize]| number(&less, place);
        check(Op::new("squeeze", &[]).unwrap().invoke(&[&x]), &less, from, "squeeze");
        check(x.squeeze(&[]), &less, from, "squeeze as a view");
        let flat = [of[0], of[1..].iter().product()];
        check(Op::new("Flatten", &[]).unwrap().invoke(&[&x]), &flat, |place| number(&flat, place), "Flatten");
        let shape = [x.size()];
        check(Op::new("Reshape", &[("shape", "-1")]).unwrap().invoke(&[&x]), &shape, |at| at[0] as i64, "Reshape");
    }
}

#[test]
fn elements_are_repeated() {
    let mut draws = Draws::new(4);
    for round in 0..100 {
        let (of, dtype) = (shape(&mut draws), DType::ALL[round % 9]);
        let x = counted(&of, dtype);
        let times: Vec<usize> = (0..1 + draws.below(4)).map(|_| draws.below(4)).collect();
        let rank = times.len().max(of.len());
        let wide = |sizes: &[usize]| [vec![1; rank - sizes.len()], sizes.to_vec()].concat();
        let (dims, reps) = (wide(&of), wide(&times));
        let sizes: Vec<usize> = dims.iter().zip(&reps).map(|(dim, times)| dim * times).collect();
        let from = |place: &[usize]| {
            let place: Vec<usize> = place.iter().zip(&dims).map(|(at, dim)| at % dim).collect();
            number(&dims, &place)
        };
        check(x.tile(&times), &sizes, from, "tile");

        let (times, axis) = (draws.below(4), draws.below(of.len()));
        let mut sizes = of.clone();
        sizes[axis] *= times;
        let from = |place: &[usize]| {
            let mut place = place.to_vec();
            place[axis] /= times;
            number(&of, &place)
        };
        check(x.repeat(times, Some(axis as isize)), &sizes, from, "repeat");
        check(x.repeat(times, None), &[x.size() * times], |place| (place[0] / times) as i64, "repeat as a row");
    }
}

#[test]
fn arrays_are_padded() {
    let mut draws = Draws::new(5);
    for round in 0..100 {
        let (of, dtype) = (shape(&mut draws), DType::ALL[round % 9]);
        let mode = ["constant", "edge", "reflect"][draws.below(3)];
        let most = |dim: usize| if mode == "reflect" { dim } else { 4 };
        let widths: Vec<usize> = of.iter().flat_map(|dim| [draws.below(most(*dim)), draws.below(most(*dim))]).collect();
        let sizes: Vec<usize> = of.iter().zip(widths.chunks(2)).map(|(dim, width)| dim + width[0] + width[1]).collect();
        let from = |place: &[usize]| {
            let mut source = Vec::new();
            for ((at, dim), width) in place.iter().zip(&of).zip(widths.chunks(2)) {
                let (at, dim) = (*at as isize - width[0] as isize, *dim as isize);
                source.push(match mode {
                    _ if (0..dim).contains(&at) => at,
                    "constant" => return 1,
                    "edge" => at.clamp(0, dim - 1),
                    _ if at < 0 => -at,
                    _ => 2 * (dim - 1) - at,
                } as usize);
            }
            number(&of, &source)
        };
        let text = format!("({})", widths.iter().map(|width| format!("{width},")).collect::<String>());
        let op = Op::new("Pad", &[("pad_width", &text), ("mode", mode), ("constant_value", "1")]).unwrap();
        check(op.invoke(&[&counted(&of, dtype)]), &sizes, from, mode);
    }
}

#[test]
fn elements_are_chosen() {
    let mut draws = Draws::new(6);
    for round in 0..60 {
        let (of, dtype) = (shape(&mut draws), DType::ALL[round % 9]);
        let rows: Vec<usize> = if draws.below(2) == 0 { of[..1].to_vec() } else { of.clone() };
        // A half is not 0, though it is no whole number.
        let chosen: Vec<f32> = (0..rows.iter().product()).map(|_| [0.0, 0.5][draws.below(2)]).collect();
        let condition = NDArray::from_slice(&chosen, &rows[..]).unwrap();
        let (x, y) = (counted(&of, dtype), NDArray::zeros(&of[..], dtype).unwrap());
        y.fill(1).unwrap();
        let from = |place: &[usize]| match chosen[number(&rows, &place[..rows.len()]) as usize] {
            0.0 => 1,
            _ => number(&of, place),
        };
        check(condition.choose(&x, &y), &of, from, "where");
        if dtype != DType::Bool {
            check(x.clip(2.0, 5.0), &of, |place| number(&of, place).clamp(2, 5), "clip");
        }
    }
}

/// Elements are chosen block by block: what is missing is zero in each.
#[test]
fn a_gradient_goes_to_what_was_chosen() {
    let mut draws = Draws::new(7);
    let mut draw = |of: usize| (0..600).map(|_| draws.below(of) as f64).collect::<Vec<f64>>();
    let (chosen, given) = (draw(2), draw(9));
    let [condition, x, y, by] = [&chosen, &given, &given, &given].map(|of| NDArray::from_slice(of, [600]).unwrap());
    [&x, &y].iter().for_each(|array| array.attach_grad(OpReq::Write).unwrap());
    let out = autograd::record(|| condition.choose(&x, &y)).unwrap();
    autograd::backward_with(&[(&out, Some(&by))], false).unwrap();
    for (array, is_chosen) in [(x, 1.0), (y, 0.0)] {
        let found = array.grad().unwrap().to_vec::<f64>().unwrap();
        let expected = chosen.iter().zip(&given).map(|(which, by)| if *which == is_chosen { *by } else { 0.0 });
        assert_eq!(found, expected.collect::<Vec<f64>>(), "{is_chosen}");
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let x = NDArray::zeros([2, 3], DType::F32).unwrap();
    let y = NDArray::zeros([3, 3], DType::F32).unwrap();
    let whole = NDArray::zeros([2, 3], DType::I32).unwrap();
    let called = |name: &str, parameters: &[(&str, &str)]| Op::new(name, parameters)?.invoke(&[&x]);
    let wrong = [
        (NDArray::concat(&[&x, &y], 1), ErrorKind::ShapeMismatch, "'arg1' has shape [3, 3]"),
        (NDArray::concat(&[&x, &whole], 0), ErrorKind::UnsupportedType, "float32 and int32"),
        (NDArray::concat(&[], 0), ErrorKind::BadParameter, "1..=4096"),
        (NDArray::concat(&[&x, &x], 2), ErrorKind::OutOfRange, "axis 2"),
        (NDArray::stack(&[&x, &y], 0), ErrorKind::ShapeMismatch, "'arg1' has shape [3, 3] where [2, 3]"),
        (x.split(2, 1).map(|mut parts| parts.remove(0)), ErrorKind::ShapeMismatch, "2 equal parts"),
        (called("split", &[("num_outputs", "1"), ("squeeze_axis", "1")]), ErrorKind::ShapeMismatch, "of size 1"),
        (x.slice_ranges(&[Some(0)], &[], &[]), ErrorKind::ShapeMismatch, "no lists"),
        (x.slice_ranges(&[Some(0)], &[None], &[Some(0)]), ErrorKind::BadParameter, "step of axis 0 is 0"),
        (x.slice_axis(2, 0, None), ErrorKind::OutOfRange, "axis 2"),
        (called("transpose", &[("axes", "(0,0)")]), ErrorKind::OutOfRange, "no order"),
        (x.expand_dims(3), ErrorKind::OutOfRange, "axis 3"),
        (x.squeeze(&[0]), ErrorKind::ShapeMismatch, "not of size 1"),
        (called("Reshape", &[("shape", "(4,2)")]), ErrorKind::ShapeMismatch, "has no shape (4,2,)"),
        (called("Reshape", &[("shape", "(-1,-1)")]), ErrorKind::ShapeMismatch, "has no shape"),
        (called("Flatten", &[("axis", "1")]), ErrorKind::BadParameter, "no parameter 'axis'"),
        (x.tile(&[usize::MAX]), ErrorKind::TooLarge, "more elements"),
        (x.repeat(2, Some(2)), ErrorKind::OutOfRange, "axis 2"),
        (x.pad(&[1, 1], 0.0), ErrorKind::ShapeMismatch, "needs 4"),
        (called("Pad", &[("pad_width", "(2,0,0,0)"), ("mode", "reflect")]), ErrorKind::ShapeMismatch, "too few"),
        (x.choose(&x, &y), ErrorKind::ShapeMismatch, "'y' has shape [3, 3]"),
        (y.choose(&x, &x), ErrorKind::ShapeMismatch, "'condition' has shape [3, 3]"),
        (x.choose(&x, &whole), ErrorKind::UnsupportedType, "'y' has elements of int32"),
        (x.clip(1.0, 0.0), ErrorKind::BadParameter, "a_min = 1 is not below"),
    ];
    for (result, kind, said) in wrong {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[test]
fn shapes_are_found_in_both_directions() {
    use seriatim_tensor::Shape;
    let shape = |dims: &[usize]| Some(Shape::new(dims).unwrap());
    let concat = Op::new("Concat", &[("num_args", "2")]).unwrap();
    let (mut inputs, mut out) = (vec![shape(&[2, 3]), None], vec![shape(&[2, 7])]);
    assert!(concat.property().infer_shape(&mut inputs, &mut out, &mut []).unwrap());
    assert_eq!(inputs[1], shape(&[2, 4]));
    let stack = Op::new("stack", &[("num_args", "2"), ("axis", "-1")]).unwrap();
    let (mut inputs, mut out) = (vec![None, None], vec![shape(&[5, 2])]);
    assert!(stack.property().infer_shape(&mut inputs, &mut out, &mut []).unwrap());
    assert_eq!(inputs, [shape(&[5]), shape(&[5])]);
    let (mut inputs, mut out) = (vec![None, None], vec![None]);
    assert!(!concat.property().infer_shape(&mut inputs, &mut out, &mut []).unwrap());
    assert_eq!(concat.property().list_arguments(), ["arg0", "arg1"]);
    let split = Op::new("split", &[("num_outputs", "3")]).unwrap();
    assert_eq!(split.property().list_outputs(), ["output0", "output1", "output2"]);
}
