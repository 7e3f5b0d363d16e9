//! What the protocol needs to know of an operation: how long it waits, how far it is enlisted, and its accesses.

use super::chain::Chain;
use crate::mutants::mutate;
use crate::sync::{AtomicU32, AtomicU8, AtomicUsize, Ordering, MODELLED};
use std::ptr::null_mut;

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

/// One operation's claim on one variable: four of them fill a cache line.
///
/// Only `state` changes once the access can be seen by another thread; the rest is written before.
#[repr(C, align(16))]
pub struct Access {
    /// See [`super::state`].
    pub state: AtomicUsize,
    /// The number of the variable, by which a [`Sink`] finds its chain.
    pub variable: u32,
    /// How far from its operation it lies, in bytes, and in the lowest bits the mode. 0 for the accesses of a chain, which are of no operation.
    place: u32,
}

/// The bits of a place that hold a [`Mode`]: distances are multiples of 16.
const MODE: u32 = 15;
const _: () = assert!(ACCESSES_OFFSET % 16 == 0 && std::mem::size_of::<Access>() % 16 == 0);

impl Access {
    /// The access of number `index` of an operation that nobody knows yet, without any flag.
    #[inline]
    pub fn new(variable: u32, index: u32, mode: Mode) -> Access {
        let distance = ACCESSES_OFFSET as u32 + index * std::mem::size_of::<Access>() as u32;
        Access { state: AtomicUsize::new(0), variable, place: distance | mode as u32 }
    }

    /// As [`Access::new`], with a ticket in place of flags.
    #[inline]
    pub fn ticketed(variable: u32, index: u32, mode: Mode, ticket: usize) -> Access {
        Access { state: AtomicUsize::new(ticket), ..Access::new(variable, index, mode) }
    }

    /// An access of no operation.
    pub fn of_chain() -> Access {
        Access { state: AtomicUsize::new(0), variable: 0, place: 0 }
    }

    /// How the variable is used.
    #[inline]
    pub fn mode(&self) -> Mode {
        // SAFETY: `new` has put a mode there, and 0 is one.
        unsafe { std::mem::transmute::<u8, Mode>((self.place & MODE) as u8) }
    }

    /// The operation; null for the access that a variable is born with.
    ///
    /// # Safety
    /// `this` is alive, and its provenance covers the operation.
    #[inline]
    pub unsafe fn node(this: *mut Access) -> *mut Node {
        // SAFETY: alive; an access lies where `Node::access` finds it.
        unsafe {
            match (*this).place & !MODE {
                0 => null_mut(),
                distance => this.byte_sub(distance as usize).cast(),
            }
        }
    }
}

/// Set in [`Node::wait`] when a variable was deleted before the operation could be enlisted on it: the operation
/// completes without running.
pub const CANCELLED: u32 = 1 << 31;

/// The distance in bytes from a [`Node`] to its first [`Access`]: the same for every operation, so that no pointer to the
/// accesses need be stored. Operation blocks assert that their layout agrees.
pub const ACCESSES_OFFSET: usize = if MODELLED { 2048 } else { 64 };

/// The part of an operation that the protocol uses. Its accesses follow at [`ACCESSES_OFFSET`], in ascending order of
/// their variables: the one order that all operations share.
#[repr(C)]
pub struct Node {
    /// Accesses not yet satisfied, plus one while the pusher is still enlisting. Bit 31 is [`CANCELLED`].
    pub wait: AtomicU32,
    /// Accesses that helpers know to be enlisted: advanced one by one, by compare-exchange.
    pub helped: AtomicU32,
    /// Accesses not yet spent; at zero the block is free. Not used by operations with one access.
    pub unspent: AtomicU32,
    /// Number of accesses.
    pub count: u32,
    /// Whether the pusher has enlisted all of them. A word of its own, so that the pusher needs no read-modify-write: a plain store beside
    /// the helpers' exchanges would be correct as well, but loom does not order it.
    pub pushed: AtomicU8,
    /// What the layout leaves room for. The protocol does not use it.
    pub room: u16,
}

/// In [`Node::pushed`]: the operation has tickets, and is in no chain.
const TICKETED: u8 = 2;
/// As that, in a block of a [ring](crate::tickets::ring).
const RINGED: u8 = 3;
/// As that, and is linked on common variables ([`common`](crate::tickets::common)).
const LINKED: u8 = 4;
/// As that, but a variable was deleted meanwhile: the operation completes without running.
const VOIDED: u8 = 5;

impl Node {
    /// A node that waits for `count` accesses and for its pusher.
    pub fn new(count: u32) -> Node {
        Node {
            wait: AtomicU32::new(mutate!("no-hold-of-the-pusher": count, count + 1)),
            helped: AtomicU32::new(0),
            unspent: AtomicU32::new(count),
            count,
            pushed: AtomicU8::new(0),
            room: 0,
        }
    }

    /// Of a block that was never used. Where both lie in one word, `wait` and `helped` say that it is
    /// [`FREE`](crate::tickets::word::FREE).
    pub fn unused() -> Node {
        let (wait, helped) = if cfg!(target_endian = "little") { (1, 0) } else { (0, 1) };
        let (wait, helped) = (AtomicU32::new(wait), AtomicU32::new(helped));
        Node { wait, helped, unspent: AtomicU32::new(0), count: 0, pushed: AtomicU8::new(0), room: 0 }
    }

    /// Makes the node that of a fresh ticketed operation. It leaves the first two counters alone, in place of which the
    /// operation has its word: others may still look at that.
    ///
    /// # Safety
    /// `node` lies in a block of ours.
    #[inline]
    pub unsafe fn renew(node: *mut Node, count: u32, ringed: bool) {
        // SAFETY: ours.
        unsafe {
            (&raw mut (*node).count).write(count);
            (*node).unspent.store(0, Ordering::Relaxed);
            (*node).pushed.store(if ringed { RINGED } else { TICKETED }, Ordering::Relaxed);
        }
    }

    /// Whether the operation has tickets.
    #[inline]
    pub fn is_ticketed(&self) -> bool {
        self.pushed.load(Ordering::Relaxed) >= TICKETED
    }

    /// Makes it that of a fresh operation on common variables, after [`Node::renew`].
    #[inline]
    pub fn set_linked(&self) {
        self.pushed.store(LINKED, Ordering::Relaxed);
    }

    /// Notes that a common variable of the operation was deleted.
    pub fn set_voided(&self) {
        self.pushed.store(VOIDED, Ordering::Relaxed);
    }

    /// Whether [`Node::set_voided`] was called: final once the operation is in a log.
    #[inline]
    pub fn is_voided(&self) -> bool {
        self.pushed.load(Ordering::Relaxed) == VOIDED
    }

    /// Whether the operation has [`Links`](crate::tickets::links::Links).
    #[inline]
    pub fn is_linked(&self) -> bool {
        self.pushed.load(Ordering::Relaxed) >= LINKED
    }

    /// Whether the block is one of a ring.
    #[inline]
    pub fn is_ringed(&self) -> bool {
        self.pushed.load(Ordering::Relaxed) == RINGED
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
                _ => (*node).count,
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

/// What the protocol needs of its user: where the chains are, and where to put what it finds: operations that may run and blocks that nobody
/// needs.
pub trait Sink {
    /// The chain of a variable that an access names.
    fn chain(&self, variable: u32) -> *const Chain;
    /// An operation that is being pushed uses, as `mode` says, a variable that a worker has used last.
    fn follows(&mut self, _worker: usize, _mode: Mode) {}
    /// The operation waits for nothing any more: run it, once.
    fn ready(&mut self, node: *mut Node);
    /// No thread will touch the block again, except helpers that were already looking at it: it may be reused once
    /// they are gone.
    fn spent(&mut self, node: *mut Node);
}
