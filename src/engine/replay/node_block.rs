//! The block of an operation of a graph that uses devices: by it the operation is queued on a
//! device, or parked behind one, like an operation that was pushed.
//!
//! Used by `replay/assemble.rs`, which makes one for each operation of such a graph, and by
//! `replay/program.rs`, which keeps them. It names the variables of the operation, to which the
//! tickets of devices belong (`engine/gpu/rows.rs`), and none of the tickets of pushes: the plan of
//! the graph says when the operation's turn has come. One thread at a time has the block: the
//! lane's runner, a worker of the device, or the watcher behind which it is parked. The thread that
//! drops the graph last frees it.

use crate::device::Context;
use crate::engine::gpu::entered::mistrust;
use crate::operation::access::{Access, Mode, Ticket};
use crate::operation::block::{Block, FLAG_GPU, FLAG_PLACELESS};
use crate::operation::closure::Vtable;
use crate::operation::layout::{class_for, size, Layout as Behind};
use crate::operation::name::Name;
use crate::operation::property::Property;
use crate::tickets::word::UNUSED;
use std::alloc::{alloc, dealloc, handle_alloc_error, Layout};
use std::ptr::NonNull;

/// A block with its own memory.
pub struct NodeBlock {
    block: NonNull<Block>,
    layout: Layout,
}

// SAFETY: the memory is the block's own. Who uses it says so by `raw`.
unsafe impl Send for NodeBlock {}

/// What an operation of a graph is called with.
#[derive(Clone, Copy)]
pub struct NodeKind {
    pub name: Name,
    pub context: Context,
    pub property: Property,
    pub has_stream: bool,
}

impl NodeBlock {
    /// A block for an operation that uses these variables, with room for a closure of `closure`
    /// bytes that `body` belongs to.
    pub fn new(kind: NodeKind, uses: &[(u32, Mode)], body: &'static Vtable, closure: usize) -> NodeBlock {
        let class = class_for(uses.len(), closure, false, Behind::Plain);
        let layout = Layout::from_size_align(size(class), align_of::<Block>()).expect("a block is not too large");
        // SAFETY: the size of a block is not 0.
        let Some(block) = NonNull::new(unsafe { alloc(layout) }.cast::<Block>()) else { handle_alloc_error(layout) };
        let raw = block.as_ptr();
        // SAFETY: the memory is ours, aligned, and large enough for the class.
        unsafe {
            Block::initialise(raw, class, UNUSED.0);
            (*raw).count = uses.len() as u32;
            (*raw).flags = FLAG_PLACELESS | if kind.has_stream { FLAG_GPU } else { 0 };
            (*raw).body = body;
            Block::set_name(raw, kind.name);
            Block::set_kind(raw, kind.property, kind.context);
            for (index, (variable, mode)) in (0..).zip(uses) {
                Block::access(raw, index).write(Access::new(*variable, index, *mode, Ticket::default()));
            }
        }
        NodeBlock { block, layout }
    }

    /// The block, for the thread that has the operation.
    pub fn raw(&self) -> *mut Block {
        self.block.as_ptr()
    }
}

impl Drop for NodeBlock {
    fn drop(&mut self) {
        // The closure of the operation is dropped with it.
        mistrust();
        // SAFETY: `new` has allocated it with this layout. The graph is gone, so nobody has the
        // operation; a block has no destructor.
        unsafe { dealloc(self.block.as_ptr().cast(), self.layout) };
    }
}
