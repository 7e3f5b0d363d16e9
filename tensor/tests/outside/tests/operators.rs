//! The operators of this crate, found by name, called and differentiated.

use seriatim_outside::register_all;
use seriatim_tensor::operator::{list_all_ops, list_parameters, Op};
use seriatim_tensor::{autograd, ErrorKind, NDArray, OpReq};
use std::sync::OnceLock;

fn registered() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| register_all().unwrap());
}

fn values_and_gradient(op: &Op, values: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let x = NDArray::from_slice(values, [values.len()]).unwrap();
    x.attach_grad(OpReq::Write).unwrap();
    let y = autograd::record(|| op.invoke(&[&x])).unwrap();
    autograd::backward(&[&y]).unwrap();
    (y.to_vec().unwrap(), x.grad().unwrap().to_vec().unwrap())
}

#[test]
fn an_operator_with_parameters_and_a_gradient() {
    registered();
    let clip = Op::new("outside_clip", &[("low", "-0.5")]).unwrap();
    let (values, gradient) = values_and_gradient(&clip, &[-2.0, -0.25, 0.5, 3.0]);
    assert_eq!(values, [-0.5, -0.25, 0.5, 1.0]);
    assert_eq!(gradient, [0.0, 1.0, 1.0, 0.0]);
    let written = [("low", "-0.5".to_owned()), ("high", "1".to_owned()), ("gradient", "inside".to_owned())];
    assert_eq!(clip.property().get_params(), written);
    let clip = Op::new("outside_clip", &[("low", "-0.5"), ("gradient", "everywhere")]).unwrap();
    assert_eq!(values_and_gradient(&clip, &[-2.0, 0.5]), (vec![-0.5, 0.5], vec![1.0, 1.0]));
}

#[test]
fn a_simple_operator() {
    registered();
    let (values, gradient) = values_and_gradient(&Op::new("outside_softsign", &[]).unwrap(), &[-1.0, 0.0, 3.0]);
    assert_eq!(values, [-0.5, 0.0, 0.75]);
    assert_eq!(gradient, [0.25, 1.0, 0.0625]);
}

#[test]
fn mistakes_are_errors() {
    registered();
    for given in [
        &[][..],
        &[("low", "2")],
        &[("low", "0"), ("width", "1")],
        &[("low", "0"), ("gradient", "outside")],
    ] {
        assert_eq!(Op::new("outside_clip", given).unwrap_err().kind(), ErrorKind::BadParameter, "{given:?}");
    }
    assert_eq!(register_all().unwrap_err().kind(), ErrorKind::AlreadyRegistered);
    let listed = list_parameters("outside_clip").unwrap();
    let about = listed.iter().map(|field| (field.name, field.default, field.about));
    let through = "Whether the gradient goes through where a value was changed, too";
    let expected =
        [("low", None, "The least value"), ("high", Some("1"), "The largest value"), ("gradient", Some("inside"), through)];
    assert!(about.eq(expected), "{listed:?}");
    assert!(list_all_ops().iter().any(|(name, about)| *name == "outside_softsign" && about == "x / (1 + |x|)"));
}
