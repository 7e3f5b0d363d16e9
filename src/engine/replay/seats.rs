//! What the threads that share the replays of a graph need, beside the graph: the loop, and the
//! seats by which they are asked to take part.
//!
//! Used by `replay/guided.rs`, which says how it is used. `replay/assemble.rs` makes it for a
//! graph, and `replay/program.rs` has it. Any thread takes from the loop. A seat's block belongs to
//! the thread that has set `is_out`, and then to the one that comes to it, until that clears the
//! flag.

use crate::device::Context;
use crate::graph::guided_loop::GuidedLoop;
use crate::operation::block::Block;
use crate::operation::closure::Vtable;
use crate::operation::property::Property;
use crate::sync::{AtomicBool, AtomicUsize};
use crate::tickets::word::UNUSED;
use std::cell::UnsafeCell;

/// The operations of a graph as a loop that threads share.
pub struct GuidedReplay {
    pub operations: GuidedLoop,
    /// The operation at which one thread goes on alone, after a pause; [`NOWHERE`] if none does.
    pub resumed: AtomicUsize,
    /// One for each thread.
    pub seats: Box<[Seat]>,
}

pub const NOWHERE: usize = usize::MAX;

/// By which a thread is asked to take part.
pub struct Seat {
    pub block: UnsafeCell<Block>,
    /// Whether the block is on its way to a thread.
    pub is_out: AtomicBool,
}

impl GuidedReplay {
    /// For so many operations and threads. `body` has what a thread does that comes to a seat.
    pub fn new(length: usize, threads: usize, body: &'static Vtable) -> GuidedReplay {
        let seat = |_| Seat { block: place_block(Property::Normal, body), is_out: AtomicBool::new(false) };
        let (operations, seats) = (GuidedLoop::new(length, threads), (0..threads).map(seat).collect());
        GuidedReplay { operations, resumed: AtomicUsize::new(NOWHERE), seats }
    }
}

/// A block by which a lane or a seat is handed to a thread.
pub fn place_block(property: Property, body: &'static Vtable) -> UnsafeCell<Block> {
    let mut block = std::mem::MaybeUninit::<Block>::uninit();
    // SAFETY: the memory is ours, aligned, and as large as a block of class 0.
    let mut block = unsafe {
        Block::initialise(block.as_mut_ptr(), 0, UNUSED.0);
        Block::set_kind(block.as_mut_ptr(), property, Context::cpu(0));
        block.assume_init()
    };
    block.body = body;
    UnsafeCell::new(block)
}
