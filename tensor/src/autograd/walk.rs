//! `backward`: the walk back over the tape.
//!
//! Called by programs. The walk goes over the nodes from the last to the first and pushes the
//! backward pass of each one that a gradient has reached. The first gradient of a value is written,
//! further ones are added in the same place, in the order of the walk: so the sum has the same bits
//! each time.

#![forbid(unsafe_code)]

use crate::autograd::{apply, Before};
use crate::error::{Error, ErrorKind};
use crate::ndarray::array::NDArray;
use crate::operator::tape::{self, Node, Step};
use crate::request::OpReq;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::collections::HashMap;

/// The gradients by values that were computed, by their numbers; and the numbers of attached ones
/// that have been written.
#[derive(Default)]
struct Gradients {
    of: HashMap<u64, NDArray>,
    written: HashMap<u64, ()>,
}

thread_local! {
    /// Kept from walk to walk for its room.
    static GRADIENTS: RefCell<Gradients> = RefCell::default();
}

/// Computes the gradients of the arrays that have one attached, by the sum of all elements of
/// `heads`. What was recorded is forgotten.
///
/// # Errors
/// [`NotRecorded`](ErrorKind::NotRecorded) if a head was not computed while recording;
/// [`NoGradient`](ErrorKind::NoGradient) if an operator between has none, with its name; those of a
/// push.
///
/// ```
/// use seriatim_tensor::{autograd, NDArray, OpReq};
/// let (x, y) = (NDArray::from_slice(&[2.0f64], [1])?, NDArray::from_slice(&[5.0f64], [1])?);
/// x.attach_grad(OpReq::Write)?;
/// let z = autograd::record(|| x.mul(&y)?.add(&x))?;
/// autograd::backward(&[&z])?;
/// assert_eq!(x.grad()?.as_scalar::<f64>()?, 6.0);
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
pub fn backward(heads: &[&NDArray]) -> Result<(), Error> {
    let heads: SmallVec<[(&NDArray, Option<&NDArray>); 2]> = heads.iter().map(|head| (*head, None)).collect();
    backward_with(&heads, false)
}

/// The same with the gradients by the heads; without one it is 1 everywhere. `retain` keeps what
/// was recorded for another walk.
///
/// # Errors
/// Those of [`backward`]; [`ShapeMismatch`](ErrorKind::ShapeMismatch).
///
/// ```
/// use seriatim_tensor::{autograd, NDArray, OpReq};
/// let x = NDArray::from_slice(&[2.0f64, 3.0], [2])?;
/// x.attach_grad(OpReq::Write)?;
/// let y = autograd::record(|| x.square())?;
/// let by_y = NDArray::from_slice(&[1.0f64, 10.0], [2])?;
/// autograd::backward_with(&[(&y, Some(&by_y))], false)?;
/// assert_eq!(x.grad()?.to_vec::<f64>()?, [4.0, 60.0]);
/// # Ok::<(), seriatim_tensor::Error>(())
/// ```
pub fn backward_with(heads: &[(&NDArray, Option<&NDArray>)], retain: bool) -> Result<(), Error> {
    // Functions of programs are called, which may panic.
    let _before = Before::set(false, true);
    // Nothing is called while the tape is lent: what is dropped or pushed may call programs.
    let (nodes, made) = tape::with(|tape| (std::mem::take(&mut tape.nodes), std::mem::take(&mut tape.made)));
    let mut gradients = GRADIENTS.take();
    let done = walk(heads, &nodes, &made, &mut gradients);
    gradients.of.clear();
    gradients.written.clear();
    GRADIENTS.set(gradients);
    let (mut nodes, mut made) = (nodes, made);
    if !retain {
        nodes.clear();
        made.clear();
    }
    let inside = tape::with(|tape| {
        let nodes = std::mem::replace(&mut tape.nodes, nodes);
        (nodes, std::mem::replace(&mut tape.made, made))
    });
    // What functions have recorded for themselves. Its arrays may push their deletions.
    drop(inside);
    done
}

fn walk(
    heads: &[(&NDArray, Option<&NDArray>)],
    nodes: &[Node],
    made: &HashMap<u64, (usize, usize)>,
    gradients: &mut Gradients,
) -> Result<(), Error> {
    let mut last = 0;
    for (head, gradient) in heads {
        let Some((node, _)) = made.get(&head.id()) else {
            let message = format!("{head:?} was not computed while recording, from an array with a gradient");
            return Err(Error::new(ErrorKind::NotRecorded, message));
        };
        last = last.max(node + 1);
        let given = match gradient {
            Some(given) if given.shape() != head.shape() || given.dtype() != head.dtype() => {
                let message = format!("the gradient by {head:?} is {given:?}, of another shape or type");
                return Err(Error::new(ErrorKind::ShapeMismatch, message));
            }
            Some(given) => given.copy()?,
            None => head.runtime().ones(head.shape(), head.dtype())?.as_in_context(head.context())?,
        };
        match gradients.of.get(&head.id()) {
            Some(there) => there.add_assign(&given)?,
            None => _ = gradients.of.insert(head.id(), given),
        }
    }
    for node in nodes[..last].iter().rev() {
        let out_grads: SmallVec<[Option<NDArray>; 1]> =
            node.outputs.iter().map(|output| gradients.of.remove(&output.id())).collect();
        if out_grads.iter().any(Option::is_some) {
            step(node, out_grads, made, gradients)?;
        }
    }
    Ok(())
}

/// A new array of the same shape and type, which lies where the other one does.
fn like(array: &NDArray) -> Result<NDArray, Error> {
    array.runtime().empty_in(array.shape(), array.dtype(), array.context())
}

fn zeros_like(array: &NDArray) -> Result<NDArray, Error> {
    array.runtime().zeros_in(array.shape(), array.dtype(), array.context())
}

/// Where the gradient by an input goes, and how. A new one takes the memory of `spare`, which
/// nobody else uses any more, if it is of the same kind.
fn target(
    input: &NDArray,
    spare: &mut Option<NDArray>,
    made: &HashMap<u64, (usize, usize)>,
    gradients: &mut Gradients,
) -> Result<Option<(NDArray, OpReq)>, Error> {
    if made.contains_key(&input.id()) {
        return Ok(Some(match gradients.of.get(&input.id()) {
            Some(there) => (there.clone(), OpReq::Add),
            None => {
                let is_like = |other: &NDArray| {
                    (other.shape(), other.dtype(), other.context()) == (input.shape(), input.dtype(), input.context())
                };
                let (new, req) = match spare.take().filter(is_like) {
                    Some(spare) => (spare, OpReq::Inplace),
                    None => (like(input)?, OpReq::Write),
                };
                gradients.of.insert(input.id(), new.clone());
                (new, req)
            }
        }));
    }
    let Some(attached) = tape::attached(input).filter(|attached| !attached.req.is_null()) else { return Ok(None) };
    let is_first = gradients.written.insert(attached.gradient.id(), ()).is_none();
    let req = if is_first { attached.req } else { OpReq::Add };
    Ok(Some((attached.gradient.clone(), req)))
}

fn step(
    node: &Node,
    out_grads: SmallVec<[Option<NDArray>; 1]>,
    made: &HashMap<u64, (usize, usize)>,
    gradients: &mut Gradients,
) -> Result<(), Error> {
    match &node.step {
        Step::View(layout) => {
            let (Some(grad), Some((to, req))) = (&out_grads[0], target(&node.inputs[0], &mut None, made, gradients)?)
            else {
                return Ok(());
            };
            // What the view does not show has no gradient by it.
            if req.overwrites() {
                to.fill(0.0f64)?;
            }
            to.viewed(*layout)?.add_assign(grad)
        }
        Step::Copy => match (&out_grads[0], target(&node.inputs[0], &mut None, made, gradients)?) {
            (Some(grad), Some((to, req))) if req.overwrites() => grad.copy_to(&to),
            (Some(grad), Some((to, _))) => to.add_assign(&grad.as_in_context(to.context())?),
            _ => Ok(()),
        },
        Step::Function(function) => {
            let grads = out_grads.into_iter().zip(&node.outputs);
            let grads: SmallVec<[NDArray; 2]> = grads
                .map(|(grad, output)| grad.map_or_else(|| zeros_like(output), Ok))
                .collect::<Result<_, Error>>()?;
            let in_grads = apply::gradients(function, &node.inputs, &grads)?;
            for (grad, input) in in_grads.iter().zip(&node.inputs) {
                let Some(grad) = grad else { continue };
                match target(input, &mut None, made, gradients)? {
                    Some((to, req)) if req.overwrites() => grad.copy_to(&to)?,
                    Some((to, _)) => to.add_assign(grad)?,
                    None => {}
                }
            }
            Ok(())
        }
        Step::Call(op) => {
            if !op.property().has_gradient() {
                let message = format!("operator '{}' has no gradient, and one flows back to its inputs", op.name());
                return Err(Error::new(ErrorKind::NoGradient, message));
            }
            let mut zeros = out_grads;
            for (at, (grad, output)) in zeros.iter_mut().zip(&node.outputs).enumerate() {
                if grad.is_none() && op.needs_gradient_by(at) {
                    *grad = Some(zeros_like(output)?);
                }
            }
            // An input that is given twice has two gradients. The second is made by itself, and
            // added: which of both an operator writes first does not matter.
            let mut targets = SmallVec::<[(NDArray, OpReq); 3]>::new();
            let mut more = SmallVec::<[(NDArray, NDArray); 1]>::new();
            let mut spares = if op.writes_over() { zeros.clone() } else { SmallVec::new() };
            for (place, input) in node.inputs.iter().enumerate() {
                let mut none = None;
                let spare = op.written_over(place).and_then(|output| spares.get_mut(output)).unwrap_or(&mut none);
                let Some((to, req)) = target(input, spare, made, gradients)? else {
                    targets.push((input.clone(), OpReq::Null));
                    continue;
                };
                if targets.iter().any(|(other, _)| other.id() == to.id()) {
                    let part = like(&to)?;
                    targets.push((part.clone(), OpReq::Write));
                    more.push((to, part));
                } else {
                    targets.push((to, req));
                }
            }
            let in_grad: SmallVec<[(&NDArray, OpReq); 3]> = targets.iter().map(|(to, req)| (to, *req)).collect();
            let out_grad: SmallVec<[Option<&NDArray>; 1]> = zeros.iter().map(Option::as_ref).collect();
            op.push_backward(node, &out_grad, &in_grad)?;
            more.iter().try_for_each(|(to, part)| to.add_assign(part))
        }
    }
}
