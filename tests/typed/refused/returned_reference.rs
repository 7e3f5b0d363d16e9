//~ error
//~ lifetime may not live long enough
// Nor is it returned.
fn main() {
    let engine = seriatim::Engine::new().unwrap();
    let x = engine.value(String::from("no"));
    engine.op("fail").run(&x, |x| Err::<(), String>(x.clone())).unwrap();
    engine.op("fail").run(&x, |x| Err::<(), &str>(x)).unwrap(); // refused
}
