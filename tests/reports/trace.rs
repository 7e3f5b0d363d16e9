//! Traces, as viewers read them.

use super::checker::{check, read, Trace};
use crate::common::*;
use serde_json::{json, Value};
use seriatim::{Context, Engine, Error, Kind, Property, RunContext};
use std::sync::mpsc;
use std::time::Duration;

fn text(engine: &Engine) -> String {
    let mut trace = Vec::new();
    engine.profile().write_chrome_trace(&mut trace).unwrap();
    String::from_utf8(trace).unwrap()
}

/// The trace of an engine, which must be sound.
fn trace(engine: &Engine) -> Trace {
    let text = text(engine);
    read(&text).unwrap_or_else(|error| panic!("{error}\nin {text}"))
}

/// Two asynchronous operations that overlap on this thread, and operations behind them.
fn overlapping(engine: &Engine) {
    let (x, y) = (engine.new_variable(), engine.new_variable());
    engine.start_profiling();
    let first = hold(engine, &[], &[x]);
    let second = hold(engine, &[], &[y]);
    engine.op("behind both").reads([x]).writes([y]).priority(7).push(nothing).unwrap();
    first.complete();
    spin(Duration::from_micros(50));
    second.complete();
    engine.wait_for_all().unwrap();
    engine.stop_profiling();
}

#[test]
fn asynchronous_operations_that_overlap_are_spans_and_not_slices() {
    on_every_engine(|engine| {
        overlapping(&engine);
        let trace = trace(&engine);
        assert_eq!(trace.spans.len(), 2);
        let (a, b) = (&trace.spans[0], &trace.spans[1]);
        assert!(a.name == "hold" && b.name == "hold" && a.from < b.from && b.from < a.to && a.to < b.to, "{trace:?}");
        // The second was the last that held up the one behind, and the first as well: on another
        // variable.
        assert!(trace.leads(("hold", false), "behind both"), "{trace:?}");
        let completions = trace.slices.iter().filter(|slice| slice.name == "complete").count();
        let arrows = trace.arrows.iter().filter(|(_, to)| trace.slices[*to].name == "behind both").count();
        assert_eq!((completions, arrows), (2, 3), "one from its push and one from each: {trace:?}");
    });
}

/// The events of a sound trace.
fn sound() -> Vec<Value> {
    let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
    overlapping(&engine);
    let value: Value = serde_json::from_str(&text(&engine)).unwrap();
    value["traceEvents"].as_array().unwrap().clone()
}

/// What the checker says of a sound trace after a change.
fn refused(change: impl FnOnce(&mut Vec<Value>)) -> String {
    let mut events = sound();
    change(&mut events);
    check(&events).expect_err("the change is found")
}

#[test]
fn the_checker_finds_what_viewers_draw_wrongly() {
    let place = |events: &[Value], phase: &str| events.iter().position(|event| event["ph"] == phase).unwrap();
    check(&sound()).unwrap();
    // As it was: a complete slice for each asynchronous operation.
    let said = refused(|events| {
        let spans: Vec<Value> = events.iter().filter(|event| event["ph"] == "b").cloned().collect();
        for span in spans {
            let end = events.iter().find(|event| event["ph"] == "e" && event["id"] == span["id"]).unwrap();
            let length = end["ts"].as_f64().unwrap() - span["ts"].as_f64().unwrap();
            let at = events.iter().position(|event| event["ph"] == "b" && event["id"] == span["id"]).unwrap();
            events[at]["ph"] = json!("X");
            events[at]["dur"] = json!((length * 1000.0).round() / 1000.0);
        }
        events.retain(|event| event["ph"] != "e");
    });
    assert!(said.contains("is not inside"), "{said}");
    for lost in ["b", "e", "s", "f"] {
        let said = refused(|events| drop(events.remove(place(events, lost))));
        assert!(["never", "flow"].iter().any(|part| said.contains(part)), "{lost}: {said}");
    }
    let said = refused(|events| {
        let last = events.len() - 1;
        events.swap(last, 10);
    });
    assert!(said.contains("time"), "{said}");
    let said = refused(|events| events.retain(|event| event["name"] != "thread_name"));
    assert!(said.contains("without a name"), "{said}");
    let said = refused(|events| {
        let at = place(events, "s");
        events[at]["tid"] = json!(1);
        events.insert(0, json!({"ph": "M", "pid": 1, "tid": 1, "name": "thread_name", "args": {"name": "one"}}));
    });
    assert!(said.contains("in no slice"), "{said}");
    let said = refused(|events| {
        let at = events.iter().rposition(|event| event["ph"] == "C").unwrap();
        events.remove(at);
    });
    assert!(said.contains("in flight"), "{said}");
}

#[test]
fn arrows_lead_from_push_to_run_and_to_those_that_waited() {
    on_every_engine(|engine| {
        let (x, y) = (engine.new_variable(), engine.new_variable());
        engine.start_profiling();
        let work = |_: &RunContext<'_>| spin(Duration::from_micros(20));
        engine.op("write").writes([x]).push(work).unwrap();
        for name in ["read 1", "read 2"] {
            engine.op(name).reads([x]).push(work).unwrap();
        }
        engine.op("other").writes([y]).push(work).unwrap();
        engine.op("write again").writes([x]).priority(-3).push(work).unwrap();
        engine.op("last").reads([x]).writes([y]).push(work).unwrap();
        engine.wait_for_all().unwrap();
        let profile = engine.profile();
        let trace = trace(&engine);
        let names = ["write", "read 1", "read 2", "other", "write again", "last"];
        for name in names {
            assert!(trace.leads((name, true), name), "from the push of {name} to it: {trace:?}");
        }
        let end = |name: &str| profile.events().iter().find(|event| event.name == name).unwrap().end;
        let later = if end("read 1") < end("read 2") { "read 2" } else { "read 1" };
        let expected = [
            ("write", "read 1"),
            ("write", "read 2"),
            (later, "write again"),
            ("write again", "last"),
            ("other", "last"),
        ];
        for from in names {
            for to in names {
                let leads = expected.contains(&(from, to));
                assert_eq!(trace.leads((from, false), to), leads, "from {from} to {to}: {trace:?}");
            }
        }
        let again = trace.slices.iter().find(|slice| slice.name == "write again").unwrap();
        let number = format!("{x:?}").replace("variable ", "");
        assert_eq!(again.arguments["writes"], json!([number]));
        assert_eq!((&again.arguments["reads"], &again.arguments["priority"]), (&json!([]), &json!(-3)));
        assert_eq!(trace.counts.iter().map(|(in_flight, _)| *in_flight).min(), Some(0));
        assert!(trace.counts.iter().any(|&(_, ready)| ready == 1));
    });
}

#[test]
#[cfg(target_os = "linux")]
fn threads_are_those_of_the_operating_system() {
    let engine = Engine::builder().kind(Kind::PerDevice).cpu_workers(2).build().unwrap();
    engine.start_profiling();
    let (send, receive) = mpsc::channel();
    // SAFETY: asks only.
    let number = || unsafe { libc::gettid() } as u64;
    engine
        .op("work")
        .push(move |_| send.send((number(), std::thread::current().name().map(str::to_owned))).unwrap())
        .unwrap();
    engine.wait_for_all().unwrap();
    let (worker, name) = receive.recv().unwrap();
    let trace = trace(&engine);
    let slice = |name: &str| trace.slices.iter().find(|slice| slice.name == name).unwrap();
    assert_eq!((slice("work").thread, slice("push").thread), (worker, number()));
    assert_eq!(trace.threads.get(&worker), name.as_ref());
    assert_eq!(trace.threads.get(&number()).map(String::as_str), std::thread::current().name());
}

/// Operations of all kinds from three threads, many of them asynchronous and ended by a fourth;
/// many variables; deletions; failures.
#[test]
fn random_programs_make_sound_traces() {
    for (round, builder) in builders().into_iter().enumerate() {
        let engine = builder.build().unwrap();
        let variables: Vec<_> = (0..12).map(|_| engine.new_variable()).collect();
        engine.start_profiling();
        let (send, receive) = mpsc::channel::<seriatim::Completion>();
        std::thread::scope(|scope| {
            scope.spawn(move || receive.into_iter().for_each(seriatim::Completion::complete));
            for pusher in 0..3_u64 {
                let (engine, variables, send) = (&engine, &variables, send.clone());
                scope.spawn(move || {
                    let mut random = Random(pusher << 8 | round as u64);
                    let gone = engine.new_variable();
                    for _ in 0..300 {
                        let at = random.below(variables.len());
                        let few = if random.below(20) == 0 { variables.len() } else { random.below(3) };
                        let others = (1..few).map(|step| variables[(at + step) % variables.len()]);
                        let builder = engine.op("step").reads(others).writes([variables[at]]);
                        let builder = builder.priority(random.below(9) as i32);
                        let inner = engine.clone();
                        match random.below(4) {
                            0 => {
                                let send = send.clone();
                                let start = move |_: &RunContext<'_>, completion| send.send(completion).unwrap();
                                builder.property(Property::Async).push_async(start).unwrap();
                            }
                            1 => builder.push(move |_| inner.op("inner").push(nothing).map_err(|_| "refused")).unwrap(),
                            2 if random.below(30) == 0 => builder.push(|_| Err::<(), _>("failed")).unwrap(),
                            _ => builder.push(nothing).unwrap(),
                        }
                    }
                    engine.op("gone").writes([gone]).push(nothing).unwrap();
                    engine.delete_variable(|_| (), Context::cpu(0), gone).unwrap();
                });
            }
            drop(send);
        });
        let _: Result<(), Error> = engine.wait_for_all();
        let trace = trace(&engine);
        let (slices, spans) = (trace.slices.iter().filter(|slice| slice.name == "step").count(), trace.spans.len());
        assert_eq!(slices + spans, 900);
        assert!(trace.arrows.len() > 1000, "{} arrows", trace.arrows.len());
    }
}

#[test]
fn a_graph_is_one_operation_with_arrows_of_its_own() {
    let engine = Engine::builder().kind(Kind::PerDevice).cpu_workers(2).build().unwrap();
    let (x, y) = (engine.new_variable(), engine.new_variable());
    let (graph, ()) = engine
        .capture(|c| {
            c.name("whole");
            c.op("left").writes([x]).push(|_| spin(Duration::from_micros(20)))?;
            c.op("right").writes([y]).push_async(|_, completion| completion.complete())?;
            c.op("both").reads([x, y]).push(nothing)
        })
        .unwrap();
    engine.start_profiling();
    engine.op("before").writes([x]).push(nothing).unwrap();
    graph.replay().unwrap();
    engine.op("after").writes([x]).push(nothing).unwrap();
    graph.replay().unwrap();
    engine.wait_for_all().unwrap();
    let trace = trace(&engine);
    for (from, to) in [("left", "both"), ("right", "both"), ("before", "whole"), ("whole", "after"), ("after", "whole")]
    {
        assert!(trace.leads((from, false), to), "from {from} to {to}: {trace:?}");
    }
    for (from, to) in [("before", "left"), ("both", "after"), ("both", "left"), ("whole", "left")] {
        assert!(!trace.leads((from, false), to), "from {from} to {to}: {trace:?}");
    }
}
