//! Generators of random numbers: who shares one, when a seed begins, and arrays that are shuffled.

mod common;

use common::{chi_squared, nodes, runtime, runtimes};
use rand_core::RngCore;
use seriatim::{Context, Engine, Kind};
use seriatim_tensor::operator::{unary_map, Op, SimpleOp};
use seriatim_tensor::resource::ResourceRequest;
use seriatim_tensor::{autograd, DType, Distribution, Error, ErrorKind, NDArray, OpReq, Runtime, Step};
use std::sync::{mpsc, Barrier};

const UNIFORM: Distribution = Distribution::Uniform { low: 0.0, high: 1.0 };

/// A runtime with so many generators, on two workers.
fn with_generators(generators: usize) -> Runtime {
    let engine = Engine::builder().cpu_workers(2).pin(false).build().unwrap();
    Runtime::builder(&engine).generators(generators).build()
}

#[test]
fn dropouts_on_one_generator_never_overlap() {
    let (runtime, dropout) = (with_generators(1), Op::new("Dropout", &[]).unwrap());
    // More elements than are run inside of their push.
    let x = runtime.ones([20_000], DType::F32).unwrap();
    runtime.engine().start_profiling();
    let dropped: Vec<NDArray> = autograd::train_mode(|| (0..100).map(|_| dropout.invoke(&[&x]).unwrap()).collect());
    runtime.wait_all().unwrap();
    let profile = runtime.engine().profile();
    let events = profile.events().iter().filter(|event| event.name == "Dropout");
    let mut spans: Vec<(u64, u64)> = events.map(|event| (event.start, event.end)).collect();
    spans.sort_unstable();
    assert_eq!(spans.len(), 100);
    assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "one begins before another has ended");
    drop(dropped);
}

#[test]
fn draws_on_two_generators_may_overlap() {
    static MEET: Barrier = Barrier::new(2);
    // Ends only if both operations are in it at once.
    SimpleOp::unary("meets", |x, env, out, req| {
        MEET.wait();
        let draw = f64::from(env.ctx.requested[0].get_random()?.next_u32());
        unary_map(x.0, out, req, |_| draw)
    })
    .resource_requests(&[ResourceRequest::Random])
    .register()
    .unwrap();
    let (runtime, op) = (with_generators(2), Op::new("meets", &[]).unwrap());
    let x = runtime.ones([10_000], DType::F64).unwrap();
    let both = [op.invoke(&[&x]).unwrap(), op.invoke(&[&x]).unwrap()];
    let drawn = both.map(|y| y.to_vec::<f64>().unwrap()[0]);
    assert_ne!(drawn[0], drawn[1], "streams differ");
}

#[test]
fn a_captured_step_orders_dropouts_by_their_generators() {
    let dropout = Op::new("Dropout", &[]).unwrap();
    for (generators, ordered) in [(1, true), (2, false)] {
        let runtime = with_generators(generators);
        let x = runtime.ones([8], DType::F32).unwrap();
        let step = Step::capture(&[&x], |inputs| {
            let draw = || runtime.random([8], DType::F32, UNIFORM);
            autograd::train_mode(|| {
                Ok([dropout.invoke(&[&inputs[0]])?, dropout.invoke(&[&inputs[0]])?, draw()?, draw()?])
            })
        })
        .unwrap();
        let (names, edges) = nodes(step.graph());
        for name in ["Dropout", "random"] {
            let draws: Vec<usize> = (0..names.len()).filter(|node| names[*node] == name).collect();
            assert_eq!(draws.len(), 2, "{names:?}");
            assert_eq!(edges.contains(&(draws[0], draws[1])), ordered, "{name} {generators}");
        }
    }
}

#[test]
fn generators_are_dealt_in_turn_from_the_seed_on() {
    let draw = |runtime: &Runtime| runtime.random([16], DType::F64, UNIFORM).unwrap().to_vec::<f64>().unwrap();
    let one = with_generators(1);
    one.seed(8).unwrap();
    let of_one = [draw(&one), draw(&one)];
    let three = with_generators(3);
    // What was drawn before a seed does not count.
    draw(&three);
    let parameter = three.parameter(8i64).unwrap();
    for by_parameter in [false, true] {
        match by_parameter {
            false => three.seed_in(Context::cpu_pinned(0), 8).unwrap(),
            true => three.seed_by(&parameter).unwrap(),
        }
        let of_three: Vec<Vec<f64>> = (0..4).map(|_| draw(&three)).collect();
        assert_eq!([&of_three[0], &of_three[3]], [&of_one[0], &of_one[1]], "the first generator is that of one");
        assert!(of_three[1] != of_three[0] && of_three[1] != of_one[1] && of_three[2] != of_three[1]);
    }
    assert_eq!(three.seed_in(Context::gpu(0), 8).unwrap_err().kind(), ErrorKind::UnsupportedContext);
}

/// What is drawn behind a call begins with the block behind the last one that the call has used.
#[test]
fn no_word_is_drawn_twice() {
    let runtime = with_generators(1);
    let uniform = |count: usize| runtime.random([count], DType::F64, UNIFORM).unwrap().to_vec::<f64>().unwrap();
    let x = runtime.ones([5], DType::F64).unwrap();
    runtime.seed(8).unwrap();
    // Two elements are of one block.
    let all = uniform(12);
    type Call<'a> = &'a dyn Fn() -> Result<NDArray, Error>;
    let calls: [(&str, usize, Call<'_>); 5] = [
        ("random", 3, &|| runtime.random([5], DType::F32, UNIFORM)),
        ("multinomial", 3, &|| runtime.multinomial(&[1.0, 1.0], [5])),
        ("permutation", 5, &|| runtime.permutation(5)),
        ("shuffle", 5, &|| x.shuffle()),
        ("Dropout", 2, &|| autograd::train_mode(|| x.dropout(0.5))),
    ];
    for (name, blocks, call) in calls {
        runtime.seed(8).unwrap();
        call().unwrap();
        assert_eq!(uniform(2), all[2 * blocks..2 * blocks + 2], "{name}");
    }
}

#[test]
fn a_call_gets_as_many_generators_as_it_asks_for() {
    SimpleOp::unary("draws twice", |x, env, out, req| {
        let draws = [0, 1].map(|at| env.ctx.requested[at].get_random().map(|random| f64::from(random.next_u32())));
        let [one, other] = draws;
        let difference = one? - other?;
        unary_map(x.0, out, req, |_| difference)
    })
    .resource_requests(&[ResourceRequest::Random; 2])
    .register()
    .unwrap();
    let op = Op::new("draws twice", &[]).unwrap();
    let call = |runtime: &Runtime| op.invoke(&[&runtime.ones([1], DType::F64)?])?.as_scalar::<f64>();
    assert_ne!(call(&with_generators(2)).unwrap(), 0.0);
    let error = call(&with_generators(1)).unwrap_err();
    assert!(error.kind() == ErrorKind::BadParameter && error.to_string().contains("generators"), "{error}");
}

#[test]
fn a_seed_takes_its_turn_among_the_draws() {
    let all = |runtime: &Runtime, hold: bool| {
        runtime.seed(1).unwrap();
        let (before, open) = (runtime.zeros([64], DType::F64).unwrap(), mpsc::channel::<()>());
        let (open, gate) = open;
        if hold {
            let engine = runtime.engine();
            engine.op("hold").write(before.var()).push(move |_| _ = gate.recv()).unwrap();
        }
        before.fill_random(UNIFORM).unwrap();
        runtime.seed(2).unwrap();
        let after = runtime.random([64], DType::F64, UNIFORM).unwrap();
        drop(open);
        [before.to_vec::<f64>().unwrap(), after.to_vec::<f64>().unwrap()]
    };
    let expected = all(&runtime(Kind::Naive, 0), false);
    assert_ne!(expected[0], expected[1]);
    for kind in [Kind::Pooled, Kind::PerDevice] {
        assert_eq!(all(&runtime(kind, 2), true), expected, "{kind}");
    }
}

#[test]
fn rows_are_shuffled_alike_and_stay_whole() {
    let runtime = runtime(Kind::Pooled, 1);
    runtime.seed(3).unwrap();
    let x = runtime.arange(0.0, 8.0, 1.0, DType::I32).unwrap().reshape([4, 2]).unwrap();
    let mut counts = [0; 24];
    for _ in 0..4_800 {
        let rows = x.shuffle().unwrap().to_vec::<i32>().unwrap();
        assert!(rows.chunks(2).all(|row| row[0] % 2 == 0 && row[1] == row[0] + 1), "{rows:?}");
        let order: Vec<i32> = rows.chunks(2).map(|row| row[0] / 2).collect();
        // The number of an order: how many smaller ones stand behind each.
        let behind = |at: usize| order[at + 1..].iter().filter(|other| **other < order[at]).count();
        counts[behind(0) * 6 + behind(1) * 2 + behind(2)] += 1;
    }
    assert!(chi_squared(&counts, &[200.0; 24]) < 49.7, "once in a thousand times with 23 degrees: {counts:?}");
}

#[test]
fn arrays_of_every_type_are_shuffled_by_the_seed() {
    let mut expected = None;
    for (name, runtime) in runtimes() {
        runtime.seed(5).unwrap();
        let mut found = Vec::new();
        for dtype in DType::ALL {
            let x = runtime.arange(0.0, 120.0, 1.0, dtype).unwrap();
            let mut shuffled = x.shuffle().unwrap().astype(DType::F64).unwrap().to_vec::<f64>().unwrap();
            found.push(shuffled.clone());
            shuffled.sort_by(f64::total_cmp);
            assert_eq!(shuffled, x.astype(DType::F64).unwrap().to_vec::<f64>().unwrap(), "{name} {dtype}");
        }
        // A view, in place; and what is drawn next does not depend on whether it was written.
        let x = runtime.arange(0.0, 12.0, 1.0, DType::F64).unwrap().reshape([3, 4]).unwrap();
        let (view, op) = (x.transpose().unwrap(), Op::new("_shuffle", &[]).unwrap());
        op.invoke_into(&[&view], &[(&view, OpReq::Write)]).unwrap();
        let columns = view.to_vec::<f64>().unwrap();
        assert!(columns.chunks(3).all(|column| column[1] == column[0] + 4.0 && column[2] == column[0] + 8.0));
        found.push(columns);
        op.invoke_into(&[&view], &[(&view, OpReq::Null)]).unwrap();
        found.push(runtime.random([4], DType::F64, UNIFORM).unwrap().to_vec().unwrap());
        assert_eq!(expected.get_or_insert_with(|| found.clone()), &found, "{name}");
    }
    let [none, number] = [&[0, 3][..], &[]].map(|shape| NDArray::zeros(shape, DType::F32).unwrap());
    assert_eq!(none.shuffle().unwrap().size(), 0);
    assert_eq!(number.shuffle().unwrap().as_scalar::<f32>().unwrap(), 0.0);
    let error = Op::new("_shuffle", &[("axis", "1")]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadParameter);
}
