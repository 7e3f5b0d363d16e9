//! Looking at a running engine: timeouts, the graph, warnings.

use crate::common::*;
use seriatim::{Completion, Engine, ErrorKind, Kind, RunContext, Variable};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::mpsc::channel;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn a_timeout_names_what_runs_what_waits_and_what_it_waits_for() {
    on_every_engine(|engine| {
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        let first = hold(&engine, &[], &[x]);
        engine.op("").reads([x]).writes([y]).push(nothing).unwrap();
        for number in 0..8 {
            engine.op(format!("later {number}")).writes([y]).push(nothing).unwrap();
        }
        let short = Duration::from_millis(1);
        let of_x = engine.wait_for_var_timeout(x, short).unwrap_err().to_string();
        let of_y = engine.wait_for_var_timeout(y, short).unwrap_err().to_string();
        let of_all = engine.wait_for_all_timeout(short).unwrap_err().to_string();
        assert!(
            of_x.contains("running 'hold' #") && of_x.contains("behind it '(unnamed)'") && !of_x.contains("later"),
            "{of_x}"
        );
        for part in ["pending '(unnamed)'", "'later 0' #", "'later 3'", "and 4 more", "while 'hold' #"] {
            assert!(of_y.contains(part), "{of_y}");
        }
        assert!(of_all.contains("running 'hold'") && of_all.contains("and 4 more"), "{of_all}");
        first.complete();
        engine.wait_for_all().unwrap();
    });
}

/// The owner pushes the next write before it ends the one before, so one is always pending.
#[test]
fn a_wait_ends_though_the_owner_of_its_variable_goes_on_pushing() {
    let engine = Engine::builder().kind(Kind::Pooled).cpu_workers(1).build().unwrap();
    let x = engine.new_variable();
    let (send, completions) = channel::<Completion>();
    let push = || {
        let send = send.clone();
        engine.op("held").writes([x]).push_async(move |_, completion| send.send(completion).unwrap()).unwrap();
    };
    push();
    let theirs = engine.clone();
    let waiter = std::thread::spawn(move || theirs.wait_for_var(x).unwrap());
    let mut rounds = 0;
    while !waiter.is_finished() {
        rounds += 1;
        assert!(rounds < 200, "the wait goes on with each write");
        std::thread::sleep(Duration::from_millis(5));
        push();
        completions.recv().unwrap().complete();
    }
    waiter.join().unwrap();
    completions.recv().unwrap().complete();
    engine.wait_for_all().unwrap();
}

#[test]
fn a_wide_operation_is_named_as_well() {
    let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
    let wide: Vec<Variable> = (0..5_000).map(|_| engine.new_variable()).collect();
    let completion = hold(&engine, &[], &wide);
    let error = engine.wait_for_var_timeout(wide[7], Duration::from_millis(1)).unwrap_err();
    assert_says(&error, ErrorKind::TimedOut, &["running 'hold'"]);
    completion.complete();
    engine.wait_for_all().unwrap();
}

#[test]
fn a_wait_that_ran_out_of_time_leaves_the_error_for_the_next() {
    on_every_engine(|engine| {
        let x = engine.new_variable();
        for _ in 0..20 {
            let completion = hold(&engine, &[], &[x]);
            for _ in 0..3 {
                let error = engine.wait_for_var_timeout(x, Duration::from_micros(50)).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::TimedOut);
            }
            completion.fail("later");
            assert_failed(engine.wait_for_var(x), "later");
            engine.wait_for_var(x).unwrap();
        }
        engine.wait_for_all().unwrap();
    });
}

#[test]
fn the_graph_shows_operations_and_who_waits_for_whom() {
    on_every_engine(|engine| {
        let empty = engine.dump_dot();
        assert!(empty.starts_with("digraph seriatim {\n") && empty.ends_with("}\n") && !empty.contains("label"));
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        let first = hold(&engine, &[y], &[x]);
        engine.op("quote \" and \\ slash").reads([x]).push(nothing).unwrap();
        engine.op("third").writes([x, y]).push(nothing).unwrap();
        let graph = engine.dump_dot();
        let node = |name: &str| {
            let line =
                graph.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("no {name} in\n{graph}"));
            line.trim().split(' ').next().expect("a line has a first word").to_owned()
        };
        let (hold, quote, third) = (node("'hold' #"), node("'quote \\\" and \\\\ slash' #"), node("'third' #"));
        let index = |variable: Variable| {
            format!("{variable:?}").trim_start_matches("variable ").split('.').next().unwrap().to_owned()
        };
        for (from, to, variable, style) in
            [(&hold, &quote, x, "]"), (&quote, &third, x, ", style=dashed]"), (&hold, &third, y, ", style=dashed]")]
        {
            let edge = format!("  {from} -> {to} [label=\"v{}\"{style};", index(variable));
            assert!(graph.contains(&edge), "no edge {edge} in\n{graph}");
        }
        let filled: Vec<&str> = graph.lines().filter(|line| line.contains("style=filled")).collect();
        assert_eq!(filled.len(), 1, "only one runs:\n{graph}");
        assert!(filled[0].contains("'hold'"));
        assert_eq!(graph.matches('{').count(), graph.matches('}').count());
        first.complete();
        engine.wait_for_all().unwrap();
        assert_eq!(engine.dump_dot(), empty);
    });
}

#[test]
fn the_graph_of_a_moving_engine_is_safe_to_draw() {
    on_every_engine(|engine| {
        let done = Arc::new(AtomicBool::new(false));
        let reader = std::thread::spawn({
            let (engine, done) = (engine.clone(), Arc::clone(&done));
            move || {
                let mut looks = 0;
                while !done.load(Relaxed) || looks == 0 {
                    assert!(engine.dump_dot().ends_with("}\n"));
                    let _ = engine.wait_for_all_timeout(Duration::ZERO);
                    looks += 1;
                }
            }
        });
        let shared: Vec<Variable> = (0..8).map(|_| engine.new_variable()).collect();
        let mut random = Random(3);
        for number in 0..3_000 {
            let builder =
                engine.op(["a", "bb", "ccc"][number % 3]).reads([random.pick(&shared)]).writes([random.pick(&shared)]);
            builder.push(nothing).unwrap();
            if number % 100 == 0 {
                engine.wait_for_var(random.pick(&shared)).unwrap();
            }
        }
        engine.wait_for_all().unwrap();
        done.store(true, Relaxed);
        reader.join().unwrap();
    });
}

#[test]
fn a_pin_that_fails_is_a_warning_and_no_more() {
    let ran = Arc::new(AtomicUsize::new(0));
    let pinned = |kind, pin, cores: &[usize]| {
        let engine = Engine::builder()
            .kind(kind)
            .cpu_workers(2)
            .waiters_help(false)
            .pin(pin)
            .cores(cores.iter().copied())
            .build()
            .unwrap();
        assert_eq!(engine.warnings(), Vec::<String>::new(), "no worker, no pin");
        for _ in 0..20 {
            engine.op("step").push(counting(&ran)).unwrap();
        }
        engine.wait_for_all().unwrap();
        // The threads are through their start once they have been joined.
        engine.stop().unwrap();
        engine.warnings()
    };
    let warnings = pinned(Kind::PerDevice, true, &[1023]);
    assert_eq!(warnings.len(), 2);
    assert!(warnings.iter().all(|text| text.contains("core 1023") && text.contains("runs unpinned")), "{warnings:?}");
    assert!(warnings.iter().any(|text| text.contains("worker 0 of 'seriatim-cpu'")), "{warnings:?}");
    assert_eq!(pinned(Kind::PerDevice, false, &[1023]), Vec::<String>::new());
    assert_eq!(pinned(Kind::PerDevice, true, &[]), Vec::<String>::new());
    assert_eq!(pinned(Kind::Pooled, true, &[1023]), Vec::<String>::new());
    assert_eq!(pinned(Kind::Naive, true, &[1023]), Vec::<String>::new());
    assert_eq!(ran.load(SeqCst), 100);
}

#[test]
fn what_runs_inside_a_push_is_named_although_it_has_no_block() {
    let engine = Engine::builder().kind(Kind::Naive).build().unwrap();
    let [x, y] = [engine.new_variable(), engine.new_variable()];
    let (begun, beginning) = std::sync::mpsc::channel();
    let (end, ending) = std::sync::mpsc::channel::<()>();
    let theirs = engine.clone();
    let other = std::thread::spawn(move || {
        let body = move |_: &RunContext<'_>| {
            begun.send(()).unwrap();
            let _ = ending.recv();
        };
        theirs.op("inside").writes([x]).push(body).unwrap();
    });
    beginning.recv().unwrap();
    engine.op("behind").reads([x]).writes([y]).push(nothing).unwrap();
    let error = engine.wait_for_var_timeout(x, Duration::from_millis(1)).unwrap_err().to_string();
    assert!(error.contains("running 'inside'") && error.contains("behind it 'behind'"), "{error}");
    assert!(engine.dump_dot().contains("'inside'"));
    let error = engine.wait_for_var_timeout(y, Duration::from_millis(1)).unwrap_err().to_string();
    assert!(error.contains("pending 'behind' #") && error.contains("while 'inside' #"), "{error}");
    drop(end);
    other.join().unwrap();
    engine.wait_for_all().unwrap();
    assert!(!engine.dump_dot().contains("'inside'"));
}
