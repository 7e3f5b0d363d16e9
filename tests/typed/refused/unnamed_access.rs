//~ error[E0277]: `Value<i32>` does not say what an operation uses
//~ consider borrowing here
// A value alone says neither that it is read nor that it is changed.
fn main() {
    let engine = seriatim::Engine::new().unwrap();
    let x = engine.value(7_i32);
    engine.op("look").run(&x, |_| ()).unwrap();
    engine.op("wrong").run(x, |_| ()).unwrap(); // refused
}
