//! `include/seriatim.h` is what the sources say. To write it anew: `SERIATIM_BLESS=1 cargo test -p
//! seriatim_c --test header`.

use std::path::{Path, PathBuf};
use std::process::Command;

fn header_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include/seriatim.h")
}

fn generated() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("cbindgen.toml can be read");
    let bindings = cbindgen::Builder::new()
        .with_config(config)
        .with_src(root.join("src/lib.rs"))
        .generate()
        .expect("sources parse");
    let mut header = Vec::new();
    bindings.write(&mut header);
    String::from_utf8(header).expect("the header is UTF-8")
}

#[test]
#[cfg_attr(miri, ignore = "reads the sources")]
fn the_header_is_current() {
    let generated = generated();
    if std::env::var_os("SERIATIM_BLESS").is_some() {
        std::fs::write(header_path(), &generated).expect("the header can be written");
    }
    let stored = std::fs::read_to_string(header_path()).unwrap_or_default();
    let difference = generated.lines().zip(stored.lines()).position(|(new, old)| new != old);
    assert!(
        generated == stored,
        "include/seriatim.h is not what the sources say (first difference: {difference:?}); \
         run `SERIATIM_BLESS=1 cargo test -p seriatim_c --test header`"
    );
}

/// Every function that the sources export is declared, and nothing else.
#[test]
#[cfg_attr(miri, ignore = "reads the sources")]
fn every_exported_function_is_declared() {
    let sources = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap();
    let exported: usize = sources
        .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap().matches("#[unsafe(no_mangle)]\n").count())
        .sum();
    let header = generated();
    let declared = header.lines().filter(|line| !line.starts_with("//") && line.contains(" seriatim_")).count()
        + header.lines().filter(|line| !line.starts_with("//") && line.contains(" *seriatim_")).count();
    assert_eq!(exported, declared);
}

/// Every function that can fail says how.
#[test]
#[cfg_attr(miri, ignore = "reads the sources")]
fn every_function_that_can_fail_says_how() {
    let header = generated();
    let (mut errors, mut silent, mut asked) = (false, Vec::new(), 0);
    for line in header.lines() {
        if line.starts_with("//") {
            errors |= line == "// # Errors";
            continue;
        }
        if line.starts_with("SeriatimStatus seriatim_") {
            asked += 1;
            if !errors {
                silent.push(line.to_owned());
            }
        }
        errors = false;
    }
    assert!(asked > 40 && silent.is_empty(), "of {asked} functions these do not say how they fail: {silent:#?}");
}

/// Every setting that the engine knows is in the header.
#[test]
#[cfg_attr(miri, ignore = "reads the sources")]
fn every_setting_is_documented() {
    let known = seriatim::Engine::builder().set("NONSENSE", "").unwrap_err().to_string();
    let keys: Vec<&str> = known.split(['(', ' ', ',', ';']).filter_map(|word| word.strip_prefix("SERIATIM_")).collect();
    assert!(keys.len() > 10, "{known}");
    let header = generated();
    let missing: Vec<&&str> = keys.iter().filter(|key| !header.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "the header does not say what {missing:?} means");
}

/// The header stands alone, in C11 and in C++, if there is a compiler for it.
#[test]
#[cfg(unix)]
#[cfg_attr(miri, ignore = "runs compilers")]
fn the_header_compiles_alone() {
    // Not the stored one, which may just be being written anew.
    let header = Path::new(env!("CARGO_TARGET_TMPDIR")).join("seriatim.h");
    std::fs::write(&header, generated()).expect("the header can be written");
    let compilers = [("cc", "c", "-std=c11", "-Wstrict-prototypes"), ("c++", "c++", "-std=c++11", "-Wextra")];
    for (compiler, language, standard, warnings) in compilers {
        if Command::new(compiler).arg("--version").output().is_err() {
            eprintln!("there is no {compiler}: not checked as {language}");
            continue;
        }
        let output = Command::new(compiler)
            .args(["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-pragma-once-outside-header"])
            .args(["-pedantic", standard, warnings, "-x", language])
            .arg(&header)
            .output()
            .expect("the compiler runs");
        assert!(output.status.success(), "{compiler}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
