//~ error
//~ borrowed data escapes outside of closure
// A reference that an operation is lent does not leave its closure.
fn main() {
    let engine = seriatim::Engine::new().unwrap();
    let x = engine.value(7);
    let (send, _receive) = std::sync::mpsc::channel::<&'static i32>();
    engine.op("look").run(&x, |x| assert_eq!(*x, 7)).unwrap();
    engine.op("keep").run(&x, move |x| _ = send.send(x)).unwrap(); // refused
}
