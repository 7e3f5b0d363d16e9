//! Reads a trace in Chrome's format as strictly as viewers that draw it wrongly otherwise.

use serde_json::Value;
use std::collections::BTreeMap;

/// A slice of a thread: its name, the thread, and its first and last nanosecond.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    pub name: String,
    pub thread: u64,
    pub from: u64,
    pub to: u64,
    pub arguments: Value,
}

/// What a trace says, once it is found to be sound.
#[derive(Debug, Default)]
pub struct Trace {
    pub slices: Vec<Slice>,
    /// Asynchronous operations.
    pub spans: Vec<Slice>,
    pub threads: BTreeMap<u64, String>,
    /// The slices that arrows lead from and to, by their place in `slices`.
    pub arrows: Vec<(usize, usize)>,
    /// Operations in flight and ready, one after the other.
    pub counts: Vec<(u64, u64)>,
}

impl Trace {
    /// What `place` in `slices` stands for: the operation, of its slice, its start or its
    /// completion.
    pub fn operation(&self, place: usize) -> &str {
        let slice = &self.slices[place];
        slice.arguments["operation"].as_str().unwrap_or(&slice.name)
    }

    /// Whether an arrow leads from one operation to another, or from its push to where it runs.
    pub fn leads(&self, from: (&str, bool), to: &str) -> bool {
        let is_push = |place: usize| self.slices[place].name == "push";
        let from_there = |place: usize| (self.operation(place), is_push(place)) == from;
        self.arrows.iter().any(|&(a, b)| from_there(a) && self.operation(b) == to && !is_push(b))
    }
}

/// Reads a trace.
///
/// # Errors
/// The first thing that is not as it should be.
pub fn read(text: &str) -> Result<Trace, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    check(value["traceEvents"].as_array().ok_or("no list of events")?)
}

/// Times are in microseconds with three digits behind the point: whole nanoseconds.
fn nanoseconds(event: &Value, key: &str) -> Result<u64, String> {
    let exact = event[key].as_f64().ok_or_else(|| format!("no {key}: {event}"))? * 1000.0;
    if exact < 0.0 || (exact - exact.round()).abs() > 1e-3 {
        return Err(format!("{key} is no time: {event}"));
    }
    Ok(exact.round() as u64)
}

fn number(event: &Value, key: &str) -> Result<u64, String> {
    event[key].as_u64().ok_or_else(|| format!("no number {key}: {event}"))
}

pub fn check(events: &[Value]) -> Result<Trace, String> {
    let mut trace = Trace::default();
    let mut open: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    let mut spans: BTreeMap<u64, Slice> = BTreeMap::new();
    let mut flows: BTreeMap<u64, Vec<(String, usize)>> = BTreeMap::new();
    let mut now = 0;
    for event in events {
        let phase = event["ph"].as_str().ok_or("an event without a phase")?;
        number(event, "pid")?;
        if phase == "M" {
            if event["name"] == "thread_name" {
                let name = event["args"]["name"].as_str().ok_or("a thread without a name")?;
                let known = trace.threads.insert(number(event, "tid")?, name.to_owned());
                known.map_or(Ok(()), |known| Err(format!("two names of a thread: {known} and {name}")))?;
            }
            continue;
        }
        let name = event["name"].as_str().ok_or("an event without a name")?.to_owned();
        let from = nanoseconds(event, "ts")?;
        if from < now || now == 0 && trace.slices.is_empty() && from > 0 {
            return Err(format!("time starts at 0 and goes on: {event}"));
        }
        now = from;
        if phase == "C" {
            let count = |key: &str| number(&event["args"], key);
            trace.counts.push((count("in flight")?, count("ready")?));
            continue;
        }
        let thread = number(event, "tid")?;
        if !trace.threads.contains_key(&thread) {
            return Err(format!("on a thread without a name: {event}"));
        }
        let arguments = event["args"].clone();
        // Slices that are over.
        let stack = open.entry(thread).or_default();
        while stack.last().is_some_and(|&place| trace.slices[place].to <= from) {
            stack.pop();
        }
        match phase {
            "X" => {
                let to = from + nanoseconds(event, "dur")?;
                if to == from {
                    return Err(format!("a slice without length: {event}"));
                }
                if let Some(&outer) = stack.last() {
                    if trace.slices[outer].to < to {
                        return Err(format!("{event} is not inside {:?}", trace.slices[outer]));
                    }
                }
                stack.push(trace.slices.len());
                trace.slices.push(Slice { name, thread, from, to, arguments });
            }
            "b" => {
                let slice = Slice { name, thread, from, to: 0, arguments };
                let known = spans.insert(number(event, "id")?, slice);
                known.map_or(Ok(()), |known| Err(format!("{known:?} begins twice")))?;
            }
            "e" => {
                let begun = spans.remove(&number(event, "id")?).filter(|begun| begun.name == name);
                trace.spans.push(Slice { to: from, ..begun.ok_or_else(|| format!("never begun: {event}"))? });
            }
            "s" | "t" | "f" => {
                if event["bp"] != "e" {
                    return Err(format!("bound to the next slice: {event}"));
                }
                let inside = *stack.last().ok_or_else(|| format!("in no slice: {event}"))?;
                flows.entry(number(event, "id")?).or_default().push((phase.to_owned(), inside));
            }
            _ => return Err(format!("unknown: {event}")),
        }
    }
    if let Some(span) = spans.into_values().next() {
        return Err(format!("{span:?} never ends"));
    }
    for (id, flow) in flows {
        let phases: Vec<&str> = flow.iter().map(|(phase, _)| phase.as_str()).collect();
        if !matches!(phases[..], ["s", "f"] | ["s", "t", "f"]) {
            return Err(format!("flow {id} is {phases:?}"));
        }
        trace.arrows.extend(flow.windows(2).map(|pair| (pair[0].1, pair[1].1)));
    }
    if trace.counts.last().is_some_and(|&last| last != (0, 0)) {
        return Err("in the end nothing is in flight".to_owned());
    }
    Ok(trace)
}
