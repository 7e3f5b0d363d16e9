//~ error
//~ does not live long enough
// An operation of a scope further out may run when the scope that has lent the part is over.
fn main() {
    let engine = seriatim::Engine::new().unwrap();
    engine
        .scope(|outer: &seriatim::Scope<'_, '_>| {
            let mut x = 1;
            engine.scope(|s| {
                let part = s.part(&mut x);
                outer.op("later").run(seriatim::Write(&part), |x| *x += 1)?; // refused
                s.op("add").run(seriatim::Write(&part), |x| *x += 1)
            })
        })
        .unwrap();
}
