use seriatim::*;
use std::time::Instant;
fn main() {
    let kind = if std::env::args().nth(1).as_deref() == Some("naive") { Kind::Naive } else { Kind::PerDevice };
    let n: usize = std::env::args().nth(2).map_or(200000, |a| a.parse().unwrap());
    let engine = Engine::builder().kind(kind).cpu_workers(1).build().unwrap();
    let vars: Vec<_> = (0..1000).map(|_| engine.new_variable()).collect();
    let mut s = 88172645463325252u64;
    let mut r = || {
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        (s % 1000) as usize
    };
    let t = Instant::now();
    let (graph, ()) = engine
        .capture(|c| (0..n).try_for_each(|_| c.op("x").reads([vars[r()], vars[r()]]).writes([vars[r()]]).push(|_| ())))
        .unwrap();
    println!("capture {:.0} ns/op", t.elapsed().as_nanos() as f64 / n as f64);
    for _ in 0..20 {
        let t = Instant::now();
        graph.replay().unwrap();
        engine.wait_for_all().unwrap();
        print!("{:.1} ", t.elapsed().as_nanos() as f64 / n as f64);
    }
    println!();
}
