//! Functions of a program in `autograd`: their gradients against central differences, where they
//! are called and kept, and what a backward pass must not return.

mod common;

use common::{runtime, Draws};
use seriatim::Kind;
use seriatim_tensor::autograd::{self, Function};
use seriatim_tensor::{DType, Error, ErrorKind, NDArray, OpReq, Step};
use std::cell::Cell;
use std::rc::Rc;

/// `a b²` and `sin(a)`, of which the first is kept.
#[derive(Default)]
struct Two {
    saved: Option<[NDArray; 2]>,
    /// Adds an error to a gradient, to see that the test notices.
    wrong: f64,
}

impl Function for Two {
    fn forward(&mut self, inputs: &[&NDArray]) -> Result<Vec<NDArray>, Error> {
        assert!(!autograd::is_recording());
        self.saved = Some([inputs[0].clone(), inputs[1].clone()]);
        Ok(vec![inputs[0].mul(&inputs[1].square()?)?, inputs[0].sin()?])
    }

    fn backward(&mut self, out_grads: &[NDArray]) -> Result<Vec<Option<NDArray>>, Error> {
        assert!(!autograd::is_recording() && autograd::is_training());
        let Some([a, b]) = &self.saved else { return Ok(vec![None; 2]) };
        let by_a = out_grads[0].mul(&b.square()?)?.add(&out_grads[1].mul(&a.cos()?)?)?;
        let by_b = out_grads[0].mul(&a.mul(b)?)?.mul_scalar(2.0)?.add_scalar(self.wrong)?;
        Ok(vec![Some(by_a), Some(by_b)])
    }
}

/// A scalar of the inputs, in which functions are used in several ways.
type Program = fn(&NDArray, &NDArray, f64) -> Result<NDArray, Error>;

fn apply(a: &NDArray, b: &NDArray, wrong: f64) -> Result<Vec<NDArray>, Error> {
    autograd::apply(Two { saved: None, wrong }, &[a, b])
}

fn both_outputs(a: &NDArray, b: &NDArray, wrong: f64) -> Result<NDArray, Error> {
    let outputs = apply(a, b, wrong)?;
    outputs[0].mul(&outputs[1])?.sum()
}

/// The gradient by the other output is 0.
fn one_output(a: &NDArray, b: &NDArray, wrong: f64) -> Result<NDArray, Error> {
    apply(a, b, wrong)?[0].square()?.sum()
}

/// Gradients of the same input are added: by both arguments, by two calls, and by an operator.
fn same_input(a: &NDArray, b: &NDArray, wrong: f64) -> Result<NDArray, Error> {
    let (first, second) = (apply(a, a, wrong)?, apply(&b.square()?, a, wrong)?);
    first[0].add(&second[0])?.mul(a)?.sum()
}

/// Functions of functions, of views of outputs, and outputs that are used twice.
fn chained(a: &NDArray, b: &NDArray, wrong: f64) -> Result<NDArray, Error> {
    let first = apply(&a.tanh()?, b, wrong)?;
    let second = apply(&first[1], &first[0].transpose()?.transpose()?, wrong)?;
    second[0].add(&first[0])?.mul(&second[1])?.sum()
}

/// Calls a function and computes its gradient in a graph of its own, again in the backward pass.
struct Again {
    saved: Option<[NDArray; 2]>,
    wrong: f64,
}

impl Function for Again {
    fn name(&self) -> &str {
        "again"
    }

    fn forward(&mut self, inputs: &[&NDArray]) -> Result<Vec<NDArray>, Error> {
        self.saved = Some([inputs[0].copy()?, inputs[1].copy()?]);
        Ok(vec![chained(inputs[0], inputs[1], self.wrong)?])
    }

    fn backward(&mut self, out_grads: &[NDArray]) -> Result<Vec<Option<NDArray>>, Error> {
        let Some([a, b]) = &self.saved else { return Ok(vec![None; 2]) };
        a.attach_grad(OpReq::Write)?;
        b.attach_grad(OpReq::Write)?;
        let out = autograd::record(|| chained(a, b, self.wrong))?;
        autograd::backward_with(&[(&out, Some(&out_grads[0]))], false)?;
        Ok(vec![Some(a.grad()?), Some(b.grad()?)])
    }
}

fn nested(a: &NDArray, b: &NDArray, wrong: f64) -> Result<NDArray, Error> {
    let inner = autograd::apply(Again { saved: None, wrong }, &[&a.mul_scalar(0.5)?, b])?;
    inner[0].mul(&a.sum()?)
}

const SHAPE: [usize; 2] = [2, 3];

/// The greatest distance of a gradient to the central differences.
fn apart(program: Program, wrong: f64) -> f64 {
    let mut draws = Draws::new(5);
    let drawn: [Vec<f64>; 2] = [(); 2].map(|()| draws.values(6, -1.2, 1.2));
    let arrays = |drawn: &[Vec<f64>; 2]| drawn.each_ref().map(|values| NDArray::from_slice(values, SHAPE).unwrap());
    let value = |drawn: &[Vec<f64>; 2]| {
        let [a, b] = arrays(drawn);
        program(&a, &b, wrong).unwrap().as_scalar::<f64>().unwrap()
    };
    let [a, b] = arrays(&drawn);
    a.attach_grad(OpReq::Write).unwrap();
    b.attach_grad(OpReq::Add).unwrap();
    b.grad().unwrap().fill(0.25).unwrap();
    let out = autograd::record(|| program(&a, &b, wrong)).unwrap();
    assert_eq!(out.as_scalar::<f64>().unwrap().to_bits(), value(&drawn).to_bits(), "recorded or not");
    autograd::backward(&[&out]).unwrap();
    let mut most = 0.0f64;
    for (input, (array, before)) in [(&a, 0.0), (&b, 0.25)].into_iter().enumerate() {
        let gradient = array.grad().unwrap().to_vec::<f64>().unwrap();
        for (element, found) in gradient.iter().enumerate() {
            let moved = |by: f64| {
                let mut drawn = drawn.clone();
                drawn[input][element] += by;
                value(&drawn)
            };
            let expected = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            most = most.max((found - before - expected).abs() / (1.0 + expected.abs()));
        }
    }
    most
}

#[test]
fn gradients_of_functions_equal_their_differences() {
    let programs: [(&str, Program); 5] =
        [("both", both_outputs), ("one", one_output), ("same", same_input), ("chained", chained), ("nested", nested)];
    for (name, program) in programs {
        assert!(apart(program, 0.0) < 1e-7, "{name}");
        assert!(apart(program, 1e-2) > 1e-4, "{name}: a wrong gradient is noticed");
    }
}

/// Counts its passes, and returns what it is told to.
struct Odd {
    passes: Rc<Cell<[usize; 2]>>,
    returns: fn(&NDArray) -> Result<Vec<Option<NDArray>>, Error>,
}

impl Function for Odd {
    fn forward(&mut self, inputs: &[&NDArray]) -> Result<Vec<NDArray>, Error> {
        let [forward, backward] = self.passes.get();
        self.passes.set([forward + 1, backward]);
        Ok(vec![inputs[0].clone()])
    }

    fn backward(&mut self, out_grads: &[NDArray]) -> Result<Vec<Option<NDArray>>, Error> {
        let [forward, backward] = self.passes.get();
        self.passes.set([forward, backward + 1]);
        (self.returns)(&out_grads[0])
    }
}

fn odd(returns: fn(&NDArray) -> Result<Vec<Option<NDArray>>, Error>) -> Odd {
    Odd { passes: Rc::default(), returns }
}

fn with_grad() -> NDArray {
    let x = NDArray::from_slice(&[1.0f64, 2.0], [2]).unwrap();
    x.attach_grad(OpReq::Write).unwrap();
    x
}

#[test]
fn wrong_gradients_are_errors_with_the_name_of_the_function() {
    let label = NDArray::from_slice(&[0i32, 1], [2]).unwrap();
    let refused = |returns| {
        let x = with_grad();
        let y = autograd::record(|| autograd::apply(odd(returns), &[&x, &label])).unwrap();
        let error = autograd::backward(&[&y[0]]).unwrap_err();
        assert!(error.to_string().contains("Odd"), "{error}");
        assert_eq!(x.grad().unwrap().to_vec::<f64>().unwrap(), [0.0, 0.0], "nothing is written");
        // What was recorded is forgotten, and the next walk is as ever.
        let y = autograd::record(|| x.square()).unwrap();
        autograd::backward(&[&y]).unwrap();
        assert_eq!(x.grad().unwrap().to_vec::<f64>().unwrap(), [2.0, 4.0]);
        error
    };
    let few = refused(|grad| Ok(vec![Some(grad.clone())]));
    assert_eq!(few.kind(), ErrorKind::WrongArguments);
    assert!(few.to_string().contains("1 gradients for 2 inputs"), "{few}");
    let shape = refused(|grad| Ok(vec![Some(grad.slice(0, 0, 1, 1)?), None]));
    assert_eq!(shape.kind(), ErrorKind::ShapeMismatch);
    assert!(shape.to_string().contains("by input 0 is NDArray(float64 [1]"), "{shape}");
    assert_eq!(refused(|grad| Ok(vec![Some(grad.astype(DType::F32)?), None])).kind(), ErrorKind::UnsupportedType);
    let foreign = refused(|_| Ok(vec![Some(runtime(Kind::Naive, 0).zeros([2], DType::F64)?), None]));
    assert_eq!(foreign.kind(), ErrorKind::ForeignArray);
    // A gradient by a label is checked too.
    assert_eq!(refused(|grad| Ok(vec![None, Some(grad.clone())])).kind(), ErrorKind::UnsupportedType);
    // The function's own error.
    assert_eq!(refused(|grad| grad.reshape([3]).map(|_| Vec::new())).kind(), ErrorKind::ShapeMismatch);
    let x = with_grad();
    let failed = autograd::record(|| autograd::apply(Failing, &[&x])).unwrap_err();
    assert!(failed.to_string().contains("failing"), "{failed}");
    assert!(!autograd::is_recording());
}

struct Failing;

impl Function for Failing {
    fn name(&self) -> &str {
        "failing"
    }

    fn forward(&mut self, inputs: &[&NDArray]) -> Result<Vec<NDArray>, Error> {
        Ok(vec![inputs[0].reshape([3])?])
    }

    fn backward(&mut self, _: &[NDArray]) -> Result<Vec<Option<NDArray>>, Error> {
        panic!("a function's own panic")
    }
}

#[test]
fn a_function_is_noted_where_gradients_flow_and_nowhere_else() {
    let (x, bare) = (with_grad(), NDArray::from_slice(&[1.0f64, 2.0], [2]).unwrap());
    let function = || odd(|grad| Ok(vec![Some(grad.mul_scalar(3.0)?)]));
    let passes = |function: &Odd| Rc::clone(&function.passes);
    let is_noted = |head: &NDArray| autograd::backward(&[head]).is_ok();
    // Outside of recording, paused, and of an array without a gradient: the values alone. The
    // function is dropped.
    for (recording, array) in [(false, &x), (true, &x), (true, &bare)] {
        let function = function();
        let passes = passes(&function);
        let call = || autograd::apply(function, &[array]).unwrap();
        let y = match (recording, array.grad().is_ok()) {
            (true, true) => autograd::record(|| autograd::pause(call)),
            (true, false) => autograd::record(call),
            (false, _) => call(),
        };
        assert_eq!(y[0].to_vec::<f64>().unwrap(), [1.0, 2.0]);
        assert_eq!((passes.get(), Rc::strong_count(&passes)), ([1, 0], 1));
        assert!(!is_noted(&y[0]));
    }
    // An output is a value of its own, also if it is the input: the gradient goes through the
    // function. A retained tape is walked again.
    let function = function();
    let passes = passes(&function);
    let y = autograd::record(|| autograd::apply(function, &[&x])).unwrap();
    autograd::backward_with(&[(&y[0], None)], true).unwrap();
    assert_eq!(x.grad().unwrap().to_vec::<f64>().unwrap(), [3.0, 3.0]);
    autograd::backward_with(&[(&y[0], Some(&x))], false).unwrap();
    assert_eq!(x.grad().unwrap().to_vec::<f64>().unwrap(), [3.0, 6.0]);
    assert_eq!((passes.get(), Rc::strong_count(&passes)), ([1, 2], 1), "the tape has dropped it");
    // No gradient by the input: that of before stays.
    let y = autograd::record(|| autograd::apply(odd(|_| Ok(vec![None])), &[&x])).unwrap();
    autograd::backward(&[&y[0]]).unwrap();
    assert_eq!(x.grad().unwrap().to_vec::<f64>().unwrap(), [3.0, 6.0]);
}

#[test]
fn a_panic_in_a_function_leaves_the_thread_as_it_was() {
    let x = NDArray::from_slice(&[1.0f64, 2.0, 3.0], [3]).unwrap();
    x.attach_grad(OpReq::Write).unwrap();
    let y = autograd::record(|| autograd::apply(Failing, &[&x])).unwrap();
    let walk = std::panic::AssertUnwindSafe(|| autograd::backward(&[&y[0]]));
    assert!(std::panic::catch_unwind(walk).is_err());
    assert!(!autograd::is_recording() && !autograd::is_training());
    let y = autograd::record(|| x.square()).unwrap();
    autograd::backward(&[&y]).unwrap();
    assert_eq!(x.grad().unwrap().to_vec::<f64>().unwrap(), [2.0, 4.0, 6.0]);
}

#[test]
fn a_captured_function_is_called_once_and_its_passes_run_each_time() {
    let x = with_grad();
    let function = odd(|grad| Ok(vec![Some(grad.mul_scalar(3.0)?)]));
    let passes = Rc::clone(&function.passes);
    let scale = NDArray::from_slice(&[1.0f64], [1]).unwrap();
    let mut step = Step::capture(&[&scale], |inputs| {
        let y = autograd::record(|| autograd::apply(function, &[&x])?[0].mul(&inputs[0]))?;
        autograd::backward(&[&y])?;
        Ok(y)
    })
    .unwrap();
    assert_eq!((passes.get(), Rc::strong_count(&passes)), ([1, 1], 1));
    for factor in [2.0f64, 5.0] {
        let scale = NDArray::from_slice(&[factor], [1]).unwrap();
        assert_eq!(step.run(&[&scale]).unwrap().to_vec::<f64>().unwrap(), [factor, 2.0 * factor]);
        assert_eq!(x.grad().unwrap().to_vec::<f64>().unwrap(), [3.0 * factor; 2]);
    }
    assert_eq!(passes.get(), [1, 1]);
}
