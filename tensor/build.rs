//! Says by `cfg(has_avx512)` whether the compiler knows AVX-512: Rust does from 1.89 on.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(has_avx512)");
    let compiler = std::env::var_os("RUSTC").unwrap_or("rustc".into());
    let version = Command::new(compiler).arg("--version").output().map(|output| output.stdout).unwrap_or_default();
    let version = String::from_utf8_lossy(&version);
    // As in "rustc 1.89.0 (29483883e 2025-08-04)".
    let minor = version.split('.').nth(1).and_then(|minor| minor.parse::<u32>().ok());
    if minor.is_some_and(|minor| minor >= 89) {
        println!("cargo::rustc-cfg=has_avx512");
    }
}
