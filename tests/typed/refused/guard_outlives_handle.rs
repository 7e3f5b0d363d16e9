//~ error[E0505]: cannot move out of `x` because it is borrowed
//~ borrow later used here
// A guard borrows its handle, which keeps the value.
fn main() {
    let engine = seriatim::Engine::new().unwrap();
    let x = engine.value(7);
    let guard = x.read().unwrap();
    drop(x); // refused
    assert_eq!(*guard, 7);
}
