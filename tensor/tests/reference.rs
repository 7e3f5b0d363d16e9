//! Creation, slices, arithmetic and reductions against the crate `ndarray`, on shapes, slices and
//! values that proptest draws. A failure prints the least case that it finds.
//!
//! Values are small whole numbers in `f64`, so that both sides are exact and must be equal.

use ndarray::{ArrayD, Axis, IxDyn, Slice};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use seriatim_tensor::operator::Op;
use seriatim_tensor::{DType, NDArray, Runtime};

/// Both sides of an array.
#[derive(Clone, Debug)]
struct Both {
    ours: NDArray,
    theirs: ArrayD<f64>,
}

impl Both {
    fn new(values: &[f64], shape: &[usize]) -> Both {
        let theirs = ArrayD::from_shape_vec(IxDyn(shape), values.to_vec()).unwrap();
        Both { ours: NDArray::from_slice(values, shape).unwrap(), theirs }
    }

    fn check(&self) -> TestCaseResult {
        same(&self.ours, &self.theirs)
    }
}

fn same(ours: &NDArray, theirs: &ArrayD<f64>) -> TestCaseResult {
    let shape = ours.shape();
    prop_assert_eq!(shape.dims(), theirs.shape());
    prop_assert_eq!(ours.to_vec::<f64>().unwrap(), theirs.iter().copied().collect::<Vec<f64>>());
    Ok(())
}

/// A shape of up to four axes, none of them empty.
fn shape() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(1usize..5, 0..5)
}

fn array_of(shape: Vec<usize>) -> impl Strategy<Value = Both> {
    let size = shape.iter().product::<usize>();
    prop::collection::vec(-4i32..5, size).prop_map(move |values| {
        let values: Vec<f64> = values.into_iter().map(f64::from).collect();
        Both::new(&values, &shape)
    })
}

fn array() -> impl Strategy<Value = Both> {
    shape().prop_flat_map(array_of)
}

/// A way to show an array otherwise, by numbers that are taken modulo what the array has.
#[derive(Clone, Debug)]
enum View {
    Slice { axis: usize, begin: usize, length: usize, step: usize },
    At(usize),
    Turn(usize),
    Reverse,
}

fn view() -> impl Strategy<Value = View> {
    prop_oneof![
        (0usize..4, 0usize..5, 0usize..6, 1usize..4).prop_map(|(axis, begin, length, step)| View::Slice {
            axis,
            begin,
            length,
            step
        }),
        (0usize..5).prop_map(View::At),
        (0usize..4).prop_map(View::Turn),
        Just(View::Reverse),
    ]
}

impl View {
    /// The view of both sides; `None` where the array has no axis for it.
    fn of(&self, array: &Both) -> Option<Both> {
        let (ours, theirs) = (&array.ours, &array.theirs);
        let rank = ours.ndim();
        if rank == 0 {
            return None;
        }
        Some(match *self {
            View::Slice { axis, begin, length, step } => {
                let axis = axis % rank;
                let size = ours.shape().dims()[axis];
                let begin = begin.min(size);
                let end = (begin + length).min(size);
                let slice = Slice::new(begin as isize, Some(end as isize), step as isize);
                Both {
                    ours: ours.slice(axis as isize, begin, end, step).unwrap(),
                    theirs: theirs.slice_axis(Axis(axis), slice).to_owned(),
                }
            }
            View::At(index) => {
                let size = ours.shape().dims()[0];
                if size == 0 {
                    return None;
                }
                let index = index % size;
                Both { ours: ours.at(index).unwrap(), theirs: theirs.index_axis(Axis(0), index).to_owned() }
            }
            View::Turn(by) => {
                let axes: Vec<usize> = (0..rank).map(|axis| (axis + by) % rank).collect();
                Both {
                    ours: ours.permute(&axes).unwrap(),
                    theirs: theirs.view().permuted_axes(IxDyn(&axes)).to_owned(),
                }
            }
            View::Reverse => Both { ours: ours.transpose().unwrap(), theirs: theirs.view().reversed_axes().to_owned() },
        })
    }
}

/// An array that is long enough for tiles, and for rows that are used where they lie, in a view of
/// its own.
fn long_array() -> impl Strategy<Value = Both> {
    let axis = prop_oneof![Just(1usize), 2usize..4, 15usize..18, 60usize..70, 255usize..300];
    let shapes = prop::collection::vec(axis, 2..4)
        .prop_filter("a long array", |shape| (1200..40_000).contains(&shape.iter().product::<usize>()));
    let cut = (0usize..4, 0usize..3, 1usize..3).prop_map(|(axis, begin, step)| View::Slice {
        axis,
        begin,
        length: 1000,
        step,
    });
    let view = prop_oneof![cut, (0usize..4).prop_map(View::Turn), Just(View::Reverse)];
    (shapes, prop::collection::vec(view, 0..4)).prop_map(|(shape, views)| {
        let values = (0..shape.iter().product::<usize>()).map(|at| ((at * 7919) % 101 % 9) as f64 - 4.0);
        let array = Both::new(&values.collect::<Vec<f64>>(), &shape);
        let shown = |array: Both, view: &View| view.of(&array).filter(|view| !view.theirs.is_empty()).unwrap_or(array);
        views.iter().fold(array, shown)
    })
}

/// An array of a view's shape that lies so that this axis is the last one in memory.
fn lying_along(array: &NDArray, axis: usize) -> NDArray {
    let mut order: Vec<usize> = (0..array.ndim()).filter(|other| *other != axis).collect();
    order.push(axis);
    let back: Vec<usize> = (0..array.ndim()).map(|axis| order.iter().position(|at| *at == axis).unwrap()).collect();
    array.permute(&order).unwrap().copy().unwrap().permute(&back).unwrap()
}

/// Two arrays that broadcast to each other: each axis of the longer shape may be 1 in either, and
/// leading ones may be missing.
fn broadcasting() -> impl Strategy<Value = (Both, Both)> {
    let axis = (1usize..4, 0usize..4);
    (prop::collection::vec(axis, 0..5), 0usize..5, any::<bool>()).prop_flat_map(|(axes, missing, turned)| {
        let one: Vec<usize> = axes.iter().map(|(size, ones)| if ones & 1 == 0 { *size } else { 1 }).collect();
        let other: Vec<usize> = axes.iter().map(|(size, ones)| if ones & 2 == 0 { *size } else { 1 }).collect();
        let other = other[missing.min(other.len())..].to_vec();
        let (one, other) = if turned { (other, one) } else { (one, other) };
        (array_of(one), array_of(other))
    })
}

/// Whether both are equal after `f` of theirs, which both shapes broadcast to.
fn combined(one: &Both, other: &Both, f: impl Fn(f64, f64) -> f64) -> ArrayD<f64> {
    let rank = one.theirs.ndim().max(other.theirs.ndim());
    let dims = |array: &ArrayD<f64>| [vec![1; rank - array.ndim()], array.shape().to_vec()].concat();
    let (a, b) = (dims(&one.theirs), dims(&other.theirs));
    let shape: Vec<usize> = a.iter().zip(&b).map(|(a, b)| if *a == 1 { *b } else { *a }).collect();
    let [one, other] = [one, other].map(|both| both.theirs.broadcast(IxDyn(&shape)).unwrap());
    let values = one.iter().zip(other.iter()).map(|(one, other)| f(*one, *other));
    ArrayD::from_shape_vec(IxDyn(&shape), values.collect()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arrays_are_made_as_by_ndarray(
        shape in shape(),
        value in -9i32..10,
        (start, count, step) in (-9i32..10, 0usize..40, prop_oneof![-3i32..0, 1i32..4]),
        (rows, columns) in (0usize..6, 1usize..6),
    ) {
        let runtime = Runtime::global().unwrap();
        same(&runtime.zeros(&shape, DType::F64).unwrap(), &ArrayD::zeros(IxDyn(&shape)))?;
        same(&runtime.ones(&shape, DType::F64).unwrap(), &ArrayD::ones(IxDyn(&shape)))?;
        let full = ArrayD::from_elem(IxDyn(&shape), f64::from(value));
        same(&runtime.full(&shape, DType::F64, value).unwrap(), &full)?;
        let [start, step] = [start, step].map(f64::from);
        // Half a step before the end, so that rounding decides nothing.
        let end = start + (count as f64 - 0.5) * step;
        let range = ndarray::Array1::from_shape_fn(count, |at| start + at as f64 * step).into_dyn();
        same(&runtime.arange(start, end, step, DType::F64).unwrap(), &range)?;
        let eye = ndarray::Array2::from_shape_fn((rows, columns), |(row, column)| f64::from(u8::from(row == column)));
        same(&runtime.eye(rows, columns, 0, DType::F64).unwrap(), &eye.into_dyn())?;
        if rows == columns {
            same(&runtime.eye(rows, rows, 0, DType::F64).unwrap(), &ndarray::Array2::eye(rows).into_dyn())?;
        }
    }

    #[test]
    fn views_show_what_those_of_ndarray_show(array in array(), views in prop::collection::vec(view(), 0..5)) {
        let mut shown = array.clone();
        for view in views {
            let Some(next) = view.of(&shown) else { break };
            next.check()?;
            shown = next;
        }
        // What is written through the last view is seen in the first array, and nothing else is.
        let before = array.ours.copy().unwrap();
        shown.ours.fill(100).unwrap();
        let same_still = array.ours.equal(&before).unwrap().sum().unwrap().as_scalar::<f64>().unwrap();
        prop_assert_eq!(array.theirs.len() as f64 - same_still, shown.theirs.len() as f64);
        prop_assert!(shown.ours.to_vec::<f64>().unwrap().iter().all(|value| *value == 100.0));
        shown.ours.copy_from_slice(&shown.theirs.iter().copied().collect::<Vec<f64>>()).unwrap();
        array.check()?;
    }

    #[test]
    fn arithmetic_broadcasts_as_that_of_ndarray((one, other) in broadcasting()) {
        let (a, b) = (&one.ours, &other.ours);
        same(&a.add(b).unwrap(), &combined(&one, &other, |a, b| a + b))?;
        same(&a.sub(b).unwrap(), &combined(&one, &other, |a, b| a - b))?;
        same(&a.mul(b).unwrap(), &combined(&one, &other, |a, b| a * b))?;
        same(&a.maximum(b).unwrap(), &combined(&one, &other, f64::max))?;
        // No quotient by 0: both would be NaN, which is equal to nothing.
        let ours = b.square().unwrap().add_scalar(1.0).unwrap();
        let divisor = Both { ours, theirs: &other.theirs * &other.theirs + 1.0 };
        same(&a.div(&divisor.ours).unwrap(), &combined(&one, &divisor, |a, b| a / b))?;
        // The crate's own sum, where its rule has the same result: only the second broadcasts.
        let shape = combined(&one, &other, |a, _| a);
        if shape.shape() == one.theirs.shape() {
            same(&a.add(b).unwrap(), &(&one.theirs + &other.theirs))?;
            a.add_assign(b).unwrap();
            same(a, &(&one.theirs + &other.theirs))?;
        }
    }

    #[test]
    fn reductions_are_those_of_ndarray(
        array in array(),
        views in prop::collection::vec(view(), 0..2),
        axis in 0usize..4,
    ) {
        let mut shown = array;
        for view in views {
            shown = view.of(&shown).unwrap_or(shown);
        }
        let Both { ours, theirs } = &shown;
        same(&ours.sum().unwrap(), &ArrayD::from_elem(IxDyn(&[]), theirs.sum()))?;
        if theirs.ndim() == 0 || theirs.is_empty() {
            return Ok(());
        }
        let axis = axis % theirs.ndim();
        let reduce = |name: &str| {
            Op::new(name, &[("axis", &axis.to_string())]).unwrap().invoke(&[ours]).unwrap()
        };
        same(&reduce("sum"), &theirs.sum_axis(Axis(axis)))?;
        let size = theirs.shape()[axis] as f64;
        same(&reduce("mean"), &theirs.sum_axis(Axis(axis)).mapv(|sum| sum / size))?;
        same(&reduce("prod"), &theirs.fold_axis(Axis(axis), 1.0, |product, value| product * value))?;
        same(&reduce("max"), &theirs.fold_axis(Axis(axis), f64::NEG_INFINITY, |most, value| most.max(*value)))?;
        same(&reduce("min"), &theirs.fold_axis(Axis(axis), f64::INFINITY, |least, value| least.min(*value)))?;
    }

    #[test]
    fn long_arrays_move_as_those_of_ndarray(shown in long_array(), axis in 0usize..3, other in 0usize..3) {
        let Both { ours, theirs } = &shown;
        let (axis, other) = (axis % theirs.ndim(), other % theirs.ndim());
        let copy = ours.copy().unwrap();
        same(&copy, theirs)?;
        same(&ours.astype(DType::F32).unwrap().astype(DType::F64).unwrap(), theirs)?;
        let turned = lying_along(ours, axis);
        same(&turned, theirs)?;
        let doubled = theirs.mapv(|value| 2.0 * value);
        same(&ours.add(&turned).unwrap(), &doubled)?;
        same(&turned.add(&copy).unwrap(), &doubled)?;
        let row = ours.slice(axis as isize, 0, 1, 1).unwrap();
        let expected = theirs + &theirs.slice_axis(Axis(axis), Slice::new(0, Some(1), 1));
        same(&ours.add(&row).unwrap(), &expected)?;
        // In place, in whatever order the elements lie; nothing beside them changes.
        turned.add_assign(&lying_along(ours, other)).unwrap();
        same(&turned, &doubled)?;
        turned.sub_assign(&turned).unwrap();
        same(&turned, &theirs.mapv(|_| 0.0))?;
        let joined = NDArray::concat(&[ours, &copy], axis as isize).unwrap();
        same(&joined, &ndarray::concatenate(Axis(axis), &[theirs.view(), theirs.view()]).unwrap())?;
        let middle = joined.slice(axis as isize, 1, theirs.shape()[axis] + 1, 1).unwrap();
        middle.fill(7).unwrap();
        let sevens = joined.equal_scalar(7.0).unwrap().sum().unwrap().as_scalar::<f64>().unwrap();
        prop_assert_eq!(sevens, theirs.len() as f64);
    }

    #[test]
    fn reductions_have_the_same_bits_however_an_array_lies(shown in long_array(), axes in 1usize..8, nan in any::<bool>()) {
        // Fractions that round at every step, zeros of both signs, and perhaps what is no number.
        let mut values = shown.ours.mul(&shown.ours).unwrap().add_scalar(0.1).unwrap();
        values = shown.ours.div(&values).unwrap().mul(&shown.ours.greater_scalar(0.0).unwrap()).unwrap();
        if nan {
            values = values.add(&shown.ours.equal_scalar(4.0).unwrap().log().unwrap().mul_scalar(0.0).unwrap()).unwrap();
        }
        let chosen: Vec<usize> = (0..values.ndim()).filter(|axis| axes >> axis & 1 == 1).collect();
        let text = format!("({})", chosen.iter().map(|axis| format!("{axis},")).collect::<String>());
        let bits = |name: &str, array: &NDArray| -> Vec<u64> {
            let single = Op::new(name, &[("axis", &chosen[0].to_string())]);
            let op = if name.starts_with("arg") { single } else { Op::new(name, &[("axis", &text)]) };
            let values = op.unwrap().invoke(&[array]).unwrap().to_vec::<f64>().unwrap();
            values.into_iter().map(f64::to_bits).collect()
        };
        if chosen.is_empty() {
            return Ok(());
        }
        for name in ["sum", "mean", "norm", "prod", "max", "min", "argmax", "argmin"] {
            let expected = bits(name, &values);
            for axis in 0..values.ndim() {
                prop_assert_eq!(&bits(name, &lying_along(&values, axis)), &expected, "{} along {}", name, axis);
            }
            // Beside other elements.
            let wide = NDArray::concat(&[&values, &values], -1).unwrap();
            let part = wide.slice(-1, 0, *values.shape().dims().last().unwrap(), 1).unwrap();
            prop_assert_eq!(&bits(name, &part), &expected, "{} of a part", name);
        }
    }

    #[test]
    fn long_reductions_are_those_of_ndarray(shown in long_array(), axis in 0usize..3) {
        let Both { ours, theirs } = &shown;
        let axis = axis % theirs.ndim();
        let reduce = |name: &str| Op::new(name, &[("axis", &axis.to_string())]).unwrap().invoke(&[ours]).unwrap();
        same(&reduce("sum"), &theirs.sum_axis(Axis(axis)))?;
        same(&reduce("max"), &theirs.fold_axis(Axis(axis), f64::NEG_INFINITY, |most, value| most.max(*value)))?;
        same(&reduce("min"), &theirs.fold_axis(Axis(axis), f64::INFINITY, |least, value| least.min(*value)))?;
        let first = |lane: ndarray::ArrayView1<'_, f64>| {
            let most = lane.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            lane.iter().position(|value| *value == most).unwrap() as f64
        };
        same(&reduce("argmax"), &theirs.map_axis(Axis(axis), first))?;
        same(&ours.sum().unwrap(), &ArrayD::from_elem(IxDyn(&[]), theirs.sum()))?;
    }
}
