//~ error[E0614]: type `Value<i32>` cannot be dereferenced
//~ error[E0599]: no method named `get`
// A handle that a closure captures leads to no value.
fn main() {
    let engine = seriatim::Engine::new().unwrap();
    let (x, y) = (engine.value(7_i32), engine.value(0_u32));
    let captured = x.clone();
    engine.op("look").run(seriatim::Write(&y), move |y| *y = captured.variable().into_raw().1).unwrap();
    let captured = x.clone();
    engine.op("undeclared").run(seriatim::Write(&y), move |y| *y = *captured as u32).unwrap(); // refused
    let captured = x.clone();
    engine.op("undeclared").run(seriatim::Write(&y), move |y| *y = captured.get()).unwrap(); // refused
}
