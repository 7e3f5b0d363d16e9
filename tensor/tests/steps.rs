//! Steps: what is captured gives the same bits as what is pushed, on every engine and with any
//! number of workers. `steps/cases.rs` has what is captured, and `steps/limits.rs` the tests of
//! what a step cannot have and of what it leaves behind.

#[path = "steps/cases.rs"]
mod cases;
mod common;
#[path = "steps/limits.rs"]
mod limits;

use cases::*;
use common::{runtime, runtimes};
use seriatim::Kind;
use seriatim_tensor::optimizer::{Adam, Schedule, Sgd};
use seriatim_tensor::step::Returned;
use seriatim_tensor::{autograd, DType, Distribution, ErrorKind, NDArray, OpReq, Runtime, Step};

#[test]
fn captured_steps_give_the_bits_of_pushed_ones() {
    let cases: [(&str, Make); 11] = [
        ("inference", inference),
        ("sgd", sgd_with_a_schedule),
        ("adam", adam_with_its_number),
        ("nag", nag),
        ("ftrl", ftrl),
        ("function", function),
        ("random", random_numbers),
        ("parameters", parameters),
        ("fresh", fresh_arrays),
        ("resources", resources),
        ("mix", mix),
    ];
    for (name, make) in cases {
        let mut expected: Option<Vec<Vec<u64>>> = None;
        for (engine, runtime) in runtimes() {
            for way in [Way::Pushed, Way::Captured, Way::Ahead, Way::CapturedAhead] {
                let found = run(make, &runtime, way).unwrap_or_else(|error| panic!("{name} {engine} {way:?}: {error}"));
                let expected = expected.get_or_insert_with(|| found.clone());
                let same = if found.len() == 1 { found[0] == expected[RUNS - 1] } else { found == *expected };
                assert!(same, "{name} on {engine}, {way:?}");
            }
        }
        // Runs differ, but for the ones that should not: so a step that did nothing is noticed.
        let expected = expected.unwrap();
        assert!(expected.windows(2).all(|pair| pair[0] != pair[1]), "{name}");
    }
}

#[test]
fn a_schedule_and_a_number_of_steps_go_on_in_captured_steps() {
    let runtime = runtime(Kind::Pooled, 2);
    let weight = runtime.zeros([1], DType::F64).unwrap();
    weight.attach_grad(OpReq::Write).unwrap();
    weight.grad().unwrap().fill(1.0).unwrap();
    let mut sgd = Sgd::new(Schedule::factor(0.5, 2, 0.5, 0.0).unwrap(), 0.0, 0.0).unwrap();
    let mut step = Step::capture_on(&runtime, &[], |_| sgd.step(&[&weight], 1.0)).unwrap();
    (0..4).for_each(|_| _ = step.run(&[]).unwrap());
    sgd.step(&[&weight], 1.0).unwrap();
    assert_eq!(weight.as_scalar::<f64>().unwrap(), -(0.5 + 0.5 + 0.25 + 0.25 + 0.125));
    // A learning rate that is a number is replaced for captured steps too.
    let mut sgd = Sgd::new(1.0, 0.0, 0.0).unwrap();
    let mut step = Step::capture_on(&runtime, &[], |_| sgd.step(&[&weight], 1.0)).unwrap();
    weight.fill(0.0).unwrap();
    step.run(&[]).unwrap();
    sgd.set_learning_rate(0.25).unwrap();
    step.run(&[]).unwrap();
    assert_eq!(weight.as_scalar::<f64>().unwrap(), -1.25);
}

#[test]
fn steps_of_two_shapes_share_weights_and_an_optimiser() {
    let train = |runtime: &Runtime, captured: bool| {
        runtime.seed(3).unwrap();
        let network = Network::new(runtime).unwrap();
        let mut adam = Adam::new(0.05).unwrap();
        let of = Distribution::Uniform { low: -1.0, high: 1.0 };
        let inputs = [8, 5].map(|batch| {
            (runtime.random([batch, 9], DType::F32, of).unwrap(), runtime.ones([batch], DType::F32).unwrap())
        });
        let mut once = |data: &NDArray, label: &NDArray| {
            network.backward(data, label)?;
            adam.step(&network.all(), 1.0 / data.shape().dims()[0] as f64)
        };
        if captured {
            let mut steps = Vec::new();
            for (data, label) in &inputs {
                steps.push(Step::capture(&[data, label], |given| once(&given[0], &given[1])).unwrap());
            }
            let refused = steps[0].run(&[&inputs[1].0, &inputs[1].1]).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::ShapeMismatch, "{refused}");
            for number in [0, 0, 1, 0, 1] {
                steps[number].run(&[&inputs[number].0, &inputs[number].1]).unwrap();
            }
        } else {
            [0, 0, 1, 0, 1].into_iter().for_each(|number: usize| once(&inputs[number].0, &inputs[number].1).unwrap());
        }
        bits(&network.weights).unwrap()
    };
    let runtime = runtime(Kind::PerDevice, 2);
    assert_eq!(train(&runtime, true), train(&runtime, false));
}

#[test]
fn a_capture_leaves_what_was_recorded_before() {
    let x = NDArray::from_slice(&[3.0f32], [1]).unwrap();
    x.attach_grad(OpReq::Write).unwrap();
    let y = autograd::record(|| x.square()).unwrap();
    Step::capture(&[&x], |inputs| autograd::record(|| inputs[0].exp())).unwrap();
    autograd::backward(&[&y]).unwrap();
    assert_eq!(x.grad().unwrap().as_scalar::<f32>().unwrap(), 6.0);
}

#[test]
fn every_array_of_what_is_returned_is_usable() {
    let x = NDArray::from_slice(&[2.0f32], [1]).unwrap();
    let mut step = Step::capture(&[&x], |inputs| {
        let by = |factor: f64| inputs[0].mul_scalar(factor);
        Ok((Some(by(1.0)?), vec![by(2.0)?, by(3.0)?], [by(4.0)?, by(5.0)?], (by(6.0)?, (by(7.0)?,), by(8.0)?)))
    })
    .unwrap();
    let mut found = Vec::new();
    step.run(&[&x]).unwrap().visit(&mut |array| found.push(array.clone()));
    let (one, two, three, (four, (five,), six)) = step.returned();
    let all = one.iter().chain(two).chain(three).chain([four, five, six]);
    let values: Vec<f32> = all.map(|array| array.as_scalar::<f32>().unwrap()).collect();
    assert_eq!(values, [2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0]);
    assert_eq!(found.len(), values.len());
}

#[test]
fn inputs_may_be_written_in_place_of_a_copy() {
    let x = NDArray::zeros([2], DType::F32).unwrap();
    let mut step = Step::capture(&[&x], |inputs| Ok([inputs[0].sum()?, inputs[0].clone()])).unwrap();
    let input = step.inputs()[0].clone();
    input.copy_from_slice(&[1.0f32, 2.0]).unwrap();
    assert_eq!(step.run(&[&input]).unwrap()[0].as_scalar::<f32>().unwrap(), 3.0);
    // The example is the program's, and stays as it is.
    assert_eq!(x.to_vec::<f32>().unwrap(), [0.0; 2]);
    // A view is copied, turned around as it is.
    let wide = NDArray::from_slice(&[1.0f32, 5.0, 2.0, 6.0], [2, 2]).unwrap();
    let column = wide.transpose().unwrap().at(1).unwrap();
    assert_eq!(step.run(&[&column]).unwrap()[1].to_vec::<f32>().unwrap(), [5.0, 6.0]);
    let none = Step::capture(&[], |_| Ok(())).unwrap();
    let mut visited = 0;
    none.returned().visit(&mut |_| visited += 1);
    step.returned().visit(&mut |_| visited += 1);
    assert_eq!((visited, none.graph().len()), (2, 0));
}

#[test]
fn each_run_draws_new_numbers() {
    for (name, runtime) in runtimes() {
        let uniform = Distribution::Uniform { low: 0.0, high: 1.0 };
        runtime.seed(4).unwrap();
        let mut draw = Step::capture_on(&runtime, &[], |_| runtime.random([5], DType::F64, uniform)).unwrap();
        let drawn: Vec<Vec<f64>> = (0..3).map(|_| draw.run(&[]).unwrap().to_vec().unwrap()).collect();
        assert!(drawn[0] != drawn[1] && drawn[1] != drawn[2], "{name}");
        runtime.seed(4).unwrap();
        let pushed: Vec<Vec<f64>> =
            (0..3).map(|_| runtime.random([5], DType::F64, uniform).unwrap().to_vec().unwrap()).collect();
        assert_eq!(drawn, pushed, "{name}");
    }
}
