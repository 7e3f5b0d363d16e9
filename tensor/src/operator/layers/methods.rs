//! Layers as methods of `NDArray`.
//!
//! Each makes its operator anew. A program that calls one often, or that needs parameters which
//! these leave out, makes an [`Op`](crate::operator::Op) once.

#![forbid(unsafe_code)]

use crate::error::{Error, ErrorKind};
use crate::ndarray::array::NDArray;
use crate::operator::shaping::methods::{call, dims};

/// The sizes of a kernel in the shape of weights, which has two axes more.
fn kernel(weight: &NDArray) -> Result<String, Error> {
    match weight.shape().dims() {
        [_, _, kernel @ ..] if !kernel.is_empty() => Ok(dims(kernel)),
        _ => {
            let message =
                format!("a weight of shape {}: two axes of channels belong, and the kernel's", weight.shape());
            Err(Error::new(ErrorKind::ShapeMismatch, message))
        }
    }
}

impl NDArray {
    /// Each element, or `slope` times it if it is negative (`LeakyReLU`).
    ///
    /// # Errors
    /// [`UnsupportedType`](ErrorKind::UnsupportedType), and those of a call.
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// let x = NDArray::from_slice(&[-2.0f32, 3.0], [2])?;
    /// assert_eq!(x.leaky_relu(0.5)?.to_vec::<f32>()?, [-1.0, 3.0]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn leaky_relu(&self, slope: f64) -> Result<NDArray, Error> {
        call("LeakyReLU", &[self], &[("slope", &slope.to_string())])
    }

    /// The same with slopes that are learned: one, or one for each place of the second axis.
    ///
    /// # Errors
    /// [`ShapeMismatch`](ErrorKind::ShapeMismatch), and those of a call.
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// let x = NDArray::from_slice(&[-2.0f32, -3.0], [1, 2])?;
    /// let slopes = NDArray::from_slice(&[0.5f32, 0.1], [2])?;
    /// assert_eq!(x.prelu(&slopes)?.to_vec::<f32>()?, [-1.0, -0.3]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn prelu(&self, slopes: &NDArray) -> Result<NDArray, Error> {
        call("LeakyReLU", &[self, slopes], &[("act_type", "prelu")])
    }

    /// Each element, or `slope` (eˣ - 1) if it is negative.
    ///
    /// # Errors
    /// Those of [`leaky_relu`](NDArray::leaky_relu).
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// let x = NDArray::from_slice(&[-f64::INFINITY, 3.0], [2])?;
    /// assert_eq!(x.elu(0.5)?.to_vec::<f64>()?, [-0.5, 3.0]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn elu(&self, slope: f64) -> Result<NDArray, Error> {
        call("LeakyReLU", &[self], &[("act_type", "elu"), ("slope", &slope.to_string())])
    }

    /// Each element times the share of the normal distribution that lies below it.
    ///
    /// # Errors
    /// Those of [`leaky_relu`](NDArray::leaky_relu).
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// let x = NDArray::from_slice(&[0.0f64, 10.0], [2])?;
    /// assert_eq!(x.gelu()?.to_vec::<f64>()?, [0.0, 10.0]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn gelu(&self) -> Result<NDArray, Error> {
        call("LeakyReLU", &[self], &[("act_type", "gelu")])
    }

    /// Rows along the last axis with mean 0 and deviation 1, then scaled and shifted (`LayerNorm`).
    ///
    /// # Errors
    /// [`ShapeMismatch`](ErrorKind::ShapeMismatch) if `gamma` and `beta` have not one element for
    /// each place of the axis; those of a call.
    ///
    /// ```
    /// # use seriatim_tensor::{DType, NDArray, Runtime};
    /// let x = NDArray::from_slice(&[1.0f64, 3.0], [1, 2])?;
    /// let (gamma, beta) = (NDArray::from_slice(&[1.0f64, 1.0], [2])?, NDArray::zeros([2], DType::F64)?);
    /// let y = x.layer_norm(&gamma, &beta)?.to_vec::<f64>()?;
    /// assert!((y[0] + 1.0).abs() < 1e-5 && (y[1] - 1.0).abs() < 1e-5);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn layer_norm(&self, gamma: &NDArray, beta: &NDArray) -> Result<NDArray, Error> {
        call("LayerNorm", &[self, gamma, beta], &[])
    }

    /// While training, a share `p` of the elements set to 0 and the others divided by 1 - `p`; else
    /// the same elements (`Dropout`).
    ///
    /// # Errors
    /// [`BadParameter`](ErrorKind::BadParameter) if `p` is not in 0.0..1.0; those of a call.
    ///
    /// ```
    /// # use seriatim_tensor::{autograd, NDArray};
    /// let x = NDArray::from_slice(&[1.0f32; 100], [100])?;
    /// assert_eq!(x.dropout(0.5)?.to_vec::<f32>()?, [1.0; 100]);
    /// let dropped = autograd::train_mode(|| x.dropout(0.5))?.to_vec::<f32>()?;
    /// assert!(dropped.iter().all(|x| [0.0, 2.0].contains(x)) && dropped.contains(&0.0));
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn dropout(&self, p: f64) -> Result<NDArray, Error> {
        call("Dropout", &[self], &[("p", &p.to_string())])
    }

    /// The same elements, each with the gradient `scale`, whatever flows back to them (`MakeLoss`).
    ///
    /// # Errors
    /// [`UnsupportedType`](ErrorKind::UnsupportedType), and those of a call.
    ///
    /// ```
    /// use seriatim_tensor::{autograd, NDArray, OpReq};
    /// let x = NDArray::from_slice(&[3.0f32], [1])?;
    /// x.attach_grad(OpReq::Write)?;
    /// let loss = autograd::record(|| x.make_loss(0.5)?.mul_scalar(7.0))?;
    /// autograd::backward(&[&loss])?;
    /// assert_eq!(x.grad()?.as_scalar::<f32>()?, 0.5);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn make_loss(&self, scale: f64) -> Result<NDArray, Error> {
        call("MakeLoss", &[self], &[("grad_scale", &scale.to_string())])
    }

    /// The same elements, with the gradient of half the squared distance to a label
    /// (`LinearRegressionOutput`), divided by the elements of a row.
    ///
    /// # Errors
    /// [`ShapeMismatch`](ErrorKind::ShapeMismatch), and those of a call.
    ///
    /// ```
    /// use seriatim_tensor::{autograd, NDArray, OpReq};
    /// let (x, label) = (NDArray::from_slice(&[3.0f32], [1])?, NDArray::from_slice(&[1.0f32], [1])?);
    /// x.attach_grad(OpReq::Write)?;
    /// autograd::backward(&[&autograd::record(|| x.linear_regression_output(&label))?])?;
    /// assert_eq!(x.grad()?.as_scalar::<f32>()?, 2.0);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn linear_regression_output(&self, label: &NDArray) -> Result<NDArray, Error> {
        call("LinearRegressionOutput", &[self, label], &[])
    }

    /// The sigmoid of each element, with the gradient of the cross entropy with a label
    /// (`LogisticRegressionOutput`), divided by the elements of a row.
    ///
    /// # Errors
    /// Those of [`linear_regression_output`](NDArray::linear_regression_output).
    ///
    /// ```
    /// use seriatim_tensor::{autograd, NDArray, OpReq};
    /// let (x, label) = (NDArray::from_slice(&[0.0f32], [1])?, NDArray::from_slice(&[1.0f32], [1])?);
    /// x.attach_grad(OpReq::Write)?;
    /// let y = autograd::record(|| x.logistic_regression_output(&label))?;
    /// autograd::backward(&[&y])?;
    /// assert_eq!((y.as_scalar::<f32>()?, x.grad()?.as_scalar::<f32>()?), (0.5, -0.5));
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn logistic_regression_output(&self, label: &NDArray) -> Result<NDArray, Error> {
        call("LogisticRegressionOutput", &[self, label], &[])
    }

    /// The same elements, with the gradient of the distance to a label (`MAERegressionOutput`),
    /// divided by the elements of a row.
    ///
    /// # Errors
    /// Those of [`linear_regression_output`](NDArray::linear_regression_output).
    ///
    /// ```
    /// use seriatim_tensor::{autograd, NDArray, OpReq};
    /// let (x, label) = (NDArray::from_slice(&[3.0f32], [1])?, NDArray::from_slice(&[1.0f32], [1])?);
    /// x.attach_grad(OpReq::Write)?;
    /// autograd::backward(&[&autograd::record(|| x.mae_regression_output(&label))?])?;
    /// assert_eq!(x.grad()?.as_scalar::<f32>()?, 1.0);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn mae_regression_output(&self, label: &NDArray) -> Result<NDArray, Error> {
        call("MAERegressionOutput", &[self, label], &[])
    }

    /// The sums of products of windows on images with filters, plus a bias (`Convolution`). The
    /// array has axes of images, channels, and one or two of places; the weight of filters,
    /// channels of a group, and the kernel. Empty lists are strides of 1 and no padding.
    ///
    /// # Errors
    /// [`ShapeMismatch`](ErrorKind::ShapeMismatch) if the weight does not go with the array, or the
    /// kernel is larger than the padded images; those of a call.
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// let row = NDArray::from_slice(&[1.0f32, 2.0, 4.0, 8.0], [1, 1, 4])?;
    /// let filter = NDArray::from_slice(&[1.0f32, 10.0], [1, 1, 2])?;
    /// assert_eq!(row.convolution(&filter, None, &[], &[], 1)?.to_vec::<f32>()?, [21.0, 42.0, 84.0]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn convolution(
        &self,
        weight: &NDArray,
        bias: Option<&NDArray>,
        stride: &[usize],
        pad: &[usize],
        groups: usize,
    ) -> Result<NDArray, Error> {
        let (filters, groups) = (weight.shape().dims().first().copied().unwrap_or(0), groups.to_string());
        let parameters = [
            ("kernel", &*kernel(weight)?),
            ("num_filter", &filters.to_string()),
            ("stride", &dims(stride)),
            ("pad", &dims(pad)),
            ("num_group", &groups),
            ("no_bias", if bias.is_some() { "false" } else { "true" }),
        ];
        let inputs: smallvec::SmallVec<[&NDArray; 3]> = [self, weight].into_iter().chain(bias).collect();
        call("Convolution", &inputs, &parameters)
    }

    /// A convolution backwards (`Deconvolution`): filters times elements are added up where a
    /// convolution with this stride and padding would have read them. The weight has axes of this
    /// array's channels, the result's channels of a group, and the kernel.
    ///
    /// # Errors
    /// Those of [`convolution`](NDArray::convolution).
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// let row = NDArray::from_slice(&[1.0f32, 2.0], [1, 1, 2])?;
    /// let filter = NDArray::from_slice(&[1.0f32, 10.0], [1, 1, 2])?;
    /// assert_eq!(row.deconvolution(&filter, None, &[2], &[], 1)?.to_vec::<f32>()?, [1.0, 10.0, 2.0, 20.0]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn deconvolution(
        &self,
        weight: &NDArray,
        bias: Option<&NDArray>,
        stride: &[usize],
        pad: &[usize],
        groups: usize,
    ) -> Result<NDArray, Error> {
        let filters = weight.shape().dims().get(1).copied().unwrap_or(0).saturating_mul(groups);
        let parameters = [
            ("kernel", &*kernel(weight)?),
            ("num_filter", &filters.to_string()),
            ("stride", &dims(stride)),
            ("pad", &dims(pad)),
            ("num_group", &groups.to_string()),
            ("no_bias", if bias.is_some() { "false" } else { "true" }),
        ];
        let inputs: smallvec::SmallVec<[&NDArray; 3]> = [self, weight].into_iter().chain(bias).collect();
        call("Deconvolution", &inputs, &parameters)
    }

    /// The greatest elements of windows on images (`Pooling`). Empty lists are strides of 1 and no
    /// padding.
    ///
    /// # Errors
    /// [`BadParameter`](ErrorKind::BadParameter) if the padding is as wide as a window;
    /// [`ShapeMismatch`](ErrorKind::ShapeMismatch) if the windows are larger than padded images;
    /// those of a call.
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// let row = NDArray::from_slice(&[1.0f32, 5.0, 4.0, 8.0], [1, 1, 4])?;
    /// assert_eq!(row.max_pool(&[2], &[2], &[])?.to_vec::<f32>()?, [5.0, 8.0]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn max_pool(&self, kernel: &[usize], stride: &[usize], pad: &[usize]) -> Result<NDArray, Error> {
        call("Pooling", &[self], &[("kernel", &dims(kernel)), ("stride", &dims(stride)), ("pad", &dims(pad))])
    }

    /// The means of windows on images (`Pooling`). Zeros around the images count.
    ///
    /// # Errors
    /// Those of [`max_pool`](NDArray::max_pool).
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// let row = NDArray::from_slice(&[1.0f32, 5.0, 4.0, 8.0], [1, 1, 4])?;
    /// assert_eq!(row.average_pool(&[2], &[2], &[])?.to_vec::<f32>()?, [3.0, 6.0]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn average_pool(&self, kernel: &[usize], stride: &[usize], pad: &[usize]) -> Result<NDArray, Error> {
        let parameters =
            [("pool_type", "avg"), ("kernel", &*dims(kernel)), ("stride", &dims(stride)), ("pad", &dims(pad))];
        call("Pooling", &[self], &parameters)
    }

    /// The greatest element of each channel of each image.
    ///
    /// # Errors
    /// [`ShapeMismatch`](ErrorKind::ShapeMismatch) if the array has no images; those of a call.
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// let row = NDArray::from_slice(&[1.0f32, 5.0, 4.0, 8.0], [1, 2, 2])?;
    /// assert_eq!(row.global_max_pool()?.to_vec::<f32>()?, [5.0, 8.0]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn global_max_pool(&self) -> Result<NDArray, Error> {
        call("Pooling", &[self], &[("global_pool", "true")])
    }

    /// The mean of each channel of each image.
    ///
    /// # Errors
    /// Those of [`global_max_pool`](NDArray::global_max_pool).
    ///
    /// ```
    /// # use seriatim_tensor::NDArray;
    /// let row = NDArray::from_slice(&[1.0f32, 5.0, 4.0, 8.0], [1, 2, 2])?;
    /// assert_eq!(row.global_average_pool()?.to_vec::<f32>()?, [3.0, 6.0]);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn global_average_pool(&self) -> Result<NDArray, Error> {
        call("Pooling", &[self], &[("global_pool", "true"), ("pool_type", "avg")])
    }

    /// Each channel with mean 0 and deviation 1 over all images, then scaled and shifted
    /// (`BatchNorm`). Channels are the second axis. While training, the last two arrays move
    /// towards the means and variances of the call; else they are used in place of these.
    ///
    /// # Errors
    /// [`ShapeMismatch`](ErrorKind::ShapeMismatch) if an array has not one element a channel; those
    /// of a call.
    ///
    /// ```
    /// # use seriatim_tensor::{autograd, NDArray};
    /// let of = |value: f64| NDArray::from_slice(&[value], [1]);
    /// let (gamma, beta, mean, variance) = (of(1.0)?, of(0.0)?, of(0.0)?, of(1.0)?);
    /// let x = NDArray::from_slice(&[1.0f64, 3.0], [2, 1])?;
    /// let y = autograd::train_mode(|| x.batch_norm(&gamma, &beta, &mean, &variance))?;
    /// assert!((y.to_vec::<f64>()?[1] - 1.0).abs() < 1e-3);
    /// assert!((mean.as_scalar::<f64>()? - 0.2).abs() < 1e-12);
    /// # Ok::<(), seriatim_tensor::Error>(())
    /// ```
    pub fn batch_norm(
        &self,
        gamma: &NDArray,
        beta: &NDArray,
        moving_mean: &NDArray,
        moving_var: &NDArray,
    ) -> Result<NDArray, Error> {
        call("BatchNorm", &[self, gamma, beta, moving_mean, moving_var], &[("fix_gamma", "false")])
    }
}
