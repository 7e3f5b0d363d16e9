//! Where operations run: with `inline_below` on the pusher while they are short, and not for long once they are not.

use crate::common::*;
use seriatim::{Engine, Kind, RunContext};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn a_closure_that_turns_long_is_shipped_also_where_it_could_not_borrow() {
    let engine = Engine::builder().kind(Kind::PerDevice).cpu_workers(1).waiters_help(false);
    let engine = engine.inline_below(Duration::from_millis(1)).build().unwrap();
    let x = engine.new_variable();
    let (long, inline) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let push = || {
        let (long, inline) = (Arc::clone(&long), Arc::clone(&inline));
        let body = move |run: &RunContext<'_>| {
            inline.fetch_add(usize::from(run.worker().is_none()), SeqCst);
            if long.load(SeqCst) {
                std::thread::sleep(Duration::from_millis(2));
            }
        };
        engine.op("read").reads([x]).push(body).unwrap();
    };
    // Until it is known to be short, however often this thread loses its core.
    while inline.swap(0, SeqCst) == 0 {
        (0..100).for_each(|_| push());
        engine.wait_for_all().unwrap();
    }
    // A read that runs: the variable is not idle, and the next read is ready all the same.
    let beside = hold(&engine, &[x], &[]);
    long.store(true, SeqCst);
    (0..60).for_each(|_| push());
    beside.complete();
    engine.wait_for_all().unwrap();
    // One call in 8 to 23 is measured; two are needed.
    let inline = inline.load(SeqCst);
    assert!(inline <= 30, "{inline} of 60 long operations ran inside their pushes");
}
