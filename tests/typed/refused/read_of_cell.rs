//~ error[E0277]
//~ cannot be shared between threads safely
// What several threads may read at once is `Sync`.
fn main() {
    let engine = seriatim::Engine::new().unwrap();
    let x = engine.value(std::cell::Cell::new(7));
    engine.op("change").run(seriatim::Write(&x), |x| x.set(8)).unwrap();
    engine.op("look").run(&x, |_| ()).unwrap(); // refused
}
