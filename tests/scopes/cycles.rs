//! What would wait for ever inside an operation is refused where it is pushed, in both forms: a
//! child on a variable of the operation that waits for it, and a child behind a third operation
//! that waits for that one.

use crate::common::*;
use crate::inside::inside;
use seriatim::{Engine, ErrorKind, Write};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::Arc;

#[test]
fn a_child_on_a_variable_of_the_waiting_operation_is_refused() {
    on_every_engine(|engine| {
        let _watchdog = Watchdog::new(100, "a child on its parent's variable");
        let (x, ran) = (engine.value(1), Arc::new(AtomicUsize::new(0)));
        for changes in [true, false] {
            let (own, count, variable, value) = (engine.clone(), Arc::clone(&ran), x.variable(), x.clone());
            let body = move |_: &mut i32| {
                own.scope(|s| {
                    let refused = |pushed: Result<(), seriatim::Error>| {
                        let parts = ["would wait", "part()"];
                        assert_says(&pushed.unwrap_err(), ErrorKind::WaitInsideOperation, &parts);
                    };
                    let builder = s.op("child");
                    let builder = if changes { builder.writes([variable]) } else { builder.reads([variable]) };
                    refused(builder.push(|_| _ = count.fetch_add(1, SeqCst)));
                    refused(s.op("by type").run(&value, |_| _ = count.fetch_add(1, SeqCst)));
                    refused(s.op("by type").run(Write(&value), |_| _ = count.fetch_add(1, SeqCst)));
                    s.op("free").push(|_| _ = count.fetch_add(100, SeqCst))
                })
            };
            engine.op("parent").run(Write(&x), body).unwrap();
        }
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), 200, "what was refused has run, or what was not has not");
    });
}

#[test]
fn a_child_behind_a_third_that_waits_for_the_parent_is_refused() {
    on_every_engine(|engine| {
        let _watchdog = Watchdog::new(100, "a child behind a third operation");
        let [x, y] = [(); 2].map(|()| engine.new_variable());
        let ran = Arc::new(AtomicUsize::new(0));
        let (own, count) = (engine.clone(), Arc::clone(&ran));
        // Pushed inside the parent, so that it is there in time on an engine without threads, too.
        let parent = move |_: &seriatim::RunContext<'_>| {
            own.op("third").reads([x]).writes([y]).push(counting(&count))?;
            own.scope(|s| {
                let pushed = s.op("child").writes([y]).push(|_| _ = count.fetch_add(100, SeqCst));
                assert_eq!(pushed.unwrap_err().kind(), ErrorKind::WaitInsideOperation);
                let pushed = s.op("child").reads([y]).push(|_| _ = count.fetch_add(100, SeqCst));
                assert_eq!(pushed.unwrap_err().kind(), ErrorKind::WaitInsideOperation);
                assert_eq!(count.load(SeqCst), 0, "the third operation waits for the parent");
                s.op("free").push(|_| ())
            })
        };
        engine.op("parent").writes([x]).push(parent).unwrap();
        engine.wait_for_all().unwrap();
        assert_eq!(ran.load(SeqCst), 1);
    });
}

/// The children that are to come first may lie behind the one that waits, on the same stack.
#[test]
fn a_part_of_a_scope_further_out_is_refused() {
    on_every_engine(|engine| {
        let _watchdog = Watchdog::new(100, "a part of another scope");
        inside(&engine, |engine| {
            let mut x = 1;
            engine.scope(|outer| {
                let part = outer.part(&mut x);
                outer.op("first").run(Write(&part), |x| *x += 1)?;
                engine.scope(|inner| {
                    let pushed = inner.op("second").run(Write(&part), |x| *x += 1);
                    assert_eq!(pushed.unwrap_err().kind(), ErrorKind::WaitInsideOperation);
                    Ok(())
                })
            })?;
            assert_eq!(x, 2);
            Ok::<(), seriatim::Error>(())
        })
        .unwrap();
    });
}

/// Of two engines, of which the operation of one opens a scope of the other: that is outside.
#[test]
fn a_scope_of_another_engine_waits_as_outside_of_operations() {
    on_every_engine(|engine| {
        let other = Engine::builder().kind(engine.kind()).cpu_workers(1).build().unwrap();
        let x = other.value(1);
        let mine = x.clone();
        inside(&engine, move |_| other.scope(|s| s.op("theirs").run(Write(&mine), |x| *x += 1))).unwrap();
        drop(x);
    });
}
