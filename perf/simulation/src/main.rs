//! `perf/simulate.sh` builds and runs this.

#[cfg(not(seriatim_simulation))]
fn main() {
    eprintln!("this is built for a real machine: perf/simulate.sh builds it for a simulated one");
    std::process::exit(2);
}

#[cfg(seriatim_simulation)]
fn main() {
    use seriatim::simulated::lines::Parameters;
    use seriatim_simulation::runs::*;
    let p = Parameters { overlap: std::env::args().nth(1).is_some(), ..Parameters::default() };
    for name in ["independent", "random"] {
    for w in [1, 3, 7, 15, 31, 63] {
            let t = std::time::Instant::now();
            let o = workload(name, 1000 * w, How::Shipped, w, 2000, &p);
            println!("{name} {w}: {:.2} lines {:.0} ns push {:.0} busy {:.2} ({:?})", o.lines(), o.each(), o.pushing as f64 / o.operations as f64, o.busy, t.elapsed());
            if w == 15 {
                for c in o.causes.iter().take(20) {
                    println!("    {:5.2} {:5.2} {:6.1}ns {}:{} {:?}", c.moved as f64 / o.operations as f64, c.upgraded as f64 / o.operations as f64, c.waited as f64 / o.operations as f64, c.place.file(), c.place.line(), c.line);
                }
            }
        }
    }
    for load in [Load::Own, Load::Common] { for (how, name) in ENGINES { for n in [1,2,4,8,16,32] {
            let t = std::time::Instant::now();
            let o = pushers(n, 2000, load, how, n.max(1), &p);
            println!("{name} {n}: {:.2} lines; pushed {:.2} M/s done {:.2} M/s ({:?})", o.lines(), o.operations as f64 * 1e3 / o.pushing as f64 , o.operations as f64 * 1e3/ o.elapsed as f64, t.elapsed());
            if n == 8 {
                for c in o.causes.iter().take(14) {
                    println!("    {:5.2} {:5.2} {:6.1}ns {}:{} {:?}", c.moved as f64 / o.operations as f64, c.upgraded as f64 / o.operations as f64, c.waited as f64 / o.operations as f64, c.place.file(), c.place.line(), c.line);
                }
            }
    }}}
}
