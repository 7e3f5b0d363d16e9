//~ cannot be shared between threads safely
//~ read
// Nor does a guard to read give it.
fn main() {
    let engine = seriatim::Engine::new().unwrap();
    let x = engine.value(std::cell::Cell::new(7));
    x.write().unwrap().set(8);
    drop(x.read()); // refused
}
