//~ error: unused `Completion` that must be used
//~ a completion that is dropped unused fails its operation
// A completion that is handed back, and forgotten.
#![deny(unused_must_use)]
use seriatim::{Completion, Engine};

fn pass(completion: Completion) -> Completion {
    completion
}

fn main() {
    let engine = Engine::new().unwrap();
    engine.op("ends").push_async(|_, completion| pass(completion).complete()).unwrap();
    engine.op("is forgotten").push_async(|_, completion| {
        pass(completion); // refused
    }).unwrap();
}
