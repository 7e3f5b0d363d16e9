//! The logs of a worker group: one for each pair of pusher and worker.
//!
//! A log has one writer, so each pusher has a [`Journal`]: a log for each worker. A journal is
//! added at a pusher's first push (`src/worker/group.rs`) and stays for as long as the group.
//! Workers (`src/worker/run_loop.rs`, `src/worker/idle.rs`), thieves (`src/worker/steal.rs`) and
//! helpers (`src/worker/help.rs`) go through all journals, so no operation waits because of the
//! thread that pushed it. Thieves and helpers do so by a watch (`watch.rs`).
//!
//! Any thread may add a journal. Only its pusher appends to its logs and chooses workers
//! (`placing.rs`); the thread that adopts the pusher's cache goes on with it
//! (`thread/pusher.rs`). The worker moves the cursor of its log (`log.rs`). Other threads look into
//! all logs, and take operations by their words (`run.rs`).

use crate::operation::access::Access;
use crate::sync::{AtomicPtr, Ordering::*};
use crate::tickets::log::Log;
use crate::tickets::placing::Placing;
use crate::tickets::word::Word;
use std::ptr::null_mut;

/// The logs of one pusher, for all workers of a group.
pub struct Journal {
    /// One log for each worker.
    logs: Box<[Log]>,
    /// The choice of a worker. Used by the pusher only.
    placing: Placing,
    /// The journal that was added before this one. Stored before other threads can see this one.
    next: AtomicPtr<Journal>,
}

// SAFETY: `placing` is used by one pushing thread at a time; the rest is atomic.
unsafe impl Send for Journal {}
// SAFETY: as above.
unsafe impl Sync for Journal {}

impl Journal {
    /// The log for a worker.
    #[inline]
    pub fn log(&self, worker: usize) -> &Log {
        &self.logs[worker]
    }

    /// The logs, by worker.
    pub fn logs(&self) -> &[Log] {
        &self.logs
    }

    /// Chooses the worker for an operation with these accesses. Called by the journal's
    /// pusher, which then logs the operation there.
    #[inline]
    pub fn place(&self, accesses: &[Access]) -> usize {
        if self.logs.len() == 1 {
            return 0;
        }
        self.placing.place(&self.logs, accesses)
    }

    #[inline]
    fn next(&self) -> Option<&Journal> {
        // Relaxed: stored before the journal was linked, and never again.
        // SAFETY: journals stay for as long as the list, which is borrowed if one of them is.
        unsafe { self.next.load(Relaxed).as_ref() }
    }
}

/// A list of journals to which any thread may add. Journals are freed with the list.
pub struct Journals {
    /// The newest journal.
    first: AtomicPtr<Journal>,
    /// The number of logs in a journal.
    workers: usize,
}

impl Journals {
    /// An empty list, for so many workers.
    pub fn new(workers: usize) -> Journals {
        Journals { first: AtomicPtr::new(null_mut()), workers }
    }

    /// Adds a journal, for a pusher that has none.
    #[cold]
    pub fn add(&self) -> &Journal {
        let logs = (0..self.workers).map(|_| Log::new()).collect();
        let placing = Placing::new(self.workers);
        let journal = Box::into_raw(Box::new(Journal { logs, placing, next: AtomicPtr::new(null_mut()) }));
        // Relaxed: the journals before it come with the exchanges that linked them. Each exchange
        // is part of the release sequences of the earlier ones.
        let mut first = self.first.load(Relaxed);
        loop {
            // SAFETY: the journal is the caller's alone until the exchange; it stays afterwards.
            let fresh = unsafe { &*journal };
            fresh.next.store(first, Relaxed);
            // Release: pairs with the acquire in `newest`, so a thread that finds the journal finds
            // its logs.
            match self.first.compare_exchange(first, journal, Release, Relaxed) {
                Ok(_) => return fresh,
                Err(now) => first = now,
            }
        }
    }

    /// The newest journal; `None` if no thread has pushed.
    #[inline]
    pub fn first(&self) -> Option<&Journal> {
        // SAFETY: journals stay for as long as the list.
        unsafe { self.newest().as_ref() }
    }

    #[inline]
    fn newest(&self) -> *mut Journal {
        // Acquire: pairs with the exchange in `add`, for the journal's logs and the journals before
        // it.
        self.first.load(Acquire)
    }

    /// The next journal of this list, from newer to older. Behind the oldest comes the newest, so a
    /// thread that goes round finds journals that were added meanwhile.
    #[inline]
    pub fn behind<'a>(&'a self, journal: &'a Journal) -> &'a Journal {
        // Relaxed: as in `next`.
        let next = journal.next.load(Relaxed);
        let next = if next.is_null() { self.newest() } else { next };
        // SAFETY: journals stay for as long as the list, which is not empty: it has `journal`.
        unsafe { &*next }
    }

    /// All journals that were added before the call, the newest first.
    pub fn iter(&self) -> impl Iterator<Item = &Journal> {
        std::iter::successors(self.first(), |journal| journal.next())
    }

    /// The first operation in any log that a thread could take; [`Word::NONE`] if there is none.
    pub fn find(&self) -> Word {
        let operations = self.iter().flat_map(Journal::logs).map(Log::find);
        operations.into_iter().find(|operation| *operation != Word::NONE).unwrap_or(Word::NONE)
    }
}

impl Drop for Journals {
    fn drop(&mut self) {
        // Relaxed: dropped by the last thread that has the list.
        let mut next = self.first.load(Relaxed);
        while !next.is_null() {
            // SAFETY: no thread uses the list any more, and each journal is in it once.
            let journal = unsafe { Box::from_raw(next) };
            next = journal.next.load(Relaxed);
        }
    }
}

#[cfg(all(test, target_pointer_width = "64", not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::operation::access::{Mode, Ticket};
    use crate::operation::block::Block;
    use crate::sync::AtomicU64;
    use crate::tickets::placing::PLACED_A_LOOK;
    use crate::tickets::watch::{Watch, LEFT_TO_WORKER};
    use crate::tickets::word::PUSHED;
    use std::array::from_fn;
    use std::collections::HashSet;
    use std::ptr;

    /// Blocks whose words say "pushed".
    struct Pushed(Vec<Aligned>);

    #[repr(align(128))]
    struct Aligned([AtomicU64; 32]);

    impl Pushed {
        fn new(count: usize) -> Pushed {
            let new = |_| Aligned(from_fn(|_| AtomicU64::new(0)));
            let pushed = Pushed((0..count).map(new).collect());
            for number in 0..count {
                let word = Block::word(pushed.block(number));
                // SAFETY: the word lies in the block's first bytes.
                unsafe { (*word).store(Word::fresh(1, PUSHED).0, Relaxed) };
            }
            pushed
        }

        fn block(&self, number: usize) -> *mut Block {
            ptr::from_ref(&self.0[number].0).cast_mut().cast()
        }

        fn word(&self, number: usize) -> Word {
            Word::refers(self.block(number), 1)
        }

        fn end(&self, number: usize) {
            // SAFETY: as in `new`.
            unsafe { (*Block::word(self.block(number))).store(0, Relaxed) };
        }
    }

    #[test]
    fn rows_that_many_add_are_all_found_and_once() {
        let logs = Journals::new(1);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..8).for_each(|_| assert_eq!(logs.add().logs().len(), 1)));
            }
        });
        let journals: HashSet<_> = logs.iter().map(ptr::from_ref).collect();
        assert_eq!((journals.len(), logs.iter().count()), (32, 32));
        let first = logs.first().unwrap();
        let round = std::iter::successors(Some(first), |journal| Some(logs.behind(journal))).take(33);
        let passed: HashSet<_> = round.skip(1).map(ptr::from_ref).collect();
        assert!(passed == journals, "a round leaves some out");
    }

    /// Chooses a worker for one operation and logs it there. The workers take nothing.
    fn placed(journal: &Journal, pushed: &Pushed, number: usize, uses: &[(u32, Mode)]) -> usize {
        let access = |(variable, mode): &(u32, Mode)| Access::new(*variable, 0, *mode, Ticket::default());
        let worker = journal.place(&uses.iter().map(access).collect::<Vec<_>>());
        // SAFETY: no other thread pushes.
        unsafe { journal.log(worker).push(pushed.word(number)) };
        worker
    }

    #[test]
    fn what_has_to_wait_goes_where_the_last_use_is_that_it_waits_for() {
        let (logs, pushed) = (Journals::new(3), Pushed::new(64));
        let journal = logs.add();
        let place = |number: usize, uses: &[(u32, Mode)]| placed(journal, &pushed, number, uses);
        // Each worker is looked at once in so many pushes.
        const ROUND: usize = 3 * PLACED_A_LOOK as usize;
        let places: Vec<usize> = (0..ROUND).map(|number| place(number, &[(number as u32, Mode::Write)])).collect();
        assert_eq!(places.iter().collect::<HashSet<_>>().len(), 3, "{places:?}");
        let (one, other) = (0, (1..ROUND).rev().find(|number| places[*number] != places[0]).expect("three workers"));
        assert_eq!(place(ROUND, &[(one, Mode::Read), (20, Mode::Write)]), places[0]);
        assert_eq!(place(ROUND + 1, &[(other as u32, Mode::Write), (21, Mode::Write)]), places[other]);
        // A write waits for reads as well, a read does not.
        assert_eq!(place(ROUND + 2, &[(other as u32, Mode::Read), (22, Mode::Write)]), places[other]);
    }

    #[test]
    fn nobody_is_given_much_more_than_another() {
        let (logs, pushed) = (Journals::new(2), Pushed::new(1));
        let journal = logs.add();
        for _ in 0..1000 {
            placed(journal, &pushed, 0, &[(7, Mode::Write)]);
        }
        let [one, other] = [0, 1].map(|worker| journal.log(worker).pushed());
        assert!(one.abs_diff(other) < 40, "{one} and {other}");
    }

    #[test]
    fn a_thief_leaves_a_log_whose_worker_comes() {
        let (logs, pushed) = (Journals::new(1), Pushed::new(3));
        let [stuck, moving] = [logs.add(), logs.add()];
        let mut watch = Watch::new(&logs, 0);
        assert_eq!(watch.look(8, 2), Word::NONE);
        for (journal, number) in [(stuck, 0), (moving, 1), (moving, 2)] {
            // SAFETY: no other thread pushes.
            unsafe { journal.log(0).push(pushed.word(number)) };
        }
        assert_eq!(watch.look(8, 3), Word::NONE, "the first look, at the newer journal");
        pushed.end(1);
        assert_eq!(watch.look(8, 3), Word::NONE, "the first look at the other journal");
        assert_eq!(watch.look(8, 3), Word::NONE);
        assert_eq!(watch.look(8, 3), pushed.word(0));
    }

    /// Otherwise a row that waits for what the worker runs would cost so many looks at each entry.
    #[test]
    fn a_thief_that_has_watched_for_long_enough_takes_a_row_at_once_while_the_worker_stands() {
        let (logs, pushed) = (Journals::new(1), Pushed::new(6));
        let log = logs.add().log(0);
        // SAFETY: no other thread pushes.
        (0..5).for_each(|number| unsafe { log.push(pushed.word(number)) });
        let mut watch = Watch::new(&logs, 0);
        (0..2).for_each(|_| assert_eq!(watch.look(8, 3), Word::NONE));
        for number in 0..4 {
            assert_eq!(watch.look(8, 3), pushed.word(number));
            pushed.end(number);
        }
        // SAFETY: no other thread is the log's worker, or pushes.
        unsafe {
            assert_eq!(log.take_next(), Some(pushed.block(4)));
            log.push(pushed.word(5));
        }
        (0..2).for_each(|_| assert_eq!(watch.look(8, 3), Word::NONE, "the worker has moved"));
        assert_eq!(watch.look(8, 3), pushed.word(5));
    }

    #[test]
    fn a_thief_comes_to_the_logs_of_all_workers() {
        for (begin, worker) in (0..3).flat_map(|begin| [0, 1, 2].map(|worker| (begin, worker))) {
            let (logs, pushed) = (Journals::new(3), Pushed::new(1));
            // Two, of which the second has nothing.
            let journal = [logs.add(), logs.add()][0];
            // SAFETY: no other thread pushes.
            unsafe { journal.log(worker).push(pushed.word(0)) };
            let mut watch = Watch::new(&logs, begin);
            assert_eq!(watch.look(8, 1), pushed.word(0), "worker {worker}, from {begin}");
        }
    }

    /// The worker runs something, and a thread that waits takes what is pushed.
    #[test]
    fn a_log_that_others_empty_takes_no_more_memory() {
        let (logs, pushed) = (Journals::new(1), Pushed::new(1));
        let log = logs.add().log(0);
        pushed.end(0);
        // SAFETY: no other thread pushes.
        let segments = unsafe {
            (0..100_000).for_each(|_| log.push(pushed.word(0)));
            log.segments()
        };
        assert!(segments <= 4, "{segments} segments for what is taken at once");
    }

    #[test]
    fn a_thief_leaves_the_next_operations_to_the_worker() {
        let (logs, pushed) = (Journals::new(1), Pushed::new(LEFT_TO_WORKER + 3));
        let journal = logs.add();
        // SAFETY: no other thread pushes.
        (0..LEFT_TO_WORKER + 3).for_each(|number| unsafe { journal.log(0).push(pushed.word(number)) });
        let mut watch = Watch::new(&logs, 0);
        for number in LEFT_TO_WORKER..LEFT_TO_WORKER + 3 {
            let operation = if number == LEFT_TO_WORKER { watch.look(1, 1) } else { watch.one_more() };
            assert_eq!(operation, pushed.word(number));
            pushed.end(number);
        }
        assert_eq!(watch.one_more(), Word::NONE);
        assert_eq!(watch.look(1, 1), pushed.word(0), "if there is nothing else");
    }
}
