//! What a place in the source does, in words, and what lies on a line.

use seriatim_sim::machine::Cause;
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
const WORDS: [(&str, &str, &str); 55] = [
    ("ready.rs", "of", "a thread reads what it has been handed"),
    ("block.rs", "renew", "the pusher fills the block"),
    ("block.rs", "expect", "the lines of the next operation are asked for"),
    ("header.rs", "enter", "the worker notes that the operation runs"),
    ("execute.rs", "run_plain", "the worker reads the closure"),
    ("execute.rs", "execute", "the worker reads the closure"),
    ("ready_list.rs", "ready", "who has made the operation ready links it"),
    ("logged.rs", "push", "the pusher fills the block"),
    ("ring.rs", "next", "the pusher asks for a block, and looks whether it is free"),
    ("placing.rs", "place", "the pusher looks at what a worker has left"),
    ("log.rs", "push", "the pusher logs the operation"),
    ("log.rs", "come", "the pusher looks at what a worker has left"),
    ("segment.rs", "look", "a thread looks into a log"),
    ("segment.rs", "fetch_ahead", "the worker asks for the block of an operation that comes soon"),
    ("log.rs", "take_next", "the worker says how far it has come"),
    ("log.rs", "begin", "who looks for what others leave looks how far they have come"),
    ("log.rs", "note", "who looks for what others leave says how far that was"),
    ("run.rs", "take", "an operation is taken"),
    ("run.rs", "is_untaken", "a thread looks whether an operation is still to be had"),
    ("run.rs", "has_written", "a ticket is tested: writes"),
    ("run.rs", "settle", "an operation is tested"),
    ("run.rs", "park_behind", "an operation parks"),
    ("run.rs", "wait_for_reads", "a write is left to the reads before it"),
    ("run.rs", "count_write", "a write is counted"),
    ("run.rs", "count_read", "a read is counted"),
    ("run.rs", "give_back", "the word of an operation is freed"),
    ("linking.rs", "link", "an operation is linked on a common variable"),
    ("common.rs", "behind", "an operation is linked on a common variable"),
    ("links.rs", "release", "a tail leaves an operation"),
    ("handover.rs", "acquire", "a variable changes hands"),
    ("slot.rs", "step_version", "the version is counted"),
    ("slot.rs", "is_marked", "the mark of a failure is looked for"),
    ("resolve.rs", "resolve", "the pusher looks whether the variable lives"),
    ("magazine.rs", "push", "a spent block is linked"),
    ("magazine.rs", "pop", "a free block is unlinked"),
    ("stack.rs", "take", "the pusher takes back spent blocks"),
    ("inbox.rs", "push", "a ready operation is put into an inbox"),
    ("inbox.rs", "take", "an inbox is emptied"),
    ("inbox.rs", "peek", "who has nothing to do looks into an inbox"),
    ("inbox.rs", "is_asleep", "who wakes somebody looks who sleeps"),
    ("inbox.rs", "become_state", "a worker says that it looks for work, or has found some"),
    ("stealable.rs", "peek", "who has nothing to do looks at what is lent"),
    ("stealable.rs", "take", "what is lent is taken, or taken back"),
    ("stealable.rs", "put", "a thread lends what it does not run yet"),
    ("remote.rs", "is_urgent", "the worker looks whether something is urgent"),
    ("remote.rs", "awaits_hurry", "the worker looks whether something is urgent"),
    ("group.rs", "log", "the pusher looks whether anybody sleeps"),
    ("run_loop.rs", "work", "the worker looks whether anybody is idle"),
    ("run_loop.rs", "look_for_work", "a worker counts itself among the idle"),
    ("steal.rs", "first_waiting", "who has nothing to do looks at what is lent"),
    ("catch_up.rs", "catch_up", "the pusher asks for work"),
    ("reclaim.rs", "pin", "the epoch: its number, and who is pinned"),
    ("context.rs", "step", "an operation is counted"),
    ("memory.rs", "tally", "a waiter sums the counts of all threads"),
    ("runs.rs", "execute", "the body reads and writes its data"),
];

fn name_of_line(line: Option<(&'static str, usize)>) -> String {
    match line {
        Some(("block", 0)) => "block 0: counters, header".to_owned(),
        Some(("block", 1)) => "block 1: accesses, closure".to_owned(),
        Some(("block", 2)) => "block 2: closure".to_owned(),
        Some(("variable", 0)) => "variable 0: owner, generation".to_owned(),
        Some(("variable", 1)) => "variable 1: writes and reads ended, version".to_owned(),
        Some(("remote", 0)) => "remote: inbox".to_owned(),
        Some(("remote", 2)) => "remote: what is lent".to_owned(),
        Some(("remote", 4)) => "remote: urgent".to_owned(),
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
        // The engine is built from another folder, whose name comes first.
        let folder = path.rsplit("src/").next().unwrap_or(path).trim_end_matches(".rs");
        Step {
            place: format!("{}::{function}", folder.replace('/', "::")),
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
