//~ error
//~ borrowed data escapes outside of closure
// A part does not leave the scope that lends it.
fn main() {
    let engine = seriatim::Engine::new().unwrap();
    let mut x = 1;
    let mut parts = Vec::<seriatim::ScopePart<'_, i32>>::new();
    engine
        .scope(|s| {
            let part = s.part(&mut x);
            s.op("add").run(seriatim::Write(&part), |x| *x += 1)?;
            parts.push(part); // refused
            Ok(())
        })
        .unwrap();
    parts.clear();
}
