//! Layers of networks: results equal written-out loops on random shapes; means move as they should;
//! masks have the same bits on every engine; and calls that do not go together are refused.

mod common;

use common::{runtimes, Draws};
use seriatim_tensor::operator::Op;
use seriatim_tensor::{autograd, DType, Error, ErrorKind, NDArray, OpReq, Runtime};

fn array(values: &[f64], shape: &[usize]) -> NDArray {
    NDArray::from_slice(values, shape).unwrap()
}

fn near(found: &NDArray, expected: &[f64], shape: &[usize], what: &str) {
    assert_eq!(found.shape().dims(), shape, "{what}");
    for (at, (found, expected)) in found.to_vec::<f64>().unwrap().iter().zip(expected).enumerate() {
        assert!((found - expected).abs() < 1e-12 * (1.0 + expected.abs()), "{what} at {at}: {found}, {expected}");
    }
}

fn text(sizes: &[usize]) -> String {
    format!("({})", sizes.iter().map(|size| format!("{size},")).collect::<String>())
}

/// Sizes of a convolution, drawn so that all go together.
#[derive(Debug)]
struct Sizes {
    images: usize,
    groups: usize,
    /// Of a group.
    channels: usize,
    filters: usize,
    size: [usize; 2],
    kernel: [usize; 2],
    stride: [usize; 2],
    dilate: [usize; 2],
    pad: [usize; 2],
    is_row: bool,
}

impl Sizes {
    fn draw(draws: &mut Draws) -> Sizes {
        let is_row = draws.below(4) == 0;
        let mut two = |least: usize, count: usize, of_row: usize| {
            [if is_row { of_row } else { least + draws.below(count) }, least + draws.below(count)]
        };
        let (kernel, pad) = (two(1, 3, 1), two(0, 3, 0));
        let (stride, dilate) = (two(1, 2, 1), two(1, 2, 1));
        let mut size = two(4, 9, 1);
        // Some are small enough to be computed without a matrix.
        if draws.below(2) == 0 {
            size[1] = [8, 16, 30][draws.below(3)];
        }
        let [stride, dilate] = if draws.below(2) == 0 { [[1, 1]; 2] } else { [stride, dilate] };
        let [images, groups, channels, filters] = [3, 2, 3, 6].map(|count| 1 + draws.below(count));
        let size = [size[0].max(dilate[0] * (kernel[0] - 1) + 1), size[1].max(dilate[1] * (kernel[1] - 1) + 1)];
        Sizes { images, groups, channels, filters, size, kernel, stride, dilate, pad, is_row }
    }

    fn out(&self) -> [usize; 2] {
        [0, 1].map(|axis| {
            let span = self.dilate[axis] * (self.kernel[axis] - 1) + 1;
            (self.size[axis] + 2 * self.pad[axis] - span) / self.stride[axis] + 1
        })
    }

    fn sized(&self, first: usize, second: usize, size: [usize; 2]) -> Vec<usize> {
        [&[first, second], &size[usize::from(self.is_row)..]].concat()
    }

    fn parameters(&self, filters: usize) -> Vec<(&'static str, String)> {
        let of = |sizes: [usize; 2]| text(&sizes[usize::from(self.is_row)..]);
        vec![
            ("kernel", of(self.kernel)),
            ("stride", of(self.stride)),
            ("dilate", of(self.dilate)),
            ("pad", of(self.pad)),
            ("num_filter", filters.to_string()),
            ("num_group", self.groups.to_string()),
            ("no_bias", "false".to_owned()),
        ]
    }

    /// Calls `each` with every product: the numbers of an element of the large images, of the
    /// weight, and of the small images.
    fn products(&self, mut each: impl FnMut(usize, usize, usize)) {
        let ([height, width], [rows, columns]) = (self.size, self.out());
        for (image, group) in (0..self.images * self.groups).map(|at| (at / self.groups, at % self.groups)) {
            for (filter, channel) in
                (0..self.filters * self.channels).map(|at| (at / self.channels, at % self.channels))
            {
                for (y, x) in (0..rows * columns).map(|at| (at / columns, at % columns)) {
                    for (down, right) in
                        (0..self.kernel[0] * self.kernel[1]).map(|at| (at / self.kernel[1], at % self.kernel[1]))
                    {
                        let line = (y * self.stride[0] + down * self.dilate[0]) as isize - self.pad[0] as isize;
                        let column = (x * self.stride[1] + right * self.dilate[1]) as isize - self.pad[1] as isize;
                        if !(0..height as isize).contains(&line) || !(0..width as isize).contains(&column) {
                            continue;
                        }
                        let plane = (image * self.groups + group) * self.channels + channel;
                        let large = (plane * height + line as usize) * width + column as usize;
                        let weight = (group * self.filters + filter) * self.channels + channel;
                        let weight = (weight * self.kernel[0] + down) * self.kernel[1] + right;
                        let small = (image * self.groups + group) * self.filters + filter;
                        each(large, weight, (small * rows + y) * columns + x);
                    }
                }
            }
        }
    }
}

fn invoke(name: &str, parameters: &[(&'static str, String)], inputs: &[&NDArray]) -> Result<NDArray, Error> {
    let parameters: Vec<(&str, &str)> = parameters.iter().map(|(name, text)| (*name, &**text)).collect();
    Op::new(name, &parameters)?.invoke(inputs)
}

#[test]
fn convolutions_equal_a_written_out_loop() {
    let mut draws = Draws::new(1);
    for _ in 0..150 {
        let sizes = Sizes::draw(&mut draws);
        let (channels, filters) = (sizes.groups * sizes.channels, sizes.groups * sizes.filters);
        let large = sizes.sized(sizes.images, channels, sizes.size);
        let small = sizes.sized(sizes.images, filters, sizes.out());
        let weights = sizes.sized(filters, sizes.channels, sizes.kernel);
        let mut draw = |shape: &[usize]| draws.values(shape.iter().product(), -1.0, 1.0);
        let (data, weight, bias, back) = (draw(&large), draw(&weights), draw(&[filters]), draw(&small));
        let places = sizes.out()[0] * sizes.out()[1];
        let mut expected: Vec<f64> = (0..back.len()).map(|at| bias[at / places % filters]).collect();
        sizes.products(|of, by, to| expected[to] += data[of] * weight[by]);
        let (one, of, shift) = (array(&data, &large), array(&weight, &weights), array(&bias, &[filters]));
        let result = invoke("Convolution", &sizes.parameters(filters), &[&one, &of, &shift]).unwrap();
        near(&result, &expected, &small, &format!("{sizes:?}"));

        // Backwards, from small images to large ones.
        let bias = draws.values(channels, -1.0, 1.0);
        let mut parameters = sizes.parameters(channels);
        let spans = [0, 1].map(|axis| {
            let span = sizes.dilate[axis] * (sizes.kernel[axis] - 1) + 1;
            sizes.stride[axis] * (sizes.out()[axis] - 1) + span - 2 * sizes.pad[axis]
        });
        let adj: Vec<usize> = (0..2).map(|axis| sizes.size[axis].wrapping_sub(spans[axis])).collect();
        let can_adjust = (0..2).all(|axis| adj[axis] < sizes.stride[axis]);
        assert!(can_adjust, "{adj:?} {sizes:?}");
        parameters.push(("adj", text(&adj[usize::from(sizes.is_row)..])));
        let pixels = sizes.size[0] * sizes.size[1];
        let mut expected: Vec<f64> = (0..data.len()).map(|at| bias[at / pixels % channels]).collect();
        sizes.products(|to, by, of| expected[to] += back[of] * weight[by]);
        let (one, shift) = (array(&back, &small), array(&bias, &[channels]));
        let result = invoke("Deconvolution", &parameters, &[&one, &of, &shift]).unwrap();
        near(&result, &expected, &large, &format!("backwards {sizes:?}"));
    }
}

/// Small whole numbers, whose sums are exact in any order.
fn wholes(draws: &mut Draws, shape: &[usize]) -> Vec<f64> {
    (0..shape.iter().product()).map(|_| draws.below(9) as f64 - 4.0).collect()
}

/// Products that are long enough to be cut into blocks, or between one and the next.
#[test]
fn long_products_have_the_values_of_a_loop() {
    let mut draws = Draws::new(11);
    let (rows, depth, columns) = (100, 150, 301);
    let [a, b, bias] = [&[rows, depth][..], &[columns, depth], &[columns]].map(|shape| wholes(&mut draws, shape));
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let of_row = |row: &[f64]| b.chunks(depth).zip(&bias).map(|(of, bias)| dot(row, of) + bias).collect::<Vec<f64>>();
    let expected: Vec<f64> = a.chunks(depth).flat_map(of_row).collect();
    let inputs = [array(&a, &[rows, depth]), array(&b, &[columns, depth]), array(&bias, &[columns])];
    let dense = Op::new("FullyConnected", &[("num_hidden", "301")]).unwrap();
    let out = array(&vec![7.0; rows * columns], &[rows, columns]);
    for (req, there) in [(OpReq::Add, 7.0), (OpReq::Write, 0.0)] {
        dense.invoke_into(&inputs.each_ref(), &[(&out, req)]).unwrap();
        let expected = expected.iter().map(|value| there + value).collect::<Vec<f64>>();
        assert_eq!(out.to_vec::<f64>().unwrap(), expected, "{req:?}");
    }
    let (count, side) = (40, 50);
    let [a, b] = [0; 2].map(|_| wholes(&mut draws, &[count, side, side]));
    let rows = a.chunks(side).enumerate();
    let of_row = |(row, values)| b[row / side * side * side..].chunks(side).take(side).map(move |of| dot(values, of));
    let expected: Vec<f64> = rows.flat_map(of_row).collect();
    let parameters = [("transpose_b", "true".to_owned())];
    let found =
        invoke("batch_dot", &parameters, &[&a, &b].map(|values| array(values, &[count, side, side])).each_ref());
    assert_eq!(found.unwrap().to_vec::<f64>().unwrap(), expected);
}

/// A convolution of whole numbers, and the gradients by its arguments for one by its result.
fn convolved(data: &NDArray, of: [&NDArray; 2], back: &NDArray, pad: usize, groups: usize) -> [Vec<f64>; 4] {
    let copies = [data, of[0], of[1]].map(|argument| argument.copy().unwrap());
    copies.iter().for_each(|argument| argument.attach_grad(OpReq::Write).unwrap());
    let [data, weight, bias] = &copies;
    let out = autograd::record(|| data.convolution(weight, Some(bias), &[], &[pad; 2], groups)).unwrap();
    autograd::backward_with(&[(&out, Some(back))], false).unwrap();
    let grads = [data, weight, bias].map(|argument| argument.grad().unwrap().to_vec::<f64>().unwrap());
    let [by_data, by_weight, by_bias] = grads;
    [out.to_vec().unwrap(), by_data, by_weight, by_bias]
}

/// What is cut into parts has the values of its images, or of its groups, each by itself.
#[test]
fn convolutions_in_parts_are_those_of_their_images() {
    let mut draws = Draws::new(12);
    let mut draw = |shape: &[usize]| array(&wholes(&mut draws, shape), shape);
    // Three parts of three images, each of which is a product of its own.
    let (data, back) = (draw(&[9, 8, 28, 28]), draw(&[9, 16, 28, 28]));
    let (weight, bias) = (draw(&[16, 8, 3, 3]), draw(&[16]));
    let whole = convolved(&data, [&weight, &bias], &back, 1, 1);
    let mut of_images = [const { Vec::new() }; 4];
    for image in 0..9 {
        let [data, back] = [&data, &back].map(|array| array.slice(0, image, image + 1, 1).unwrap());
        let alone = convolved(&data, [&weight, &bias], &back, 1, 1);
        for (at, (all, values)) in of_images.iter_mut().zip(alone).enumerate() {
            match at < 2 || all.is_empty() {
                true => all.extend(values),
                false => all.iter_mut().zip(values).for_each(|(sum, value)| *sum += value),
            }
        }
    }
    assert!(whole == of_images, "images");
    // Two parts of two groups.
    let (data, back) = (draw(&[1, 16, 40, 40]), draw(&[1, 16, 40, 40]));
    let (weight, bias) = (draw(&[16, 4, 5, 5]), draw(&[16]));
    let whole = convolved(&data, [&weight, &bias], &back, 2, 4);
    let mut of_groups = [const { Vec::new() }; 4];
    for first in (0..16).step_by(4) {
        let part = |array: &NDArray, axis| array.slice(axis, first, first + 4, 1).unwrap();
        let alone = convolved(&part(&data, 1), [&part(&weight, 0), &part(&bias, 0)], &part(&back, 1), 2, 1);
        of_groups.iter_mut().zip(alone).for_each(|(all, values)| all.extend(values));
    }
    assert!(whole == of_groups, "groups");
}

#[test]
fn windows_are_pooled_as_a_loop_pools_them() {
    let mut draws = Draws::new(2);
    let mut refused = 0;
    for _ in 0..300 {
        let mut sizes = Sizes::draw(&mut draws);
        (sizes.dilate, sizes.stride) = ([1, 1], [1 + draws.below(3), 1 + draws.below(3)]);
        if sizes.is_row {
            sizes.stride[0] = 1;
        }
        (0..2).for_each(|axis| sizes.pad[axis] = sizes.pad[axis].min(sizes.kernel[axis] - 1));
        let kind = ["max", "avg", "sum"][draws.below(3)];
        let (is_full, counts_pad) = (draws.below(2) == 0, draws.below(2) == 0);
        let out = [0, 1].map(|axis| {
            let left = sizes.size[axis] + 2 * sizes.pad[axis] - sizes.kernel[axis];
            1 + if is_full { left.div_ceil(sizes.stride[axis]) } else { left / sizes.stride[axis] }
        });
        let shape = sizes.sized(sizes.images, sizes.channels, sizes.size);
        let data = draws.values(shape.iter().product(), -1.0, 1.0);
        let mut parameters = sizes.parameters(1);
        parameters.retain(|(name, _)| ["kernel", "stride", "pad"].contains(name));
        parameters.push(("pool_type", kind.to_owned()));
        parameters.push(("pooling_convention", if is_full { "full" } else { "valid" }.to_owned()));
        parameters.push(("count_include_pad", counts_pad.to_string()));
        let result = invoke("Pooling", &parameters, &[&array(&data, &shape)]);
        if (0..2).any(|axis| (out[axis] - 1) * sizes.stride[axis] >= sizes.size[axis] + sizes.pad[axis]) {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::ShapeMismatch);
            refused += 1;
            continue;
        }
        let mut expected = Vec::new();
        for plane in data.chunks(sizes.size[0] * sizes.size[1]) {
            for (y, x) in (0..out[0] * out[1]).map(|at| (at / out[1], at % out[1])) {
                let (mut elements, mut around) = (Vec::new(), 0);
                for (down, right) in
                    (0..sizes.kernel[0] * sizes.kernel[1]).map(|at| (at / sizes.kernel[1], at % sizes.kernel[1]))
                {
                    let (line, column) = (y * sizes.stride[0] + down, x * sizes.stride[1] + right);
                    if line >= sizes.size[0] + 2 * sizes.pad[0] || column >= sizes.size[1] + 2 * sizes.pad[1] {
                        continue;
                    }
                    around += 1;
                    let on =
                        |at: usize, axis: usize| at.checked_sub(sizes.pad[axis]).filter(|at| *at < sizes.size[axis]);
                    if let (Some(line), Some(column)) = (on(line, 0), on(column, 1)) {
                        elements.push(plane[line * sizes.size[1] + column]);
                    }
                }
                let (sum, count) = (elements.iter().sum::<f64>(), if counts_pad { around } else { elements.len() });
                expected.push(match kind {
                    "max" => elements.iter().copied().fold(f64::MIN, f64::max),
                    "avg" => sum / count as f64,
                    _ => sum,
                });
            }
        }
        let to = sizes.sized(sizes.images, sizes.channels, out);
        near(&result.unwrap(), &expected, &to, &format!("{kind} {is_full} {counts_pad} {sizes:?}"));
    }
    assert!((1..150).contains(&refused), "{refused}");
    let x = array(&[1.0, f64::NAN, 3.0, 2.0], &[1, 1, 4]);
    let greatest = x.max_pool(&[2], &[2], &[]).unwrap().to_vec::<f64>().unwrap();
    assert!(greatest[0].is_nan() && greatest[1] == 3.0);
}

#[test]
fn the_first_of_equal_elements_has_the_gradient_of_the_greatest() {
    let x = array(&[2.0, 2.0, 1.0, 2.0], &[1, 1, 4]);
    x.attach_grad(OpReq::Write).unwrap();
    let out = autograd::record(|| x.max_pool(&[2], &[1], &[])).unwrap();
    autograd::backward(&[&out]).unwrap();
    assert_eq!(x.grad().unwrap().to_vec::<f64>().unwrap(), [1.0, 1.0, 0.0, 1.0]);
    // Windows side by side.
    let x = array(&[2.0, 2.0, 1.0, 1.0, 2.0, 2.0, 3.0, 1.0], &[1, 1, 2, 4]);
    x.attach_grad(OpReq::Write).unwrap();
    let out = autograd::record(|| x.max_pool(&[2, 2], &[2, 2], &[])).unwrap();
    autograd::backward(&[&out]).unwrap();
    assert_eq!(x.grad().unwrap().to_vec::<f64>().unwrap(), [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
}

/// The mean and the variance of some elements.
fn moments(elements: &[f64]) -> (f64, f64) {
    let count = elements.len() as f64;
    let mean = elements.iter().sum::<f64>() / count;
    (mean, elements.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count)
}

#[test]
fn channels_are_normalised_and_means_move() {
    let mut draws = Draws::new(3);
    let (images, channels, places) = (4, 3, 10);
    let shape = [images, channels, 2, 5];
    let (gamma, beta) = (draws.values(channels, 0.5, 1.5), draws.values(channels, -1.0, 1.0));
    let (of_gamma, of_beta) = (array(&gamma, &[channels]), array(&beta, &[channels]));
    for parameters in [
        &[("fix_gamma", "false")][..],
        &[("momentum", "0.7"), ("eps", "0.01")],
        &[("fix_gamma", "false"), ("use_global_stats", "true")],
    ] {
        let said = |name: &str| parameters.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
        let (mut mean, mut variance) = (vec![0.5; channels], vec![2.0; channels]);
        let (of_mean, of_variance) = (array(&mean, &[channels]), array(&variance, &[channels]));
        let momentum = said("momentum").map_or(0.9, |text| text.parse().unwrap());
        let eps = said("eps").map_or(1e-3, |text| text.parse().unwrap());
        let op = Op::new("BatchNorm", &[parameters, &[("output_mean_var", "true")]].concat()).unwrap();
        for step in 0..10 {
            let data = draws.values(images * channels * places, -2.0, 1.0);
            let is_train = step % 3 != 2;
            let inputs = [&array(&data, &shape), &of_gamma, &of_beta, &of_mean, &of_variance];
            let outputs = if is_train {
                autograd::train_mode(|| op.invoke_all(&inputs)).unwrap()
            } else {
                op.invoke_all(&inputs).unwrap()
            };
            let mut expected = vec![0.0; data.len()];
            for channel in 0..channels {
                let numbers = (0..data.len()).filter(|at| at / places % channels == channel);
                let elements: Vec<f64> = numbers.clone().map(|at| data[at]).collect();
                let (mut of, mut by) = (mean[channel], variance[channel]);
                if is_train && said("use_global_stats").is_none() {
                    (of, by) = moments(&elements);
                    mean[channel] = momentum * mean[channel] + (1.0 - momentum) * of;
                    variance[channel] = momentum * variance[channel] + (1.0 - momentum) * by;
                }
                let gamma = if said("fix_gamma").is_some() { gamma[channel] } else { 1.0 };
                numbers.for_each(|at| expected[at] = (data[at] - of) / (by + eps).sqrt() * gamma + beta[channel]);
                assert!((outputs[1].to_vec::<f64>().unwrap()[channel] - of).abs() < 1e-12);
                assert!((outputs[2].to_vec::<f64>().unwrap()[channel] - 1.0 / (by + eps).sqrt()).abs() < 1e-12);
            }
            near(&outputs[0], &expected, &shape, &format!("{parameters:?} {step}"));
            near(&of_mean, &mean, &[channels], "moving means");
            near(&of_variance, &variance, &[channels], "moving variances");
        }
    }
    // Floats of 16 bits have parameters of 32.
    let of = |dtype: DType| NDArray::zeros([3], dtype).unwrap();
    let half = NDArray::zeros(shape, DType::F16).unwrap();
    let [a, b, c, d] = [DType::F32; 4].map(of);
    assert_eq!(half.batch_norm(&a, &b, &c, &d).unwrap().dtype(), DType::F16);
    let error = half.batch_norm(&of(DType::F16), &b, &c, &d).unwrap_err();
    assert!(error.to_string().contains("'gamma' has elements of float16 where float32 belongs"), "{error}");
}

#[test]
fn a_backward_pass_has_the_mode_and_the_states_of_its_call() {
    let mut draws = Draws::new(4);
    let data = draws.values(12, -2.0, 1.0);
    let (gamma, beta) = (array(&[1.5, 0.5, 2.0], &[3]), array(&[0.0; 3], &[3]));
    let (mean, variance) = (array(&[0.1, 0.2, 0.3], &[3]), array(&[1.0, 2.0, 3.0], &[3]));
    let x = array(&data, &[4, 3]);
    x.attach_grad(OpReq::Write).unwrap();
    // Recorded, but not to train: the gradient is that of a fixed scale.
    let out = autograd::record(|| autograd::predict_mode(|| x.batch_norm(&gamma, &beta, &mean, &variance))).unwrap();
    autograd::backward(&[&out]).unwrap();
    let expected: Vec<f64> =
        (0..12).map(|at| [1.5, 0.5, 2.0][at % 3] / (1.0 + (at % 3) as f64 + 1e-3).sqrt()).collect();
    near(&x.grad().unwrap(), &expected, &[4, 3], "with moving means");
    assert_eq!(mean.to_vec::<f64>().unwrap(), [0.1, 0.2, 0.3]);
    // To train, the gradients of a channel add up to nothing.
    let out = autograd::record(|| x.batch_norm(&gamma, &beta, &mean, &variance)).unwrap();
    autograd::backward(&[&out]).unwrap();
    assert!(x.grad().unwrap().to_vec::<f64>().unwrap().iter().all(|grad| grad.abs() < 1e-12));
    assert_ne!(mean.to_vec::<f64>().unwrap(), [0.1, 0.2, 0.3]);
    // A state in the memory of another argument is refused.
    let error = x.batch_norm(&gamma, &beta, &gamma, &variance).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WrongArguments, "{error}");
}

#[test]
fn rows_are_normalised() {
    let mut draws = Draws::new(5);
    let (data, gamma, beta) = (draws.values(24, -2.0, 3.0), draws.values(3, 0.5, 1.5), draws.values(3, -1.0, 1.0));
    let op = Op::new("LayerNorm", &[("axis", "1"), ("output_mean_var", "true"), ("eps", "0.01")]).unwrap();
    let outputs = op.invoke_all(&[&array(&data, &[2, 3, 4]), &array(&gamma, &[3]), &array(&beta, &[3])]).unwrap();
    let (mut expected, mut means, mut deviations) = (vec![0.0; 24], Vec::new(), Vec::new());
    for row in 0..8 {
        let at = |place: usize| row / 4 * 12 + place * 4 + row % 4;
        let (mean, variance) = moments(&[data[at(0)], data[at(1)], data[at(2)]]);
        let deviation = (variance + 0.01).sqrt();
        (0..3).for_each(|place| {
            expected[at(place)] = (data[at(place)] - mean) / deviation * gamma[place] + beta[place];
        });
        means.push(mean);
        deviations.push(deviation);
    }
    near(&outputs[0], &expected, &[2, 3, 4], "LayerNorm");
    near(&outputs[1], &means, &[2, 1, 4], "means");
    near(&outputs[2], &deviations, &[2, 1, 4], "deviations");
    let hidden = Op::new("LayerNorm", &[]).unwrap();
    assert_eq!((hidden.property().num_outputs(), hidden.property().num_visible_outputs()), (3, 1));
}

#[test]
fn functions_let_something_of_negative_elements_through() {
    let values = [-2.0, -0.5, 0.0, 0.7, 3.0];
    let x = array(&values, &[5]);
    let of = |parameters: &[(&str, &str)]| Op::new("LeakyReLU", parameters).unwrap().invoke(&[&x]).unwrap();
    let each = |of: &dyn Fn(f64) -> f64| values.map(of);
    near(&of(&[]), &each(&|x| if x > 0.0 { x } else { 0.25 * x }), &[5], "leaky");
    let elu = [("act_type", "elu"), ("slope", "0.7")];
    near(&of(&elu), &each(&|x| if x > 0.0 { x } else { 0.7 * (x.exp() - 1.0) }), &[5], "elu");
    let selu = |x: f64| 1.0507009873554805 * if x > 0.0 { x } else { 1.6732632423543772 * (x.exp() - 1.0) };
    near(&of(&[("act_type", "selu")]), &each(&selu), &[5], "selu");
    // Of tables of the normal distribution.
    let below =
        [0.022_750_131_948_179_2, 0.308_537_538_725_986_9, 0.5, 0.758_036_347_776_926_9, 0.998_650_101_968_369_9];
    let gelu: Vec<f64> = values.iter().zip(below).map(|(x, below)| x * below).collect();
    near(&of(&[("act_type", "gelu")]), &gelu, &[5], "gelu");
    let mean = 0.5 * (0.125 + 0.334);
    near(&of(&[("act_type", "rrelu")]), &each(&|x| if x > 0.0 { x } else { mean * x }), &[5], "rrelu");
    let random = Op::new("LeakyReLU", &[("act_type", "rrelu")]).unwrap();
    let drawn = autograd::train_mode(|| random.invoke(&[&x])).unwrap().to_vec::<f64>().unwrap();
    assert!((0.125..0.334).contains(&(drawn[0] / -2.0)) && drawn[0] / -2.0 != drawn[1] / -0.5, "{drawn:?}");
    assert_eq!(drawn[2..], values[2..]);
    near(
        &array(&[-1.0; 4], &[2, 2]).prelu(&array(&[0.1, 0.3], &[2])).unwrap(),
        &[-0.1, -0.3, -0.1, -0.3],
        &[2, 2],
        "prelu",
    );
}

/// A mask of many elements, and what becomes of an array and of its gradient by it.
fn dropped(runtime: &Runtime, axes: &str) -> Result<[Vec<f32>; 2], Error> {
    runtime.seed(9)?;
    let x = runtime.full([100, 70], DType::F32, 3.0f32)?;
    x.attach_grad(OpReq::Write)?;
    let op = Op::new("Dropout", &[("p", "0.25"), ("axes", axes)])?;
    let out = autograd::record(|| op.invoke(&[&x]))?;
    autograd::backward(&[&out])?;
    Ok([out.to_vec::<f32>()?, x.grad()?.to_vec::<f32>()?])
}

#[test]
fn masks_have_the_same_bits_on_every_engine() {
    for axes in ["()", "(0)"] {
        let mut all = Vec::new();
        for (name, runtime) in runtimes() {
            for _ in 0..3 {
                all.push((name.clone(), dropped(&runtime, axes).unwrap()));
            }
        }
        let [out, grad] = &all[0].1;
        for (name, other) in &all {
            assert!(other == &all[0].1, "{name} {axes}");
        }
        assert!(out
            .iter()
            .zip(grad)
            .all(|(out, grad)| *out == 3.0 * grad && (*grad == 0.0 || (grad - 4.0 / 3.0).abs() < 1e-6)));
        let lost = grad.iter().filter(|grad| **grad == 0.0).count() as f64;
        // Three standard deviations of so many draws.
        let draws: f64 = if axes == "()" { 7_000.0 } else { 70.0 };
        assert!((lost / 7_000.0 - 0.25).abs() < 3.0 * (0.25 * 0.75 / draws).sqrt(), "{lost}");
        if axes == "(0)" {
            assert!(grad.chunks(70).all(|row| row == &grad[..70]));
        }
    }
    // Outside of training it is the same array, and no number is drawn.
    let runtime = Runtime::new(&seriatim::Engine::new().unwrap());
    let x = runtime.full([10], DType::F32, 3.0f32).unwrap();
    runtime.seed(1).unwrap();
    let drawn = |times: usize| {
        runtime.seed(1).unwrap();
        for _ in 0..times {
            assert_eq!(x.dropout(0.5).unwrap().to_vec::<f32>().unwrap(), [3.0; 10]);
        }
        runtime.permutation(50).unwrap().to_vec::<i64>().unwrap()
    };
    assert_eq!(drawn(0), drawn(3));
    let always = Op::new("Dropout", &[("mode", "always"), ("p", "0.9")]).unwrap();
    assert!(always.invoke(&[&x]).unwrap().to_vec::<f32>().unwrap().contains(&0.0));
}

#[test]
fn outputs_have_the_gradients_of_their_losses() {
    let mut draws = Draws::new(6);
    let (data, label) = (draws.values(6, -2.0, 2.0), draws.values(6, 0.0, 1.0));
    type Loss = fn(f64, f64) -> f64;
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let losses: [(&str, Loss); 3] = [
        ("LinearRegressionOutput", |x, label| 0.5 * (x - label).powi(2)),
        ("LogisticRegressionOutput", |x, label| (1.0 + x.exp()).ln() - label * x),
        ("MAERegressionOutput", |x, label| (x - label).abs()),
    ];
    for (name, loss) in losses {
        for (shape, of_label, columns) in
            [(&[6, 1][..], &[6][..], 1.0), (&[2, 3], &[2, 3], 3.0), (&[3, 2], &[3, 1, 2], 2.0)]
        {
            let (x, y) = (array(&data, shape), array(&label, of_label));
            [&x, &y].iter().for_each(|array| array.attach_grad(OpReq::Write).unwrap());
            let op = Op::new(name, &[("grad_scale", "1.5")]).unwrap();
            let out = autograd::record(|| op.invoke(&[&x, &y])).unwrap();
            autograd::backward(&[&out]).unwrap();
            let shown: Vec<f64> = data.iter().map(|x| if name.starts_with("Log") { sigmoid(*x) } else { *x }).collect();
            near(&out, &shown, shape, name);
            let found = x.grad().unwrap().to_vec::<f64>().unwrap();
            for ((found, x), label) in found.iter().zip(&data).zip(&label) {
                let expected = (loss(x + 1e-6, *label) - loss(x - 1e-6, *label)) / 2e-6 * 1.5 / columns;
                assert!((found - expected).abs() < 1e-8, "{name} {found} {expected}");
            }
            assert_eq!(y.grad().unwrap().to_vec::<f64>().unwrap(), [0.0; 6]);
        }
    }
    let valid = data.iter().filter(|x| **x > 0.5).count() as f64;
    for (normalization, divisor) in [("null", 1.0), ("batch", 2.0), ("valid", valid)] {
        let x = array(&data, &[2, 3]);
        x.attach_grad(OpReq::Write).unwrap();
        let parameters = [("grad_scale", "3"), ("valid_thresh", "0.5"), ("normalization", normalization)];
        let op = Op::new("MakeLoss", &parameters).unwrap();
        let out = autograd::record(|| op.invoke(&[&x.add(&x)?.mul_scalar(0.5)?])).unwrap();
        autograd::backward(&[&out]).unwrap();
        near(&out, &data, &[2, 3], "MakeLoss");
        near(&x.grad().unwrap(), &[3.0 / divisor; 6], &[2, 3], normalization);
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let of = |shape: &[usize]| NDArray::zeros(shape, DType::F32).unwrap();
    let (images, row) = (of(&[2, 4, 5, 5]), of(&[3]));
    let called =
        |name: &str, parameters: &[(&str, &str)], inputs: &[&NDArray]| Op::new(name, parameters)?.invoke(inputs);
    let pool = |parameters: &[(&str, &str)]| called("Pooling", parameters, &[&images]);
    let wrong = [
        (images.convolution(&of(&[3, 4, 7, 7]), None, &[], &[], 1), ErrorKind::ShapeMismatch, "a window spans [7, 7]"),
        (
            images.convolution(&of(&[3, 2, 3, 3]), None, &[], &[], 1),
            ErrorKind::ShapeMismatch,
            "'weight' has shape [3, 2, 3, 3] where [3, 4, 3, 3]",
        ),
        (
            images.convolution(&of(&[3, 2, 3, 3]), None, &[], &[], 2),
            ErrorKind::ShapeMismatch,
            "4 channels and 3 filters have no 2",
        ),
        (images.convolution(&of(&[3, 4, 3, 3]), Some(&of(&[4])), &[], &[], 1), ErrorKind::ShapeMismatch, "'bias'"),
        (images.convolution(&of(&[3, 4, 3]), None, &[], &[], 1), ErrorKind::ShapeMismatch, "1 of places"),
        (images.convolution(&of(&[3, 4]), None, &[], &[], 1), ErrorKind::ShapeMismatch, "the kernel's"),
        (
            images.convolution(&of(&[3, 4, 3, 3]), None, &[1], &[], 1),
            ErrorKind::BadParameter,
            "stride = [1] is no list of 2",
        ),
        (images.convolution(&of(&[3, 4, 3, 3]), None, &[0, 1], &[], 1), ErrorKind::BadParameter, "stride = [0, 1]"),
        (
            called("Convolution", &[("kernel", "(1,1,1)"), ("num_filter", "1")], &[&images]),
            ErrorKind::BadParameter,
            "3 dimensions",
        ),
        (images.deconvolution(&of(&[4, 2, 1, 1]), None, &[], &[3, 3], 1), ErrorKind::ShapeMismatch, "nothing is left"),
        (
            called(
                "Deconvolution",
                &[("kernel", "(1,1)"), ("num_filter", "2"), ("adj", "(1,0)")],
                &[&images, &of(&[4, 2, 1, 1])],
            ),
            ErrorKind::ShapeMismatch,
            "adj = 1",
        ),
        (
            called(
                "Deconvolution",
                &[("kernel", "(1,1)"), ("num_filter", "2"), ("target_shape", "(6,5)")],
                &[&images, &of(&[4, 2, 1, 1])],
            ),
            ErrorKind::ShapeMismatch,
            "target_shape [6, 5] is beyond",
        ),
        (pool(&[("kernel", "(2,2)"), ("pad", "(2,0)")]), ErrorKind::BadParameter, "pad = [2, 0] is not below"),
        (pool(&[("kernel", "(6,1)")]), ErrorKind::ShapeMismatch, "a window spans"),
        (pool(&[("kernel", "(2)")]), ErrorKind::ShapeMismatch, "1 of places"),
        (row.global_max_pool(), ErrorKind::ShapeMismatch, "'data' has shape [3]"),
        (pool(&[("pool_type", "min")]), ErrorKind::BadParameter, "max, avg, sum"),
        (images.batch_norm(&row, &row, &row, &row), ErrorKind::ShapeMismatch, "'gamma' has shape [3] where [4]"),
        (images.layer_norm(&row, &row), ErrorKind::ShapeMismatch, "'gamma' has shape [3] where [5]"),
        (images.prelu(&row), ErrorKind::ShapeMismatch, "where [1] or [4] belongs"),
        (images.dropout(1.0), ErrorKind::BadParameter, "0.0..1.0"),
        (called("Dropout", &[("axes", "(4)")], &[&images]), ErrorKind::OutOfRange, "axis 4"),
        (images.linear_regression_output(&row), ErrorKind::ShapeMismatch, "'label' has shape [3]"),
        (called("LeakyReLU", &[("lower_bound", "1")], &[&images]), ErrorKind::BadParameter, "lower_bound = 1"),
        (NDArray::zeros([2], DType::I32).unwrap().gelu(), ErrorKind::UnsupportedType, "no kernel for int32"),
    ];
    for (result, kind, said) in wrong {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[test]
fn weights_have_shapes_that_follow_from_the_data() {
    use seriatim_tensor::Shape;
    let shape = |dims: &[usize]| Some(Shape::new(dims).unwrap());
    let op = Op::new("Convolution", &[("kernel", "(5,3)"), ("num_filter", "6"), ("num_group", "2")]).unwrap();
    let (mut inputs, mut out) = (vec![shape(&[7, 4, 9, 9]), None, None], vec![None]);
    assert!(op.property().infer_shape(&mut inputs, &mut out, &mut []).unwrap());
    assert_eq!((inputs[1], inputs[2], out[0]), (shape(&[6, 2, 5, 3]), shape(&[6]), shape(&[7, 6, 5, 7])));
    let op = Op::new("BatchNorm", &[]).unwrap();
    let (mut inputs, mut out, mut states) = (vec![shape(&[7, 4]), None, None], vec![None; 3], vec![None; 2]);
    assert!(op.property().infer_shape(&mut inputs, &mut out, &mut states).unwrap());
    assert_eq!((inputs[1], states[1], out[2]), (shape(&[4]), shape(&[4]), shape(&[4])));
    assert_eq!(op.property().list_auxiliary_states(), ["moving_mean", "moving_var"]);
    assert_eq!((op.property().num_outputs(), op.property().num_visible_outputs()), (3, 1));
}

#[test]
fn every_float_is_computed_and_rounded_once() {
    // Sums of these values are exact in every type.
    let data: Vec<f64> = (0..72).map(|at| f64::from(at % 5) - 2.0).collect();
    let weight: Vec<f64> = (0..18).map(|at| f64::from(at % 3) - 1.0).collect();
    let mut all = Vec::new();
    for dtype in [DType::F64, DType::F32, DType::F16, DType::Bf16] {
        let [x, of] = [array(&data, &[1, 2, 6, 6]), array(&weight, &[1, 2, 3, 3])].map(|x| x.astype(dtype).unwrap());
        [&x, &of].iter().for_each(|array| array.attach_grad(OpReq::Write).unwrap());
        let out = autograd::record(|| {
            x.convolution(&of, None, &[], &[1, 1], 1)?.max_pool(&[2, 2], &[2, 2], &[])?.leaky_relu(0.5)
        })
        .unwrap();
        autograd::backward(&[&out]).unwrap();
        assert_eq!(out.dtype(), dtype);
        let found = [&out, &x.grad().unwrap(), &of.grad().unwrap()];
        all.push(found.map(|array| array.astype(DType::F64).unwrap().to_vec::<f64>().unwrap()));
    }
    assert!(all.iter().all(|found| found == &all[0]));
}

/// Large enough to be cut into parts, by what they are not.
#[test]
fn images_without_elements_are_convolved() {
    let of = |shape: &[usize]| Runtime::global().unwrap().ones(shape, DType::F32).unwrap();
    let pad = [("kernel", "(3,3)"), ("pad", "(2,2)"), ("num_filter", "64")];
    let (data, weight, bias) = (of(&[2, 64, 0, 16]), of(&[64, 64, 3, 3]), of(&[64]));
    weight.attach_grad(OpReq::Write).unwrap();
    let convolution = Op::new("Convolution", &pad).unwrap();
    let out = autograd::record(|| convolution.invoke(&[&data, &weight, &bias])).unwrap();
    assert_eq!(out.shape().dims(), [2, 64, 2, 18]);
    assert!(out.to_vec::<f32>().unwrap().iter().all(|value| *value == 1.0));
    autograd::backward(&[&out]).unwrap();
    assert!(weight.grad().unwrap().to_vec::<f32>().unwrap().iter().all(|value| *value == 0.0));
    let back = Op::new("Deconvolution", &[("kernel", "(3,3)"), ("num_filter", "16"), ("no_bias", "1")]).unwrap();
    let out = back.invoke(&[&of(&[2, 0, 32, 32]), &of(&[0, 16, 3, 3])]).unwrap();
    assert_eq!(out.shape().dims(), [2, 16, 34, 34]);
    assert!(out.to_vec::<f32>().unwrap().iter().all(|value| *value == 0.0));
}
