//! The per-device engine: pinned workers for the processor, a pool for prioritised operations, and
//! an I/O worker. `PerDevice::runs` picks the group of an operation that is submitted; `pooled.rs`
//! has the same for its groups. `is_io`, `is_computed` and `is_ordinary` in `operation/property.rs`
//! decide what may be logged or run inside its push instead, so a new rule begins there. The groups
//! do not change, and any thread uses them; `worker/group.rs` has what their threads share.
//! Operations with a stream of a GPU go to `gpu/submit.rs` instead. The rule for operations of
//! graphs is `elsewhere` in `replay/assemble.rs`; what starts the groups by name is in
//! `push/admission.rs` and `api/prepare.rs`.

use crate::engine::core::{Core, Dispatch, ReadyCause};
use crate::engine::settings::Settings;
use crate::error::Error;
use crate::operation::block::Block;
use crate::operation::property::Property;
use crate::thread::context::ThreadContext;
use crate::worker::group::{Group, GroupPlan, Placement};
use std::sync::Arc;

pub struct PerDevice {
    /// Computes: a pinned worker per core, with a queue each.
    workers: Arc<Group>,
    /// Runs prioritised operations, which so never queue behind others.
    prioritised: Arc<Group>,
    /// Copies.
    copies: Arc<Group>,
}

impl PerDevice {
    pub fn new(settings: &Settings) -> PerDevice {
        let group = |name, workers, logged, cores| {
            let move_callers = settings.move_callers;
            Arc::new(Group::new(GroupPlan {
                name,
                workers,
                logged,
                shared: false,
                idle: settings.idle,
                spin_for: settings.spin_for,
                cores,
                move_callers,
                fifo_priority: settings.fifo_priority,
            }))
        };
        let cores = if settings.pin { settings.cores.clone() } else { Vec::new() };
        PerDevice {
            workers: group("seriatim-cpu", settings.cpu_workers, true, cores),
            prioritised: group("seriatim-prio", settings.priority_workers, false, Vec::new()),
            copies: group("seriatim-io", 1, false, Vec::new()),
        }
    }

    #[inline]
    fn runs(&self, property: Property) -> &Arc<Group> {
        match property {
            Property::CpuPrioritized => &self.prioritised,
            property if property.is_io() => &self.copies,
            _ => &self.workers,
        }
    }
}

impl Dispatch for PerDevice {
    #[inline]
    fn group(&self, property: Property) -> Option<&Arc<Group>> {
        Some(self.runs(property))
    }

    unsafe fn submit(&self, core: &Arc<Core>, local: &ThreadContext, block: *mut Block, cause: ReadyCause) {
        // SAFETY: the operation is ours until it is submitted.
        unsafe {
            if matches!(cause, ReadyCause::Pushed) && core.starts_inside(local, block) {
                return;
            }
            let property = Block::property(block);
            let place = match Block::context(block).id() {
                0 => Placement::Any,
                number => Placement::Worker(number as usize - 1),
            };
            self.runs(property).submit(block, place, local.depth.get());
        }
    }

    fn help(&self, core: &Arc<Core>, go_on: &mut dyn FnMut() -> bool) -> bool {
        self.workers.help(core, &mut *go_on) || self.prioritised.help(core, &mut *go_on)
    }

    fn catch_up(&self, core: &Arc<Core>) -> bool {
        self.workers.catch_up(core)
    }

    fn serve(&self, core: &Arc<Core>, go_on: &mut dyn FnMut() -> bool, done: &mut dyn FnMut() -> bool) {
        while !done() && self.prioritised.help(core, &mut *go_on) {}
        self.workers.serve(core, go_on, done);
    }

    fn start(&self, core: &Arc<Core>) -> Result<(), Error> {
        core.start_group(&self.workers)
    }

    fn stop(&self) {
        self.workers.stop();
        self.prioritised.stop();
        self.copies.stop();
    }

    fn groups(&self) -> Vec<&Group> {
        vec![&self.workers, &self.prioritised, &self.copies]
    }
}
