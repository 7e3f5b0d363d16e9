//~ error[E0277]
//~ cannot be shared between threads safely
// A scope stays on the thread that has opened it: its operations open their own.
fn main() {
    let engine = seriatim::Engine::new().unwrap();
    engine
        .scope(|s| {
            s.op("own").push(|_| engine.scope(|s| s.op("inner").push(|_| ())))?;
            s.op("sibling").push(move |_| s.op("another").push(|_| ()))?; // refused
            Ok(())
        })
        .unwrap();
}
