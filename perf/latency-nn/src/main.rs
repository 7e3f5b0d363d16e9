//! Small networks, where a framework's time is not the arithmetic: how long an inference, a step of
//! training and an epoch take, on this crate's arrays, in a plain loop, and with other libraries.
//!
//! Each entrant is a process. All get the same weights and data, results are compared first, and
//! then entrants take turns.

#![deny(missing_docs)]

mod driver;
mod entrants;
// Only examples train for all epochs.
#[allow(dead_code)]
#[path = "../../../tensor/examples/nets/mod.rs"]
mod nets;
mod nodes;
mod plain;
mod problems;
mod serve;
mod table;

use driver::{Contender, Question, Running, Taken, Threads};
use serve::Task;
use std::error::Error;
use table::{Percentiles, Row};

const HELP: &str = "Measures small networks on seriatim-tensor beside a plain loop and other libraries.

  --calls N       calls of each entrant, at most (20000)
  --at-once N     calls of a turn, at most (200)
  --ms N          a turn ends after so many milliseconds (40)
  --network NAME  only this network of tensor/examples/nets/networks.json
  --task NAME     only this task: inference, training, epoch
  --batch N       only this size of a batch: 1 or 32
  --threads WHAT  one (all entrants on one core), default (as libraries come), or both (both)
  --only TEXT     only entrants whose name has this text, and the first (all)
  --without TEXT  no entrants whose name has this text
  --rival \"NAME=COMMAND\"  one entrant more; scripts/latency-nn.sh has all of them
  --core N        the core of those with one thread (the last)
  --no-data       only inference of our own, on data that is there already: nothing is copied
  --nodes         only what an operation costs whose kernel is empty, of our own
";

const NETWORKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tensor/examples/nets/networks.json");

/// How many calls go before results are compared, and how far these may be apart.
const COMPARED: usize = 50;
const EPOCHS_COMPARED: usize = 2;
const NEAR: f32 = 1e-3;

/// Calls of a turn that do not count: others have used the core's caches.
const WARM: usize = 20;

struct Settings {
    calls: usize,
    at_once: usize,
    ms: usize,
    network: Option<String>,
    task: Option<Task>,
    batch: Option<usize>,
    threads: Vec<Threads>,
    only: String,
    without: Option<String>,
    rivals: Vec<Contender>,
    core: usize,
    with_data: bool,
    is_of_nodes: bool,
}

impl Settings {
    fn read() -> Result<Option<Settings>, Box<dyn Error>> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut settings = Settings {
            calls: 20_000,
            at_once: 200,
            ms: 40,
            network: None,
            task: None,
            batch: None,
            threads: vec![Threads::One, Threads::Default],
            only: String::new(),
            without: None,
            rivals: Vec::new(),
            core: cores - 1,
            with_data: true,
            is_of_nodes: false,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} has no value"));
            match argument.as_str() {
                "--help" => return Ok(None),
                "--calls" => settings.calls = value()?.parse()?,
                "--at-once" => settings.at_once = value()?.parse()?,
                "--ms" => settings.ms = value()?.parse()?,
                "--network" => settings.network = Some(value()?),
                "--task" => settings.task = Some(Task::named(&value()?).ok_or("there is no such task")?),
                "--batch" => settings.batch = Some(value()?.parse()?),
                "--threads" => {
                    settings.threads = match value()?.as_str() {
                        "one" => vec![Threads::One],
                        "default" => vec![Threads::Default],
                        "both" => settings.threads,
                        other => return Err(format!("--threads is one, default or both, and not {other}").into()),
                    }
                }
                "--only" => settings.only = value()?,
                "--without" => settings.without = Some(value()?),
                "--core" => settings.core = value()?.parse()?,
                "--no-data" => settings.with_data = false,
                "--nodes" => settings.is_of_nodes = true,
                "--rival" => {
                    let text = value()?;
                    let (name, command) = text.split_once('=').ok_or("a rival is NAME=COMMAND")?;
                    let command = command.split_whitespace().map(str::to_owned).collect();
                    settings.rivals.push(Contender { name: name.to_owned(), command });
                }
                _ => return Err(format!("there is no {argument}\n{HELP}").into()),
            }
        }
        if settings.calls == 0 || settings.at_once == 0 {
            return Err("calls are counted from 1".into());
        }
        Ok(Some(settings))
    }

    fn wants(&self, network: &str, task: Task, batch: usize) -> bool {
        self.network.as_ref().is_none_or(|wanted| wanted == network)
            && self.task.is_none_or(|wanted| wanted == task)
            && self.batch.is_none_or(|wanted| wanted == batch)
            && (self.with_data || task == Task::Inference)
    }

    fn is_rival(&self, one: &Running) -> bool {
        self.rivals.iter().any(|rival| rival.name == one.contender.name)
    }

    fn contenders(&self) -> Result<Vec<Contender>, Box<dyn Error>> {
        let own = std::env::current_exe()?.to_str().ok_or("the program's path is no text")?.to_owned();
        let ours = OURS.map(|(name, kind)| Contender {
            name: name.to_owned(),
            command: [&own, "entrant", kind].map(str::to_owned).to_vec(),
        });
        let rivals = self.rivals.iter().filter(|_| self.with_data).cloned();
        let is_left_out = |one: &Contender| self.without.as_ref().is_some_and(|text| one.name.contains(text));
        let all = ours.into_iter().chain(rivals).filter(|one| !is_left_out(one));
        Ok(all.filter(|one| one.name.contains(&self.only) || one.name == OURS[0].0).collect())
    }
}

const OURS: [(&str, &str); 3] =
    [("plain loop", "plain"), ("seriatim, captured", "captured"), ("seriatim, pushed", "pushed")];

/// Is an entrant of ours: reads orders, and answers.
fn entrant(kind: &str) -> Result<(), Box<dyn Error>> {
    let is_one_thread = std::env::var("LATENCY_NN_THREADS").is_ok_and(|threads| threads == "1");
    serve::serve(env!("CARGO_PKG_VERSION"), |problem| match kind {
        "plain" => plain::open(problem),
        _ => {
            let runtime = entrants::runtime(is_one_thread)?;
            Ok(Box::new(entrants::Arrays::new(&runtime, problem, kind == "captured")?))
        }
    })
}

/// The greatest difference.
fn apart(one: &[f32], other: &[f32]) -> f32 {
    let greatest = one.iter().zip(other).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max);
    if one.len() == other.len() && one.iter().chain(other).all(|value| value.is_finite()) {
        greatest
    } else {
        f32::INFINITY
    }
}

/// An entrant that has taken a question, with its times.
struct Seat {
    running: usize,
    question: usize,
    times: Vec<u32>,
}

/// Gives an entrant a question. Returns its result behind some calls, or none where nothing is
/// copied out, and what it says of itself; an error if it does not take the question.
fn open(
    one: &mut Running,
    (id, question): (usize, &Question),
    settings: &Settings,
) -> Result<(Vec<f32>, String), Box<dyn Error>> {
    let (parameters, note) = match one.open(id, question, NETWORKS, !settings.with_data)? {
        Taken::Yes(parameters, note) => (parameters, note),
        Taken::No(why) => return Err(format!("skipped: {why}").into()),
    };
    let calls = if question.task == Task::Epoch { EPOCHS_COMPARED } else { COMPARED };
    let result = if settings.with_data { one.compare(id, calls)? } else { Vec::new() };
    let note = note.map(|note| format!(", {note}")).unwrap_or_default();
    Ok((result, format!("{parameters} parameters{note}")))
}

/// Opens all questions, and compares the results.
fn seats(running: &mut [Running], questions: &[Question], settings: &Settings) -> Result<Vec<Seat>, Box<dyn Error>> {
    let mut seats = Vec::new();
    for (id, question) in questions.iter().enumerate() {
        let mut expected: Option<Vec<f32>> = None;
        for (number, one) in running.iter_mut().enumerate().filter(|(_, one)| !one.is_gone) {
            let name = format!("{}, {}, {:?}", question.title(), one.contender.name, one.threads);
            let is_rival = settings.is_rival(one);
            let (result, note) = match open(one, (id, question), settings) {
                Ok(opened) => opened,
                Err(why) if is_rival || !one.is_gone => {
                    eprintln!("{name}: {why}");
                    continue;
                }
                Err(why) => return Err(why),
            };
            let expected = expected.get_or_insert_with(|| result.clone());
            let distance = apart(&result, expected);
            match (distance < NEAR, is_rival) {
                (true, _) => {
                    eprintln!("{name}: {note}, {distance:.0e} apart");
                    seats.push(Seat { running: number, question: id, times: Vec::new() });
                }
                (false, true) => eprintln!("{name}: VOID, its result is {distance} away from the first"),
                (false, false) => return Err(format!("{name} is {distance} away from what is first").into()),
            }
        }
    }
    Ok(seats)
}

fn measure(settings: &Settings) -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("latency-nn-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let (plans, training) = nets::read()?;
    let runtime = entrants::runtime(true)?;
    let questions =
        problems::make(&folder, &runtime, (&plans, &training), |name, task, batch| settings.wants(name, task, batch))?;
    let mut running = Vec::new();
    for contender in settings.contenders()? {
        for threads in &settings.threads {
            running.push(Running::start(&contender, *threads, settings.core)?);
        }
    }
    let mut seats = seats(&mut running, &questions, settings)?;
    std::fs::remove_dir_all(&folder)?;
    eprintln!("all is compared: measuring begins");
    for _ in 0..settings.calls.div_ceil(settings.at_once) {
        for seat in &mut seats {
            let one = &mut running[seat.running];
            if one.is_gone {
                continue;
            }
            match one.turn(seat.question, WARM, settings.at_once, settings.ms) {
                Ok(times) => seat.times.extend(times),
                Err(why) if settings.is_rival(one) => eprintln!("{why}"),
                Err(why) => return Err(why),
            }
        }
    }
    eprintln!("measuring has ended");
    let mut tables = Vec::new();
    for (id, question) in questions.iter().enumerate() {
        let mut rows: Vec<Row> = Vec::new();
        for seat in seats.iter_mut().filter(|seat| seat.question == id) {
            let one = &running[seat.running];
            let is_ours = OURS[1..].iter().any(|(name, _)| *name == one.contender.name);
            let is_rival = settings.is_rival(one);
            let version = if is_rival { format!(" {}", one.version) } else { String::new() };
            let name = one.contender.name.split_once(',').map_or_else(
                || format!("{}{version}", one.contender.name),
                |(library, how)| format!("{library}{version},{how}"),
            );
            if rows.iter().all(|row| row.name != name) {
                rows.push(Row { name: name.clone(), is_ours, columns: [None, None] });
            }
            let row = rows.iter_mut().find(|row| row.name == name).ok_or("no row")?;
            row.columns[table::column(one.threads)] = Percentiles::of(&mut seat.times);
        }
        tables.push((question.title(), rows));
    }
    let text: String = tables.iter_mut().map(|(title, rows)| table::print(title, rows)).collect();
    println!("{}{text}", table::summary(&tables));
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, kind] = &arguments[..] {
        if first == "entrant" {
            return entrant(kind);
        }
    }
    match Settings::read()? {
        Some(settings) if settings.is_of_nodes => nodes::print(),
        Some(settings) => measure(&settings),
        None => {
            print!("{HELP}");
            Ok(())
        }
    }
}
