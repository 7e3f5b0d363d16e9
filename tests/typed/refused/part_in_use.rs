//~ error[E0503]: cannot use `x` because it was mutably borrowed
//~ `x` is borrowed here
// What a part borrows is reached by nothing else until the scope is joined.
fn main() {
    let engine = seriatim::Engine::new().unwrap();
    let mut x = 1;
    engine
        .scope(|s| {
            let part = s.part(&mut x);
            s.op("add").run(seriatim::Write(&part), |x| *x += 1)?;
            assert!(x < 3); // refused
            Ok(())
        })
        .unwrap();
    assert_eq!(x, 2);
}
