//! What a place in the source does, in words, and what lies on a line.

use seriatim::simulated::machine::Cause;
use std::collections::HashMap;

/// A function that moves lines, and which of them.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Step {
    /// File and function.
    pub place: String,
    /// What it does, and what it wants the line for.
    pub words: String,
    /// What lies on the line.
    pub line: String,
}

/// What functions want lines for. Those that are not here are named only.
const WORDS: [(&str, &str, &str); 41] = [
    ("queue.rs", "of", "the worker reads what it has taken from an inbox"),
    ("queue.rs", "split_off", "the worker links what it lays out for others"),
    ("block.rs", "enter", "the worker notes that the operation runs"),
    ("execute.rs", "execute", "the worker reads the closure"),
    ("found.rs", "ready", "whoever made the operation ready links it"),
    ("execute.rs", "end", "the worker counts the version"),
    ("propagate.rs", "complete", "the worker completes an access"),
    ("propagate.rs", "propagate", "a message goes to the next access"),
    ("propagate.rs", "send", "a message goes to the next access"),
    ("propagate.rs", "send_readable", "a reader is told of the reader before it"),
    ("propagate.rs", "grant", "an operation waits for one access less"),
    ("propagate.rs", "spend", "an access is spent"),
    ("chain.rs", "link", "the pusher looks at the last access, and links the next one behind it"),
    ("chain.rs", "enlist", "the pusher drops its hold"),
    ("chain.rs", "is_quiet", "a waiter looks at the last access"),
    ("access.rs", "progress", "the pusher looks whether the operation before is enlisted"),
    ("push.rs", "enlist", "the pusher fills the block"),
    ("push.rs", "resolve", "the pusher looks whether the variable lives"),
    ("loan.rs", "lend", "the variable is lent"),
    ("loan.rs", "give_back", "the variable is given back"),
    ("table.rs", "step_version", "the version is counted"),
    ("table.rs", "is_marked", "the mark of a failure is looked for"),
    ("table.rs", "get", "the variable is looked up"),
    ("table.rs", "at", "the variable is looked up"),
    ("magazine.rs", "push", "a spent block is linked"),
    ("magazine.rs", "pop", "a free block is unlinked"),
    ("magazine.rs", "take", "the pusher takes back spent blocks"),
    ("inbox.rs", "push_unless", "a ready operation is put into an inbox"),
    ("inbox.rs", "take", "an inbox is emptied"),
    ("inbox.rs", "peek", "who has nothing to do looks into an inbox"),
    ("inbox.rs", "become_state", "a worker says that it looks for work, or has found some"),
    ("post.rs", "take_surplus", "who has nothing to do looks at what is laid out"),
    ("post.rs", "is_urgent", "the worker looks whether something is urgent"),
    ("rounds.rs", "work", "the worker looks whether anybody is idle, or lays something out"),
    ("rounds.rs", "look_for_work", "a worker counts itself among the idle"),
    ("rounds.rs", "first_waiting", "who has nothing to do looks at what is laid out"),
    ("rounds.rs", "catch_up", "the pusher asks for work"),
    ("reclaim.rs", "pin", "the epoch: its number, and who is pinned"),
    ("local.rs", "step", "an operation is counted"),
    ("memory.rs", "tally", "a waiter sums the counts of all threads"),
    ("runs.rs", "execute", "the body reads and writes its data"),
];

fn name_of_line(line: Option<(&'static str, usize)>) -> String {
    match line {
        Some(("block", 0)) => "block 0: counters, header".to_owned(),
        Some(("block", 1)) => "block 1: accesses, closure".to_owned(),
        Some(("block", 2)) => "block 2: closure".to_owned(),
        Some(("variable", 0)) => "variable 0: tail, generation".to_owned(),
        Some(("variable", 1)) => "variable 1: version".to_owned(),
        Some(("post", 0)) => "post: inbox".to_owned(),
        Some(("post", 2)) => "post: what is laid out".to_owned(),
        Some(("post", 4)) => "post: urgent".to_owned(),
        Some((name, index)) => format!("{name} {index}"),
        None => "—".to_owned(),
    }
}

/// The sources, to find the functions in them.
#[derive(Default)]
pub struct Sources(HashMap<String, Vec<String>>);

impl Sources {
    /// What a cause is, by function and line.
    pub fn step(&mut self, cause: &Cause) -> Step {
        let path = cause.place.file();
        let function = self.function(path, cause.place.line() as usize);
        let file = path.rsplit('/').next().unwrap_or(path);
        let known = WORDS.iter().find(|(in_file, name, _)| *in_file == file && *name == function);
        let folder = path.trim_start_matches("src/").trim_end_matches(".rs");
        Step {
            place: format!("{}::{function}", folder.replace('/', "::").replace("perf::simulation::src::", "")),
            words: known.map_or_else(|| function.clone(), |(_, _, words)| (*words).to_owned()),
            line: name_of_line(cause.line),
        }
    }

    /// The function around a line.
    fn function(&mut self, path: &str, line: usize) -> String {
        let lines = self.0.entry(path.to_owned()).or_insert_with(|| {
            let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
            let text = std::fs::read_to_string(format!("{root}/{path}")).unwrap_or_default();
            text.lines().map(str::to_owned).collect()
        });
        let above = lines.iter().take(line).rev();
        let name = above.filter_map(|line| {
            let code = line.trim_start();
            let (before, after) = code.split_once("fn ")?;
            let only = before
                .split_whitespace()
                .all(|word| matches!(word, "pub" | "pub(super)" | "pub(crate)" | "unsafe" | "const"));
            only.then(|| after.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("").to_owned())
        });
        name.into_iter().next().unwrap_or_else(|| line.to_string())
    }
}
