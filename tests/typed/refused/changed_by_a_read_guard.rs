//~ error[E0594]: cannot assign to data in dereference of `ReadGuard<'_, i32>`
//~ cannot assign
// A guard to read changes nothing.
fn main() {
    let engine = seriatim::Engine::new().unwrap();
    let x = engine.value(7);
    *x.write().unwrap() += 1;
    *x.read().unwrap() += 1; // refused
}
