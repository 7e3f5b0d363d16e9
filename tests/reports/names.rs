//! Names of variables, wherever a text tells of one.

use crate::common::*;
use seriatim::{Context, Data, Engine, Error, ErrorKind, Kind};
use std::time::Duration;

fn engine() -> Engine {
    Engine::builder().kind(Kind::PerDevice).cpu_workers(1).pin(false).build().unwrap()
}

#[test]
fn errors_that_tell_of_a_variable_name_it() {
    let engine = engine();
    let x = Data::new(&engine, 1);
    let unnamed = format!("{:?}", x.variable());
    engine.name_variable(x.variable(), "weights").unwrap();
    let named = format!("{unnamed} 'weights'");
    assert_eq!(format!("{:?}", x.variable()), named);
    assert_eq!(format!("{x:?}"), format!("Data({named})"));

    let borrowed = x.write().unwrap();
    assert_says(&x.read().unwrap_err(), ErrorKind::BorrowConflict, &[&named]);
    drop(borrowed);
    let held = hold(&engine, &[], &[x.variable()]);
    let late = engine.wait_for_var_timeout(x.variable(), Duration::from_millis(1)).unwrap_err();
    assert_says(&late, ErrorKind::TimedOut, &[&format!("{named} is not free")]);
    held.complete();
    let other = self::engine();
    let foreign = other.wait_for_var(x.variable()).unwrap_err();
    assert_says(&foreign, ErrorKind::ForeignVariable, &[&format!("{named} belongs to engine")]);
    // On a worker, inside an operation.
    let inside = x.clone();
    engine.op("undeclared").push(move |_| inside.read().map(|_| ())).unwrap();
    assert_says(&engine.wait_for_all().unwrap_err(), ErrorKind::UndeclaredAccess, &[&named]);

    // The name outlives the variable, until another one has its place.
    engine.delete_variable(|_| (), Context::cpu(0), x.variable()).unwrap();
    engine.wait_for_all().unwrap();
    let gone = engine.version(x.variable()).unwrap_err();
    assert_says(&gone, ErrorKind::VariableDeleted, &[&named]);
}

#[test]
fn a_name_goes_with_one_variable_and_can_be_replaced() {
    let engine = engine();
    let first = engine.new_variable();
    engine.name_variable(first, "first").unwrap();
    engine.name_variable(first, String::from("renamed")).unwrap();
    assert_eq!(engine.variable_name(first), Some("renamed"));
    engine.delete_variable(|_| (), Context::cpu(0), first).unwrap();
    engine.wait_for_all().unwrap();
    let error = engine.name_variable(first, "late").unwrap_err();
    assert_says(&error, ErrorKind::VariableDeleted, &["renamed"]);
    // Some of these have its place.
    for _ in 0..1000 {
        let next = engine.new_variable();
        assert_eq!(engine.variable_name(next), None, "{next:?}");
        engine.delete_variable(|_| (), Context::cpu(0), next).unwrap();
        engine.wait_for_all().unwrap();
    }
    let error = self::engine().name_variable(engine.new_variable(), "foreign").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ForeignVariable);
}

#[test]
fn what_is_private_to_a_graph_can_be_named() {
    let engine = engine();
    let (graph, scratch) = engine
        .capture(|c| {
            let scratch = c.private_variable();
            c.op("fill").write(scratch).push(|_| ())?;
            Ok::<_, Error>(scratch)
        })
        .unwrap();
    engine.name_variable(scratch, "scratch").unwrap();
    assert_says(&engine.wait_for_var(scratch).unwrap_err(), ErrorKind::PrivateVariable, &["'scratch' is private"]);
    graph.replay().unwrap();
    engine.wait_for_all().unwrap();
}

#[test]
fn an_engine_that_ends_takes_its_names_along() {
    let engine = engine();
    let x = engine.new_variable();
    engine.name_variable(x, "gone").unwrap();
    assert!(format!("{x:?}").contains("gone"));
    drop(engine);
    assert!(!format!("{x:?}").contains("gone"), "{x:?}");
}

#[test]
fn drawings_and_profiles_have_the_names() {
    let engine = engine();
    let (x, y) = (engine.new_variable(), engine.new_variable());
    engine.name_variable(x, "the \"x\"").unwrap();
    let held = hold(&engine, &[], &[x, y]);
    engine.op("behind").writes([x, y]).push(nothing).unwrap();
    let drawn = engine.dump_dot();
    let [(place, _), (other, _)] = [x, y].map(|variable| variable.into_raw());
    assert!(drawn.contains(&format!("label=\"v{} the \\\"x\\\"\"", place as u32)), "{drawn}");
    assert!(drawn.contains(&format!("label=\"v{}\"", other as u32)), "{drawn}");
    held.complete();
    engine.wait_for_all().unwrap();

    engine.start_profiling();
    engine.op("uses").writes([x, y]).push(nothing).unwrap();
    engine.wait_for_all().unwrap();
    let profile = engine.profile();
    let mut names: Vec<_> = profile.events()[0].uses().iter().map(|used| profile.variable_name(used)).collect();
    names.sort_unstable();
    assert_eq!(names, [None, Some("the \"x\"")]);
    let mut trace = Vec::new();
    profile.write_chrome_trace(&mut trace).unwrap();
    let trace: serde_json::Value = serde_json::from_slice(&trace).unwrap();
    assert!(trace.to_string().contains("the \\\"x\\\""), "{trace}");
    let same = profile.renamed(|_| "other");
    assert_eq!(same.variable_name(&same.events()[0].uses()[0]), profile.variable_name(&profile.events()[0].uses()[0]));
}

/// Names are given and looked at while threads come and go.
#[test]
fn threads_name_and_look_at_once() {
    let engine = engine();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let engine = &engine;
            scope.spawn(move || {
                for number in 0..200 {
                    let x = engine.new_variable();
                    let name = format!("{thread} {}", number % 10);
                    engine.name_variable(x, name.clone()).unwrap();
                    assert_eq!(engine.variable_name(x), Some(&*name));
                    engine.delete_variable(|_| (), Context::cpu(0), x).unwrap();
                }
            });
        }
    });
    engine.wait_for_all().unwrap();
}
