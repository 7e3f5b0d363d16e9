//~ error[E0507]
//~ captured variable in an `FnMut` closure
// A closure of a graph is called in each replay.
fn main() {
    let engine = seriatim::Engine::new().unwrap();
    let (x, text) = (engine.value(String::new()), String::from("once"));
    let again = text.clone();
    engine.capture(|c| c.op("fill").run(seriatim::Write(&x), move |x| *x = again.clone())).unwrap();
    engine.capture(|c| c.op("fill").run(seriatim::Write(&x), move |x| *x = text)).unwrap(); // refused
}
