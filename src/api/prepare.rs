//! Doing before the first push what it would do else.

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

/// Magazines of each size that a thread is given: of 64, 64 and 32 blocks.
const MAGAZINES: [usize; 3] = [16, 1, 2];
/// Pushes that do nothing: as many as the stock that a thread begins with has blocks, and more.
const PUSHES: usize = 128;
/// Between two looks at whether the threads are up.
const START_NAP: Duration = Duration::from_micros(20);

/// Brings up all threads of the engine, and gives the calling one what it needs to push.
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
    // The place in which a builder puts an operation together.
    drop(Draft::new(Name::default()));
    let variable = engine.new_variable();
    let claim = [Claim { variable, mode: Mode::Write }];
    core.local().pusher().prepare(variable.index);
    for _ in 0..PUSHES {
        // Not held up by a bound: at it, nobody is to wait for these. Else they go where all pushes
        // go.
        let flags = if core.settings.bound > 0 { FLAG_BEYOND } else { 0 };
        let request = Request { flags, ..Request::named(Name::default()) };
        let nothing = |_: &RunContext<'_>| ();
        push(core, &request, &claim[..], sync_vtable(&nothing), nothing)?;
    }
    for_var::for_variable(core, variable, None)?;
    delete_own_variable(core, variable, |_| ());
    Ok(())
}
