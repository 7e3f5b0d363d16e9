//! `Engine::prepare`: does before a thread's first push what that push would have to do otherwise.
//! Called by `src/api/control.rs`, on the thread that is to push.

#![forbid(unsafe_code)]

use crate::api::engine::Engine;
use crate::api::graph::delete_own_variable;
use crate::engine::draft::Draft;
use crate::engine::nesting::refuse_inside;
use crate::engine::push::push;
use crate::engine::request::{Claim, Request};
use crate::engine::wait::for_var;
use crate::error::Error;
use crate::operation::access::Mode;
use crate::operation::block::FLAG_BEYOND;
use crate::operation::closure::sync_vtable;
use crate::operation::context::RunContext;
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::sync::thread;
use std::time::Duration;

/// How many magazines of 64 blocks a thread is given, for each class of blocks.
const MAGAZINES: [usize; 3] = [16, 1, 1];
/// How many empty operations are pushed: more than the stock that a thread begins with has blocks.
const PUSHES: usize = 128;
/// The time between two looks at whether the threads are up.
const START_NAP: Duration = Duration::from_micros(20);

/// Brings up all threads of the engine, and gives the calling thread what it needs to push.
pub fn prepare(engine: &Engine) -> Result<(), Error> {
    let core = engine.core();
    refuse_inside(core, "prepare")?;
    for property in [Property::Normal, Property::CpuPrioritized, Property::CopyToGpu] {
        let Some(group) = core.dispatch.group(property) else { continue };
        if !group.is_started() {
            core.start_group(group)?;
        }
        while group.is_started() && !group.is_ready() {
            thread::park_timeout(START_NAP);
        }
    }
    for (class, magazines) in MAGAZINES.into_iter().enumerate() {
        core.local().fill(class as u8, magazines);
    }
    // Makes the thread's memory in which a builder puts an operation together
    // (`src/engine/draft.rs`).
    drop(Draft::new(Name::default()));
    let variable = engine.new_variable();
    let claim = [Claim { variable, mode: Mode::Write }];
    core.local().pusher().prepare(variable.index);
    for _ in 0..PUSHES {
        // A bound must not hold these up: with `FLAG_BEYOND` they are pushed even at the bound.
        // Without a bound they have no flag, so they take the way of all pushes.
        let flags = if core.settings.bound > 0 { FLAG_BEYOND } else { 0 };
        let request = Request { flags, ..Request::named(Name::default()) };
        let nothing = |_: &RunContext<'_>| ();
        push(core, &request, &claim[..], sync_vtable(&nothing), nothing)?;
    }
    for_var::for_variable(core, variable, Mode::Read, None)?;
    delete_own_variable(core, variable, |_| ());
    Ok(())
}
