//! The pooled engine: one shared queue for all workers, and one I/O worker. `Pooled::runs` picks
//! the group of an operation that is submitted; `per_device.rs` has the same for its groups.
//! `is_io`, `is_computed` and `is_ordinary` in `operation/property.rs` decide what may be logged or
//! run inside its push instead, so a new rule begins there. The groups do not
//! change, and any thread uses them; `worker/group.rs` has what their threads share. Operations
//! with a stream of a GPU go to `gpu/submit.rs` instead. The rule for operations of graphs is
//! `elsewhere` in `replay/assemble.rs`; what starts the groups by name is in `push/admission.rs`
//! and `api/prepare.rs`.

use crate::engine::core::{Core, Dispatch, ReadyCause};
use crate::engine::settings::Settings;
use crate::error::Error;
use crate::operation::block::Block;
use crate::operation::property::Property;
use crate::thread::context::ThreadContext;
use crate::worker::group::{Group, GroupPlan, Placement};
use std::sync::Arc;

pub struct Pooled {
    workers: Arc<Group>,
    copies: Arc<Group>,
}

impl Pooled {
    pub fn new(settings: &Settings) -> Pooled {
        Pooled {
            workers: Arc::new(Group::new(GroupPlan {
                name: "seriatim-pool",
                workers: settings.cpu_workers,
                logged: true,
                shared: true,
                idle: settings.idle,
                spin_for: settings.spin_for,
                cores: Vec::new(),
                move_callers: false,
                fifo_priority: settings.fifo_priority,
            })),
            copies: Arc::new(Group::new(GroupPlan {
                name: "seriatim-io",
                workers: 1,
                logged: false,
                shared: false,
                idle: settings.idle,
                spin_for: settings.spin_for,
                cores: Vec::new(),
                move_callers: false,
                fifo_priority: settings.fifo_priority,
            })),
        }
    }

    fn runs(&self, property: Property) -> &Arc<Group> {
        if property.is_io() {
            &self.copies
        } else {
            &self.workers
        }
    }
}

impl Dispatch for Pooled {
    #[inline]
    fn group(&self, property: Property) -> Option<&Arc<Group>> {
        Some(self.runs(property))
    }

    unsafe fn submit(&self, core: &Arc<Core>, local: &ThreadContext, block: *mut Block, cause: ReadyCause) {
        // SAFETY: by the contract; the property is read while the operation is ours.
        unsafe {
            if matches!(cause, ReadyCause::Pushed) && core.starts_inside(local, block) {
                return;
            }
            self.runs(Block::property(block)).submit(block, Placement::Any, local.depth.get());
        }
    }

    fn help(&self, core: &Arc<Core>, go_on: &mut dyn FnMut() -> bool) -> bool {
        self.workers.help(core, &mut *go_on)
    }

    fn catch_up(&self, core: &Arc<Core>) -> bool {
        self.workers.catch_up(core)
    }

    fn serve(&self, core: &Arc<Core>, go_on: &mut dyn FnMut() -> bool, done: &mut dyn FnMut() -> bool) {
        self.workers.serve(core, go_on, done);
    }

    fn start(&self, core: &Arc<Core>) -> Result<(), Error> {
        core.start_group(&self.workers)
    }

    fn stop(&self) {
        self.workers.stop();
        self.copies.stop();
    }

    fn groups(&self) -> Vec<&Group> {
        vec![&self.workers, &self.copies]
    }
}
