//~ error[E0277]
//~ cannot be sent between threads safely
// A guard stays on its thread.
fn main() {
    let engine = seriatim::Engine::new().unwrap();
    let x = engine.value(7);
    let guard = x.read().unwrap();
    std::thread::scope(|scope| _ = scope.spawn(|| assert_eq!(*guard, 7)));
    std::thread::scope(|scope| _ = scope.spawn(move || drop(guard))); // refused
}
