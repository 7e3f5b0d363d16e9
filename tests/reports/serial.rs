//! Profiles that are written by serde's formats, and read again.

use crate::common::*;
use serde_json::Value;
use seriatim::{gpu::Immediate, Context, Engine, Error, Kind, Profile};
use std::time::Duration;

/// Operations of all sorts: of the processor, asynchronous, of a device, and of a replay.
fn profile() -> Profile {
    let engine = Engine::builder().kind(Kind::PerDevice).cpu_workers(2).pin(false).gpus(Immediate::new(1));
    let engine = engine.build().unwrap();
    let (x, y) = (engine.new_variable(), engine.new_variable());
    engine.name_variable(x, "the x").unwrap();
    engine.start_profiling();
    let held = hold(&engine, &[y], &[x]);
    let many: Vec<_> = (0..10).map(|_| engine.new_variable()).collect();
    engine.op("many").writes(many).read(x).priority(3).push(|_| spin(Duration::from_micros(50))).unwrap();
    engine.op("kernel").write(y).context(Context::gpu(0)).push(nothing).unwrap();
    held.complete();
    let (graph, ()) = engine
        .capture(|c| {
            c.name("graph");
            c.op("inner").write(x).push(|_| ())?;
            c.op("inner").read(x).push(|_| ())?;
            Ok::<_, Error>(())
        })
        .unwrap();
    graph.replay().unwrap();
    engine.wait_for_all().unwrap();
    engine.profile()
}

#[test]
fn what_is_written_is_read_again() {
    let profile = profile();
    let text = serde_json::to_string(&profile).unwrap();
    let again: Profile = serde_json::from_str(&text).unwrap();
    assert_eq!(format!("{:#?}", again.events()), format!("{:#?}", profile.events()));
    assert!(profile.events().iter().any(|event| event.device().is_some()), "{profile:?}");
    assert!(profile.events().iter().any(|event| event.uses().len() > 6), "{profile:?}");
    assert_eq!(format!("{:?}", again.summaries()), format!("{:?}", profile.summaries()));
    assert_eq!(again.critical_path(), profile.critical_path());
    assert_eq!(again.overlap(Context::gpu(0)), profile.overlap(Context::gpu(0)));
    assert_eq!(again.table(), profile.table());
    for (event, other) in profile.events().iter().zip(again.events()) {
        for thread in [event.pushed_on, event.started_on, event.ended_on] {
            assert_eq!(again.thread_name(thread), profile.thread_name(thread));
        }
        for (used, same) in event.uses().iter().zip(other.uses()) {
            assert_eq!(again.variable_name(same), profile.variable_name(used));
        }
    }
    let named = |profile: &Profile| {
        let uses = profile.events().iter().flat_map(|event| event.uses());
        uses.filter_map(|used| profile.variable_name(used)).collect::<Vec<_>>()
    };
    assert!(named(&again).contains(&"the x"), "{:?}", named(&again));
    assert_eq!(serde_json::to_string(&again).unwrap(), text);
    let traces = [&profile, &again].map(|profile| {
        let mut trace = Vec::new();
        profile.write_chrome_trace(&mut trace).unwrap();
        trace
    });
    assert!(traces[0] == traces[1]);
}

#[test]
fn what_cannot_be_a_profile_is_refused() {
    let sound = serde_json::to_value(profile()).unwrap();
    let refused = |change: fn(&mut Value), says: &str| {
        let mut value = sound.clone();
        change(&mut value);
        let error = serde_json::from_value::<Profile>(value).unwrap_err().to_string();
        assert!(error.contains(says), "'{error}' does not say '{says}'");
    };
    refused(|value| value["version"] = 2.into(), "a profile of version 2");
    refused(|value| drop(value.as_object_mut().unwrap().remove("events")), "missing field `events`");
    refused(|value| value["events"][0]["property"] = "Sideways".into(), "unknown variant `Sideways`");
    refused(|value| value["events"][0]["end"] = 0.into(), "ends before it starts");
    refused(|value| value["events"][0]["name"] = 7.into(), "invalid type");
    // A later version may write more.
    let mut more = sound.clone();
    more["colour"] = "blue".into();
    serde_json::from_value::<Profile>(more).unwrap();
}

#[test]
fn times_that_no_clock_gives_make_no_panic() {
    let mut value = serde_json::to_value(profile()).unwrap();
    for event in value["events"].as_array_mut().unwrap() {
        for (field, time) in [("push", u64::MAX), ("ready", 0), ("start", 1), ("end", u64::MAX)] {
            event[field] = time.into();
        }
    }
    let profile: Profile = serde_json::from_value(value).unwrap();
    assert!(!profile.table().is_empty() && profile.slack(0).is_some());
    profile.write_chrome_trace(std::io::sink()).unwrap();
}

#[test]
fn numbers_can_be_written() {
    let engine = Engine::builder().kind(Kind::PerDevice).cpu_workers(1).pin(false).build().unwrap();
    engine.op("work").push(nothing).unwrap();
    engine.wait_for_all().unwrap();
    let stats = engine.stats();
    let value = serde_json::to_value(&stats).unwrap();
    assert_eq!(value["completed"], stats.completed);
    assert_eq!(value["workers"][0]["group"], "seriatim-cpu");
    let summaries = serde_json::to_value(profile().summaries()).unwrap();
    assert!(summaries.as_array().unwrap().iter().any(|summary| summary["name"] == "many"), "{summaries}");
}
