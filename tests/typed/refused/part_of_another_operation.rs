//~ error[E0277]
//~ does not say what an operation uses
// An operation that no scope joins cannot be lent a part of one.
fn main() {
    let engine = seriatim::Engine::new().unwrap();
    let mut x = 1;
    engine
        .scope(|s| {
            let part = s.part(&mut x);
            engine.op("later").run(seriatim::Write(&part), |x| *x += 1)?; // refused
            s.op("add").run(seriatim::Write(&part), |x| *x += 1)
        })
        .unwrap();
}
