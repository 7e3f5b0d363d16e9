//~ error[E0373]
//~ may outlive the current function
// An operation does not borrow from the function that pushes it.
fn main() {
    let engine = seriatim::Engine::new().unwrap();
    let (x, local) = (engine.value(7), 7);
    engine.op("add").run(seriatim::Write(&x), move |x| *x += local).unwrap();
    engine.op("add").run(seriatim::Write(&x), |x| *x += local).unwrap(); // refused
}
