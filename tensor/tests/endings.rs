//! Ends of arrays: memory comes back, variables are kept for later arrays, and nothing of an array
//! that has ended reaches another.

mod common;

use common::{runtime, runtimes};
use seriatim::{Context, Kind};
use seriatim_tensor::operator::{Op, OpContext, Operator, OperatorProperty};
use seriatim_tensor::{Blob, BlobMut, DType, Error, ErrorKind, NDArray, OpReq, Runtime, Shape, Step};
use std::sync::mpsc;

/// Makes and drops so many arrays, and looks at each.
fn make(runtime: &Runtime, count: usize) {
    for number in 0..count {
        let x = runtime.full([3], DType::F32, number as f64).unwrap();
        assert_eq!(x.add_scalar(1.0).unwrap().to_vec::<f32>().unwrap(), [number as f32 + 1.0; 3]);
    }
}

#[test]
fn a_variable_that_a_program_has_is_refused_after_the_end() {
    for (name, runtime) in runtimes() {
        make(&runtime, 3);
        let x = runtime.ones([2], DType::F32).unwrap();
        let variable = x.slice(0, 0, 1, 1).unwrap().var();
        drop(x);
        runtime.wait_all().unwrap();
        make(&runtime, 20);
        let late = runtime.engine().op("late").write(variable).push(|_| ());
        assert_eq!(late.unwrap_err().kind(), seriatim::ErrorKind::VariableDeleted, "{name}");
        make(&runtime, 3);
    }
}

#[test]
fn a_step_is_refused_after_the_end_of_an_array_that_it_reads() {
    for (name, runtime) in runtimes() {
        make(&runtime, 3);
        let (x, weight) = (runtime.ones([2], DType::F32).unwrap(), runtime.full([2], DType::F32, 5.0).unwrap());
        let mut step = Step::capture(&[&x], |inputs| inputs[0].add(&weight)).unwrap();
        assert_eq!(step.run(&[&x]).unwrap().to_vec::<f32>().unwrap(), [6.0; 2], "{name}");
        drop(weight);
        runtime.wait_all().unwrap();
        let others: Vec<NDArray> = (0..20).map(|_| runtime.full([2], DType::F32, 9.0).unwrap()).collect();
        assert_eq!(step.run(&[&x]).unwrap_err().kind(), ErrorKind::InsideStep, "{name}");
        drop((step, others));
        make(&runtime, 3);
    }
}

#[test]
fn a_failure_ends_with_its_array() {
    for (name, runtime) in runtimes() {
        for round in 0..20 {
            let x = runtime.empty([2], DType::F32).unwrap();
            // Nothing has written it.
            let failed = x.add_scalar(1.0).unwrap();
            let view = failed.slice(0, 0, 1, 1).unwrap();
            drop((x, failed));
            if round % 2 == 0 {
                runtime.wait_all().unwrap_err();
            }
            drop(view);
            make(&runtime, 3);
        }
        let _ = runtime.wait_all();
        runtime.wait_all().unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(runtime.storage().statistics(Context::cpu(0)).unwrap().live, 0, "{name}");
        assert_eq!(runtime.lost(), 0, "{name}");
    }
}

#[test]
fn arrays_end_on_other_threads_than_they_began_on() {
    let rounds = if cfg!(miri) { 20 } else { 2000 };
    for (name, runtime) in runtimes() {
        let (mut senders, receivers): (Vec<_>, Vec<_>) = (0..3).map(|_| mpsc::channel::<(NDArray, f32)>()).unzip();
        senders.rotate_left(1);
        std::thread::scope(|scope| {
            for ((sender, receiver), thread) in senders.into_iter().zip(receivers).zip(0..) {
                let runtime = &runtime;
                scope.spawn(move || {
                    let mut held = Vec::new();
                    for round in 0..rounds {
                        let value = (thread * 10_000 + round) as f32;
                        let x = runtime.full([4], DType::F32, f64::from(value)).unwrap();
                        let y = x.add_scalar(0.5).unwrap();
                        let view = y.slice(0, 1, 3, 1).unwrap();
                        // A neighbour that has gone drops it here.
                        let _ = sender.send((if round % 3 == 0 { y } else { x }, value));
                        held.push((view, value + 0.5));
                        if round % 5 == 0 {
                            for (array, value) in held.drain(..).chain(receiver.try_iter()) {
                                let found = array.to_vec::<f32>().unwrap()[0];
                                assert!(found == value || found == value + 0.5, "{found} for {value}");
                            }
                        }
                    }
                });
            }
        });
        runtime.wait_all().unwrap();
        assert_eq!(runtime.storage().statistics(Context::cpu(0)).unwrap().live, 0, "{name}");
    }
}

#[test]
fn variables_are_kept_and_end_with_the_runtime() {
    let engine = runtime(Kind::Naive, 0).engine().clone();
    let most = || engine.stats().pool.variables;
    let runtime = Runtime::new(&engine);
    make(&runtime, 5);
    let warm = most();
    make(&runtime, if cfg!(miri) { 10 } else { 500 });
    assert_eq!(most(), warm, "an array takes over the variable of one that has ended");
    for _ in 0..if cfg!(miri) { 1 } else { 40 } {
        let runtime = Runtime::new(&engine);
        let all: Vec<NDArray> = (0..50).map(|_| runtime.ones([2], DType::F32).unwrap()).collect();
        drop(all);
        drop(runtime);
        engine.wait_for_all().unwrap();
    }
    assert!(most() < warm + 1000, "{} variables: those of a runtime are deleted with it", most());
}

#[test]
fn a_view_is_shown_until_its_last_clone_ends() {
    for (name, runtime) in runtimes() {
        let x = runtime.from_slice(&[1.0f32, 2.0, 3.0, 4.0], [4]).unwrap();
        let view = x.slice(0, 0, 2, 1).unwrap();
        drop(view.clone());
        // It would take over the record of the first.
        let other = x.slice(0, 1, 4, 1).unwrap();
        assert_eq!(view.to_vec::<f32>().unwrap(), [1.0, 2.0], "{name}");
        let clone = view.clone();
        drop(view);
        let third = x.slice(0, 3, 4, 1).unwrap();
        assert_eq!(clone.to_vec::<f32>().unwrap(), [1.0, 2.0], "{name}");
        assert_eq!((other.shape().dims(), third.shape().dims()), (&[3][..], &[1][..]), "{name}");
    }
}

#[test]
fn a_gradient_ends_with_its_array() {
    for (name, runtime) in runtimes() {
        for _ in 0..5 {
            let x = runtime.ones([2], DType::F32).unwrap();
            assert!(x.grad().is_err(), "{name}");
            x.attach_grad(OpReq::Write).unwrap();
            drop(x);
            runtime.wait_all().unwrap();
        }
    }
}

/// Fails unless its result has the shape of its input.
#[derive(Clone)]
struct Alike;

impl OperatorProperty for Alike {
    fn infer_shape(
        &self,
        in_shape: &mut [Option<Shape>],
        out_shape: &mut [Option<Shape>],
        _: &mut [Option<Shape>],
    ) -> Result<bool, Error> {
        out_shape[0] = in_shape[0];
        Ok(true)
    }

    fn create_operator(&self, _: Context) -> Result<Box<dyn Operator>, Error> {
        Ok(Box::new(self.clone()))
    }
}

impl Operator for Alike {
    fn forward(
        &self,
        _: &mut OpContext<'_, '_>,
        in_data: &[Blob<'_>],
        _: &[OpReq],
        out_data: &mut [BlobMut<'_>],
        _: &mut [BlobMut<'_>],
    ) -> Result<(), Error> {
        let (one, other) = (in_data[0].shape(), out_data[0].shape());
        let wrong = || Error::new(ErrorKind::ShapeMismatch, format!("{one} and {other}"));
        (one == other).then_some(()).ok_or_else(wrong)
    }
}

/// An operation does not name the variable of a result that is not written, and reads its shape.
#[test]
fn what_is_not_written_keeps_its_shape_until_the_operation_ends() {
    let op = Op::of_property("alike", Box::new(Alike)).unwrap();
    for (name, runtime) in runtimes() {
        make(&runtime, 3);
        let (data, unwritten) = (runtime.ones([2, 4], DType::F32).unwrap(), runtime.empty([2, 4], DType::F32).unwrap());
        let view = runtime.empty([4, 4], DType::F32).unwrap().slice(0, 0, 2, 1).unwrap();
        let (give, take) = mpsc::channel();
        let hold = move |_: &seriatim::RunContext<'_>, completion: seriatim::Completion| give.send(completion).unwrap();
        let held = runtime.engine().op("hold").write(data.var()).property(seriatim::Property::Async);
        held.push_async(hold).unwrap();
        let open = take.recv().unwrap();
        op.invoke_into(&[&data], &[(&unwritten, OpReq::Null)]).unwrap();
        op.invoke_into(&[&data], &[(&view, OpReq::Null)]).unwrap();
        drop((unwritten, view));
        // Other shapes come to their records.
        let others: Vec<NDArray> = (0..8).map(|_| runtime.ones([7, 1, 5], DType::F64).unwrap()).collect();
        open.complete();
        runtime.wait_all().unwrap_or_else(|error| panic!("{name}: {error}"));
        drop(others);
    }
}
