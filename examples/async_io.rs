//! Asynchronous input: a thread reads files, no worker waits for it, and all that came is combined.
//!
//!   cargo run --release --example async_io

use seriatim::{Completion, Data, Engine, Property};
use std::path::PathBuf;
use std::sync::mpsc;
use std::{fs, process, thread};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("seriatim-async-io-{}", process::id()));
    fs::create_dir_all(&folder)?;
    let texts = ["to be", "or not", "to be"];

    // The thread that reads. It ends each operation by its completion: well, or with the error.
    let (ask, asked) = mpsc::channel::<(PathBuf, Data<String>, Completion)>();
    let reader = thread::spawn(move || {
        for (path, text, completion) in asked {
            match fs::read_to_string(path) {
                Ok(new) => {
                    *text.write().expect("the operation has not ended, so the value is its own") = new;
                    completion.complete();
                }
                Err(error) => completion.fail(error),
            }
        }
    });

    let engine = Engine::new()?;
    let parts: Vec<_> = texts.iter().map(|_| Data::new(&engine, String::new())).collect();
    for (number, part) in parts.iter().enumerate() {
        let path = folder.join(format!("{number}.txt"));
        fs::write(&path, texts[number])?;
        let (ask, text) = (ask.clone(), part.clone());
        // It only starts something, which the pushing thread can do at once.
        engine.op("read").write(part).property(Property::Async).push_async(move |_, completion| {
            let _ = ask.send((path, text, completion)); // if the thread is gone, the operation fails
        })?;
    }
    let whole = Data::new(&engine, String::new());
    let (from, to) = (parts.clone(), whole.clone());
    engine.op("combine").reads(&parts).write(&whole).push(move |_| {
        let texts = from.iter().map(|part| Ok(part.read()?.clone())).collect::<Result<Vec<_>, seriatim::Error>>()?;
        *to.write()? = texts.join(" ");
        Ok::<(), seriatim::Error>(())
    })?;
    engine.wait_for_var(whole.variable())?; // an error of a read would come out here

    println!("{}", *whole.read()?);
    assert_eq!(*whole.read()?, "to be or not to be");
    drop(ask); // nothing more to ask: the thread ends
    reader.join().expect("it does not panic");
    Ok(fs::remove_dir_all(folder)?)
}
