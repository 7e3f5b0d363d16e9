//! What subscribers of `tracing` are told of operations.

use crate::common::*;
use seriatim::{Completion, Engine, Error, Kind, RunContext};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// What a subscriber has noted.
#[derive(Default)]
struct Notes {
    /// The operation of each span, by number from 1 on, and how often it was entered and left.
    spans: Vec<(String, u32, u32)>,
    /// Of threads that are in a span: in which.
    inside: BTreeMap<String, Vec<u64>>,
    events: Vec<String>,
}

#[derive(Clone, Default)]
struct Noting(Arc<Mutex<Notes>>);

/// Takes the text of one field.
struct Text<'a>(&'a str, String);

impl Visit for Text<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == self.0 {
            self.1 = format!("{value:?}");
        }
    }
}

impl Subscriber for Noting {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "seriatim"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        assert_eq!((span.metadata().name(), *span.metadata().level()), ("operation", Level::TRACE));
        let mut operation = Text("operation", String::new());
        span.record(&mut operation);
        if operation.1.contains("breaks the subscriber") {
            panic!("the subscriber's own");
        }
        let mut notes = self.0.lock().unwrap();
        notes.spans.push((operation.1.trim_matches('"').to_owned(), 0, 0));
        Id::from_u64(notes.spans.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        assert_eq!(*event.metadata().level(), Level::ERROR);
        let mut message = Text("message", String::new());
        event.record(&mut message);
        self.0.lock().unwrap().events.push(message.1);
    }

    fn enter(&self, id: &Id) {
        let mut notes = self.0.lock().unwrap();
        notes.spans[id.into_u64() as usize - 1].1 += 1;
        let thread = format!("{:?}", std::thread::current().id());
        notes.inside.entry(thread).or_default().push(id.into_u64());
    }

    fn exit(&self, id: &Id) {
        let mut notes = self.0.lock().unwrap();
        notes.spans[id.into_u64() as usize - 1].2 += 1;
        let thread = format!("{:?}", std::thread::current().id());
        assert_eq!(notes.inside.entry(thread).or_default().pop(), Some(id.into_u64()), "spans of a thread nest");
    }
}

/// The names of the spans, each of which was entered and left once, since the last call. An
/// operation may end inside of its closure, which returns a moment later.
fn spans(noting: &Noting) -> Vec<String> {
    eventually("all closures return", || noting.0.lock().unwrap().inside.values().all(Vec::is_empty));
    let mut notes = noting.0.lock().unwrap();
    // The numbers go on, so that a span is not taken for another one.
    let mut names: Vec<String> = Vec::new();
    for (name, entered, left) in &mut notes.spans {
        if !name.is_empty() {
            assert_eq!((*entered, *left), (1, 1), "{name}");
            names.push(std::mem::take(name));
        }
    }
    // A graph that is dropped deletes its own variable, at some time.
    names.retain(|name| name != "delete graph");
    names.sort_unstable();
    names
}

/// In a process of its own: a subscriber is for all of a process.
#[test]
fn subscribers_are_told_of_operations_and_failures() {
    run_child_well(&mut child("spans"));
}

pub fn tell() {
    let noting = Noting::default();
    tracing::subscriber::set_global_default(noting.clone()).unwrap();
    with_every_builder(|builder| each_call_is_a_span(&noting, &builder.build().unwrap()));
    let engine = Engine::builder().kind(Kind::Pooled).cpu_workers(2).build().unwrap();
    failures_are_events(&noting, &engine);
    a_subscriber_that_panics_fails_the_operation(&engine);
}

fn each_call_is_a_span(noting: &Noting, engine: &Engine) {
    let x = engine.new_variable();
    let own = noting.clone();
    let inside = move |run: &RunContext<'_>| {
        let thread = format!("{:?}", std::thread::current().id());
        let notes = own.0.lock().unwrap();
        let innermost = *notes.inside[&thread].last().expect("it is in a span");
        assert_eq!(notes.spans[innermost as usize - 1].0, run.name());
    };
    engine.op("plain").write(x).push(inside.clone()).unwrap();
    engine.op("").write(x).push(nothing).unwrap();
    engine.op("keyed").read(x).cost_key(7).push(inside.clone()).unwrap();
    let complete = |_: &RunContext<'_>, completion: Completion| completion.complete();
    engine.op("async").write(x).push_async(complete).unwrap();
    let operator = engine.op("operator").write(x).operator(inside.clone()).unwrap();
    engine.push(&operator, seriatim::Context::cpu(0), 0).unwrap();
    let computed = engine.op("computed").read(x).compute(|_| 1).unwrap();
    assert_eq!(computed.wait().unwrap(), 1);
    engine.wait_for_all().unwrap();
    assert_eq!(spans(noting), ["async", "computed", "keyed", "operator", "plain"]);

    let (graph, ()) = engine
        .capture(|c| {
            c.op("node").write(x).push(inside.clone())?;
            c.op("async node").write(x).push_async(complete)?;
            Ok::<_, Error>(())
        })
        .unwrap();
    graph.replay().unwrap();
    graph.replay().unwrap();
    engine.wait_for_all().unwrap();
    // A replay calls the closures of its operations, and is none itself.
    assert_eq!(spans(noting), ["async node", "async node", "node", "node"]);
}

fn failures_are_events(noting: &Noting, engine: &Engine) {
    let x = engine.new_variable();
    engine.op("fails").write(x).push(|_| Err("out of paper")).unwrap();
    engine.op("skipped").write(x).push(nothing).unwrap();
    engine.op("panics").push(|_| panic!("out of ink")).unwrap();
    engine.wait_for_all().unwrap_err();
    let mut events = std::mem::take(&mut noting.0.lock().unwrap().events);
    events.sort_unstable();
    assert_eq!(events, ["operation 'fails' failed: out of paper", "operation 'panics' panicked: out of ink"]);
    assert_eq!(spans(noting), ["fails", "panics"], "what is skipped is not called");
}

fn a_subscriber_that_panics_fails_the_operation(engine: &Engine) {
    let x = engine.new_variable();
    engine.op("breaks the subscriber").write(x).push(nothing).unwrap();
    let error = engine.wait_for_var(x).unwrap_err();
    assert!(error.to_string().contains("the subscriber's own"), "{error}");
    engine.op("goes on").write(x).push(nothing).unwrap();
    engine.wait_for_var(x).unwrap();
}
