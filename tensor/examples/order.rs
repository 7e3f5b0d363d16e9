//! The five lines of MXNet's paper on its dependency engine, in the order that the engine's trace
//! shows. The last line frees A behind all that read it.
//!
//!     A = 2
//!     B = 2
//!     B = A + B
//!     C = A + 2
//!     A.del()
//!
//!     cargo run --release -p seriatim-tensor --example order
//!     … -- trace.json       also writes the trace, for ui.perfetto.dev
//!
//! Each operation is printed with when it ran, and with those before it that used a variable of
//! its own which one of the two changes. It must have started after their ends.

use seriatim::{Engine, Event, Profile};
use seriatim_tensor::{DType, Error, NDArray, Runtime};

/// Runs the program; returns B and C. Calls return at once, and operations run when they may.
pub fn program(runtime: &Runtime) -> Result<(NDArray, NDArray), Error> {
    let named = |name: &'static str, array: NDArray| {
        runtime.engine().name_variable(array.var(), name)?;
        Ok::<NDArray, Error>(array)
    };
    let a = named("A", runtime.full([1], DType::I32, 2)?)?;
    let b = named("B", runtime.full([1], DType::I32, 2)?)?;
    b.add_assign(&a)?;
    let c = named("C", a.add_scalar(2.0)?)?;
    drop(a);
    Ok((b, c))
}

/// Which of the operations that started before an operation it had to wait for: those that used a
/// variable of its own which one of both changed.
pub fn before(profile: &Profile, event: &Event) -> Vec<usize> {
    let earlier = profile.events().iter().enumerate().filter(|(_, other)| other.start < event.start);
    let conflicts = |other: &Event| {
        let mut pairs = other.uses().iter().flat_map(|one| event.uses().iter().map(move |own| (one, own)));
        pairs.any(|(one, own)| one.to_string() == own.to_string() && (one.writes() || own.writes()))
    };
    earlier.filter(|(_, other)| conflicts(other)).map(|(number, _)| number).collect()
}

/// An operation with its variables: `fill of A`.
pub fn described(profile: &Profile, event: &Event) -> String {
    let names: Vec<&str> = event.uses().iter().filter_map(|used| profile.variable_name(used)).collect();
    format!("{} of {}", event.name, names.join(", "))
}

#[allow(dead_code, reason = "a test has the functions above")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::new()?;
    engine.start_profiling();
    let runtime = Runtime::new(&engine);
    let (b, c) = program(&runtime)?;
    println!("B = {}, C = {}", b.as_scalar::<i32>()?, c.as_scalar::<i32>()?);
    runtime.wait_all()?;
    let profile = engine.profile();
    for event in profile.events() {
        let behind = before(&profile, event);
        if behind.iter().any(|number| profile.events()[*number].end > event.start) {
            return Err(format!("{} ran too early", described(&profile, event)).into());
        }
        let behind: Vec<String> = behind.iter().map(|at| described(&profile, &profile.events()[*at])).collect();
        let (start, end) = (event.start as f64 / 1e3, event.end as f64 / 1e3);
        println!("{start:9.1} to {end:9.1} µs: {:28} behind: {}", described(&profile, event), behind.join("; "));
    }
    if let Some(path) = std::env::args().nth(1) {
        profile.write_chrome_trace(std::io::BufWriter::new(std::fs::File::create(path)?))?;
    }
    Ok(())
}
