//! What a sequential run of a program comes to: values, marks of failures, versions.

use crate::memory::{mixed, FRESH};
use crate::operation::{Operation, Work, CELLS};

pub struct Oracle {
    pub values: [u64; CELLS],
    /// Whether the failure that nobody has taken has marked the variable.
    marks: [bool; CELLS],
    pub versions: [u64; CELLS],
    /// The operation that has failed, until a wait has taken its failure.
    pub failed: Option<u64>,
}

impl Oracle {
    pub fn new() -> Oracle {
        Oracle { values: [FRESH; CELLS], marks: [false; CELLS], versions: [0; CELLS], failed: None }
    }

    pub fn run(&mut self, operation: &Operation) {
        let Operation { id, reads, writes, work, .. } = operation;
        self.apply(*id, reads, writes, *work, operation.runs_anyway());
    }

    /// Runs an operation that uses these cells; one that runs `anyway` is not stopped by a failure
    /// before.
    pub fn apply(&mut self, id: u64, reads: &[usize], writes: &[usize], work: Work, anyway: bool) {
        let inherits = reads.iter().chain(writes).any(|cell| self.marks[*cell]);
        if !inherits || anyway {
            match work {
                Work::Fails => self.failed = Some(id),
                Work::Computes => {
                    let value = mixed(id, reads.iter().chain(writes).map(|cell| self.values[*cell]));
                    writes.iter().for_each(|cell| self.values[*cell] = value);
                }
                Work::Copies => self.values[writes[0]] = self.values[reads[0]],
            }
        }
        for cell in writes {
            self.marks[*cell] = inherits || work == Work::Fails;
            self.versions[*cell] += 1;
        }
    }

    /// The variable of a cell is deleted, and the next one has the value `value`.
    pub fn renew(&mut self, cell: usize, value: u64) {
        (self.values[cell], self.marks[cell], self.versions[cell]) = (value, false, 0);
    }

    /// A wait for a variable: the operation whose failure it takes.
    pub fn wait(&mut self, cell: usize) -> Option<u64> {
        self.marks[cell].then(|| self.wait_for_all()).flatten()
    }

    /// A wait for everything: the operation whose failure it takes.
    pub fn wait_for_all(&mut self) -> Option<u64> {
        self.marks.fill(false);
        self.failed.take()
    }
}
