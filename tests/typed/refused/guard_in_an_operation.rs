//~ error[E0277]
//~ cannot be sent between threads safely
// A guard does not go into an operation.
fn main() {
    let engine = seriatim::Engine::new().unwrap();
    let (x, y) = (engine.value(7), engine.value(7));
    let guard = x.read().unwrap();
    engine.op("add").run(seriatim::Write(&y), |y| *y += 1).unwrap();
    engine.op("add").run(seriatim::Write(&y), move |y| *y += *guard).unwrap(); // refused
}
