//! A thief's way round the logs of a worker group: [`Watch`] says which operations it may take.
//!
//! Used by `src/worker/idle.rs`, `src/worker/steal.rs` and `src/worker/help.rs`. A watch is one
//! thief's own. It reads the logs (`journals.rs`, `log.rs`), and writes nothing that others see.

use crate::sync::MODELLED;
use crate::tickets::journals::{Journal, Journals};
use crate::tickets::log::Log;
use crate::tickets::run::is_untaken;
use crate::tickets::word::Word;
use std::ptr;

/// A thief leaves so many entries of a log to its worker, if there are more.
pub(super) const LEFT_TO_WORKER: usize = if MODELLED { 1 } else { 32 };

/// The state of a thief that goes round the logs: where it stands, and which operation it has seen
/// there. A thief takes an operation only after it has seen it untaken for some looks.
pub struct Watch<'a> {
    logs: &'a Journals,
    /// The worker whose log comes first in each journal. Different thieves begin at different
    /// workers.
    begin: usize,
    journal: Option<&'a Journal>,
    /// How many workers behind `begin` the thief stands.
    step: usize,
    operation: Word,
    looks: u32,
    /// Where the worker of the log stood when an operation there had been watched for long enough.
    stuck: Option<u64>,
}

impl<'a> Watch<'a> {
    /// For a thief that takes from worker `begin` rather than from others.
    pub fn new(logs: &'a Journals, begin: usize) -> Watch<'a> {
        Watch { logs, begin, journal: None, step: 0, operation: Word::NONE, looks: 0, stuck: None }
    }

    /// Looks at `most` logs at most, and at each log once; the next look goes on from there.
    ///
    /// Returns an operation that was seen in its log for `looks` looks, or [`Word::NONE`]. If there
    /// are enough entries, it is one to which the worker would not come soon. If the operation that
    /// was watched has been taken, the worker is at work there: the look goes on at the next log.
    /// While the worker stands where it stood, further operations of its log are returned at once.
    pub fn look(&mut self, most: usize, looks: u32) -> Word {
        let Some(mut journal) = self.journal.or_else(|| self.logs.first()) else { return Word::NONE };
        if self.operation != Word::NONE {
            if is_untaken(self.operation) {
                return self.count(looks);
            }
            self.operation = Word::NONE;
            journal = self.go_on(journal);
        }
        let (start, begin) = (journal, self.step);
        for _ in 0..most {
            self.journal = Some(journal);
            let log = self.log(journal);
            let ahead = log.find_ahead(LEFT_TO_WORKER);
            self.operation = if ahead == Word::NONE { log.find() } else { ahead };
            if self.operation != Word::NONE {
                let stands = looks > 1 && self.stuck == Some(log.come());
                self.looks = if stands { looks - 1 } else { 0 };
                return self.count(looks);
            }
            journal = self.go_on(journal);
            if ptr::eq(journal, start) && self.step == begin {
                break;
            }
        }
        Word::NONE
    }

    /// Counts one more look at the watched operation; returns it if that is enough.
    fn count(&mut self, looks: u32) -> Word {
        self.looks += 1;
        if self.looks < looks {
            return Word::NONE;
        }
        if looks > 1 {
            self.stuck = self.journal.map(|journal| self.log(journal).come());
        }
        std::mem::replace(&mut self.operation, Word::NONE)
    }

    /// One more operation from the log of the last one, to which the worker would not come soon.
    pub fn one_more(&self) -> Word {
        self.journal.map_or(Word::NONE, |journal| self.log(journal).find_ahead(LEFT_TO_WORKER))
    }

    /// The log of the journal at which the thief stands.
    fn log(&self, journal: &'a Journal) -> &'a Log {
        journal.log((self.begin + self.step) % journal.logs().len())
    }

    /// Whether an operation is watched, which one of the next looks may return.
    pub fn watches(&self) -> bool {
        self.operation != Word::NONE
    }

    /// Goes to the next log; returns its journal.
    fn go_on(&mut self, journal: &'a Journal) -> &'a Journal {
        self.stuck = None;
        self.step += 1;
        let mut next = journal;
        if self.step == journal.logs().len() {
            self.step = 0;
            next = self.logs.behind(journal);
        }
        self.journal = Some(next);
        next
    }
}
