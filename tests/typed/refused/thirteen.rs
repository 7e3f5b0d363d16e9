//~ error[E0277]
//~ does not say what an operation uses
// A tuple has twelve parts at most; tuples go into tuples.
fn main() {
    let engine = seriatim::Engine::new().unwrap();
    let x = &engine.value(7);
    engine.op("look").run((x, x, x, x, x, x, (x, x, x, x, x, x, x)), |_| ()).unwrap();
    engine.op("many").run((x, x, x, x, x, x, x, x, x, x, x, x, x), |_| ()).unwrap(); // refused
}
