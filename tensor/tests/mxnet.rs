//! Operators beside MXNet 1.9.1: outputs, gradients and states of the calls in
//! `data/mxnet-1.9.1.txt`, whose arrays are in `data/mxnet-1.9.1.params.gz`.
//!
//! `scripts/mxnet-reference.sh` has made both files. Every call is compared. Where this crate
//! differs by intent, `DIFFERENCES` names the calls and the reason; an entry that no call needs
//! fails too, and so does an operator of this crate without a call.

use seriatim_tensor::operator::{list_all_ops, Op};
use seriatim_tensor::{autograd, load_params, DType, ErrorKind, NDArray, OpReq, Runtime};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;
use std::sync::OnceLock;

/// What differs from MXNet by intent: the operator, the name of its calls, what this test then
/// says, the reason. README.md says them too.
const DIFFERENCES: &[(&str, &str, &str, &str)] = &[
    ("broadcast_to", "size-0", "do not broadcast", "a size of 0 is that of no elements, and not the array's own"),
    ("LeakyReLU", "selu-gradient", "grad.data", "MXNet's gradient below 0 is not the slope: it is scaled twice"),
    ("BatchNorm", "no-backward", "state.moving_mean", "means move in the forward pass, in MXNet in the backward one"),
    ("SoftmaxOutput", "out-grad", "grad.data", "MXNet takes the output for its gradient, against its document"),
    ("SoftmaxOutput", "no-class", "is none of the classes", "a label that is no class is an error, and not ignored"),
    ("SoftmaxOutput", "more-axes", "out.0", "the default has classes along the last axis, and not all axes as one"),
    ("MAERegressionOutput", "equal", "grad.data", "the gradient of data that are the label is 0, in MXNet -1"),
    ("Deconvolution", "dilated", "out.0", "MXNet's own kernel errs with dilation and stride; that of oneDNN agrees"),
    ("sign", "nan", "out.0", "the sign of NaN is NaN, in MXNet 0"),
    ("gamma", "double", "grad.data", "MXNet computes psi in float32"),
    ("gammaln", "double", "grad.data", "MXNet computes psi in float32"),
    ("degrees", "double", "out.0", "MXNet's pi is that of float32"),
    ("radians", "double", "out.0", "MXNet's pi is that of float32"),
    ("Pooling", "beyond", "lies beyond", "a window without an element is an error; MXNet's is -3e38 or 0"),
];

/// Operators of this crate that the file does not call, and why.
const NOT_CALLED: &[(&str, &str)] = &[
    ("softrelu", "MXNet has it as an act_type of Activation only, which is called"),
    ("adamw_update", "MXNet's takes rescale_grad as an array, and has another formula"),
    ("_shuffle", "its numbers are random, and drawn otherwise: tests/resources.rs"),
    ("adagrad_update", "MXNet has it for sparse gradients only"),
];

/// A call, or several with new inputs and the same states.
struct Case {
    key: String,
    name: String,
    is_train: bool,
    steps: usize,
    /// Whether the first input of a later step is the output before.
    carries: bool,
    inputs: Vec<String>,
    states: Vec<String>,
    gradients: Vec<String>,
    outputs: usize,
    /// The name of what is special, or `-`.
    about: String,
    parameters: String,
}

impl Case {
    /// Reads a line of the index.
    fn read(line: &str) -> Case {
        let columns: Vec<&str> = line.split(' ').collect();
        let [key, name, mode, steps, carries, inputs, states, gradients, outputs, about, parameters] = columns[..]
        else {
            panic!("not eleven columns: {line}");
        };
        let list = |text: &str| -> Vec<String> {
            let items = text.split(',').filter(|_| text != "-");
            items.map(str::to_owned).collect()
        };
        assert!(["train", "predict"].contains(&mode) && ["carries", "-"].contains(&carries), "{line}");
        Case {
            key: key.into(),
            name: name.into(),
            is_train: mode == "train",
            steps: steps.parse().unwrap(),
            carries: carries == "carries",
            inputs: list(inputs),
            states: list(states),
            gradients: list(gradients),
            outputs: outputs.parse().unwrap(),
            about: about.into(),
            parameters: if parameters == "-" { String::new() } else { parameters.into() },
        }
    }

    /// The parameters by name.
    fn parameters(&self) -> Vec<(&str, &str)> {
        let each = self.parameters.split(';').filter(|text| !text.is_empty());
        each.map(|text| text.split_once('=').expect("a name and a value")).collect()
    }

    /// The operator with its parameters, for people.
    fn title(&self) -> String {
        format!("{} {}({})", self.key, self.name, self.parameters)
    }
}

/// The index and the arrays of the files.
struct Reference {
    cases: Vec<Case>,
    arrays: BTreeMap<String, NDArray>,
}

impl Reference {
    /// Reads the files once for all tests.
    fn get() -> &'static Reference {
        static READ: OnceLock<Reference> = OnceLock::new();
        READ.get_or_init(|| Reference::read(Runtime::global().unwrap()))
    }

    fn read(runtime: &Runtime) -> Reference {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
        let index = std::fs::read_to_string(folder.join("mxnet-1.9.1.txt")).unwrap();
        let cases = index.lines().filter(|line| !line.starts_with('#')).map(Case::read).collect();
        let packed = std::fs::File::open(folder.join("mxnet-1.9.1.params.gz")).unwrap();
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mxnet-{}.params", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        let arrays = load_params(runtime, &path).unwrap().into_iter().collect();
        std::fs::remove_file(path).unwrap();
        Reference { cases, arrays }
    }

    fn array(&self, case: &Case, place: &str) -> &NDArray {
        let name = format!("{}.{place}", case.key);
        self.arrays.get(&name).unwrap_or_else(|| panic!("{}: the file has no {name}", case.title()))
    }
}

/// MXNet's arrays have an axis at least: what has none here has one of size 1 there.
fn with_axis(shape: &[usize]) -> &[usize] {
    if shape.is_empty() {
        &[1]
    } else {
        shape
    }
}

/// How far an element may be from MXNet's, as a share of the two numbers given: itself, and the
/// greatest element of its array. In `float32`:
///
/// An elementary function of another library differs by a few units in the last place (6e-8), and a
/// power or a gradient that multiplies some of them by a few more: 2e-6 of the element. Sums of
/// both signs lose what cancels, so their error goes by the terms and not by the sum, and the
/// greatest element stands for these. The longest sums here have 2,000 terms added in another
/// order, whose roundings partly cancel: 25 times 6e-8, 1.5e-6 of it. On x86-64 a third of both is
/// used at most.
const OF_ELEMENT: f64 = 2e-6;
const OF_ARRAY: f64 = 1.5e-6;

/// The same for a type. Whole numbers are equal. `float64` has units in the last place that are
/// 2⁻²⁹ of those of `float32`, and `float16` ones of 2⁻¹⁰. There MXNet rounds each step of a
/// gradient and each term of its sum, so four of them may come together.
fn allowed(dtype: DType) -> [f64; 2] {
    match dtype {
        DType::F64 => [OF_ELEMENT, OF_ARRAY].map(|share| share * 2f64.powi(-29)),
        DType::F16 => [2f64.powi(-8), 0.0],
        dtype if dtype.is_float() => [OF_ELEMENT, OF_ARRAY],
        _ => [0.0; 2],
    }
}

/// Compares an array with MXNet's.
fn compare(what: &str, found: &NDArray, expected: &NDArray) -> Result<f64, String> {
    if with_axis(found.shape().dims()) != expected.shape().dims() {
        return Err(format!("{what} has shape {}, and MXNet's {}", found.shape(), expected.shape()));
    }
    if found.dtype() != expected.dtype() {
        return Err(format!("{what} has elements of {}, and MXNet's of {}", found.dtype(), expected.dtype()));
    }
    let dtype = found.dtype();
    let values = |array: &NDArray| array.astype(DType::F64).and_then(|array| array.to_vec::<f64>());
    let found = values(found).map_err(|error| format!("{what}: {error}"))?;
    let expected = values(expected).unwrap();
    let greatest = expected.iter().filter(|value| value.is_finite()).fold(0.0f64, |most, value| most.max(value.abs()));
    let (mut worst, [of_element, of_array]) = (0.0f64, allowed(dtype));
    for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
        if found == expected || found.is_nan() && expected.is_nan() {
            continue;
        }
        let share = (found - expected).abs() / (of_element * expected.abs() + of_array * greatest);
        if share.is_nan() || share > 1.0 {
            return Err(format!("{what} at {at} is {found}, and MXNet's is {expected}"));
        }
        worst = worst.max(share);
    }
    Ok(worst)
}

/// Runs a case; returns how near the worst element came to what is allowed, or what differs.
fn run(reference: &Reference, case: &Case) -> Result<f64, String> {
    let said = |error: seriatim_tensor::Error| error.to_string();
    let op = Op::new(&case.name, &case.parameters()).map_err(said)?;
    let copy = |place: &str| reference.array(case, place).copy().unwrap();
    let states: Vec<NDArray> = case.states.iter().map(|name| copy(&format!("before.{name}"))).collect();
    let (mut carried, mut worst) = (None, 0.0f64);
    for step in 0..case.steps {
        let mut inputs = Vec::new();
        for (at, name) in case.inputs.iter().enumerate() {
            let input = match carried.take().filter(|_| at == 0) {
                Some(output) => output,
                None => copy(&format!("{step}.in.{name}")),
            };
            if case.gradients.contains(name) {
                input.attach_grad(OpReq::Write).map_err(said)?;
            }
            inputs.push(input);
        }
        let arguments: Vec<&NDArray> = inputs.iter().chain(&states).collect();
        let call = || {
            if case.is_train {
                autograd::train_mode(|| op.invoke_all(&arguments))
            } else {
                autograd::predict_mode(|| op.invoke_all(&arguments))
            }
        };
        let outputs = if case.gradients.is_empty() { call() } else { autograd::record(call) }.map_err(said)?;
        if outputs.len() != case.outputs {
            return Err(format!("there are {} outputs, and {} of MXNet's", outputs.len(), case.outputs));
        }
        let mut check = |what: String, found: &NDArray| {
            worst = worst.max(compare(
                &format!("step {step}, {what}"),
                found,
                reference.array(case, &format!("{step}.{what}")),
            )?);
            Ok::<(), String>(())
        };
        for (at, output) in outputs.iter().enumerate() {
            check(format!("out.{at}"), output)?;
        }
        if !case.gradients.is_empty() {
            let heads: Vec<NDArray> = outputs
                .iter()
                .enumerate()
                .map(|(at, out)| {
                    reference.array(case, &format!("{step}.head.{at}")).reshape(out.shape().dims()).unwrap()
                })
                .collect();
            let pairs: Vec<(&NDArray, Option<&NDArray>)> = outputs.iter().zip(heads.iter().map(Some)).collect();
            autograd::backward_with(&pairs, false).map_err(said)?;
            for name in &case.gradients {
                let at = case.inputs.iter().position(|input| input == name).unwrap();
                check(format!("grad.{name}"), &inputs[at].grad().map_err(said)?)?;
            }
        }
        for (name, state) in case.states.iter().zip(&states) {
            check(format!("state.{name}"), state)?;
        }
        carried = outputs.into_iter().next().filter(|_| case.carries);
    }
    Ok(worst)
}

#[test]
fn every_call_has_the_results_of_mxnet() {
    let reference = Reference::get();
    let (mut same, mut failed) = (0, Vec::new());
    let mut needed = vec![0; DIFFERENCES.len()];
    let mut nearest: BTreeMap<&str, f64> = BTreeMap::new();
    for case in &reference.cases {
        let known = DIFFERENCES.iter().position(|(name, about, ..)| (*name, *about) == (&*case.name, &*case.about));
        match (run(reference, case), known) {
            (Ok(worst), None) if case.about == "-" => {
                same += 1;
                let of_name = nearest.entry(&case.name).or_default();
                *of_name = of_name.max(worst);
            }
            (Ok(_), _) => failed.push(format!("{}: it is as in MXNet, and DIFFERENCES says it is not", case.title())),
            (Err(what), None) => failed.push(format!("{}: {what}", case.title())),
            (Err(what), Some(at)) if what.contains(DIFFERENCES[at].2) => needed[at] += 1,
            (Err(what), Some(_)) => failed.push(format!("{}: {what}; another difference was expected", case.title())),
        }
    }
    for ((name, about, ..), _) in DIFFERENCES.iter().zip(&needed).filter(|(_, count)| **count == 0) {
        failed.push(format!("no call of {name} is '{about}': take it from DIFFERENCES"));
    }
    let differ: usize = needed.iter().sum();
    println!("{same} calls as in MXNet, {differ} differ as expected; of what is allowed used:");
    nearest.iter().for_each(|(name, worst)| println!("  {name} {worst:.3}"));
    assert!(failed.is_empty(), "{} calls:\n{}", failed.len(), failed.join("\n"));
    assert_eq!(same + differ, reference.cases.len());
    assert!(same > 800, "only {same} calls were compared");
}

#[test]
fn every_operator_is_called() {
    let reference = Reference::get();
    let called: BTreeSet<&str> = reference.cases.iter().map(|case| &*case.name).collect();
    for (name, _) in list_all_ops() {
        let excused = NOT_CALLED.iter().any(|(other, _)| *other == name);
        assert!(called.contains(name) != excused, "'{name}': give it a case in scripts/mxnet_cases.py, or a reason");
    }
    let error = Op::new("no operator", &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownOperator);
}

#[test]
fn the_comparison_notices_a_difference() {
    let of = |values: &[f32], shape: &[usize]| NDArray::from_slice(values, shape).unwrap();
    let right = of(&[1.0, -100.0, f32::NAN], &[3]);
    assert!(compare("it", &of(&[1.000_1, -100.0, f32::NAN], &[3]), &right).is_ok());
    assert!(compare("it", &of(&[1.001, -100.0, f32::NAN], &[3]), &right).is_err());
    assert!(compare("it", &of(&[1.0, -100.1, f32::NAN], &[3]), &right).is_err());
    assert!(compare("it", &of(&[1.0, -100.0, 0.0], &[3]), &right).is_err());
    assert!(compare("it", &of(&[1.0, f32::NAN, f32::NAN], &[3]), &right).is_err());
    assert!(compare("it", &of(&[1.0, -100.0, f32::NAN], &[3, 1]), &right).is_err());
    assert!(compare("it", &of(&[2.0], &[]), &of(&[2.0], &[1])).is_ok());
    assert!(compare("it", &NDArray::from_slice(&[2.0f64], [1]).unwrap(), &of(&[2.0], &[1])).is_err());
    let double = |value: f64| NDArray::from_slice(&[value], [1]).unwrap();
    assert!(compare("it", &double(1.0 + 1e-15), &double(1.0)).is_ok());
    assert!(compare("it", &double(1.0 + 1e-14), &double(1.0)).is_err());
    assert!(compare("it", &of(&[f32::INFINITY], &[1]), &of(&[f32::NEG_INFINITY], &[1])).is_err());
    let whole = |value: i32| NDArray::from_slice(&[value, 1000], [2]).unwrap();
    assert!(compare("it", &whole(7), &whole(7)).is_ok() && compare("it", &whole(7), &whole(8)).is_err());
}
