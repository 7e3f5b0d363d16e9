//! Everything that can run a program, behind one face: this engine in its kinds, the mutex-guarded baseline, the peers
//! from crates.io, and those that are shared libraries.

mod accesses;
pub mod baseline;
mod crates;
mod declared;
mod foreign;
mod hand;
mod mutexed;
pub mod ours;

use std::time::{Duration, Instant};

use seriatim::Kind;

pub use foreign::directory as foreign_directory;

use crate::program::Program;

/// What the entrants of the mode `inline` take to be a short operation.
const INLINE_BELOW: Duration = Duration::from_nanos(300);

/// Something that runs programs.
pub trait Runner {
    /// Makes what `program` needs and may be made beforehand: variables, and operators or graphs where those are used.
    ///
    /// # Errors
    /// If it cannot express the program; says why.
    fn prepare(&mut self, program: &'static Program) -> Result<(), String>;

    /// Pushes the whole program that was prepared and waits for its end. This is what is timed: it includes the
    /// pushing thread's own work.
    fn run(&mut self);

    /// The version of what really runs.
    fn version(&self) -> String;
}

/// How operations reach an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Style {
    /// A function for every push.
    Dynamic,
    /// Operators made beforehand, one for each distinct operation.
    Operators,
    /// Merged into larger operations.
    Batches,
    /// The whole program, made into a graph beforehand.
    Graph,
}

/// One way to run programs: a column of the tables.
#[derive(Clone, Debug)]
pub struct Entrant {
    /// What the tables call it, `system-mode-workers` and the style if that is not dynamic.
    pub name: String,
    /// Whose it is: `seriatim`, `baseline`, `onetbb` and so on.
    pub system: &'static str,
    /// Which of the system's engines.
    pub mode: &'static str,
    /// How operations reach it.
    pub style: Style,
    /// How many threads it was asked for; the pushing thread counts where the system counts it.
    pub workers: usize,
    /// Whether the pushing thread runs bodies too.
    pub caller_runs: bool,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Ours(Kind),
    /// The per-device engine that runs short operations inside their pushes.
    OursInline,
    Baseline,
    Rayon,
    Tokio,
    Shred,
    ByHand,
    /// A shared library, and the mode to start it in.
    Foreign(&'static str, &'static str),
}

impl Entrant {
    fn new(
        what: What,
        system: &'static str,
        mode: &'static str,
        style: Style,
        workers: usize,
        caller_runs: bool,
    ) -> Entrant {
        let mut name = String::from(system);
        if !mode.is_empty() {
            name = format!("{name}-{mode}");
        }
        if mode != "naive" {
            name = format!("{name}-{workers}");
        }
        match style {
            Style::Dynamic => {}
            Style::Operators => name.push_str(" operators"),
            Style::Batches => name.push_str(" batches"),
            Style::Graph => name.push_str(" graph"),
        }
        Entrant { name, system, mode, style, workers, caller_runs, what }
    }

    /// Whether the pushing thread is one of the workers that it was asked for.
    pub fn counts_caller(&self) -> bool {
        matches!(self.system, "libgomp" | "libomp" | "onetbb" | "by-hand") || self.mode == "naive"
    }

    /// How many threads run bodies.
    pub fn threads(&self) -> usize {
        self.workers + usize::from(self.caller_runs && !self.counts_caller())
    }

    /// How many of so many cores it occupies: those of its threads, and the pushing thread's.
    pub fn occupies(&self, cores: usize) -> usize {
        cores.min(self.workers + usize::from(!self.counts_caller()))
    }

    /// Starts it, with its threads.
    ///
    /// # Errors
    /// If it is not to be had here; says how to get it.
    pub fn start(&self) -> Result<Box<dyn Runner>, String> {
        Ok(match self.what {
            What::Ours(kind) => Box::new(ours::Seriatim::start(kind, self.workers, Duration::ZERO, self.style)?),
            What::OursInline => {
                Box::new(ours::Seriatim::start(Kind::PerDevice, self.workers, INLINE_BELOW, self.style)?)
            }
            What::Baseline => Box::new(mutexed::Mutexed::start(self.workers, self.style)),
            What::Rayon => Box::new(crates::Rayon::start(self.workers)?),
            What::Tokio => Box::new(crates::Tokio::start(self.workers)?),
            What::Shred => Box::new(declared::Shred::start(self.workers)?),
            What::ByHand => Box::new(hand::ByHand::start(self.workers)),
            What::Foreign(library, mode) => Box::new(foreign::Foreign::start(library, mode, self.workers)?),
        })
    }

    /// Looks whether it is to be had here, without starting it.
    ///
    /// # Errors
    /// If it is not; says how to get it.
    pub fn check(&self) -> Result<(), String> {
        match self.what {
            What::Foreign(library, _) => foreign::find(library).map(drop),
            _ => Ok(()),
        }
    }
}

/// This engine in its kinds and styles, with each number of workers.
fn ours(workers: &[usize]) -> Vec<Entrant> {
    let new =
        |kind, mode, style, workers, caller| Entrant::new(What::Ours(kind), "seriatim", mode, style, workers, caller);
    let mut entrants = [Style::Dynamic, Style::Operators, Style::Graph]
        .map(|style| new(Kind::Naive, "naive", style, 1, true))
        .to_vec();
    for count in workers {
        entrants.push(new(Kind::Pooled, "pooled", Style::Dynamic, *count, true));
        for style in [Style::Dynamic, Style::Operators, Style::Batches, Style::Graph] {
            entrants.push(new(Kind::PerDevice, "per-device", style, *count, true));
        }
    }
    for count in workers {
        for style in [Style::Dynamic, Style::Operators] {
            entrants.push(Entrant::new(What::OursInline, "seriatim", "inline", style, *count, true));
        }
    }
    entrants
}

/// Everything that needs nothing but cargo, with each number of workers.
pub fn built_in(workers: &[usize]) -> Vec<Entrant> {
    let mut entrants = ours(workers);
    for count in workers {
        for style in [Style::Dynamic, Style::Operators] {
            entrants.push(Entrant::new(What::Baseline, "baseline", "", style, *count, false));
        }
    }
    for count in workers {
        entrants.push(Entrant::new(What::Rayon, "rayon", "", Style::Dynamic, *count, false));
        entrants.push(Entrant::new(What::Tokio, "tokio", "", Style::Dynamic, *count, false));
        entrants.push(Entrant::new(What::Shred, "shred", "", Style::Graph, *count, false));
        entrants.push(Entrant::new(What::ByHand, "by-hand", "", Style::Graph, *count, true));
    }
    entrants
}

/// The peers that `scripts/peers.sh` builds, with each number of workers.
pub fn foreign(workers: &[usize]) -> Vec<Entrant> {
    let new = |library, system, mode, style, workers, caller| {
        let shown = mode_shown(mode);
        Entrant::new(What::Foreign(library, mode), system, shown, style, workers, caller)
    };
    let mut entrants = vec![new("mxnet", "mxnet", "naive", Style::Dynamic, 1, true)];
    for count in workers {
        entrants.push(new("mxnet", "mxnet", "per-device", Style::Dynamic, *count, false));
        entrants.push(new("mxnet", "mxnet", "per-device operators", Style::Operators, *count, false));
        entrants.push(new("openmp-gcc", "libgomp", "", Style::Dynamic, *count, true));
        entrants.push(new("openmp-llvm", "libomp", "", Style::Dynamic, *count, true));
        entrants.push(new("onetbb", "onetbb", "dynamic", Style::Dynamic, *count, true));
        entrants.push(new("onetbb", "onetbb", "graph", Style::Graph, *count, true));
        entrants.push(new("taskflow", "taskflow", "dynamic", Style::Dynamic, *count, false));
        entrants.push(new("taskflow", "taskflow", "graph", Style::Graph, *count, false));
        entrants.push(new("starpu", "starpu", "", Style::Dynamic, *count, false));
    }
    entrants
}

/// The part of a mode that is not said by the style.
fn mode_shown(mode: &'static str) -> &'static str {
    match mode {
        "per-device operators" => "per-device",
        "graph" => "flow",
        other => other,
    }
}

/// All of them.
pub fn all(workers: &[usize]) -> Vec<Entrant> {
    let mut entrants = built_in(workers);
    entrants.extend(foreign(workers));
    entrants
}

/// Runs a prepared program once, checks its result, and returns how long the run took.
///
/// # Errors
/// If the result is wrong: the figure is void then.
pub fn measure(runner: &mut dyn Runner, program: &Program) -> Result<Duration, String> {
    program.reset();
    let start = Instant::now();
    runner.run();
    let elapsed = start.elapsed();
    program.verify()?;
    Ok(elapsed)
}
