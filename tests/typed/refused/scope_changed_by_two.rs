//~ error[E0499]: cannot borrow `sum` as mutable more than once at a time
//~ second mutable borrow occurs here
// Two operations of a scope do not change the same thing, unless it is a part.
fn main() {
    let engine = seriatim::Engine::new().unwrap();
    let mut sum = 0;
    engine
        .scope(|s| {
            s.op("one").push(|_| sum += 1)?;
            s.op("two").push(|_| sum += 1)?; // refused
            Ok(())
        })
        .unwrap();
}
