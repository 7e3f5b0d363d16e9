//! Gives the library the name by which programs ask for a driver.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Once it is loaded, from whatever file, the loader finds it by this name: `client.rs`.
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcuda.so");
    }
}
