//! Whether the operations of an operator run inside their pushes. `operator.rs` asks when an
//! operator is made, since the answer is the same at each push. No state here.

#![forbid(unsafe_code)]

use crate::engine::core::Core;
use crate::engine::inline::fast_path;
use crate::engine::push::runs_here;
use crate::engine::request::Request;

/// Whether the operations run inside their pushes, if their contexts allow that and their tickets
/// have come.
#[derive(Clone, Copy)]
pub(super) enum RunsInside {
    Never,
    Always,
    /// If the closure has lately been short.
    WhenShort,
    /// As the engine says, but they have more than [`fast_path::FEW`] variables.
    Wide,
}

impl RunsInside {
    /// For operations of this request with so many variables, whose closure is synchronous.
    pub fn of(core: &Core, request: &Request, count: usize) -> RunsInside {
        let mut asked = false;
        let may = runs_here(core, request, || {
            asked = true;
            true
        });
        match count {
            _ if !may || count > fast_path::MANY => RunsInside::Never,
            _ if count > fast_path::FEW => RunsInside::Wide,
            _ if asked => RunsInside::WhenShort,
            _ => RunsInside::Always,
        }
    }
}
