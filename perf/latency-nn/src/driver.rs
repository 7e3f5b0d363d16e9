//! Entrants as processes: the driver opens problems in each, and gives them turns.
//!
//! A process that has no turn sleeps while it reads from its pipe. So all entrants share one core,
//! and none is measured while another one works.

use crate::serve::Task;
use serde_json::{json, Value};
use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Each library reads its own.
const THREADS: [&str; 5] =
    ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS", "MATMUL_NUM_THREADS"];

/// How many threads an entrant may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Threads {
    /// One, on a core that all entrants share.
    One,
    /// What the library takes by itself.
    Default,
}

/// An entrant: its name, and the command that starts it.
#[derive(Clone, Debug)]
pub struct Contender {
    pub name: String,
    pub command: Vec<String>,
}

/// What is measured of a network.
#[derive(Clone, Debug)]
pub struct Question {
    pub network: String,
    pub task: Task,
    pub batch: usize,
    /// The file with weights and data.
    pub data: String,
}

impl Question {
    pub fn title(&self) -> String {
        match self.task {
            Task::Epoch => format!("{}, an epoch", self.network),
            task => format!("{}, {}, batch {}", self.network, task.name(), self.batch),
        }
    }
}

/// A running entrant.
pub struct Running {
    pub contender: Contender,
    pub threads: Threads,
    /// It has ended with an error, and is asked no more.
    pub is_gone: bool,
    /// What it said of itself, when it took a problem.
    pub version: String,
    process: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

/// What an entrant says to a problem.
pub enum Taken {
    /// It has so many parameters, and a note.
    Yes(u64, Option<String>),
    /// It has no such thing.
    No(String),
}

impl Running {
    pub fn start(contender: &Contender, threads: Threads, core: usize) -> Result<Running, Box<dyn Error>> {
        let [program, arguments @ ..] = &contender.command[..] else { return Err("no command".into()) };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        for name in THREADS {
            match threads {
                Threads::One => command.env(name, "1"),
                Threads::Default => command.env_remove(name),
            };
        }
        match threads {
            Threads::One => command.env("LATENCY_NN_CORE", core.to_string()).env("LATENCY_NN_THREADS", "1"),
            Threads::Default => command.env_remove("LATENCY_NN_CORE").env_remove("LATENCY_NN_THREADS"),
        };
        let mut process = command.spawn().map_err(|error| format!("{program}: {error}"))?;
        let answers = BufReader::new(process.stdout.take().ok_or("no pipe")?);
        let orders = process.stdin.take();
        Ok(Running {
            contender: contender.clone(),
            threads,
            is_gone: false,
            version: String::new(),
            process,
            orders,
            answers,
        })
    }

    fn ask(&mut self, order: &Value) -> Result<(Value, Vec<u8>), Box<dyn Error>> {
        let answer = self.asked(order);
        self.is_gone |= answer.is_err();
        answer
    }

    fn asked(&mut self, order: &Value) -> Result<(Value, Vec<u8>), Box<dyn Error>> {
        writeln!(self.orders.as_mut().ok_or("no pipe")?, "{order}")?;
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err(format!("{} ended at {order}", self.contender.name).into());
        }
        let answer: Value = serde_json::from_str(&line)?;
        let mut raw = vec![0; answer["bytes"].as_u64().unwrap_or_default() as usize];
        self.answers.read_exact(&mut raw)?;
        Ok((answer, raw))
    }

    /// Gives it a problem. Libraries compile at this time.
    pub fn open(
        &mut self,
        id: usize,
        question: &Question,
        networks: &str,
        is_in_place: bool,
    ) -> Result<Taken, Box<dyn Error>> {
        let (answer, _) = self.ask(&json!({
            "do": "open", "id": id, "networks": networks, "network": question.network, "task": question.task.name(),
            "batch": question.batch, "data": question.data, "in_place": is_in_place,
        }))?;
        if let Some(why) = answer["skip"].as_str() {
            return Ok(Taken::No(why.to_owned()));
        }
        self.version = answer["version"].as_str().unwrap_or_default().to_owned();
        let parameters = answer["parameters"].as_u64().ok_or("no count of parameters")?;
        Ok(Taken::Yes(parameters, answer["note"].as_str().map(str::to_owned)))
    }

    /// The result of so many calls: probabilities, or weights if they are trained.
    pub fn compare(&mut self, id: usize, calls: usize) -> Result<Vec<f32>, Box<dyn Error>> {
        let (_, raw) = self.ask(&json!({"do": "compare", "id": id, "calls": calls}))?;
        Ok(raw.chunks_exact(4).map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]])).collect())
    }

    /// The nanoseconds of at most so many calls, behind some that do not count.
    pub fn turn(&mut self, id: usize, warm: usize, calls: usize, ms: usize) -> Result<Vec<u32>, Box<dyn Error>> {
        let (_, raw) = self.ask(&json!({"do": "turn", "id": id, "warm": warm, "calls": calls, "ms": ms}))?;
        Ok(raw.chunks_exact(4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]])).collect())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.orders = None;
        let _ = self.process.wait();
    }
}
