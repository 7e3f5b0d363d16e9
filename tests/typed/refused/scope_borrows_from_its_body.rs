//~ error[E0373]: closure may outlive the current function, but it borrows `inner`
//~ `inner` is borrowed here
// What an operation of a scope borrows outlives the call of `scope`, and not only the body.
fn main() {
    let engine = seriatim::Engine::new().unwrap();
    let outer = 7;
    engine
        .scope(|s| {
            let inner = 7;
            s.op("look").push(|_| assert_eq!(outer, 7))?;
            s.op("late").push(|_| assert_eq!(inner, 7))?; // refused
            assert_eq!(inner, 7);
            Ok(())
        })
        .unwrap();
}
