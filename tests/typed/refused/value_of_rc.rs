//~ error[E0277]
//~ cannot be sent between threads safely
// Values go from thread to thread.
fn main() {
    let engine = seriatim::Engine::new().unwrap();
    drop(engine.value(std::sync::Arc::new(7)));
    drop(engine.value(std::rc::Rc::new(7))); // refused
}
