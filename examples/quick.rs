use seriatim::*;
use std::time::Instant;
fn main() {
    let n = 1_000_000usize;
    for (kind, w, help) in [(Kind::Naive, 1, true), (Kind::PerDevice, 1, true), (Kind::PerDevice, 1, false), (Kind::PerDevice, 2, true), (Kind::Pooled, 1, true)] {
        for pattern in ["independent", "chain", "random", "fan"] {
            let e = Engine::builder().kind(kind).cpu_workers(w).waiters_help(help).idle(IdlePolicy::SpinThenPark).build().unwrap();
            let v: Vec<_> = (0..1024).map(|_| e.new_variable()).collect();
            let mut best = f64::MAX;
            for _ in 0..3 {
                let t = Instant::now();
                for i in 0..n {
                    match pattern {
                        "independent" => e.op("").writes([v[i % 1024]]).push(|_| ()).unwrap(),
                        "chain" => e.op("").writes([v[0]]).push(|_| ()).unwrap(),
                        "fan" => if i % 17 == 0 { e.op("").writes([v[0]]).push(|_| ()).unwrap() } else { e.op("").reads([v[0]]).push(|_| ()).unwrap() },
                        _ => e.op("").reads([v[(i * 7919) % 1000], v[(i * 104729 + 5) % 1000]]).writes([v[(i * 31337 + 11) % 1000]]).push(|_| ()).unwrap(),
                    }
                }
                e.wait_for_all().unwrap();
                best = best.min(t.elapsed().as_nanos() as f64 / n as f64);
            }
            println!("{kind} w{w} help={help} {pattern}: {best:.1} ns");
        }
        let e = Engine::builder().kind(kind).cpu_workers(w).waiters_help(help).build().unwrap();
        let v = e.new_variable();
        let mut times: Vec<u64> = (0..20000).map(|_| { let t = Instant::now(); e.op("").writes([v]).push(|_| ()).unwrap(); e.wait_for_var(v).unwrap(); t.elapsed().as_nanos() as u64 }).collect();
        times.sort();
        println!("{kind} w{w} help={help} round trip p50 {} p99 {} p99.9 {}", times[10000], times[19800], times[19980]);
    }
}
