//! The operations of a graph that uses devices: they are queued on a device, or parked behind one,
//! by blocks of their own.
//!
//! Such a graph is replayed operation by operation. The plan keeps the order in which its
//! operations are called, and the tickets of its variables keep that of the devices, as for
//! operations that are pushed (`engine/gpu/`). So a replay is over when all its operations are
//! queued; what comes after it finds their tickets. No thread waits for a device.
//!
//! An operation of a device is handed to a worker of the device by the runner of its lane
//! ([`Program::begin_part`]). One of the processor is called by the runner, if it need not be
//! parked. The thread that has a block calls [`run_part`], and tells the lane when the operation
//! has ended. It is a worker of the device; if there is no stream, any worker or helper; on the
//! naive engine the caller. One thread at a time has a block (`node_block.rs`).

use crate::device::Device;
use crate::engine::core::ReadyCause;
use crate::engine::nesting::{enter, leave};
use crate::engine::replay::program::{Body, Node, Part, Program};
use crate::engine::replay::runner::CurrentNode;
use crate::error::Failure;
use crate::operation::block::{Block, FLAG_GPU};
use crate::operation::closure::{Cost, Run, Vtable};
use crate::operation::context::RunContext;
use crate::operation::current::within;
use crate::operation::layout::Layout;
use crate::sync::Ordering::*;
use crate::thread::context::ThreadContext;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// The content of a block in place of a closure: a reference to the graph, and the number of the
/// operation.
type LentNode = (*const Program, u32);

/// The bytes of a [`LentNode`].
pub const LENT: usize = size_of::<LentNode>();

/// The vtable of such a block.
pub static PART: Vtable = Vtable { run: Run::Part(run_part), discard: ignore, cost: Cost::Unknown };

unsafe fn ignore(_: *mut u8, _: Option<&Arc<Failure>>) {}

/// What has become of an operation that a thread has come to.
enum NodeStep {
    /// Another thread will come to it.
    Parked,
    /// Its completion ends it.
    Called,
    Ended,
}

impl Program {
    /// Begins an operation whose turn has come; says whether the caller is to call it now. Else
    /// its lane is told when it has ended.
    ///
    /// # Safety
    /// The caller has the segment of the operation.
    #[cold]
    pub unsafe fn begin_part(self: &Arc<Self>, local: &ThreadContext, node: &Node, part: &Part) -> bool {
        let (core, block) = (&self.core, part.block.raw());
        // SAFETY: the block is the operation's, which is the caller's.
        unsafe {
            if node.context.device() == Device::Gpu {
                self.lend_part(node, part);
                match (*block).flags & FLAG_GPU != 0 {
                    true => core.submit_to_device(local, block, ReadyCause::Later),
                    false => core.dispatch.submit(core, local, block, ReadyCause::Later),
                }
                return false;
            }
            if let Some(ticket) = core.obstacle(block, None) {
                self.lend_part(node, part);
                core.park_behind(ticket, block);
                return false;
            }
            core.forget_tickets(block);
        }
        true
    }

    /// Prepares the block of an operation for the thread that comes to it, with a reference to the
    /// graph.
    ///
    /// # Safety
    /// As [`Program::begin_part`].
    unsafe fn lend_part(self: &Arc<Self>, node: &Node, part: &Part) {
        let block = part.block.raw();
        // SAFETY: the node is one of these. The block is in no list, and the replay is under way.
        unsafe {
            let index = std::ptr::from_ref(node).offset_from(self.nodes.as_ptr()) as u32;
            let replay = &*self.replay.get();
            (*block).priority = replay.priority.saturating_add(part.priority);
            (*block).sequence = replay.stamp.sequence();
            (*block).link = std::ptr::null_mut();
            Block::closure(block, Layout::Plain).cast::<LentNode>().write((Arc::into_raw(Arc::clone(self)), index));
        }
    }

    /// Goes on with an operation that has a block, on a thread that has come to it.
    ///
    /// # Safety
    /// The block was handed to this thread. Once it is parked, it is not this thread's any more.
    unsafe fn step_part(
        self: &Arc<Self>,
        local: &ThreadContext,
        node: &Node,
        part: &Part,
        worker: Option<usize>,
    ) -> NodeStep {
        let (core, block) = (&self.core, part.block.raw());
        let is_sync = matches!(part.body, Body::Sync(_));
        let running = CurrentNode::of(self, node);
        let context = RunContext {
            context: node.context,
            name: node.name.as_str(),
            worker,
            nested_threads: core.nested_threads.load(Relaxed),
            inherited: None,
            graph: self.id,
            pushed: None,
        };
        // SAFETY: by the contract.
        let ended = unsafe {
            if node.context.device() == Device::Gpu {
                let gpu = core.gpu(node.context);
                let Some((way, ready)) = core.way_to_device(gpu, block, worker) else { return NodeStep::Parked };
                let visit = ready.map_err(Some).and_then(|()| core.visit(gpu, way));
                let refusal = visit.as_ref().err().cloned();
                let may = |inherits| match refusal {
                    None => Ok(()),
                    Some(refusal) => Err(core.fault_of_skip(gpu, refusal.as_ref(), inherits)),
                };
                let ended = self.call_node(node, &context, may, |record, call| match &visit {
                    Ok(visit) => core.call_within(local, block, visit, (is_sync, record), || within(&running, call)),
                    Err(_) => Ok(()),
                });
                visit.into_iter().for_each(|visit| visit.end());
                gpu.wake_watcher();
                ended
            } else {
                if let Some(ticket) = core.obstacle(block, None) {
                    core.park_behind(ticket, block);
                    return NodeStep::Parked;
                }
                core.forget_tickets(block);
                self.call_node(
                    node,
                    &context,
                    |_| Ok(()),
                    |_, call| {
                        enter(local);
                        let outcome = within(&running, call);
                        leave(local);
                        outcome
                    },
                )
            }
        };
        if ended {
            NodeStep::Ended
        } else {
            NodeStep::Called
        }
    }
}

/// Comes to the block of an operation.
///
/// # Safety
/// `storage` is the closure of a block from [`Program::lend_part`], which was handed to this
/// thread.
unsafe fn run_part(storage: *mut u8, worker: Option<usize>) {
    // SAFETY: `lend_part` has written it. The reference is the block's until the operation is
    // called, and then ours.
    let (graph, index) = unsafe { storage.cast::<LentNode>().read() };
    // SAFETY: as above.
    let graph = ManuallyDrop::new(unsafe { Arc::from_raw(graph) });
    let core = Arc::clone(&graph.core);
    let local = core.local();
    // The replay may be over before this thread has left the operation (`run_lane` in
    // `replay/mod.rs` has the same).
    local.count_called();
    let node = &graph.nodes[index as usize];
    let Body::Part(part) = &node.body else { unreachable!("only such an operation has a block") };
    // SAFETY: by the contract.
    match unsafe { graph.step_part(local, node, part, worker) } {
        NodeStep::Parked => {}
        NodeStep::Called => Program::let_go(local, ManuallyDrop::into_inner(graph)),
        NodeStep::Ended => {
            // SAFETY: the operation has ended just now, and its segment was run.
            unsafe { graph.tell_lane(index) };
            Program::let_go(local, ManuallyDrop::into_inner(graph));
        }
    }
    local.count_returned();
    core.quiescence.notify(|| core.is_quiescent());
}
