//! A convolution of this crate's behind the property of `Convolution`: it computes small images by
//! a plain loop, and leaves others to the operator.

use seriatim_tensor::operator::{implement, Given, Op, OpContext, Operator};
use seriatim::{Context, Device};
use seriatim_tensor::{autograd, Blob, BlobMut, Error, ErrorKind, NDArray, OpReq};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static CALLS: AtomicUsize = AtomicUsize::new(0);

/// So many elements an image may have that this one takes.
const SMALL: usize = 64;

/// Of one group, without stride, dilation and padding.
struct Plain {
    own: Box<dyn Operator>,
}

impl Operator for Plain {
    fn forward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        req: &[OpReq],
        out_data: &mut [BlobMut<'_>],
        aux_states: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let (data, weight) = (in_data[0].shape(), in_data[1].shape());
        let ([images, channels, rows, columns], [filters, _, height, width]) = (data.dims(), weight.dims()) else {
            return self.own.forward(ctx, in_data, req, out_data, aux_states);
        };
        if rows * columns > SMALL {
            return self.own.forward(ctx, in_data, req, out_data, aux_states);
        }
        CALLS.fetch_add(1, Relaxed);
        let [x, w, bias] = [0, 1, 2].map(|at| in_data[at].to_vec::<f64>());
        let (out_rows, out_columns) = (rows - height + 1, columns - width + 1);
        let mut out = Vec::with_capacity(images * filters * out_rows * out_columns);
        for image in 0..*images {
            for (filter, bias) in bias.iter().enumerate() {
                for at in 0..out_rows * out_columns {
                    let (row, column) = (at / out_columns, at % out_columns);
                    let mut sum = *bias;
                    for of in 0..channels * height * width {
                        let (channel, y, z) = (of / (height * width), of / width % height, of % width);
                        let place = ((image * channels + channel) * rows + row + y) * columns + column + z;
                        sum += x[place] * w[filter * channels * height * width + of];
                    }
                    out.push(sum);
                }
            }
        }
        out_data[0].writer(req[0]).put(&out);
        Ok(())
    }

    fn backward(
        &self,
        ctx: &mut OpContext<'_, '_>,
        out_grad: Given<'_>,
        in_data: Given<'_>,
        out_data: Given<'_>,
        req: &[OpReq],
        in_grad: &mut [BlobMut<'_>],
        aux_states: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        self.own.backward(ctx, out_grad, in_data, out_data, req, in_grad, aux_states)
    }
}

#[test]
fn a_convolution_of_this_crate_is_chosen_by_shapes() {
    let parameters = [("kernel", "(3, 2)"), ("num_filter", "4")];
    let (before, strided) = (Op::new("Convolution", &parameters).unwrap(), [parameters[0], parameters[1], ("stride", "(2, 2)")]);
    implement("Convolution", |property, context| {
        let is_plain = property.get_params().iter().all(|(name, value)| match *name {
            "stride" | "dilate" | "pad" => value == "()",
            "num_group" => value == "1",
            "no_bias" => value == "false",
            _ => true,
        });
        if !is_plain || context.device() != Device::Cpu {
            return Ok(None);
        }
        Ok(Some(Box::new(Plain { own: property.create_operator(context)? })))
    })
    .unwrap();
    let of = |shape: &[usize]| {
        let values: Vec<f32> = (0..shape.iter().product()).map(|at: usize| (at * 37 % 19) as f32 / 8.0 - 1.0).collect();
        NDArray::from_slice(&values, shape).unwrap()
    };
    let (weight, bias) = (of(&[4, 3, 3, 2]), of(&[4]));
    weight.attach_grad(OpReq::Write).unwrap();
    for (size, stride, taken) in [(8, false, 1), (9, false, 0), (8, true, 0)] {
        let x = of(&[2, 3, size, size]);
        let given = if stride { &strided[..] } else { &parameters };
        let mut results = Vec::new();
        let own = if stride { Op::new("Convolution", given).unwrap() } else { before.clone() };
        for op in [own, Op::new("Convolution", given).unwrap()] {
            let calls = CALLS.load(Relaxed);
            let y = autograd::record(|| op.invoke(&[&x, &weight, &bias])).unwrap();
            autograd::backward(&[&y]).unwrap();
            results.push([y.to_vec::<f32>().unwrap(), weight.grad().unwrap().to_vec::<f32>().unwrap()]);
            results.last_mut().unwrap()[1].push((CALLS.load(Relaxed) - calls) as f32);
        }
        let calls: Vec<f32> = results.iter_mut().map(|result| result[1].pop().unwrap()).collect();
        assert_eq!(calls, [0.0, taken as f32], "{size} {stride}");
        let [own, other] = &results[..] else { unreachable!("there are two") };
        assert!(own[0].iter().zip(&other[0]).all(|(a, b)| (a - b).abs() <= 1e-5 * a.abs().max(1.0)), "{size} {stride}");
        assert_eq!(own[1], other[1]);
    }
    let refused = implement("Convolutoin", |_, _: Context| Ok(None)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::UnknownOperator);
}
