//~ error
//~ lifetime may not live long enough
// A handle of a type is none of a type with shorter lifetimes, which could leave what is gone.
fn shorten<'a>(x: seriatim::Value<&'static str>, _: &'a str) -> seriatim::Value<&'static str> {
    x
}

fn shorten_wrongly<'a>(x: seriatim::Value<&'static str>, _: &'a str) -> seriatim::Value<&'a str> { // refused
    x // refused
} // refused

fn main() {
    let engine = seriatim::Engine::new().unwrap();
    drop(shorten(engine.value("static"), "local"));
}
