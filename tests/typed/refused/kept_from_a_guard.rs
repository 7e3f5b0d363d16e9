//~ error[E0505]: cannot move out of `guard` because it is borrowed
//~ borrow later used here
// What a guard gives does not outlive it.
fn main() {
    let engine = seriatim::Engine::new().unwrap();
    let x = engine.value(String::new());
    let guard = x.read().unwrap();
    let kept: &str = &guard;
    drop(guard); // refused
    assert_eq!(kept, "");
}
