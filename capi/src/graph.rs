//! Graphs: captured once, replayed any number of times.

use crate::error::{guard, Failure, SeriatimStatus};
use crate::input::{borrow, produce, reclaim};
use crate::text::give;
use seriatim::Graph;
use std::ffi::c_char;
use std::sync::Arc;

/// A captured graph. A replay is one operation of the engine: it uses all variables of the captured
/// operations but those that are private to the graph, and takes its turn among other pushes as if
/// they had all been pushed in a row at that moment. A graph may outlive the other handles of its
/// engine. When those are gone, its replays fail with `SERIATIM_STATUS_STOPPED`.
pub struct SeriatimGraph(pub(crate) Arc<Graph>);

/// Pushes one replay, and does not wait for it: `seriatim_wait_for_variable()` does. Like any push
/// it may wait for room under a bound. Replays of one graph follow each other, so it may be called
/// again while one is under way. Lock-free, without allocation; time proportional to the number of
/// variables of the graph that are not private, and not of its operations. On a naive engine the
/// replay runs inside the call.
///
/// Among ready operations of the engine, greater priorities run first. Those of the captured
/// operations count among themselves.
///
/// The variables are free again, and their versions step, when all operations of the replay are
/// done. What fails inside marks what the failing operation changes, as for single pushes.
///
/// # Errors
/// As `seriatim_push()`, for all variables of the graph and for the workers and devices of all its
/// operations, but for foreign variables and unknown devices, which the capture has refused:
/// nothing of it is then run.
///
/// # Safety
/// `graph` is a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_graph_replay(graph: *const SeriatimGraph, priority: i32) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        let graph = unsafe { borrow(graph, "graph") }?;
        // A share: a function of the graph may run inside this call, and may delete the handle.
        let graph = Arc::clone(&graph.0);
        graph.replay_with_priority(priority).map_err(Failure::from)
    })
}

/// How many operations the graph has.
///
/// # Errors
/// Only those of every function.
///
/// # Safety
/// `graph` is a live handle. `out` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_graph_length(graph: *const SeriatimGraph, out: *mut usize) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { produce(out, || Ok(borrow(graph, "graph")?.0.len())) })
}

/// The graph for Graphviz, to be freed with `seriatim_string_free()`: a box for each operation, an
/// edge to each that waits for it, a frame around those that one thread runs.
///
/// # Errors
/// Only those of every function.
///
/// # Safety
/// `graph` is a live handle. `out` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_graph_dump_dot(graph: *const SeriatimGraph, out: *mut *mut c_char) -> SeriatimStatus {
    // SAFETY: by the contract.
    guard(|| unsafe { give(out, || Ok(borrow(graph, "graph")?.0.dump_dot())) })
}

/// Deletes a graph; a null pointer is fine. Replays in flight go on. The deleters of its arguments
/// run after the last of them, on the thread that leaves it last, which may be a moment after its
/// end.
///
/// # Errors
/// Only those of every function.
///
/// # Safety
/// `graph` is null or a live handle, which is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn seriatim_graph_delete(graph: *mut SeriatimGraph) -> SeriatimStatus {
    guard(|| {
        // SAFETY: by the contract.
        unsafe { reclaim(graph) };
        Ok(())
    })
}
