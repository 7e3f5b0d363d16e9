//! Picking and ordering: results equal written-out loops on random shapes, in every type, from
//! views; and places that there are not are refused, cut or wrapped.

mod common;

use common::Draws;
use seriatim_tensor::operator::{Op, NUMBERS};
use seriatim_tensor::{autograd, DType, ErrorKind, NDArray, OpReq};

/// Random whole numbers of a shape and a type, shown by a view with turned axes.
fn drawn(draws: &mut Draws, shape: &[usize], dtype: DType, below: usize) -> NDArray {
    let turned: Vec<usize> = shape.iter().rev().copied().collect();
    let values: Vec<i64> = (0..shape.iter().product()).map(|_| draws.below(below) as i64).collect();
    NDArray::from_slice(&values, &turned[..]).unwrap().astype(dtype).unwrap().transpose().unwrap()
}

fn values(array: &NDArray) -> Vec<f64> {
    array.astype(DType::F64).unwrap().to_vec().unwrap()
}

fn shape(draws: &mut Draws) -> Vec<usize> {
    (0..1 + draws.below(3)).map(|_| 1 + draws.below(4)).collect()
}

#[test]
fn elements_are_taken_at_places() {
    let mut draws = Draws::new(1);
    for round in 0..90 {
        let (of, dtype, index) = (shape(&mut draws), NUMBERS[round % 8], NUMBERS[round * 3 % 8]);
        let x = drawn(&mut draws, &of, dtype, 100);
        let axis = draws.below(of.len());
        let (outer, count): (usize, usize) = (of[..axis].iter().product(), of[axis]);
        let inner: usize = of[axis + 1..].iter().product();
        let sizes = shape(&mut draws);
        let places = drawn(&mut draws, &sizes, index, 9);
        let (elements, chosen) = (values(&x), values(&places));
        for mode in ["clip", "wrap"] {
            let op = Op::new("take", &[("axis", &axis.to_string()), ("mode", mode)]).unwrap();
            let result = op.invoke(&[&x, &places]).unwrap();
            assert_eq!(result.shape().dims(), [&of[..axis], &sizes, &of[axis + 1..]].concat());
            let mut expected = Vec::new();
            for number in 0..outer {
                for place in &chosen {
                    let place = *place as usize;
                    let place = if mode == "clip" { place.min(count - 1) } else { place % count };
                    expected.extend_from_slice(&elements[(number * count + place) * inner..][..inner]);
                }
            }
            assert_eq!(values(&result), expected, "{of:?} {axis} {mode}");
        }
        let weight = drawn(&mut draws, &[5, 3], dtype, 100);
        let result = places.embedding(&weight).unwrap();
        let rows = values(&weight);
        let expected: Vec<f64> =
            chosen.iter().flat_map(|place| rows[(*place as usize).min(4) * 3..][..3].to_vec()).collect();
        assert_eq!(values(&result), expected);

        let mut kept = of.clone();
        kept[axis] = 1;
        let index = drawn(&mut draws, &kept, index, 6);
        let picked = x.pick(&index, axis as isize).unwrap();
        let chosen = values(&index);
        let mut expected = Vec::new();
        for number in 0..outer {
            for within in 0..inner {
                let place = (chosen[number * inner + within] as usize).min(count - 1);
                expected.push(elements[(number * count + place) * inner + within]);
            }
        }
        assert_eq!(values(&picked), expected);
        let hot = places.one_hot(4, dtype).unwrap();
        let expected: Vec<f64> = values(&places)
            .iter()
            .flat_map(|place| (0..4).map(move |at| f64::from(u8::from(*place as usize == at))))
            .collect();
        assert_eq!(values(&hot), expected);
    }
}

#[test]
fn elements_are_ordered_and_the_first_of_equal_ones_comes_first() {
    let mut draws = Draws::new(2);
    for round in 0..90 {
        let (of, dtype) = (shape(&mut draws), NUMBERS[round % 8]);
        // Few values: there are many ties.
        let x = drawn(&mut draws, &of, dtype, 4);
        let axis = draws.below(of.len());
        let (outer, count): (usize, usize) = (of[..axis].iter().product(), of[axis]);
        let inner: usize = of[axis + 1..].iter().product();
        let (elements, k, ascends) = (values(&x), 1 + draws.below(count), draws.below(2) == 0);
        let (mut sorted, mut places, mut mask) =
            (vec![0.0; elements.len()], vec![0.0; elements.len()], vec![0.0; elements.len()]);
        let mut tops = vec![0.0; outer * k * inner];
        for number in 0..outer {
            for within in 0..inner {
                let at = |place: usize| (number * count + place) * inner + within;
                let mut order: Vec<usize> = (0..count).collect();
                // Stable, as the first of equal elements comes first.
                order.sort_by(|one, other| {
                    let order = elements[at(*one)].total_cmp(&elements[at(*other)]);
                    if ascends {
                        order
                    } else {
                        order.reverse()
                    }
                });
                for (to, from) in order.iter().enumerate() {
                    sorted[at(to)] = elements[at(*from)];
                    places[at(to)] = *from as f64;
                }
                for (to, from) in order[..k].iter().enumerate() {
                    mask[at(*from)] = 1.0;
                    tops[(number * k + to) * inner + within] = *from as f64;
                }
            }
        }
        let axis = axis as isize;
        assert_eq!(values(&x.sort(axis, ascends).unwrap()), sorted);
        assert_eq!(values(&x.argsort(axis, ascends).unwrap()), places);
        let topk = |returns: &str| {
            let (k, axis, ascends) = (k.to_string(), axis.to_string(), ascends.to_string());
            let parameters = [("k", &*k), ("axis", &axis), ("ret_typ", returns), ("is_ascend", &ascends)];
            Op::new("topk", &parameters).unwrap().invoke(&[&x]).unwrap()
        };
        assert_eq!(values(&topk("mask")), mask);
        assert_eq!(values(&topk("indices")), tops);
        let flat = Op::new("sort", &[("axis", "None")]).unwrap().invoke(&[&x]).unwrap();
        let mut all = elements.clone();
        all.sort_by(f64::total_cmp);
        assert_eq!(values(&flat), all);
    }
    let odd = NDArray::from_slice(&[1.0f32, f32::NAN, -f32::INFINITY, 2.0], [4]).unwrap();
    assert_eq!(odd.argsort(-1, true).unwrap().to_vec::<i64>().unwrap(), [2, 0, 3, 1]);
    assert_eq!(odd.topk(2, -1).unwrap().1.to_vec::<i64>().unwrap(), [1, 3]);
}

#[test]
fn what_does_not_go_together_is_refused() {
    let x = NDArray::zeros([2, 3], DType::F32).unwrap();
    let truths = NDArray::zeros([2], DType::Bool).unwrap();
    let far = NDArray::from_slice(&[0, 3], [2]).unwrap();
    let raise = |name: &str| Op::new(name, &[("axis", "1"), ("mode", "raise")]).unwrap().invoke(&[&x, &far]);
    let waited = |result: Result<NDArray, seriatim_tensor::Error>| result.and_then(|array| array.to_vec::<f32>());
    let wrong = [
        (waited(raise("take")), ErrorKind::OutOfRange, "place 3 is none of the 3"),
        (waited(raise("pick")), ErrorKind::OutOfRange, "'pick' of float32 [2, 3], int32 [2]: place 3"),
        (waited(x.take(&truths, 0)), ErrorKind::UnsupportedType, "'indices' has elements of bool"),
        (waited(x.take(&far, 2)), ErrorKind::OutOfRange, "axis 2"),
        (waited(NDArray::zeros([0, 3], DType::F32).unwrap().take(&far, 0)), ErrorKind::OutOfRange, "none of the 0"),
        (waited(far.embedding(&truths)), ErrorKind::ShapeMismatch, "two axes"),
        (waited(x.pick(&x, 0)), ErrorKind::ShapeMismatch, "'index' has shape [2, 3] where [3] or [1, 3]"),
        (waited(far.one_hot(0, DType::F32)), ErrorKind::BadParameter, "1.."),
        (waited(x.topk(4, 1).map(|both| both.0)), ErrorKind::ShapeMismatch, "k = 4"),
        (waited(truths.sort(0, true)), ErrorKind::UnsupportedType, "no kernel for bool"),
    ];
    for (result, kind, said) in wrong {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[test]
fn places_have_no_gradient() {
    let x = NDArray::from_slice(&[0.5f64, 1.5], [2]).unwrap();
    x.attach_grad(OpReq::Write).unwrap();
    let calls: [&dyn Fn() -> Result<NDArray, seriatim_tensor::Error>; 3] =
        [&|| x.argsort(-1, true), &|| x.one_hot(3, DType::F64), &|| Op::new("topk", &[])?.invoke(&[&x])];
    for call in calls {
        let picked = autograd::record(call).unwrap();
        let error = autograd::backward(&[&picked]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoGradient, "{error}");
    }
    // Values have one, and the places beside them add none.
    let (value, places) = autograd::record(|| x.topk(1, -1)).unwrap();
    assert_eq!(places.to_vec::<i64>().unwrap(), [1]);
    autograd::backward(&[&value]).unwrap();
    assert_eq!(x.grad().unwrap().to_vec::<f64>().unwrap(), [0.0, 1.0]);
}

#[test]
fn the_first_of_a_long_row_are_those_of_its_order() {
    // Few values, so that many are equal, and some that are no numbers.
    let of = |at: usize| if at % 97 == 5 { f32::NAN } else { ((at * 7919) % 53) as f32 };
    let x = NDArray::from_slice(&(0..900).map(of).collect::<Vec<f32>>(), [3, 300]).unwrap();
    for ascends in ["true", "false"] {
        let sorted = Op::new("argsort", &[("is_ascend", ascends), ("dtype", "int64")]).unwrap().invoke(&[&x]).unwrap();
        for k in [1, 2, 8, 16, 17, 299] {
            let parameters = [("k", &*k.to_string()), ("is_ascend", ascends), ("dtype", "int64")];
            let first = Op::new("topk", &parameters).unwrap().invoke(&[&x]).unwrap().to_vec::<i64>().unwrap();
            let expected = sorted.slice(1, 0, k, 1).unwrap().to_vec::<i64>().unwrap();
            assert_eq!(first, expected, "{k} {ascends}");
        }
    }
}
