//~ error[E0597]: `local` does not live long enough
//~ borrowed value does not live long enough
// A value outlives the function that makes it.
fn main() {
    let engine = seriatim::Engine::new().unwrap();
    let local = 7;
    drop(engine.value(local));
    drop(engine.value(&local)); // refused
}
