//! Everything that can run a program, behind one face: this engine in its kinds, the mutex-guarded
//! baseline, the peers from crates.io, and those that are shared libraries.

pub mod accesses;
pub mod baseline;
mod crates;
mod declared;
mod foreign;
mod hand;
mod mutexed;
pub mod ours;
mod serial;

use std::time::{Duration, Instant};

use seriatim::Kind;

pub use foreign::directory as foreign_directory;

pub use ours::Setting;

use crate::program::{ran_here, Program};

/// Something that runs programs.
pub trait Runner {
    /// Makes what `program` needs and may be made beforehand: variables, and operators or graphs
    /// where those are used.
    ///
    /// # Errors
    /// If it cannot express the program; says why.
    fn prepare(&mut self, program: &'static Program) -> Result<(), String>;

    /// Pushes the whole program that was prepared and waits for its end. This is what is timed: it
    /// includes the pushing thread's own work.
    fn run(&mut self);

    /// The version of what really runs.
    fn version(&self) -> String;

    /// Its face for several pushing threads, where several can push.
    fn shared(&self) -> Option<&(dyn Shared + '_)> {
        None
    }
}

/// A runner with a prepared program that several threads push, each a part of it.
pub trait Shared: Sync {
    /// Pushes every `parts`-th operation of the sequence, from number `part` on, and waits for
    /// nothing.
    fn push_part(&self, part: usize, parts: usize);

    /// Waits for all that was pushed.
    fn wait(&self);
}

/// How operations reach an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Style {
    /// A function for every push.
    Dynamic,
    /// Operators made beforehand, one for each distinct operation.
    Operators,
    /// The whole program, made into a graph beforehand.
    Graph,
}

/// One way to run programs: a column of the tables.
#[derive(Clone, Debug)]
pub struct Entrant {
    /// What the tables call it: `system-mode-number`, and the style if that is not dynamic. The
    /// number is that of the workers for ours and what is in Rust, and that of all threads for what
    /// is a shared library.
    pub name: String,
    /// Whose it is: `seriatim`, `baseline`, `onetbb` and so on.
    pub system: &'static str,
    /// Which of the system's engines, or how it is set.
    pub mode: &'static str,
    /// How operations reach it.
    pub style: Style,
    /// The number in its name.
    pub workers: usize,
    /// How many threads it has in all, the pushing one among them.
    pub threads: usize,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Ours(Setting),
    Serial,
    Baseline,
    Rayon,
    Tokio,
    Shred,
    ByHand,
    /// A shared library, and the mode to start it in.
    Foreign(&'static str, &'static str),
}

impl Entrant {
    fn new(what: What, system: &'static str, mode: &'static str, style: Style, workers: usize) -> Entrant {
        let mut name = String::from(system);
        if !mode.is_empty() {
            name = format!("{name}-{mode}");
        }
        if !matches!(mode, "naive" | "default" | "declared") && system != "serial" {
            name = format!("{name}-{workers}");
        }
        match style {
            Style::Dynamic => {}
            Style::Operators => name.push_str(" operators"),
            Style::Graph => name.push_str(" graph"),
        }
        // Shared libraries, and threads by hand, are asked for all threads; the others for workers
        // beside the caller.
        let counted = matches!(what, What::Foreign(..) | What::ByHand | What::Serial) || mode == "naive";
        Entrant { name, system, mode, style, workers, threads: workers + usize::from(!counted), what }
    }

    /// How many of so many cores it occupies.
    pub fn occupies(&self, cores: usize) -> usize {
        cores.min(self.threads)
    }

    /// Starts it, with its threads.
    ///
    /// # Errors
    /// If it is not to be had here; says how to get it.
    pub fn start(&self) -> Result<Box<dyn Runner>, String> {
        Ok(match self.what {
            What::Ours(setting) => Box::new(ours::Seriatim::start(setting, self.workers, self.style)?),
            What::Serial => Box::new(serial::Serial::default()),
            What::Baseline => Box::new(mutexed::Mutexed::start(self.workers, self.style)),
            What::Rayon => Box::new(crates::Rayon::start(self.workers)?),
            What::Tokio => Box::new(crates::Tokio::start(self.workers)?),
            What::Shred => Box::new(declared::Shred::start(self.workers)?),
            What::ByHand => Box::new(hand::ByHand::start(self.workers)),
            What::Foreign(library, mode) => Box::new(foreign::Foreign::start(library, mode, self.threads)?),
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

/// This engine in its kinds, settings and styles, with each number of workers.
fn ours(workers: &[usize]) -> Vec<Entrant> {
    let new = |setting, mode, style, workers| Entrant::new(What::Ours(setting), "seriatim", mode, style, workers);
    let styles = [Style::Dynamic, Style::Operators, Style::Graph];
    let mut entrants = styles.map(|style| new(Setting::Kind(Kind::Naive), "naive", style, 1)).to_vec();
    for count in workers {
        entrants.push(new(Setting::Kind(Kind::Pooled), "pooled", Style::Dynamic, *count));
        for style in styles {
            entrants.push(new(Setting::Kind(Kind::PerDevice), "per-device", style, *count));
        }
    }
    for count in workers {
        for style in [Style::Dynamic, Style::Operators] {
            entrants.push(new(Setting::Inline, "inline", style, *count));
        }
    }
    entrants
}

/// The settings that the report compares: those of `Engine::new()`, also with operations that are
/// declared short; and shipping, to workers that sleep and to workers that spin, with each number
/// of workers.
fn as_set(workers: &[usize]) -> Vec<Entrant> {
    let new = |setting, mode, style, workers| Entrant::new(What::Ours(setting), "seriatim", mode, style, workers);
    let styles = [Style::Dynamic, Style::Operators, Style::Graph];
    let mut entrants = styles.map(|style| new(Setting::Default, "default", style, default_workers())).to_vec();
    entrants.push(new(Setting::Declared, "declared", Style::Dynamic, default_workers()));
    for (setting, mode) in [(Setting::Shipped, "shipped"), (Setting::Spinning, "spinning")] {
        entrants.extend(workers.iter().map(|count| new(setting, mode, Style::Dynamic, *count)));
    }
    entrants
}

/// How many workers `Engine::new()` has here: one for each core but the caller's. Starting one
/// checks it.
pub fn default_workers() -> usize {
    crate::machine::cores().saturating_sub(1).max(1)
}

/// Everything that needs nothing but cargo, with each number of workers.
pub fn built_in(workers: &[usize]) -> Vec<Entrant> {
    let mut entrants = ours(workers);
    for count in workers {
        for style in [Style::Dynamic, Style::Operators] {
            entrants.push(Entrant::new(What::Baseline, "baseline", "", style, *count));
        }
    }
    for count in workers {
        entrants.push(Entrant::new(What::Rayon, "rayon", "", Style::Dynamic, *count));
        entrants.push(Entrant::new(What::Tokio, "tokio", "", Style::Dynamic, *count));
        entrants.push(Entrant::new(What::Shred, "shred", "", Style::Graph, *count));
        entrants.push(Entrant::new(What::ByHand, "by-hand", "", Style::Graph, *count));
    }
    entrants
}

/// The peers that `scripts/peers.sh` builds, with each number of threads in all.
pub fn foreign(threads: &[usize]) -> Vec<Entrant> {
    let new = |library, system, mode, style, threads| {
        Entrant::new(What::Foreign(library, mode), system, mode_shown(mode), style, threads)
    };
    let mut entrants = Vec::new();
    for count in threads.iter().copied() {
        entrants.push(new("openmp-gcc", "libgomp", "", Style::Dynamic, count));
        entrants.push(new("openmp-llvm", "libomp", "", Style::Dynamic, count));
        entrants.push(new("onetbb", "onetbb", "dynamic", Style::Dynamic, count));
        entrants.push(new("onetbb", "onetbb", "graph", Style::Graph, count));
        if count == 1 {
            entrants.push(new("mxnet", "mxnet", "naive", Style::Dynamic, count));
            entrants.push(new("seriatim_c", "seriatim-c", "naive", Style::Dynamic, count));
            entrants.push(new("seriatim_c", "seriatim-c", "naive async", Style::Dynamic, count));
            entrants.push(new("taskflow", "taskflow", "dynamic alone", Style::Dynamic, count));
            entrants.push(new("taskflow", "taskflow", "graph alone", Style::Graph, count));
        } else {
            entrants.push(new("mxnet", "mxnet", "per-device", Style::Dynamic, count));
            entrants.push(new("mxnet", "mxnet", "per-device operators", Style::Operators, count));
            entrants.push(new("seriatim_c", "seriatim-c", "shipped", Style::Dynamic, count));
            entrants.push(new("seriatim_c", "seriatim-c", "shipped operators", Style::Operators, count));
            entrants.push(new("seriatim_c", "seriatim-c", "placement", Style::Dynamic, count));
            entrants.push(new("onetbb", "onetbb", "shipped", Style::Dynamic, count));
            entrants.push(new("taskflow", "taskflow", "dynamic", Style::Dynamic, count));
            entrants.push(new("taskflow", "taskflow", "graph", Style::Graph, count));
            entrants.push(new("starpu", "starpu", "", Style::Dynamic, count));
        }
    }
    entrants
}

/// The part of a mode that is not said by the style.
fn mode_shown(mode: &'static str) -> &'static str {
    match mode {
        "per-device operators" => "per-device",
        "shipped operators" => "shipped",
        "graph" | "graph alone" => "flow",
        "dynamic alone" => "dynamic",
        other => other,
    }
}

/// All of them, with each number of workers beside the pushing thread, and those that have one
/// thread in all.
pub fn all(workers: &[usize]) -> Vec<Entrant> {
    let mut entrants = vec![Entrant::new(What::Serial, "serial", "", Style::Dynamic, 1)];
    entrants.extend(as_set(workers));
    entrants.extend(built_in(workers));
    let threads: Vec<usize> = std::iter::once(1).chain(workers.iter().map(|count| count + 1)).collect();
    entrants.extend(foreign(&threads));
    entrants
}

/// What a run took, and how much of it the pushing thread did.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// From the first push to the end of the wait.
    pub elapsed: Duration,
    /// Bodies that the thread which pushed has run.
    pub by_pusher: u64,
}

/// Runs a prepared program once, checks its result, and returns how long the run took.
///
/// # Errors
/// If the result is wrong: the figure is void then.
pub fn measure(runner: &mut dyn Runner, program: &Program) -> Result<Duration, String> {
    measure_run(runner, program).map(|run| run.elapsed)
}

/// As [`measure`], and counts the bodies that the calling thread has run.
///
/// # Errors
/// As [`measure`].
pub fn measure_run(runner: &mut dyn Runner, program: &Program) -> Result<Run, String> {
    program.reset();
    let (before, start) = (ran_here(), Instant::now());
    runner.run();
    let elapsed = start.elapsed();
    let by_pusher = ran_here() - before;
    program.verify()?;
    Ok(Run { elapsed, by_pusher })
}
