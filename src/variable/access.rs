//! What the protocol needs to know of an operation: how long it waits, how far it is enlisted, and its accesses.

use super::chain::Chain;
use crate::mutants::mutate;
use crate::sync::{AtomicU32, AtomicUsize, Ordering, MODELLED};

/// How an access uses its variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Mode {
    /// Has the variable to itself. Zero, as in the two accesses of a chain that was never used.
    Write = 0,
    /// Shares the variable with other reads.
    Read = 1,
    /// A write after which nothing uses the variable again.
    Delete = 2,
}

/// One operation's claim on one variable.
///
/// Only `state` changes once the access can be seen by another thread; the rest is written before.
#[repr(C, align(32))]
pub struct Access {
    /// See [`super::state`].
    pub state: AtomicUsize,
    /// The variable's chain.
    pub chain: *const Chain,
    /// The operation; null for the access that a variable is born with.
    pub node: *mut Node,
    /// How the variable is used.
    pub mode: Mode,
}

impl Access {
    /// An access that nobody knows yet, without any flag.
    pub fn new(chain: *const Chain, node: *mut Node, mode: Mode) -> Access {
        Access { state: AtomicUsize::new(0), chain, node, mode }
    }
}

/// Set in [`Node::wait`] when a variable was deleted before the operation could be enlisted on it: the operation
/// completes without running.
pub const CANCELLED: u32 = 1 << 31;

/// The distance in bytes from a [`Node`] to its first [`Access`]: the same for every operation, so that no pointer to the
/// accesses need be stored. Operation blocks assert that their layout agrees.
pub const ACCESSES_OFFSET: usize = if MODELLED { 2048 } else { 160 };

/// The part of an operation that the protocol uses. Its accesses follow at [`ACCESSES_OFFSET`], in ascending order of
/// their variables: the one order that all operations share.
#[repr(C)]
pub struct Node {
    /// Accesses not yet satisfied, plus one while the pusher is still enlisting. Bit 31 is [`CANCELLED`].
    pub wait: AtomicU32,
    /// Accesses that helpers know to be enlisted: advanced one by one, by compare-exchange.
    pub helped: AtomicU32,
    /// The number of accesses once the pusher has enlisted all of them, 0 before. A word of its own, so that the pusher needs no
    /// read-modify-write: a plain store beside the helpers' exchanges would be correct as well, but loom does not order it.
    pub pushed: AtomicU32,
    /// Accesses not yet spent; at zero the block is free. Not used by operations with one access.
    pub unspent: AtomicU32,
    /// Number of accesses.
    pub count: u32,
}

impl Node {
    /// A node that waits for `count` accesses and for its pusher.
    pub fn new(count: u32) -> Node {
        Node {
            wait: AtomicU32::new(mutate!("no-hold-of-the-pusher": count, count + 1)),
            helped: AtomicU32::new(0),
            pushed: AtomicU32::new(0),
            unspent: AtomicU32::new(count),
            count,
        }
    }

    /// How many accesses are known to be enlisted. What is linked already may be more.
    ///
    /// # Safety
    /// `node` is alive.
    #[inline]
    pub unsafe fn progress(node: *mut Node) -> u32 {
        // Acquire (both): pair with the releases of whoever linked up to there. Each word only grows.
        // SAFETY: alive by the contract.
        unsafe {
            match (*node).pushed.load(Ordering::Acquire) {
                0 => (*node).helped.load(Ordering::Acquire),
                all => all,
            }
        }
    }

    /// The address of access `index`.
    ///
    /// # Safety
    /// `node` lies at the start of an allocation that holds more than `index` accesses at [`ACCESSES_OFFSET`], and
    /// its provenance covers them.
    #[inline]
    pub unsafe fn access(node: *mut Node, index: u32) -> *mut Access {
        // SAFETY: in bounds by the contract above.
        unsafe { node.cast::<u8>().add(ACCESSES_OFFSET).cast::<Access>().add(index as usize) }
    }
}

/// Where the protocol puts what it finds: operations that may run and blocks that nobody needs.
pub trait Sink {
    /// The operation waits for nothing any more: run it, once.
    fn ready(&mut self, node: *mut Node);
    /// No thread will touch the block again, except helpers that were already looking at it: it may be reused once
    /// they are gone.
    fn spent(&mut self, node: *mut Node);
}
