//! Arrays: order, views, memory, types, and the errors of calls and of waits.

mod common;
#[path = "../examples/order.rs"]
mod order;

use common::{runtime, runtimes, Draws};
use seriatim::{Context, Engine, Event, Kind};
use seriatim_tensor::operator::Op;
use seriatim_tensor::storage::{Storage, Tag};
use seriatim_tensor::{DType, Distribution, Error, ErrorKind, NDArray, Runtime};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Holds up all later operations on an array until the sender is dropped.
fn hold(array: &NDArray) -> mpsc::Sender<()> {
    let (open, gate) = mpsc::channel::<()>();
    let engine = array.runtime().engine();
    engine.op("hold").write(array.var()).push(move |_| _ = gate.recv()).unwrap();
    open
}

#[test]
fn calls_return_before_their_work_is_done() {
    let runtime = runtime(Kind::PerDevice, 2);
    let x = runtime.full([4], DType::F32, 2.0).unwrap();
    let open = hold(&x);
    let began = Instant::now();
    let y = x.add_scalar(1.0).unwrap();
    x.mul_scalar_assign(10.0).unwrap();
    let view = x.slice(0, 1, 3, 1).unwrap();
    let z = view.add(&y.slice(0, 0, 2, 1).unwrap()).unwrap();
    assert!(began.elapsed() < Duration::from_secs(5), "the calls did not wait");
    drop(open);
    assert_eq!(z.to_vec::<f32>().unwrap(), [23.0, 23.0]);
}

#[test]
fn views_are_read_and_written_in_push_order() {
    for (name, runtime) in runtimes() {
        let x = runtime.arange(0.0, 12.0, 1.0, DType::I64).unwrap().reshape([3, 4]).unwrap();
        x.transpose().unwrap().slice(0, 1, 4, 2).unwrap().mul_scalar_assign(-1.0).unwrap();
        let before = x.copy().unwrap();
        x.at(1).unwrap().fill(100).unwrap();
        assert_eq!(before.to_vec::<i64>().unwrap(), [0, -1, 2, -3, 4, -5, 6, -7, 8, -9, 10, -11], "{name}");
        assert_eq!(x.to_vec::<i64>().unwrap(), [0, -1, 2, -3, 100, 100, 100, 100, 8, -9, 10, -11], "{name}");
        // What is written overlaps what is read: as if all were read first.
        x.reshape([12])
            .unwrap()
            .slice(0, 1, 12, 1)
            .unwrap()
            .copy_to(&x.reshape([12]).unwrap().slice(0, 0, 11, 1).unwrap())
            .unwrap();
        assert_eq!(x.to_vec::<i64>().unwrap(), [-1, 2, -3, 100, 100, 100, 100, 8, -9, 10, -11, -11], "{name}");
        let deep = runtime.arange(0.0, 24.0, 1.0, DType::I64).unwrap().reshape([2, 3, 4]).unwrap();
        let expected: Vec<i64> = (0..24).map(|at| at / 6 + at / 2 % 3 * 4 + at % 2 * 12).collect();
        assert_eq!(deep.permute(&[2, 1, 0]).unwrap().to_vec::<i64>().unwrap(), expected, "{name}");
    }
}

#[test]
fn memory_is_freed_behind_the_last_reader() {
    for (name, runtime) in runtimes() {
        let storage = runtime.storage().clone();
        let x = runtime.full([1000], DType::F64, 7.0).unwrap();
        let readers: Vec<NDArray> = (0..300).map(|number| x.add_scalar(f64::from(number)).unwrap()).collect();
        drop(x);
        // A new array may get the block, but only when all have read it.
        let other = runtime.full([1000], DType::F64, -1.0).unwrap();
        for (number, reader) in readers.iter().enumerate() {
            assert_eq!(reader.to_vec::<f64>().unwrap(), vec![7.0 + number as f64; 1000], "{name}");
        }
        drop((readers, other));
        runtime.wait_all().unwrap();
        assert_eq!(storage.statistics(Context::cpu(0)).unwrap().live, 0, "{name}");
    }
}

#[test]
fn the_program_of_the_document_runs() {
    for (name, runtime) in runtimes() {
        let (b, c) = order::program(&runtime).unwrap();
        assert_eq!((b.as_scalar::<i32>().unwrap(), c.as_scalar::<i32>().unwrap()), (4, 4), "{name}");
    }
}

#[test]
fn a_trace_of_the_documents_program_shows_its_order() {
    for (name, runtime) in runtimes() {
        runtime.engine().start_profiling();
        let (b, c) = order::program(&runtime).unwrap();
        runtime.wait_all().unwrap();
        let profile = runtime.engine().profile();
        let of = |event: &Event| order::described(&profile, event);
        let found: BTreeMap<String, BTreeSet<String>> = profile
            .events()
            .iter()
            .map(|event| {
                let before: Vec<&Event> =
                    order::before(&profile, event).iter().map(|at| &profile.events()[*at]).collect();
                assert!(before.iter().all(|other| other.end <= event.start), "{name}: {} is early", of(event));
                (of(event), before.iter().map(|other| of(other)).collect())
            })
            .collect();
        // A = 2 and B = 2 wait for nothing, and B = A + B and C = A + 2 not for each other.
        let [two_a, two_b, add, plus, delete] =
            ["fill of A", "fill of B", "elemwise_add of A, B", "_plus_scalar of A, C", "delete variable of A"];
        let expected = [
            (two_a, vec![]),
            (two_b, vec![]),
            (add, vec![two_a, two_b]),
            (plus, vec![two_a]),
            (delete, vec![two_a, add, plus]),
        ];
        let texts = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect::<BTreeSet<String>>();
        assert_eq!(found, expected.map(|(of, before)| (of.to_owned(), texts(before))).into(), "{name}");
        drop((b, c));
    }
}

/// The fourth to the seventh line of the document's picture: while B = 2 has not ended, C = A + 2
/// has, and A is still there for B = A + B.
#[test]
fn the_program_of_the_document_goes_on_where_it_can() {
    let runtime = runtime(Kind::PerDevice, 2);
    let of = |value: i32| runtime.full([1], DType::I32, value).unwrap();
    let tag = Tag::new("A of the document").unwrap();
    let (a, b) = (tag.scope(|| of(2)), of(0));
    let live = || runtime.storage().statistics_of(tag, Context::cpu(0)).unwrap().live;
    let open = hold(&b);
    b.fill(2).unwrap();
    b.add_assign(&a).unwrap();
    let c = a.add_scalar(2.0).unwrap();
    drop(a);
    assert_eq!((c.as_scalar::<i32>().unwrap(), live()), (4, 64));
    drop(open);
    assert_eq!(b.as_scalar::<i32>().unwrap(), 4);
    runtime.wait_all().unwrap();
    assert_eq!(live(), 0);
}

#[test]
fn a_change_in_place_makes_no_array() {
    let runtime = runtime(Kind::Naive, 0);
    let (x, y) = (runtime.ones([5000], DType::F32).unwrap(), runtime.ones([5000], DType::F32).unwrap());
    runtime.wait_all().unwrap();
    let before = runtime.storage().statistics(Context::cpu(0)).unwrap();
    let versions = runtime.engine().version(x.var()).unwrap();
    x.add_assign(&y).unwrap();
    runtime.wait_all().unwrap();
    let after = runtime.storage().statistics(Context::cpu(0)).unwrap();
    assert_eq!(after, before);
    assert_eq!(runtime.engine().version(x.var()).unwrap() - versions, 1);
}

#[test]
fn arrays_of_every_type_are_made_and_converted() {
    let runtime = Runtime::global().unwrap();
    for from in DType::ALL {
        let x = runtime.arange(0.0, 3.0, 1.0, from).unwrap();
        for to in DType::ALL {
            let y = x.astype(to).unwrap();
            let values = y.astype(DType::F64).unwrap().to_vec::<f64>().unwrap();
            let is_truth = [from, to].contains(&DType::Bool);
            assert_eq!(values, if is_truth { [0.0, 1.0, 1.0] } else { [0.0, 1.0, 2.0] }, "{from} {to}");
        }
    }
    let large = runtime.from_slice(&[i64::MAX, i64::MIN], [2]).unwrap();
    assert_eq!(large.copy().unwrap().to_vec::<i64>().unwrap(), [i64::MAX, i64::MIN]);
    assert_eq!(large.add_scalar(1.0).unwrap().to_vec::<i64>().unwrap(), [i64::MIN, i64::MIN + 1]);
    assert_eq!(large.astype(DType::I32).unwrap().to_vec::<i32>().unwrap(), [-1, 0]);
    let error = runtime.ones([2], DType::Bool).unwrap().add_scalar(1.0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsupportedType);
    assert!(error.to_string().contains("'_plus_scalar' of bool [2]") && error.to_string().contains("int64"), "{error}");
    assert_eq!(runtime.ones([2], DType::I8).unwrap().exp().unwrap_err().kind(), ErrorKind::UnsupportedType);
}

#[test]
fn a_cast_has_the_same_bits_in_any_layout() {
    let runtime = Runtime::global().unwrap();
    // With ties of 16 bits, and with more digits than they or an f32 have.
    let mut values: Vec<f64> = (0..300).map(|at| f64::from(at) * 0.37 - 50.0).collect();
    values.extend([1.0 + 2f64.powi(-8), 1.0 + 2f64.powi(-8) + 2f64.powi(-23), 1.0 + 2f64.powi(-11), 70_000.0, 1e300]);
    values.extend([f64::INFINITY, -0.0, 1e-42, 16_777_217.0]);
    for from in DType::ALL {
        let x = runtime.from_slice(&values, [values.len()]).unwrap().astype(from).unwrap();
        // Each second element of one with all of them twice.
        let apart = NDArray::stack(&[&x, &x], 1).unwrap().slice(1, 0, 1, 1).unwrap();
        for to in DType::ALL {
            let [one, other] = [&x, &apart].map(|x| x.astype(to).unwrap().astype(DType::F64).unwrap());
            let [one, other] = [one, other].map(|x| x.to_vec::<f64>().unwrap());
            let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<u64>>();
            assert_eq!(bits(&one), bits(&other), "{from} {to}");
        }
    }
}

#[test]
fn arrays_without_axes_or_elements_work() {
    let runtime = Runtime::global().unwrap();
    let number = runtime.from_slice(&[3.0f32], [0usize; 0]).unwrap();
    assert_eq!(number.add(&number).unwrap().as_scalar::<f32>().unwrap(), 6.0);
    assert_eq!(number.reshape([1, 1]).unwrap().ndim(), 2);
    let none = runtime.zeros([3, 0, 2], DType::F32).unwrap();
    assert_eq!(none.exp().unwrap().add(&number).unwrap().to_vec::<f32>().unwrap(), [0f32; 0]);
    assert_eq!(none.sum().unwrap().as_scalar::<f32>().unwrap(), 0.0);
    assert_eq!(none.max().unwrap_err().kind(), ErrorKind::ShapeMismatch);
    let sums = Op::new("sum", &[("axis", "1")]).unwrap().invoke(&[&none]).unwrap();
    assert_eq!((sums.shape().dims(), sums.to_vec::<f32>().unwrap()), (&[3, 2][..], vec![0.0; 6]));
    let product = runtime.zeros([2, 0], DType::F32).unwrap().dot(&runtime.zeros([0, 3], DType::F32).unwrap()).unwrap();
    assert_eq!(product.to_vec::<f32>().unwrap(), [0.0; 6]);
    assert_eq!(none.softmax().unwrap().size(), 0);
    // Nothing was ever written, and nothing is there to be read.
    assert_eq!(runtime.empty([0], DType::F64).unwrap().to_vec::<f64>().unwrap(), [0f64; 0]);
}

#[test]
fn more_elements_than_thirty_one_bits_count_are_shown() {
    // A view needs no memory for them; three of its elements are looked at.
    let runtime = Runtime::global().unwrap();
    let row = runtime.arange(0.0, 3.0, 1.0, DType::U8).unwrap();
    let large = row.broadcast_to([1 << 31, 3]).unwrap();
    assert_eq!(large.size(), 3 << 31);
    assert_eq!(large.at((1 << 31) - 1).unwrap().to_vec::<u8>().unwrap(), [0, 1, 2]);
    assert_eq!(runtime.empty([usize::MAX / 8], DType::F32).unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(runtime.empty([1; 9], DType::F32).unwrap_err().kind(), ErrorKind::TooLarge);
}

#[test]
fn memory_beyond_the_limit_fails_the_operation_and_what_follows() {
    for kind in [Kind::Naive, Kind::PerDevice] {
        let engine = Engine::builder().kind(kind).pin(false).build().unwrap();
        let storage = Storage::builder().limit(1 << 20).build();
        let runtime = Runtime::builder(&engine).storage(storage.clone()).build();
        let x = runtime.ones([1000], DType::F32).unwrap();
        let large = runtime.ones([600, 1000], DType::F32).unwrap();
        let after = large.exp().unwrap().add(&x).map(|sum| sum.sum());
        let after = after.unwrap_or_else(|_| large.sum()).unwrap();
        let error = after.wait_to_read().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
        let text = error.to_string();
        for said in ["'fill'", "float32 [600, 1000]", "2400000 bytes", "1048576 bytes", "cpu(0)"] {
            assert!(text.contains(said), "{said}: {text}");
        }
        // What does not depend on it goes on.
        assert_eq!(x.sum().unwrap().as_scalar::<f32>().unwrap(), 1000.0);
        drop((x, large, after));
        let _ = runtime.wait_all();
        assert_eq!(storage.statistics(Context::cpu(0)).unwrap().live, 0);
        // Kept blocks make room.
        runtime.ones([250, 1000], DType::F32).unwrap().wait_to_read().unwrap();
    }
}

#[test]
fn failures_name_the_operator_and_its_arguments() {
    let runtime = Runtime::global().unwrap();
    let empty = runtime.empty([2, 2], DType::F64).unwrap();
    let full = runtime.ones([2, 2], DType::F64).unwrap();
    let sum = full.add(&empty).unwrap().exp().unwrap();
    let error = sum.wait_to_read().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unwritten);
    assert!(error.to_string().contains("operator 'elemwise_add' of float64 [2, 2], float64 [2, 2]"), "{error}");
    let error = full.add(&runtime.ones([3], DType::F64).unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ShapeMismatch);
    assert!(error.to_string().contains("[2, 2]") && error.to_string().contains("[3]"), "{error}");
    let kinds: Vec<ErrorKind> = [
        full.slice(2, 0, 1, 1).err(),
        full.slice(0, 1, 3, 1).err(),
        full.at(2).err(),
        full.reshape([5]).err(),
        full.permute(&[0, 0]).err(),
        full.broadcast_to([2]).err(),
        full.copy_from_slice(&[1.0f32; 4]).err(),
        full.copy_from_slice(&[1.0f64; 3]).err(),
        full.as_scalar::<f64>().err(),
        full.dot(&runtime.ones([3, 2], DType::F64).unwrap()).err(),
        full.add(&runtime.ones([2, 2], DType::F32).unwrap()).err(),
    ]
    .map(|error| error.map_or(ErrorKind::Io, |error| error.kind()))
    .into();
    use ErrorKind::*;
    let mismatch = ShapeMismatch;
    let expected = [
        OutOfRange,
        OutOfRange,
        OutOfRange,
        mismatch,
        OutOfRange,
        mismatch,
        UnsupportedType,
        mismatch,
        mismatch,
        mismatch,
        UnsupportedType,
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn waits_for_writers_and_for_readers_differ() {
    let runtime = runtime(Kind::PerDevice, 2);
    let x = runtime.ones([2], DType::F32).unwrap();
    x.wait_to_read().unwrap();
    let (open, gate) = mpsc::channel::<()>();
    runtime.engine().op("reads").read(x.var()).push(move |_| _ = gate.recv()).unwrap();
    x.wait_to_read().unwrap();
    let timeout = Duration::from_millis(20);
    assert!(runtime.engine().wait_until_unused_timeout(x.var(), timeout).is_err());
    drop(open);
    x.wait_to_write().unwrap();
}

#[test]
fn an_engine_that_is_stopped_keeps_nothing_waiting() {
    let runtime = runtime(Kind::PerDevice, 1);
    let (x, y) = (runtime.ones([8], DType::F32).unwrap(), runtime.ones([8], DType::F32).unwrap());
    runtime.engine().stop().unwrap();
    assert_eq!(x.exp().unwrap_err().kind(), ErrorKind::Engine);
    drop(x);
    assert!(runtime.lost() >= 1);
    runtime.engine().start().unwrap();
    assert_eq!(y.sum().unwrap().as_scalar::<f32>().unwrap(), 8.0);
}

#[test]
fn draws_follow_from_the_seed_and_the_order_of_pushes() {
    let all = |runtime: &Runtime| -> Result<Vec<f64>, Error> {
        runtime.seed(3)?;
        let odd = runtime.random([301], DType::F64, Distribution::Uniform { low: 0.0, high: 1.0 })?;
        let more = runtime.random([7], DType::F64, Distribution::Normal { mean: 0.0, deviation: 1.0 })?;
        let view = runtime.zeros([4, 2], DType::F64)?;
        view.transpose()?.fill_random(Distribution::Exponential { rate: 1.0 })?;
        Ok([odd.to_vec()?, more.to_vec()?, view.transpose()?.to_vec()?].concat())
    };
    let expected = all(&runtime(Kind::Naive, 0)).unwrap();
    for (name, runtime) in runtimes() {
        for _ in 0..3 {
            assert_eq!(all(&runtime).unwrap(), expected, "{name}");
        }
    }
    // Parts of a fill are as the fill: rows are drawn from where the whole stands.
    let mut counts = [0; 3];
    let order = runtime(Kind::Naive, 0).permutation(3000).unwrap().to_vec::<i64>().unwrap();
    order.iter().for_each(|number| counts[(number % 3) as usize] += 1);
    assert_eq!(counts, [1000; 3]);
    assert!(order.iter().zip(0..).filter(|(one, other)| **one == *other).count() < 12);
}

/// Random programs on arrays, against the same on vectors.
#[test]
fn random_programs_equal_their_serial_run() {
    for (name, runtime) in runtimes() {
        for seed in 0..8 {
            let mut draws = Draws::new(seed);
            let (rows, columns) = (3, 5);
            let mut values: Vec<Vec<i64>> = (0..5).map(|_| vec![1; rows * columns]).collect();
            let arrays: Vec<NDArray> = values.iter().map(|v| runtime.from_slice(v, [rows, columns]).unwrap()).collect();
            for _ in 0..120 {
                let (to, from) = (draws.below(5), draws.below(5));
                let row = draws.below(rows);
                match draws.below(5) {
                    0 => {
                        arrays[to].add_assign(&arrays[from]).unwrap();
                        let added = values[from].clone();
                        values[to].iter_mut().zip(added).for_each(|(value, added)| *value = value.wrapping_add(added));
                    }
                    1 => {
                        arrays[to].at(row).unwrap().mul_scalar_assign(3.0).unwrap();
                        let row = &mut values[to][row * columns..][..columns];
                        row.iter_mut().for_each(|value| *value = value.wrapping_mul(3));
                    }
                    2 => {
                        arrays[from].at(row).unwrap().copy_to(&arrays[to].at(0).unwrap()).unwrap();
                        let copied = values[from][row * columns..][..columns].to_vec();
                        values[to][..columns].copy_from_slice(&copied);
                    }
                    3 => {
                        // Rows from below, over themselves: the views overlap.
                        let (up, down) = (arrays[to].slice(0, 0, 2, 1).unwrap(), arrays[to].slice(0, 1, 3, 1).unwrap());
                        down.sub_assign(&up).unwrap();
                        let old = values[to].clone();
                        for at in columns..rows * columns {
                            values[to][at] = old[at].wrapping_sub(old[at - columns]);
                        }
                    }
                    _ => {
                        let made = arrays[from].add_scalar(7.0).unwrap();
                        made.copy_to(&arrays[to]).unwrap();
                        values[to] = values[from].iter().map(|value| value.wrapping_add(7)).collect();
                    }
                }
            }
            for (array, values) in arrays.iter().zip(&values) {
                assert_eq!(&array.to_vec::<i64>().unwrap(), values, "{name}, seed {seed}");
            }
        }
    }
}

#[test]
fn truth_values_come_back() {
    let values = [true, false, true];
    assert_eq!(NDArray::from_slice(&values, [3]).unwrap().to_vec::<bool>().unwrap(), values);
}
