//~ error[E0499]: cannot borrow `values` as mutable more than once at a time
//~ second mutable borrow occurs here
// The values of a slice are changed one at a time, or all by `iter_mut`.
fn main() {
    let engine = seriatim::Engine::new().unwrap();
    let values = [engine.value(1), engine.value(2)];
    engine.op("swap").run(seriatim::Write(&values[..]), |mut values| {
        values[0] += 1;
        std::mem::swap(&mut values[0], &mut values[1]); // refused
    })
    .unwrap();
}
