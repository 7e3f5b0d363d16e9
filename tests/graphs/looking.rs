//! What graphs tell about themselves: profiles, drawings, and errors of waits that run out of time.

use crate::common::*;
use crate::helpers::*;
use seriatim::{Engine, ErrorKind, Kind, Property};
use std::time::Duration;

#[test]
fn a_profile_has_the_replays_and_their_operations() {
    in_every_way(|engine, way| {
        let x = engine.new_variable();
        let (start, next) = handing_out();
        let (graph, ()) = engine
            .capture(|c| {
                way.choose(c);
                c.name("whole");
                c.op("first").writes([x]).property(Property::CpuPrioritized).push(nothing)?;
                c.op("").writes([x]).push(nothing)?;
                c.op("held").writes([x]).push_async(start)?;
                c.op("last").writes([x]).push(nothing)
            })
            .unwrap();
        engine.start_profiling();
        for _ in 0..2 {
            let replaying = std::thread::scope(|scope| {
                let replaying = scope.spawn(|| graph.replay());
                next().complete();
                replaying.join().unwrap()
            });
            replaying.unwrap();
        }
        engine.wait_for_all().unwrap();
        engine.stop_profiling();
        std::thread::scope(|scope| {
            scope.spawn(|| graph.replay().unwrap());
            next().complete();
        });
        engine.wait_for_all().unwrap();
        let profile = engine.profile();
        for event in profile.events() {
            assert!(event.push <= event.start && event.start <= event.end, "{event:?}");
        }
        // By replay: the next one may begin before the one before is over. All of a replay was
        // pushed with it.
        let mut replays: Vec<Vec<&seriatim::Event>> = Vec::new();
        for event in profile.events() {
            match replays.iter_mut().find(|replay| replay[0].push == event.push) {
                Some(replay) => replay.push(event),
                None => replays.push(vec![event]),
            }
        }
        assert_eq!(replays.len(), 2, "{way:?}: {:?}", profile.events());
        for replay in replays {
            let names: Vec<&str> = replay.iter().map(|event| event.name).collect();
            assert_eq!(names, ["first", "held", "last", "whole"], "{way:?}");
            assert_eq!(replay[0].property, Property::CpuPrioritized);
            assert!(replay[..3].iter().all(|event| event.start >= replay[3].start && event.end <= replay[3].end));
            assert!(replay[..3].windows(2).all(|pair| pair[0].end <= pair[1].end));
        }
    });
}

#[test]
fn a_wait_that_runs_out_of_time_names_the_graph() {
    in_every_way(|engine, way| {
        let x = engine.new_variable();
        let (start, next) = handing_out();
        let (graph, ()) = engine
            .capture(|c| {
                way.choose(c);
                c.name("time step");
                c.op("held").writes([x]).push_async(start)
            })
            .unwrap();
        graph.replay().unwrap();
        let completion = next();
        let late = engine.wait_for_var_timeout(x, Duration::from_millis(1)).unwrap_err();
        assert_says(&late, ErrorKind::TimedOut, &["time step"]);
        completion.complete();
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn a_drawing_has_every_operation_and_every_edge() {
    on_every_engine(|engine| {
        let [x, y] = variables(&engine);
        let (graph, ()) = engine
            .capture(|c| {
                c.name("a \"graph\"");
                c.op("write \"x\"").writes([x]).push(nothing)?;
                c.op("read").reads([x]).writes([y]).push(nothing)?;
                c.op("").reads([x]).push(nothing)?;
                c.op("alone").property(Property::CopyToGpu).push(nothing)?;
                c.op("write again").writes([x]).priority(5).push(nothing)
            })
            .unwrap();
        let drawn = graph.dump_dot();
        assert!(drawn.starts_with("digraph") && drawn.trim_end().ends_with('}'), "{drawn}");
        for label in [
            "n0 [label=\"write \\\"x\\\"\"]",
            "n1 [label=\"read\"]",
            "n2 [label=\"(unnamed)\"]",
            "n3 [label=\"alone\"]",
        ] {
            assert_eq!(drawn.matches(label).count(), 1, "{label} in {drawn}");
        }
        let mut edges: Vec<&str> = drawn.lines().filter(|line| line.contains("->")).map(str::trim).collect();
        edges.sort_unstable();
        assert_eq!(edges, ["n0 -> n1;", "n0 -> n2;", "n1 -> n4;", "n2 -> n4;"], "{drawn}");
        assert_eq!(drawn.matches('{').count(), drawn.matches('}').count());
        assert_eq!(format!("{graph:?}"), "Graph('a \"graph\"', 5 operations)");
        assert_eq!((graph.len(), graph.is_empty()), (5, false));
    });
    let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
    let (empty, ()) = engine.capture(|_| Ok(())).unwrap();
    assert_eq!((empty.len(), empty.is_empty()), (0, true));
    assert!(empty.dump_dot().starts_with("digraph"));
}

#[test]
fn operations_of_a_graph_without_a_name_are_recorded() {
    on_every_engine(|engine| {
        let record = |c: &mut seriatim::Capture| {
            c.name("");
            c.op("work").push(nothing)
        };
        let (graph, ()) = engine.capture(record).unwrap();
        engine.start_profiling();
        graph.replay().unwrap();
        engine.wait_for_all().unwrap();
        assert!(engine.profile().events().iter().any(|event| event.name == "work"));
    });
}
