//! What an engine publishes to other processes.

use crate::common::*;
use seriatim::{Builder, Engine, ErrorKind, Kind};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// A folder of the test's own, which goes away with it.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Folder {
        // Paths of sockets are short.
        Folder(PathBuf::from(format!("/tmp/seriatim-{}-{test}", std::process::id())))
    }

    fn sockets(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(&self.0).into_iter().flatten();
        let mut found: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        found.sort();
        found
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn builder() -> Builder {
    Engine::builder().kind(Kind::PerDevice).cpu_workers(1).pin(false)
}

fn client(socket: &Path) -> BufReader<UnixStream> {
    BufReader::new(UnixStream::connect(socket).unwrap())
}

/// The next look, without its end.
fn look(client: &mut BufReader<UnixStream>) -> String {
    let mut text = Vec::new();
    client.read_until(0xc, &mut text).unwrap();
    assert_eq!(text.pop(), Some(0xc));
    String::from_utf8(text).unwrap()
}

#[test]
fn a_client_is_told_at_once_and_then_of_each_second() {
    let folder = Folder::new("told");
    let engine = builder().publish(&folder.0).build().unwrap();
    for _ in 0..5 {
        engine.op("work").push(nothing).unwrap();
    }
    engine.wait_for_all().unwrap();
    let [socket] = &folder.sockets()[..] else { panic!("{:?}", folder.sockets()) };
    let name = socket.file_name().unwrap().to_str().unwrap();
    let number = format!("{engine:?}").split(' ').nth(1).unwrap().to_owned();
    assert_eq!(name, format!("{}-{number}.sock", std::process::id()));
    let mut first = client(socket);
    let all = look(&mut first);
    assert!(all.contains("5 pushed, 5 completed") && all.contains("seriatim-cpu-0"), "{all}");
    engine.op("more").push(nothing).unwrap();
    engine.wait_for_all().unwrap();
    let mut second = client(socket);
    assert!(look(&mut second).contains("6 pushed"), "of the whole life, for who is new");
    let later = look(&mut first);
    assert!(later.contains("1 pushed, 1 completed"), "of the time since the last look: {later}");
    drop(engine);
    // The socket is gone, and who reads comes to the end.
    assert_eq!(folder.sockets(), [""; 0].map(PathBuf::from));
    first.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn engines_of_one_folder_have_a_socket_each() {
    let folder = Folder::new("each");
    let engines = [(); 3].map(|()| builder().publish(&folder.0).build().unwrap());
    assert_eq!(folder.sockets().len(), 3);
    let clone = engines[0].clone();
    drop(engines);
    assert_eq!(folder.sockets().len(), 1, "a handle is left");
    assert!(look(&mut client(&folder.sockets()[0])).contains("0 in flight"));
    drop(clone);
    assert_eq!(folder.sockets().len(), 0);
}

/// One that does not read is left, and one that goes away is forgotten.
#[test]
fn a_client_that_goes_away_holds_nobody_up() {
    let folder = Folder::new("left");
    let engine = builder().publish(&folder.0).build().unwrap();
    let socket = folder.sockets().remove(0);
    for _ in 0..3 {
        drop(client(&socket));
    }
    let silent = UnixStream::connect(&socket).unwrap();
    let mut reads = client(&socket);
    assert!(look(&mut reads).contains("in flight") && look(&mut reads).contains("in flight"));
    drop(silent);
    engine.op("work").push(nothing).unwrap();
    engine.wait_for_all().unwrap();
}

#[test]
fn a_socket_that_cannot_be_made_is_an_error_that_says_why() {
    let folder = Folder::new("file");
    std::fs::write(&folder.0, "no folder").unwrap();
    let refused = |builder: Builder| builder.build().unwrap_err();
    let error = refused(builder().publish(&folder.0));
    assert_says(&error, ErrorKind::BadSetting, &["publish", folder.0.to_str().unwrap(), "choose another folder"]);
    std::fs::remove_file(&folder.0).unwrap();
    let long = builder().publish(folder.0.join("long".repeat(40)));
    assert_says(&refused(long), ErrorKind::BadSetting, &["publish"]);
}

#[test]
fn without_the_setting_there_is_no_socket() {
    assert_eq!(builder().build().unwrap().settings().publish, None);
    assert_eq!(builder().set("PUBLISH", "").unwrap().build().unwrap().settings().publish, None);
    let folder = Folder::new("set");
    let engine = builder().set("SERIATIM_PUBLISH", folder.0.to_str().unwrap()).unwrap().build().unwrap();
    assert_eq!(engine.settings().publish.as_deref(), Some(&*folder.0));
    assert_eq!(folder.sockets().len(), 1);
}
