//~ error[E0594]: cannot assign to `*x`, which is behind a `&` reference
//~ *x += 1
// What is named to be read cannot be changed.
fn main() {
    let engine = seriatim::Engine::new().unwrap();
    let x = engine.value(7);
    engine.op("look").run(&x, |x| assert_eq!(*x, 7)).unwrap();
    engine.op("change").run(&x, |x| *x += 1).unwrap(); // refused
}
