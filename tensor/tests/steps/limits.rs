//! What a step cannot have, how long it keeps its memory, and what failures leave behind.

use crate::common::{runtime, runtimes};
use seriatim::{Context, Kind};
use seriatim_tensor::operator::{Op, OpContext, Operator, OperatorProperty};
use seriatim_tensor::{autograd, Blob, BlobMut, DType, Distribution, Error, ErrorKind, NDArray, OpReq, Shape, Step};

/// A call that a step cannot have, on its input.
type Refused<'a> = &'a mut dyn FnMut(&NDArray) -> Result<(), Error>;

fn kind<R>(result: Result<R, Error>) -> ErrorKind {
    match result {
        Ok(_) => panic!("it should be refused"),
        Err(error) => error.kind(),
    }
}

#[test]
fn what_a_step_cannot_have_is_refused() {
    let engine = runtime(Kind::Pooled, 1);
    let x = engine.from_slice(&[1.0f32, 2.0], [2]).unwrap();
    let parameter = engine.parameter(1.0f32).unwrap();
    let mut other = Step::capture(&[&x], |inputs| inputs[0].sum()).unwrap();
    let refused: [(&str, Refused<'_>); 12] = [
        ("to_vec", &mut |x| x.to_vec::<f32>().map(drop)),
        ("as_scalar", &mut |x| x.sum()?.as_scalar::<f32>().map(drop)),
        ("copy_to_slice", &mut |x| x.copy_to_slice(&mut [0.0f32; 2])),
        ("wait_to_read", &mut |x| x.wait_to_read()),
        ("wait_to_write", &mut |x| x.wait_to_write()),
        ("wait_all", &mut |x| x.runtime().wait_all()),
        ("attach_grad", &mut |x| x.square()?.attach_grad(OpReq::Write)),
        ("set", &mut |_| parameter.set(2.0)),
        ("parameter", &mut |x| x.runtime().parameter(2.0f32).map(drop)),
        ("get", &mut |_| parameter.get().map(drop)),
        ("capture", &mut |x| Step::capture(&[x], |inputs| inputs[0].sum()).map(drop)),
        ("run", &mut |x| other.run(&[x]).map(drop)),
    ];
    for (name, refused) in refused {
        let mut found = None;
        let whole = Step::capture(&[&x], |inputs| {
            found = Some(kind(refused(&inputs[0])));
            // The closure may go on.
            inputs[0].sum()
        });
        assert_eq!(found, Some(ErrorKind::Capturing), "{name}");
        assert_eq!(whole.unwrap().run(&[&x]).unwrap().as_scalar::<f32>().unwrap(), 3.0, "{name}");
        // An error of the closure is that of the capture.
        let whole = Step::capture(&[&x], |inputs| refused(&inputs[0]));
        assert_eq!(kind(whole), ErrorKind::Capturing, "{name}");
    }
    // Recording, and arrays of other runtimes.
    let weight = engine.from_slice(&[1.0f32, 2.0], [2]).unwrap();
    weight.attach_grad(OpReq::Write).unwrap();
    assert_eq!(kind(autograd::record(|| Step::capture(&[&x], |inputs| inputs[0].sum()))), ErrorKind::Recording);
    assert_eq!(kind(autograd::record(|| other.run(&[&x]).map(drop))), ErrorKind::Recording);
    let outside = autograd::record(|| weight.square()).unwrap();
    let inner = Step::capture(&[&x], |_| autograd::backward(&[&outside]));
    assert_eq!(kind(inner), ErrorKind::NotRecorded);
    autograd::backward(&[&outside]).unwrap();
    assert_eq!(weight.grad().unwrap().to_vec::<f32>().unwrap(), [2.0, 4.0]);
    let foreign = runtime(Kind::Naive, 0).from_slice(&[1.0f32, 2.0], [2]).unwrap();
    assert_eq!(kind(Step::capture(&[&x, &foreign], |inputs| inputs[0].sum())), ErrorKind::ForeignArray);
    assert_eq!(kind(Step::capture(&[&x], |_| foreign.sum())), ErrorKind::ForeignArray);
    assert_eq!(kind(Step::capture(&[&x], |_| foreign.fill(1.0))), ErrorKind::ForeignArray);
    // Inputs that are not those of the capture.
    assert_eq!(kind(other.run(&[&foreign])), ErrorKind::ForeignArray);
    assert_eq!(kind(other.run(&[])), ErrorKind::WrongArguments);
    assert_eq!(kind(other.run(&[&x.astype(DType::F64).unwrap()])), ErrorKind::UnsupportedType);
    assert_eq!(kind(other.run(&[&engine.zeros([3], DType::F32).unwrap()])), ErrorKind::ShapeMismatch);
    assert_eq!(other.run(&[&x]).unwrap().as_scalar::<f32>().unwrap(), 3.0);
    engine.wait_all().unwrap();
}

#[test]
fn arrays_from_inside_cannot_be_used_outside_unless_they_are_returned() {
    for (name, runtime) in runtimes() {
        let x = runtime.from_slice(&[1.0f32, 2.0], [2]).unwrap();
        let mut escaped = Vec::new();
        let mut step = Step::capture(&[&x], |inputs| {
            let square = inputs[0].square()?;
            escaped.push(square.clone());
            escaped.push(square.slice(0, 0, 1, 1)?);
            square.sum()
        })
        .unwrap();
        for dropped in [false, true] {
            for array in &escaped {
                assert_eq!(kind(array.to_vec::<f32>()), ErrorKind::InsideStep, "{name}");
                assert_eq!(kind(array.sum()), ErrorKind::InsideStep, "{name}");
                assert_eq!(kind(array.fill(1.0)), ErrorKind::InsideStep, "{name}");
                assert_eq!(kind(x.mul(&array.slice(0, 0, 1, 1).unwrap())), ErrorKind::InsideStep, "{name}");
                assert_eq!(kind(Step::capture(&[&x], |_| array.sum())), ErrorKind::InsideStep, "{name}");
            }
            if !dropped {
                let returned = step.run(&[&x]).unwrap().clone();
                drop(std::mem::replace(&mut step, Step::capture(&[&x], |inputs| inputs[0].sum()).unwrap()));
                // What is returned outlives the step, with the values of its last run.
                assert_eq!(returned.as_scalar::<f32>().unwrap(), 5.0, "{name}");
            }
        }
        drop(escaped);
        runtime.wait_all().unwrap();
    }
}

#[test]
fn the_memory_of_a_step_ends_with_it() {
    for (name, runtime) in runtimes() {
        let live = || runtime.storage().statistics(Context::cpu(0)).unwrap().live;
        runtime.wait_all().unwrap();
        let before = live();
        let x = runtime.random([64, 64], DType::F32, Distribution::Uniform { low: 0.0, high: 1.0 }).unwrap();
        let mut escaped = None;
        let mut step = Step::capture(&[&x], |inputs| {
            let doubled = inputs[0].mul_scalar(2.0)?;
            escaped = Some(doubled.clone());
            doubled.dot(&inputs[0])?.sum()
        })
        .unwrap();
        (0..20).for_each(|_| _ = step.run(&[&x]).unwrap());
        // The runs are under way.
        drop(step);
        drop(x);
        drop(escaped);
        // A closure that fails leaves nothing either.
        let x = runtime.ones([64], DType::F32).unwrap();
        let failed = Step::capture(&[&x], |inputs| {
            let product = inputs[0].mul(&inputs[0])?;
            autograd::record(|| product.reshape([3, 3]))
        });
        assert_eq!(kind(failed), ErrorKind::ShapeMismatch);
        drop(x);
        // A thread may still be about to leave the last run.
        for _ in 0..1000 {
            runtime.wait_all().unwrap();
            if live() == before {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!((live(), runtime.lost()), (before, 0), "{name}");
    }
}

#[test]
fn a_failure_in_a_run_is_the_error_of_a_wait() {
    for (name, runtime) in runtimes() {
        let x = runtime.from_slice(&[1.0f32, 2.0], [2]).unwrap();
        let (state, never) = (runtime.zeros([2], DType::F32).unwrap(), runtime.empty([2], DType::F32).unwrap());
        let mut step = Step::capture(&[&x], |inputs| {
            let sum = inputs[0].add(&never)?;
            state.add_assign(&sum)?;
            Ok((sum.sum()?, inputs[0].square()?))
        })
        .unwrap();
        let (sum, square) = step.run(&[&x]).unwrap().clone();
        // What does not depend on the failure is computed.
        assert_eq!(square.to_vec::<f32>().unwrap(), [1.0, 4.0], "{name}");
        let error = sum.to_vec::<f32>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unwritten, "{name}");
        assert!(error.to_string().contains("'elemwise_add'"), "{error}");
        // A wait has taken it, and what was missing is there now.
        never.fill(1.0).unwrap();
        assert_eq!(step.run(&[&x]).unwrap().0.as_scalar::<f32>().unwrap(), 5.0, "{name}");
        assert_eq!(state.to_vec::<f32>().unwrap(), [2.0, 3.0], "{name}");
        // An array that nothing in the step has written.
        let mut empty = Step::capture_on(&runtime, &[], |_| runtime.empty([2], DType::F32)?.sum()).unwrap();
        for _ in 0..2 {
            assert_eq!(kind(empty.run(&[]).unwrap().to_vec::<f32>()), ErrorKind::Unwritten, "{name}");
        }
    }
}

#[test]
fn a_panic_in_the_closure_leaves_the_thread_as_it_was() {
    let x = NDArray::from_slice(&[1.0f32, 2.0], [2]).unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _ = Step::capture(&[&x], |inputs| {
            let _kept = inputs[0].square()?;
            autograd::record(|| panic!("in a closure"));
            inputs[0].sum()
        });
    }));
    assert!(panicked.is_err() && !autograd::is_recording());
    assert_eq!(x.square().unwrap().to_vec::<f32>().unwrap(), [1.0, 4.0]);
    let mut step = Step::capture(&[&x], |inputs| inputs[0].sum()).unwrap();
    assert_eq!(step.run(&[&x]).unwrap().as_scalar::<f32>().unwrap(), 3.0);
}

#[test]
fn other_threads_push_while_one_captures() {
    let runtime = runtime(Kind::Pooled, 2);
    let x = runtime.from_slice(&[1.0f32, 2.0], [2]).unwrap();
    let total = runtime.zeros([2], DType::F32).unwrap();
    let mut step = Step::capture(&[&x], |inputs| {
        total.add_assign(&inputs[0])?;
        let pushed = std::thread::scope(|scope| {
            scope.spawn(|| total.add_scalar_assign(10.0).and_then(|()| total.to_vec::<f32>())).join().unwrap()
        });
        assert_eq!(pushed?, [10.0, 10.0]);
        Ok(())
    })
    .unwrap();
    assert_eq!(total.to_vec::<f32>().unwrap(), [10.0, 10.0]);
    step.run(&[&x]).unwrap();
    assert_eq!(total.to_vec::<f32>().unwrap(), [11.0, 12.0]);
}

#[test]
fn values_that_a_step_copies_in_are_written_in_each_run() {
    for (name, runtime) in runtimes() {
        let x = runtime.zeros([2], DType::F32).unwrap();
        let mut step = Step::capture_on(&runtime, &[], |_| x.copy_from_slice(&[1.0f32, 2.0])).unwrap();
        for _ in 0..2 {
            assert_eq!(x.to_vec::<f32>().unwrap(), [0.0; 2], "{name}");
            step.run(&[]).unwrap();
            assert_eq!(x.to_vec::<f32>().unwrap(), [1.0, 2.0], "{name}");
            x.fill(0.0).unwrap();
        }
    }
}

#[test]
fn a_call_waits_and_takes_the_error_of_its_run() {
    for (name, runtime) in runtimes() {
        let x = runtime.from_slice(&[1.0f32, 2.0], [2]).unwrap();
        let never = runtime.empty([2], DType::F32).unwrap();
        let mut step = Step::capture(&[&x], |inputs| Ok((inputs[0].square()?, inputs[0].add(&never)?))).unwrap();
        let error = step.call(&[&x]).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unwritten, "{name}");
        never.fill(1.0).unwrap();
        assert_eq!(step.call(&[&x]).unwrap().1.to_vec::<f32>().unwrap(), [2.0, 3.0], "{name}");
    }
}

/// Two arrays of a step give their memory back in each run, and may get that of each other.
#[test]
fn what_has_other_memory_in_each_run_is_found_there() {
    for (name, runtime) in runtimes() {
        let own = runtime.clone();
        let mut step = Step::capture_on(&runtime, &[], |_| {
            let both = [own.empty([64], DType::F32)?, own.empty([64], DType::F32)?];
            for (array, value) in both.iter().zip([1.0, 2.0]) {
                array.slice(0, 0, 32, 1)?.fill(value)?;
            }
            for array in &both {
                array.slice(0, 16, 48, 1)?.add_scalar_assign(1.0)?;
            }
            Ok(vec![both[0].sum()?, both[1].sum()?])
        })
        .unwrap();
        for run in 0..5 {
            let sums = step.run(&[]).unwrap().iter().map(NDArray::as_scalar::<f32>).collect::<Result<Vec<_>, _>>();
            assert_eq!(sums.unwrap(), [64.0, 96.0], "{name}, run {run}");
        }
    }
}

/// Counts up in two results of different sizes and a state, then exchanges what it was lent.
#[derive(Clone)]
struct Exchanges;

impl OperatorProperty for Exchanges {
    fn list_outputs(&self) -> Vec<&'static str> {
        vec!["short", "long"]
    }

    fn list_auxiliary_states(&self) -> Vec<&'static str> {
        vec!["one", "other"]
    }

    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        aux_shape: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        (out_shape[0], out_shape[1]) = (Some(Shape::new(&[1])?), in_shape[0]);
        (aux_shape[0], aux_shape[1]) = (Some(Shape::new(&[2])?), in_shape[0]);
        Ok(true)
    }

    fn create_operator(&self, _: Context) -> Result<Box<dyn Operator>, Error> {
        Ok(Box::new(self.clone()))
    }
}

impl Operator for Exchanges {
    fn forward(
        &self,
        _: &mut OpContext<'_, '_>,
        _: &[Blob<'_>],
        _: &[OpReq],
        out_data: &mut [BlobMut<'_>],
        aux_states: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let sizes = [out_data[0].size(), out_data[1].size(), aux_states[0].size(), aux_states[1].size()];
        if sizes != [1, 64, 2, 64] {
            return Err(Error::new(ErrorKind::ShapeMismatch, format!("{sizes:?}")));
        }
        for state in aux_states.iter_mut() {
            state.as_mut_slice::<f32>().expect("a state in a row").iter_mut().for_each(|value| *value += 1.0);
        }
        out_data[0].as_mut_slice::<f32>().expect("a result in a row").fill(1.0);
        out_data[1].as_mut_slice::<f32>().expect("a result in a row").fill(2.0);
        out_data.swap(0, 1);
        aux_states.reverse();
        Ok(())
    }
}

#[test]
fn what_an_operator_does_with_its_lists_is_gone_in_the_next_run() {
    let op = Op::of_property("exchanges", Box::new(Exchanges)).unwrap();
    for (name, runtime) in runtimes() {
        let [x, one, other] = [64, 2, 64].map(|size| runtime.zeros([size], DType::F32).unwrap());
        let mut step = Step::capture(&[&x], |inputs| {
            Ok(op.invoke_all(&[&inputs[0], &one, &other])?.into_iter().collect::<Vec<NDArray>>())
        })
        .unwrap();
        for run in 1..=4 {
            let results = step.run(&[&x]).unwrap();
            assert_eq!(results[0].to_vec::<f32>().unwrap(), [1.0], "{name}, run {run}");
            assert_eq!(results[1].to_vec::<f32>().unwrap(), [2.0; 64], "{name}, run {run}");
            assert_eq!(one.to_vec::<f32>().unwrap(), [run as f32; 2], "{name}");
            assert_eq!(other.to_vec::<f32>().unwrap(), [run as f32; 64], "{name}");
        }
    }
}
