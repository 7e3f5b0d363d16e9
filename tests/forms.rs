//! Every form of a push does what the others do: one call with all arguments, the builder and
//! operators.

mod common;

use common::*;
use seriatim::{Completion, Context, Data, Engine, ErrorKind, Property, RunContext, Variable};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::Arc;

/// Completes on another thread, and counts.
fn elsewhere(count: &Arc<AtomicUsize>) -> impl Fn(&RunContext<'_>, Completion) + Send + Sync + Clone + 'static + use<> {
    let count = Arc::clone(count);
    move |run, completion| {
        assert_eq!((run.name(), run.context()), ("form", Context::cpu(1)));
        let count = Arc::clone(&count);
        std::thread::spawn(move || {
            count.fetch_add(1, SeqCst);
            completion.complete();
        });
    }
}

#[test]
fn the_long_forms_push_what_the_builder_pushes() {
    on_every_engine(|engine| {
        let [x, y] = [engine.new_variable(), engine.new_variable()];
        let (count, here) = (Arc::new(AtomicUsize::new(0)), Context::cpu(1));
        let (body, start) = (counting(&count), elsewhere(&count));
        engine.push_sync(body.clone(), here, &[x], &[y], Property::Normal, 1, "form").unwrap();
        engine.push_async(start.clone(), here, &[x], &[y], Property::Async, 0, "form").unwrap();
        let step = engine.new_operator(body.clone(), &[x], &[y], Property::Normal, "form").unwrap();
        let tick = engine.new_async_operator(start.clone(), &[x], &[y], Property::Async, "form").unwrap();
        engine.push(&step, here, 0).unwrap();
        engine.push(&tick, here, 2).unwrap();
        engine.op("form").read(x).write(y).context(here).push(body).unwrap();
        engine.op("form").read(x).write(y).context(here).push_async(start.clone()).unwrap();
        let again = engine.op("form").read(x).write(y).async_operator(start).unwrap();
        engine.push(&again, here, 0).unwrap();
        engine.wait_for_var(y).unwrap();
        assert_eq!(count.load(SeqCst), 7);
        assert_eq!((engine.version(x).unwrap(), engine.version(y).unwrap()), (0, 7));
        engine.delete_operator(step);
        engine.delete_operator(tick);
        engine.wait_for_all().unwrap();
    });
}

/// With few variables, many and very many, each in another way; in contexts and with priorities of
/// each push; and with a variable that is deleted after the operator was made.
#[test]
fn an_operator_of_any_number_of_variables_is_an_operation_at_each_push() {
    on_every_engine(|engine| {
        for (count, property) in [0, 1, 2, 8, 9, 40, 256, 257]
            .into_iter()
            .flat_map(|count| [Property::Normal, Property::Short, Property::NoSkip].map(|property| (count, property)))
        {
            let variables: Vec<Variable> = (0..count).map(|_| engine.new_variable()).collect();
            let ran = Arc::new(AtomicUsize::new(0));
            let step = engine.new_operator(counting(&ran), &[], &variables, property, "step").unwrap();
            for round in 0..20 {
                engine.push(&step, Context::cpu(round % 2), round as i32 % 3).unwrap();
            }
            engine.wait_for_all().unwrap();
            assert_eq!(ran.load(SeqCst), 20, "{count} variables");
            for variable in &variables {
                assert_eq!(engine.version(*variable).unwrap(), 20, "{count} variables");
            }
            let Some(last) = variables.last() else { continue };
            engine.delete_variable(|_| (), Context::cpu(0), *last).unwrap();
            let refused = engine.push(&step, Context::cpu(0), 0).unwrap_err();
            assert_says(&refused, ErrorKind::VariableDeleted, &[]);
            engine.wait_for_all().unwrap();
            assert_eq!(ran.load(SeqCst), 20, "a refused push has run");
        }
    });
}

#[test]
fn data_is_shared_by_readers_and_lent_to_one_writer() {
    let engine = Engine::new().unwrap();
    let value = Data::new(&engine, 7);
    {
        let (one, two) = (value.read().unwrap(), value.read().unwrap());
        assert_eq!(*one + *two, 14);
        assert_says(&value.write().unwrap_err(), ErrorKind::BorrowConflict, &[]);
    }
    {
        let mut only = value.write().unwrap();
        *only += 1;
        assert_eq!(*only, 8);
        assert_says(&value.read().unwrap_err(), ErrorKind::BorrowConflict, &["being changed"]);
        assert_says(&value.write().unwrap_err(), ErrorKind::BorrowConflict, &[]);
    }
    assert_eq!(*value.read().unwrap(), 8);
}

#[test]
fn the_variable_of_a_value_outlives_it_until_it_is_deleted() {
    let engine = Engine::new().unwrap();
    let value = Data::new(&engine, 7);
    let variable = value.variable();
    drop(value);
    engine.op("after its value").writes([variable]).push(|_| ()).unwrap();
    engine.wait_for_var(variable).unwrap();
    assert_eq!(engine.version(variable).unwrap(), 1);
    engine.delete_variable(|_| (), Context::cpu(0), variable).unwrap();
    assert_says(&engine.version(variable).unwrap_err(), ErrorKind::VariableDeleted, &[]);
}
