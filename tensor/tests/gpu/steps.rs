//! Captured steps with arrays and kernels of GPUs.

use crate::implementations::{times, values, Queue, BOTH, GPU};
use seriatim::Context;
use seriatim_tensor::{autograd, DType, ErrorKind, NDArray, OpReq, Runtime, Step};

/// A step with copies, kernels, sums, parts and changes in place gives what its calls give.
pub fn a_step_gives_what_its_calls_give(runtime: &Runtime, queue: Queue) {
    let (op, _) = times(BOTH, queue);
    let of = |values: &[f32], context| runtime.from_slice_in(values, [2, 2], context).unwrap();
    let (pushed, captured) = (of(&[1.0; 4], GPU), of(&[1.0; 4], GPU));
    let calls = |x: &NDArray, state: &NDArray| {
        let there = op.invoke(&[&x.as_in_context(GPU)?])?;
        // From outside of the step, in place, and added to.
        op.invoke_into(&[state], &[(state, OpReq::Inplace)])?;
        op.invoke_into(&[&there], &[(state, OpReq::Add)])?;
        there.at(0)?.copy_to(&there.at(1)?)?;
        let other = there.as_in_context(Context::gpu(1))?;
        let sum = op.invoke(&[&other])?.as_in_context(Context::cpu(0))?.add(&x.square()?)?;
        Ok((sum, op.invoke(&[state])?))
    };
    let input = of(&[0.0; 4], Context::cpu(0));
    let mut step = Step::capture(&[&input], |inputs| calls(&inputs[0], &captured)).unwrap();
    let mut from_gpu = Step::capture(&[&of(&[0.0; 4], GPU)], |inputs| op.invoke(&[&inputs[0]])).unwrap();
    for round in 0..4 {
        let x = of(&[1.0, 2.0, 3.0 + round as f32, 0.5], Context::cpu(0));
        let (sum, state) = calls(&x, &pushed).unwrap();
        let (own_sum, own_state) = step.run(&[&x]).unwrap();
        let found = [own_sum, own_state, &captured].map(values);
        assert_eq!(found, [&sum, &state, &pushed].map(values), "round {round}");
        assert_eq!((own_state.context(), own_sum.context()), (GPU, Context::cpu(0)));
        assert_eq!(values(from_gpu.run(&[&x]).unwrap()), x.to_vec::<f32>().unwrap().map_times(3.0));
    }
    drop((step, from_gpu));
    runtime.wait_all().unwrap();
}

trait MapTimes {
    fn map_times(self, factor: f32) -> Self;
}

impl MapTimes for Vec<f32> {
    fn map_times(self, factor: f32) -> Vec<f32> {
        self.into_iter().map(|value| value * factor).collect()
    }
}

/// What is made in a step has nothing of the run before: sums begin with zeros, and what nothing
/// has written cannot be read.
pub fn arrays_of_a_step_are_new_in_each_run(runtime: &Runtime, queue: Queue) {
    let (op, _) = times(BOTH, queue);
    let x = runtime.from_slice_in(&[1.0f32, 2.0], [2], GPU).unwrap();
    let mut step = Step::capture(&[&x], |inputs| {
        let sum = runtime.empty_in([2], DType::F32, GPU)?;
        op.invoke_into(&[&inputs[0]], &[(&sum, OpReq::Add)])?;
        op.invoke_into(&[&inputs[0]], &[(&sum, OpReq::Add)])?;
        let part = runtime.empty_in([2, 2], DType::F32, GPU)?;
        sum.copy_to(&part.at(1)?)?;
        let other = runtime.empty_in([4], DType::F32, GPU)?;
        op.invoke_into(&[&sum], &[(&other.slice(0, 1, 3, 1)?, OpReq::Write)])?;
        Ok((part.as_in_context(Context::cpu(0))?, other))
    })
    .unwrap();
    for _ in 0..3 {
        let (part, other) = step.run(&[&x]).unwrap();
        assert_eq!(values(part), [0.0, 0.0, 6.0, 12.0]);
        assert_eq!(values(other), [0.0, 18.0, 36.0, 0.0]);
    }
    let mut late = Step::capture(&[&x], |inputs| {
        let new = runtime.empty_in([2], DType::F32, GPU)?;
        let early = op.invoke(&[&new])?;
        op.invoke_into(&[&inputs[0]], &[(&new, OpReq::Write)])?;
        Ok(early)
    })
    .unwrap();
    for _ in 0..3 {
        let error = late.run(&[&x]).unwrap().wait_to_read().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unwritten, "{error}");
        assert!(error.to_string().contains("'times' of float32 [2]"), "{error}");
    }
    // A capture that fails leaves nothing behind.
    let failed = Step::capture(&[&x], |inputs| {
        let y = op.invoke(&[&op.invoke(&[&inputs[0]])?])?;
        y.to_vec::<f32>().map(drop)
    });
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::Capturing);
    drop((step, late));
    let _ = runtime.wait_all();
}

/// Forward pass, backward pass and update, of a weight that lies on a GPU.
pub fn a_training_step_goes_through_a_gpu(runtime: &Runtime, queue: Queue) {
    let (op, _) = times(BOTH, queue);
    let weight = runtime.from_slice_in(&[1.0f32, 2.0], [2], GPU).unwrap();
    weight.attach_grad(OpReq::Write).unwrap();
    let x = runtime.from_slice(&[1.0f32, 10.0], [2]).unwrap();
    let mut step = Step::capture(&[&x], |inputs| {
        let loss = autograd::record(|| op.invoke(&[&weight])?.as_in_context(Context::cpu(0))?.mul(&inputs[0])?.sum())?;
        autograd::backward(&[&loss])?;
        // In place of an optimizer, for which this GPU has no kernel.
        let grad = weight.grad().expect("it was attached").as_in_context(Context::cpu(0))?;
        weight.as_in_context(Context::cpu(0))?.sub(&grad)?.copy_to(&weight)?;
        Ok(loss)
    })
    .unwrap();
    let (mut now, by) = ([1.0f32, 2.0], [3.0f32, 30.0]);
    for _ in 0..3 {
        let loss = step.run(&[&x]).unwrap().as_scalar::<f32>().unwrap();
        assert_eq!(loss, now[0] * by[0] + now[1] * by[1]);
        now = [now[0] - by[0], now[1] - by[1]];
        assert_eq!(values(&weight), now);
        assert_eq!(values(&weight.grad().unwrap()), by);
    }
    drop(step);
    runtime.wait_all().unwrap();
}
