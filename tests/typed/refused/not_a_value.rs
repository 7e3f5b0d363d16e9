//~ error[E0277]: `&Data<i32>` does not say what an operation uses
//~ name `&value` to read it and `Write(&value)` to change it
// Only values and what is made of them are lent.
fn main() {
    let engine = seriatim::Engine::new().unwrap();
    let (x, data) = (engine.value(7), seriatim::Data::new(&engine, 7_i32));
    engine.op("look").run(&x, |_| ()).unwrap();
    engine.op("wrong").run(&data, |_| ()).unwrap(); // refused
}
