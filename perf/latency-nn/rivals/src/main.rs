//! `latency-nn-rivals candle | burn-flex | burn-ndarray`: an entrant of `perf/latency-nn`.

mod burn;
mod candle;
#[path = "../../src/serve.rs"]
#[allow(dead_code)]
mod serve;

use serde_json::Value;

/// The version of a package in the lock file.
fn version(package: &str) -> String {
    let lock = include_str!("../Cargo.lock");
    let entry = lock.split("[[package]]").find(|entry| entry.contains(&format!("\nname = \"{package}\"\n")));
    let version = entry.and_then(|entry| entry.split("version = \"").nth(1)?.split('"').next());
    version.unwrap_or_default().to_owned()
}

/// Two numbers of a layer, such as its kernel.
fn pair(layer: &Value, key: &str) -> Result<[usize; 2], String> {
    match (&layer[key][0], &layer[key][1]) {
        (Value::Number(one), Value::Number(other)) => {
            Ok([one, other].map(|number| number.as_u64().unwrap_or_default() as usize))
        }
        _ => Err(format!("{layer} has no {key}")),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let kind = std::env::args().nth(1).unwrap_or_default();
    match kind.as_str() {
        "candle" => serve::serve(&version("candle-nn"), |problem| Ok(Box::new(candle::Candle::new(problem)?))),
        "burn-flex" => serve::serve(&version("burn"), burn::open::<::burn::backend::Flex>),
        "burn-ndarray" => serve::serve(&version("burn"), burn::open::<::burn::backend::NdArray>),
        _ => Err("usage: latency-nn-rivals candle | burn-flex | burn-ndarray".into()),
    }
}
