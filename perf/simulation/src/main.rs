//! Writes the page of the simulation; `perf/simulate.sh` builds and runs this.

#[cfg(not(seriatim_simulation))]
fn main() {
    eprintln!("this is built for a real machine: perf/simulate.sh builds it for a simulated one");
    std::process::exit(2);
}

#[cfg(seriatim_simulation)]
fn main() {
    use seriatim_sim::lines::Parameters;
    use seriatim_simulation::page::{write, Length};
    let mut length = Length::Full;
    let mut base = Parameters::default();
    for argument in std::env::args().skip(1) {
        match (argument.as_str(), argument.split_once('=')) {
            ("--quick", _) => length = Length::Quick,
            (_, Some(("--seed", value))) if value.parse::<u64>().is_ok() => base.seed = value.parse().unwrap_or(0),
            (_, Some(("--socket", value))) if value.parse::<usize>().is_ok() => {
                base.socket = value.parse().unwrap_or(0)
            }
            _ => {
                eprintln!("{argument} is not an option; there are --quick, --seed=NUMBER, --socket=CORES");
                std::process::exit(2);
            }
        }
    }
    print!("{}", write(length, &base));
}
