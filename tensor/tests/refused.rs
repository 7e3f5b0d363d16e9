//! Programs that must not compile, each with what the compiler says to it: what simple operators
//! are given has types of its own, so arguments in a wrong order are refused.
//!
//! Each file of `tests/refused/` is a program. Its first lines say what the compiler's answer has
//! in it, as `//~ text`. Without the lines that end in `// refused` it compiles, so it is these
//! that are refused. `../tests/typed/refused.rs` does the same for the engine.

#![cfg(not(miri))]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::SystemTime;

/// The folder of this test's binary, where the library lies as well.
fn built() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this binary");
    test.parent().expect("it lies in a folder").to_owned()
}

/// The library that was built last: the one that this test was linked with.
fn library() -> PathBuf {
    let files = std::fs::read_dir(built()).expect("the folder is there").flatten();
    let is_library = |file: &std::fs::DirEntry| {
        let name = file.file_name().to_string_lossy().into_owned();
        name.strip_prefix("libseriatim_tensor-").is_some_and(|rest| rest.ends_with(".rlib"))
    };
    let age =
        |file: &std::fs::DirEntry| file.metadata().and_then(|data| data.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    files.filter(is_library).max_by_key(age).expect("the library is there").path()
}

fn compile(source: &str, name: &str) -> Output {
    let place = built().join(format!("refused-tensor-{name}-{}.rs", std::process::id()));
    std::fs::write(&place, source).expect("the folder can be written to");
    let output = Command::new(std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into()))
        .args(["--edition=2024", "--crate-type=bin", "--emit=metadata", "--color=never", "-Adead_code", "-Aunused"])
        .arg("--extern")
        .arg(format!("seriatim_tensor={}", library().display()))
        .arg("-L")
        .arg(format!("dependency={}", built().display()))
        .arg("-o")
        .arg(place.with_extension("rmeta"))
        .arg(&place)
        .output()
        .expect("the compiler runs");
    for file in [place.clone(), place.with_extension("rmeta")] {
        let _ = std::fs::remove_file(file);
    }
    output
}

#[test]
fn arguments_of_gradients_in_a_wrong_order_do_not_compile() {
    // Tests that run under an emulator have the compiler of another machine, and no library for it.
    let host = Command::new("rustc").arg("-vV").output();
    let host = host.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    if !host.contains(&format!("host: {}", std::env::consts::ARCH)) {
        return eprintln!("skipped: no compiler for {}", std::env::consts::ARCH);
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/refused");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("the programs are there").flatten().map(|file| file.path()).collect();
    files.sort();
    assert_eq!(files.len(), 4);
    let mut wrong = Vec::new();
    for file in files {
        let name = file.file_stem().expect("it has a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&file).expect("it can be read");
        let expected: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("//~ ")).collect();
        assert!(expected.len() >= 2, "{name} does not say what the compiler says");
        let output = compile(&text, &name);
        let said = String::from_utf8_lossy(&output.stderr);
        let missing: Vec<&&str> = expected.iter().filter(|part| !said.contains(**part)).collect();
        if output.status.success() || !missing.is_empty() {
            wrong.push(format!("of {name} the compiler does not say {missing:?}, but\n{said}"));
        }
        let kept: Vec<&str> = text.lines().filter(|line| !line.ends_with("// refused")).collect();
        let output = compile(&kept.join("\n"), &format!("{name}-kept"));
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            wrong.push(format!("{name} does not compile without what is refused:\n{said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
