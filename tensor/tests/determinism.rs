//! The same bits for 0, 1, 2, 3 and 16 workers and on every engine: hashes of what programs compute
//! there, with pauses between pushes that move the work from thread to thread.

mod common;

use common::{runtimes, Draws};
use seriatim_tensor::operator::Op;
use seriatim_tensor::optimizer::Sgd;
use seriatim_tensor::{autograd, DType, Distribution, Error, NDArray, OpReq, Runtime, Step};
use std::hash::{DefaultHasher, Hash, Hasher};

fn hash(arrays: &[&NDArray]) -> Result<u64, Error> {
    let mut hasher = DefaultHasher::new();
    for array in arrays {
        array.astype(DType::F64)?.to_vec::<f64>()?.iter().for_each(|value| value.to_bits().hash(&mut hasher));
    }
    Ok(hasher.finish())
}

/// Pauses that differ from call to call, and that no result depends on.
fn pause(draws: &mut Draws) {
    if draws.below(8) == 0 {
        std::thread::sleep(std::time::Duration::from_micros(draws.below(200) as u64));
    }
}

/// A perceptron that is trained on numbers of the generator.
fn train(runtime: &Runtime, pauses: &mut Draws) -> Result<u64, Error> {
    runtime.seed(11)?;
    let of = |shape: &[usize]| {
        let weight = runtime.random(shape, DType::F32, Distribution::Normal { mean: 0.0, deviation: 0.2 })?;
        weight.attach_grad(OpReq::Write)?;
        Ok::<NDArray, Error>(weight)
    };
    let weights = [of(&[96, 70])?, of(&[96])?, of(&[10, 96])?, of(&[10])?];
    let [w1, b1, w2, b2] = &weights;
    let (first, second) =
        (Op::new("FullyConnected", &[("num_hidden", "96")])?, Op::new("FullyConnected", &[("num_hidden", "10")])?);
    let (tanh, loss) = (Op::new("Activation", &[("act_type", "tanh")])?, Op::new("SoftmaxOutput", &[])?);
    let mut sgd = Sgd::new(0.05, 0.9, 1e-4)?;
    for _ in 0..12 {
        let data = runtime.random([50, 70], DType::F32, Distribution::Uniform { low: 0.0, high: 1.0 })?;
        let label = runtime.random([50], DType::F32, Distribution::Whole { low: 0, high: 10 })?;
        pause(pauses);
        let out = autograd::record(|| {
            let hidden = tanh.invoke(&[&first.invoke(&[&data, w1, b1])?])?;
            loss.invoke(&[&second.invoke(&[&hidden, w2, b2])?, &label])
        })?;
        autograd::backward(&[&out])?;
        pause(pauses);
        sgd.step(&[w1, b1, w2, b2], 1.0 / 50.0)?;
    }
    hash(&[w1, b1, w2, b2])
}

/// A network with convolutions, means that move, and masks, trained on numbers of the generator.
fn convolve(runtime: &Runtime, pauses: &mut Draws) -> Result<u64, Error> {
    runtime.seed(12)?;
    let of = |shape: &[usize]| {
        let weight = runtime.random(shape, DType::F32, Distribution::Normal { mean: 0.0, deviation: 0.2 })?;
        weight.attach_grad(OpReq::Write)?;
        Ok::<NDArray, Error>(weight)
    };
    let weights = [of(&[6, 1, 3, 3])?, of(&[6])?, of(&[6])?, of(&[6])?, of(&[8, 3, 2, 2])?, of(&[10, 8 * 5 * 5])?];
    let [filters, bias, gamma, beta, more, last] = &weights;
    let (mean, variance) = (runtime.zeros([6], DType::F32)?, runtime.ones([6], DType::F32)?);
    let (dense, loss) =
        (Op::new("FullyConnected", &[("num_hidden", "10"), ("no_bias", "true")])?, Op::new("SoftmaxOutput", &[])?);
    let mut sgd = Sgd::new(0.05, 0.9, 1e-4)?;
    for _ in 0..6 {
        let data = runtime.random([20, 1, 12, 12], DType::F32, Distribution::Uniform { low: 0.0, high: 1.0 })?;
        let label = runtime.random([20], DType::F32, Distribution::Whole { low: 0, high: 10 })?;
        pause(pauses);
        let out = autograd::record(|| {
            let first = data.convolution(filters, Some(bias), &[], &[1, 1], 1)?;
            let first = first.batch_norm(gamma, beta, &mean, &variance)?.leaky_relu(0.1)?;
            let second = first.max_pool(&[2, 2], &[2, 2], &[])?.convolution(more, None, &[], &[], 2)?;
            loss.invoke(&[&dense.invoke(&[&second.dropout(0.25)?, last])?, &label])
        })?;
        autograd::backward(&[&out])?;
        pause(pauses);
        sgd.step(&[filters, bias, gamma, beta, more, last], 1.0 / 20.0)?;
    }
    hash(&[filters, bias, gamma, beta, more, last, &mean, &variance])
}

/// Kernels that are long enough to be cut into parts.
fn long(inputs: &[NDArray]) -> Result<NDArray, Error> {
    let [square, wide, images, filters, image, groups, long] = inputs else { panic!("there are seven") };
    let product = square.dot(wide)?.add(&square.dot(&wide.transpose()?.transpose()?)?)?;
    let stack = Op::new("batch_dot", &[("transpose_b", "true")])?;
    let both = product.reshape([6, 50, 400])?;
    let stacked = stack.invoke(&[&both, &both])?;
    let long = long.exp()?.mul(long)?;
    let norm = Op::new("norm", &[])?.invoke(&[&long])?;
    let rows = Op::new("sum", &[("axis", "(0,2)")])?.invoke(&[&long.reshape([7, 100, 500])?])?;
    let odds = long.reshape([700, 500])?.softmax()?;
    let out = autograd::record(|| {
        let many = images.convolution(filters, None, &[], &[1, 1], 1)?;
        let many = many.square()?.sum()?.add(&many.max_pool(&[2, 2], &[2, 2], &[])?.square()?.sum()?)?;
        many.add(&image.convolution(groups, None, &[2, 2], &[], 4)?.square()?.sum()?)
    })?;
    autograd::backward(&[&out])?;
    let mut all = vec![product, stacked, long.sum()?, long.mean()?, norm, rows, odds, out];
    for array in [images, filters, image, groups] {
        all.push(array.grad()?.copy()?);
    }
    joined(&all)
}

/// The elements of arrays one behind the other.
fn joined(all: &[NDArray]) -> Result<NDArray, Error> {
    let flat = |array: &NDArray| array.reshape([array.shape().size()])?.astype(DType::F64);
    let flat = all.iter().map(flat).collect::<Result<Vec<_>, _>>()?;
    NDArray::concat(&flat.iter().collect::<Vec<_>>(), 0)
}

/// Runs a program on arrays of these shapes on every engine, pushed and captured. It has the same
/// bits and as many parts on each; says how many.
fn parts_of(seed: u64, shapes: &[&[usize]], program: fn(&[NDArray]) -> Result<NDArray, Error>) -> usize {
    let mut found = Vec::new();
    for (name, runtime) in runtimes() {
        runtime.seed(seed).unwrap();
        let of = Distribution::Uniform { low: -1.0, high: 1.0 };
        let array = |shape: &&[usize]| runtime.random(*shape, DType::F32, of).unwrap();
        let inputs: Vec<NDArray> = shapes.iter().map(array).collect();
        inputs.iter().for_each(|array| array.attach_grad(OpReq::Write).unwrap());
        runtime.wait_all().unwrap();
        runtime.engine().start_profiling();
        let pushed = program(&inputs).unwrap();
        runtime.wait_all().unwrap();
        runtime.engine().stop_profiling();
        let parts = runtime.engine().profile().events().iter().filter(|event| event.name == "part").count();
        let pushed = hash(&[&pushed]).unwrap();
        let mut step = Step::capture_on(&runtime, &[], |_| program(&inputs)).unwrap();
        for _ in 0..2 {
            step.run(&[]).unwrap();
            assert_eq!(hash(&[step.returned()]).unwrap(), pushed, "{name}");
        }
        found.push((name, parts, pushed));
    }
    // The calls that are cut are the same too.
    assert!(found.iter().all(|(_, parts, hash)| (*parts, *hash) == (found[0].1, found[0].2)), "{found:?}");
    found[0].1
}

/// Whole numbers, whose sums are exact in any order.
#[test]
fn long_elements_and_sums_have_the_values_of_short_ones() {
    let of = |count: usize| (0..count).map(|at| ((at * 7919) % 101) as f64 - 50.0).collect::<Vec<f64>>();
    let values = of(200_077);
    let long = NDArray::from_slice(&values, [values.len()]).unwrap();
    let turned = long.mul(&long.add_scalar(3.0).unwrap()).unwrap().to_vec::<f64>().unwrap();
    assert!(turned.iter().zip(&values).all(|(found, value)| *found == value * (value + 3.0)));
    assert_eq!(long.sum().unwrap().as_scalar::<f64>().unwrap(), values.iter().sum::<f64>());
    let values = of(701 * 300);
    let rows = NDArray::from_slice(&values, [701, 300]).unwrap().sum_axes(&[1], false).unwrap();
    assert_eq!(rows.to_vec::<f64>().unwrap(), values.chunks(300).map(|row| row.iter().sum()).collect::<Vec<f64>>());
}

#[test]
fn long_kernels_are_cut_and_have_the_same_bits_on_every_engine() {
    let shapes =
        [&[300, 300][..], &[300, 400], &[21, 8, 20, 20], &[16, 8, 3, 3], &[1, 32, 64, 64], &[64, 8, 5, 5], &[350_000]];
    assert!(parts_of(13, &shapes, long) > 30);
}

/// Types, copies, broadcasts and changes in place of arrays that are long.
fn long_maps(inputs: &[NDArray]) -> Result<NDArray, Error> {
    let [data, row, column] = inputs else { panic!("there are three") };
    let mut all = Vec::new();
    for dtype in [DType::F16, DType::Bf16, DType::F64, DType::I32] {
        let cast = data.mul_scalar(9.0)?.astype(dtype)?;
        all.extend([cast.add(&cast)?, cast.astype(DType::F32)?]);
    }
    let changed = data.copy()?;
    changed.add_assign(row)?;
    changed.mul_assign(data)?;
    changed.slice(1, 1, 501, 1)?.add_assign(&data.slice(1, 0, 500, 1)?)?;
    let turned = data.reshape([501, 300])?.transpose()?;
    let chosen = data.greater_scalar(0.1)?.choose(&changed, data)?;
    let out = autograd::record(|| data.add(row)?.mul(column)?.maximum(&data.transpose()?.copy()?.transpose()?))?;
    autograd::backward(&[&out])?;
    all.extend([changed.clone(), turned.add(&changed)?, chosen, out, NDArray::concat(&[&changed, data], 1)?]);
    all.extend([
        data.sum_axes(&[1], false)?,
        data.max_axes(&[1], false)?,
        data.argmax(1)?,
        data.max_axes(&[0], false)?,
    ]);
    for array in inputs {
        all.push(array.grad()?.copy()?);
    }
    joined(&all)
}

/// Normalisations, probabilities and updates of arrays that are long.
fn long_layers(inputs: &[NDArray]) -> Result<NDArray, Error> {
    let [rows, scale, shift, images, gamma, beta] = inputs else { panic!("there are six") };
    let turned = Op::new("LayerNorm", &[("axis", "1")])?;
    let (moving, variance) = (images.max_axes(&[0, 2, 3], false)?, images.norm_axes(&[0, 2, 3], false)?);
    let labels = rows.argmax(1)?;
    let loss = Op::new("SoftmaxOutput", &[("normalization", "batch")])?;
    let out = autograd::record(|| {
        let one = rows.layer_norm(scale, shift)?;
        let two = turned.invoke(&[images, gamma, beta])?;
        let three = images.batch_norm(gamma, beta, &moving, &variance)?;
        let four = rows.softmax()?.mul(rows)?.add(&rows.log_softmax()?)?;
        let five = images.softmax_axis(2)?.mul(images)?.add(&images.gelu()?)?;
        let of = |array: &NDArray| array.square()?.sum();
        let all = of(&one)?.add(&of(&two)?)?.add(&of(&three)?)?.add(&of(&four)?)?.add(&of(&five)?)?;
        all.add(&of(&loss.invoke(&[&one, &labels])?)?)
    })?;
    autograd::backward(&[&out])?;
    let mut all = vec![out, moving.copy()?, variance.copy()?];
    for array in inputs {
        all.push(array.grad()?.copy()?);
    }
    for (name, states) in [("sgd_update", 0), ("sgd_mom_update", 1), ("adam_update", 2), ("ftrl_update", 2)] {
        for dtype in [DType::F32, DType::F16] {
            let (weight, grad) = (rows.astype(dtype)?.copy()?, rows.grad()?.astype(dtype)?);
            let states = (0..states).map(|_| weight.mul_scalar(0.0)).collect::<Result<Vec<_>, Error>>()?;
            let given: Vec<&NDArray> = [&weight, &grad].into_iter().chain(&states).collect();
            let momentum =
                if name == "sgd_mom_update" { &[("lr", "0.1"), ("momentum", "0.9")][..] } else { &[("lr", "0.1")] };
            Op::new(name, momentum)?.invoke_into(&given, &[(&weight, OpReq::Inplace)])?;
            all.push(weight.copy()?);
            all.extend(states.iter().map(NDArray::copy).collect::<Result<Vec<_>, Error>>()?);
        }
    }
    joined(&all)
}

#[test]
fn long_maps_are_cut_and_have_the_same_bits_on_every_engine() {
    assert!(parts_of(15, &[&[300, 501], &[501], &[300, 1]], long_maps) > 60);
}

#[test]
fn long_layers_are_cut_and_have_the_same_bits_on_every_engine() {
    let shapes = [&[301, 500][..], &[500], &[500], &[10, 24, 30, 20], &[24], &[24]];
    assert!(parts_of(16, &shapes, long_layers) > 60);
}

/// Rows of a long array have the bits that they have alone.
fn assert_rows_are_alike(of: impl Fn(&NDArray) -> Result<NDArray, Error>) {
    let mut draws = Draws::new(17);
    let values: Vec<f32> = draws.values(301 * 500, -9.0, 9.0).iter().map(|value| *value as f32).collect();
    let bits = |values: &[f32]| {
        let rows = NDArray::from_slice(values, [values.len() / 500, 500]).unwrap();
        let found = of(&rows).unwrap().astype(DType::F64).unwrap().to_vec::<f64>().unwrap();
        found.iter().map(|value| value.to_bits()).collect::<Vec<u64>>()
    };
    let each: Vec<u64> = values.chunks(500).flat_map(bits).collect();
    assert_eq!(bits(&values), each);
}

#[test]
fn rows_of_a_long_array_have_the_bits_that_they_have_alone() {
    let row: Vec<f32> = (0..500).map(|at| at as f32 / 300.0 - 0.7).collect();
    let row = NDArray::from_slice(&row, [500]).unwrap();
    assert_rows_are_alike(|rows| rows.softmax());
    assert_rows_are_alike(|rows| rows.log_softmax());
    assert_rows_are_alike(|rows| rows.layer_norm(&row, &row));
    assert_rows_are_alike(|rows| rows.add(&row));
    assert_rows_are_alike(|rows| rows.mul(&rows.max_axes(&[1], true)?));
    assert_rows_are_alike(|rows| rows.sum_axes(&[1], true));
    assert_rows_are_alike(|rows| rows.gelu()?.astype(DType::F16)?.tanh());
    assert_rows_are_alike(|rows| rows.astype(DType::Bf16)?.mul_scalar(1.5));
    assert_rows_are_alike(|rows| {
        rows.attach_grad(OpReq::Write)?;
        let out = autograd::record(|| rows.layer_norm(&row, &row)?.softmax()?.mul(rows))?;
        autograd::backward(&[&out])?;
        let change = rows.grad()?.copy()?;
        change.add_assign(rows)?;
        change.add_assign(&row)?;
        Ok(change)
    });
}

#[test]
fn rows_of_a_long_softmax_sum_to_one() {
    let mut draws = Draws::new(14);
    let values: Vec<f32> = draws.values(301 * 500, -9.0, 9.0).iter().map(|value| *value as f32).collect();
    let odds = NDArray::from_slice(&values, [301, 500]).unwrap().softmax().unwrap().to_vec::<f32>().unwrap();
    assert!(odds.chunks(500).all(|row| (row.iter().sum::<f32>() - 1.0).abs() < 1e-4));
}

/// A random program over arrays of each type, with views, changes in place and reductions.
fn mix(runtime: &Runtime, seed: u64, pauses: &mut Draws) -> Result<u64, Error> {
    let mut draws = Draws::new(seed);
    runtime.seed(seed)?;
    let mut arrays = Vec::new();
    for dtype in [DType::F32, DType::F64, DType::F16, DType::Bf16] {
        for _ in 0..3 {
            arrays.push(runtime.random([37, 129], dtype, Distribution::Uniform { low: 0.5, high: 1.5 })?);
        }
    }
    for _ in 0..60 {
        let (to, other) = (draws.below(arrays.len()), draws.below(arrays.len()));
        let from = arrays[other].astype(arrays[to].dtype())?;
        match draws.below(6) {
            0 => arrays[to] = arrays[to].mul(&from)?.sqrt()?,
            1 => arrays[to].add_assign(&from)?,
            2 => arrays[to].slice(1, 1, 129, 2)?.mul_assign(&from.slice(1, 0, 128, 2)?)?,
            3 => {
                arrays[to] =
                    arrays[to].sub(&Op::new("mean", &[("axis", "1"), ("keepdims", "true")])?.invoke(&[&from])?)?
            }
            4 => arrays[to] = arrays[to].dot(&from.transpose()?)?.dot(&from)?.tanh()?,
            _ => arrays[to] = from.softmax()?.add(&from.permute(&[0, 1])?.sum()?.mul_scalar(1e-3)?)?,
        }
        pause(pauses);
    }
    arrays.push(runtime.permutation(1000)?);
    hash(&arrays.iter().collect::<Vec<_>>())
}

#[test]
fn results_have_the_same_bits_on_every_engine() {
    let mut pauses = Draws::new(std::process::id().into());
    let mut found: Vec<(String, [u64; 2], Vec<u64>)> = Vec::new();
    for (name, runtime) in runtimes() {
        for _ in 0..2 {
            let mixes = (0..3).map(|seed| mix(&runtime, seed, &mut pauses).unwrap()).collect();
            let trained = [train(&runtime, &mut pauses).unwrap(), convolve(&runtime, &mut pauses).unwrap()];
            found.push((name.clone(), trained, mixes));
        }
    }
    let (_, trained, mixes) = &found[0];
    for (name, other, others) in &found {
        assert_eq!((other, others), (trained, mixes), "{name}");
    }
    // Other seeds have other results.
    assert!(mixes[0] != mixes[1] && mixes[1] != mixes[2]);
}
