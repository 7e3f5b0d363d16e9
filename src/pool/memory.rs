//! All the memory of one engine: slabs, homes, the depot between them, and the table of variables.
//!
//! The engine keeps it: when the engine is dropped it goes, whatever threads have used it. Graphs
//! and parameters that outlive the engine's last handle keep the engine.

use crate::error::{Error, ErrorKind};
use crate::mutants::{mutant, mutate};
use crate::operation::block::Block;
use crate::operation::layout::{size, CLASSES};
use crate::platform::low_memory::Low;
use crate::pool::magazine;
use crate::pool::magazine::Magazine;
use crate::pool::rack::Rack;
use crate::pool::reclaim::{Epoch, Reclaim};
use crate::pool::registry::Roll;
use crate::pool::thread_cache::{Home, SLICE};
use crate::sync::Ordering::*;
use crate::sync::{fence, lay_out, lock, thread, AtomicBool, AtomicPtr, AtomicU64, AtomicUsize};
use crate::tickets::owner::Record;
use crate::tickets::word::UNUSED;
use crate::util::work_counter;
use crate::variable::table::Table;
use crossbeam_utils::CachePadded;
use std::alloc::Layout;
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::Arc;

/// All the memory of one engine.
pub struct Memory {
    /// First, to be dropped first: the reclaimer runs what was deferred, which puts blocks into
    /// homes.
    reclaim: UnsafeCell<Epoch>,
    /// Tells engines apart, also in the handles of their variables.
    pub id: u32,
    /// Whether the engine has ended.
    pub closed: AtomicBool,
    /// Threads that look at tails: pushers and waiters.
    lookers: CachePadded<AtomicUsize>,
    /// Where the next range of sequence numbers starts.
    sequences: CachePadded<AtomicU64>,
    /// Every home there has ever been.
    pub homes: Roll<Home>,
    /// And the record of every pusher.
    pub records: Roll<Record>,
    /// All slabs, in the order in which they were made; and one of the last of them.
    slabs: AtomicPtr<Slab>,
    newest: AtomicPtr<Slab>,
    depot: [object_pool::Pool<Rack>; CLASSES],
    pub table: Table,
}

/// One allocation, cut into blocks of one class.
struct Slab {
    blocks: Low,
    class: u8,
    count: usize,
    next: AtomicPtr<Slab>,
}

// SAFETY: the lists are append-only and atomic; what they hold is `Sync` or reached by its owner
// only.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// The number of the next engine. Each is given out once: by its number a thread finds its state
/// for an engine, and a handle its engine.
static IDS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(1);

fn draw_id(ids: &std::sync::atomic::AtomicU32) -> Result<u32, Error> {
    ids.fetch_update(Relaxed, Relaxed, |id| id.checked_add(1)).map_err(|_| {
        Error::new(
            ErrorKind::EnginesExhausted,
            "the process has made as many engines as there are numbers for them, four thousand million: make fewer, and use each for longer",
        )
    })
}

impl Memory {
    /// # Errors
    /// [`ErrorKind::EnginesExhausted`]
    pub fn new() -> Result<Memory, Error> {
        Ok(Memory {
            reclaim: UnsafeCell::new(Epoch::new()),
            id: draw_id(&IDS)?,
            closed: AtomicBool::new(false),
            lookers: CachePadded::new(AtomicUsize::new(0)),
            sequences: CachePadded::new(AtomicU64::new(1)),
            homes: Roll::new(),
            records: Roll::new(),
            slabs: AtomicPtr::new(null_mut()),
            newest: AtomicPtr::new(null_mut()),
            depot: std::array::from_fn(|_| object_pool::Pool::from_vec(Vec::new())),
            table: Table::new(),
        })
    }

    /// The home of a thread that is new to the engine: one whose owner is gone, or a fresh one.
    pub fn settle(&self) -> &Home {
        self.homes.iter().find(|home| home.adopt()).unwrap_or_else(|| self.homes.add(Home::new))
    }

    /// Makes the calling thread a member of the reclaimer.
    pub fn register(&self) -> <Epoch as Reclaim>::Handle {
        // SAFETY: the cell is written only by `forget_other_threads`, when there is no other
        // thread, and by the end.
        unsafe { (*self.reclaim.get()).register() }
    }

    /// For the child of a `fork`: starts over with a reclaimer that does not know those who were
    /// pinned, which they would be for ever. What the old one keeps back stays where it is until
    /// the memory goes, unless the caller was its only member.
    ///
    /// # Safety
    /// The calling thread is the only one, and is not pinned. It gives up its membership of the old
    /// reclaimer.
    #[cfg(all(unix, not(any(loom, shuttle))))]
    pub unsafe fn forget_other_threads(&self, lookers: usize) {
        self.lookers.store(lookers, SeqCst);
        self.forget_promises();
        // SAFETY: nobody else is there, and `register` keeps no reference. Members that are gone
        // hold the old one.
        unsafe { *self.reclaim.get() = Epoch::new() };
    }

    /// For the child of a `fork`: whoever has said that it will look is gone.
    #[cfg(all(unix, not(any(loom, shuttle))))]
    pub fn forget_promises(&self) {
        self.homes.iter().for_each(|home| home.will_look.store(false, Relaxed));
    }

    /// Operations completed and pushed. If the two are equal, there was a moment during the call at
    /// which nothing was in flight: the completed are counted first, both only grow, and an
    /// operation is counted as pushed before it can complete.
    pub fn tally(&self) -> (u64, u64) {
        // Acquire: an operation counted as completed has had its effects, and was counted as
        // pushed.
        let pushed = || self.homes.iter().map(|home| home.pushed.load(Acquire)).sum();
        let early = mutant("pushed-counted-before-completed").then(pushed);
        let completed = self.homes.iter().map(|home| home.completed.load(Acquire)).sum();
        (completed, early.unwrap_or_else(pushed))
    }

    /// Whether nobody looks at tails but the caller, who is counted or is not.
    ///
    /// What became unreachable did so before the fence. A thread that joins does so before a fence
    /// of its own: if that one comes first, it is counted here; if ours does, its looks come after
    /// the time at which the memory could last be reached.
    pub fn has_no_looker_but(&self, caller_is_counted: bool) -> bool {
        mutate!("no-fence-before-counting-lookers": (), fence(SeqCst));
        // Acquire: with the release of whoever left, so that its last looks and swings are over for
        // us as well.
        self.lookers.load(mutate!("lookers-counted-relaxed": Relaxed, Acquire))
            <= mutate!("recycled-at-once": usize::MAX, usize::from(caller_is_counted))
    }

    /// Whether the caller, who is counted, is the only one who has ever looked at tails and is
    /// still there: so nobody pushes beside it.
    #[inline]
    pub fn has_one_looker(&self) -> bool {
        // Acquire: as in `has_no_looker_but`.
        self.lookers.load(Acquire) <= 1
    }

    /// Counts a thread among those who look at tails.
    pub fn add_looker(&self) {
        self.lookers.fetch_add(1, SeqCst);
        // Orders the count before every later look: `has_no_looker_but` is the other side.
        fence(SeqCst);
    }

    /// Whether a thread says that it will look for operations that others leave.
    pub fn will_somebody_look(&self) -> bool {
        self.homes.iter().any(|home| home.will_look.load(Relaxed))
    }

    /// The thread has looked for the last time.
    pub fn remove_looker(&self) {
        // Release: its looks are over before it is counted out.
        self.lookers.fetch_sub(1, mutate!("looker-leaves-relaxed": Relaxed, Release));
    }

    /// As [`Memory::tally`], but asynchronous closures that still run count as well, whether their
    /// operations are complete or not: if the two are equal, there was a moment at which nobody
    /// could push from inside.
    pub fn tally_inside(&self) -> (u64, u64) {
        let sum = |counter: fn(&Home) -> &AtomicU64| -> u64 {
            self.homes.iter().map(|home| counter(home).load(Acquire)).sum()
        };
        let ends = sum(|home| &home.completed) + sum(|home| &home.returned);
        let starts = sum(|home| &home.pushed) + sum(|home| &home.called);
        (ends, starts)
    }

    /// For the child of a `fork`, in which nothing is in flight: those who had counted in what they
    /// would have pushed after the fork are gone. `own` is the calling thread's, and makes up for
    /// them.
    #[cfg(all(unix, not(any(loom, shuttle))))]
    pub fn even_out(&self, own: &Home) {
        let add = |counter: &AtomicU64, (less, more): (u64, u64)| {
            counter.store(counter.load(Relaxed).wrapping_add(more.wrapping_sub(less)), Relaxed);
        };
        add(&own.completed, self.tally());
        add(&own.returned, self.tally_inside());
    }

    /// A range of sequence numbers for one thread.
    pub fn sequences(&self) -> std::ops::Range<u64> {
        const RANGE: u64 = 64;
        let start = self.sequences.fetch_add(RANGE, Relaxed);
        start..start + RANGE
    }

    /// A few magazines from the depot, if it has any.
    #[cold]
    pub fn fetch(&self, class: u8) -> Rack {
        lock::count();
        let Some(rack) = self.depot[usize::from(class)].try_pull() else { return Rack::new() };
        let mut rest = rack.detach().1;
        let mut few = Rack::new();
        work_counter::count(SLICE);
        (0..SLICE).map_while(|_| rest.pop()).for_each(|magazine| few.push(magazine));
        if !rest.is_empty() {
            self.put_away(class, rest);
        }
        few
    }

    /// Gives any number of magazines to the depot.
    #[cold]
    pub fn put_away(&self, class: u8, rack: Rack) {
        lock::count();
        self.depot[usize::from(class)].attach(rack);
    }

    /// A magazine of new blocks.
    #[cold]
    pub fn new_slab(&self, class: u8) -> Rack {
        let count = magazine::size(class);
        work_counter::count(count);
        let layout = slab_layout(class, count);
        let blocks = Low::allocate(layout, false);
        lay_out(blocks.start, layout.size(), size(class), "block");
        let mut magazine = Magazine::new();
        for index in (0..count).rev() {
            // SAFETY: inside the fresh allocation, and nobody else's.
            unsafe {
                let block = blocks.start.add(index * size(class)).cast::<Block>();
                Block::initialise(block, class, UNUSED.0);
                magazine.push(block);
            }
        }
        let slab = Box::into_raw(Box::new(Slab { blocks, class, count, next: AtomicPtr::new(null_mut()) }));
        // At the end: a report that has no time for all of them looks at what was made first.
        // Acquire: pairs with the releases below.
        // SAFETY: slabs are written before they are published, and live as long as the memory.
        let newest = unsafe { self.newest.load(Acquire).as_ref() };
        let mut end = newest.map_or(&self.slabs, |newest| &newest.next);
        // Release: the blocks are initialised before a thread that draws the graph can find them.
        while let Err(next) = end.compare_exchange(null_mut(), slab, Release, Acquire) {
            // SAFETY: as above.
            end = unsafe { &(*next).next };
        }
        // Of two threads the slower may set it back to its own: then the next one walks a step
        // more.
        self.newest.store(slab, Release);
        let mut rack = Rack::new();
        rack.push(magazine);
        rack
    }

    /// Every block, whatever its state, in the order in which they were made.
    pub fn blocks(&self) -> impl Iterator<Item = *mut Block> {
        let mut slab = self.slabs.load(Acquire);
        let mut index = 0;
        std::iter::from_fn(move || loop {
            // SAFETY: slabs are written before they are published, and live as long as the memory.
            let this = unsafe { slab.as_ref() }?;
            if index < this.count {
                // SAFETY: inside the slab.
                let block = unsafe { this.blocks.start.add(index * size(this.class)) };
                index += 1;
                return Some(block.cast());
            }
            slab = this.next.load(Acquire);
            index = 0;
        })
    }
}

impl Memory {
    /// Runs what was deferred, before the homes that it returns blocks to are gone. Nobody is
    /// pinned and nobody defers any more, but members may be there: threads that sleep, and threads
    /// that end just now, which may be running what was deferred before.
    fn run_deferred(&mut self) {
        if self.homes.iter().all(Home::is_left) {
            // No members: the end of the reclaimer runs everything.
            drop(std::mem::replace(self.reclaim.get_mut(), Epoch::new()));
            return;
        }
        let handle = self.register();
        // Twice. What was deferred is taken out in order, so when the first call has been made all
        // others were taken out before. Whoever took one out is pinned until it has returned; that
        // began before the second call is deferred, which waits for it.
        for _ in 0..2 {
            let called = Arc::new(AtomicBool::new(false));
            let call = Arc::clone(&called);
            // SAFETY: nothing is made reusable.
            unsafe { Epoch::defer(&Epoch::pin(&handle), move || call.store(true, Release)) };
            while !called.load(Acquire) {
                Epoch::pin(&handle).flush();
                thread::yield_now();
            }
        }
    }
}

fn slab_layout(class: u8, count: usize) -> Layout {
    Layout::from_size_align(size(class) * count, std::mem::align_of::<Block>()).expect("a slab fits the address space")
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.run_deferred();
        let mut slab = self.slabs.load(Acquire);
        while !slab.is_null() {
            // SAFETY: made by `new_slab` from a box and with this layout.
            unsafe {
                let this = Box::from_raw(slab);
                this.blocks.free(slab_layout(this.class, this.count));
                // Acquire: the slab as its maker has published it.
                slab = this.next.load(Acquire);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_engines_have_the_same_number() {
        let ids = std::sync::atomic::AtomicU32::new(u32::MAX - 2);
        assert_eq!(draw_id(&ids).unwrap(), u32::MAX - 2);
        assert_eq!(draw_id(&ids).unwrap(), u32::MAX - 1);
        for _ in 0..3 {
            assert_eq!(draw_id(&ids).unwrap_err().kind(), ErrorKind::EnginesExhausted);
        }
    }
}
