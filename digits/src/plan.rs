//! The list of operations: what each reads, what it changes, and how urgent it is.
//!
//! The list is in the order in which plain code would do the work. Both ways of running it go down
//! the same list: plain calls one after another, or pushed to the engine, which works out from the
//! reads and writes what may overlap.

use std::fmt::Display;
use std::ops::Deref;

use seriatim::Name;

use crate::data::Inputs;
use crate::kernels;
use crate::tile::Tile;

/// What one operation does. `row` and `column` place a tile in the lower triangle; `from` is the
/// block it takes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Build one tile of the kernel matrix.
    Kernel { row: usize, column: usize },
    /// Build one block row of the right-hand sides.
    Targets { row: usize },
    /// Build one tile of the kernel between test and fit images.
    Cross { test: usize, row: usize },
    /// The Cholesky factor of a tile on the diagonal.
    Potrf,
    /// The tiles below it, divided by that factor.
    Trsm,
    /// The update of a later tile on the diagonal.
    Syrk,
    /// The update of any other later tile.
    Gemm,
    /// Solve one block row with L.
    Forward,
    /// Take a solved block row out of a later one.
    ForwardUpdate,
    /// Solve one block row with Lᵀ.
    Backward,
    /// Take a solved block row out of an earlier one.
    BackwardUpdate,
    /// Add one block's share to the scores of a block of test images.
    Score { first: bool },
    /// Pick the digit with the highest score.
    Classify,
}

impl Step {
    /// The kind of step, in profiles. POTRF, TRSM, SYRK and GEMM are what every linear-algebra
    /// library calls these four: a Cholesky factor, a triangular solve, a symmetric and a general
    /// update.
    pub fn name(self) -> &'static str {
        match self {
            Step::Kernel { .. } => "kernel",
            Step::Targets { .. } => "targets",
            Step::Cross { .. } => "cross-kernel",
            Step::Potrf => "potrf",
            Step::Trsm => "trsm",
            Step::Syrk => "syrk",
            Step::Gemm => "gemm",
            Step::Forward => "forward",
            Step::ForwardUpdate => "forward-update",
            Step::Backward => "backward",
            Step::BackwardUpdate => "backward-update",
            Step::Score { .. } => "score",
            Step::Classify => "classify",
        }
    }

    /// About how many microseconds the step takes with the default tile: the weights of the
    /// critical path.
    fn cost(self) -> i32 {
        match self {
            Step::Gemm | Step::Trsm => 43,
            Step::Kernel { .. } => 38,
            Step::Cross { .. } | Step::Syrk => 33,
            Step::Potrf => 30,
            Step::Forward | Step::Backward => 16,
            Step::ForwardUpdate | Step::BackwardUpdate => 11,
            Step::Score { .. } => 7,
            Step::Targets { .. } | Step::Classify => 2,
        }
    }
}

/// One operation: a step, and where its tiles are.
#[derive(Debug)]
pub struct Task {
    pub step: Step,
    /// The name in traces and error messages: the kind of step, the tile it changes and, where
    /// several change the same one, the block it takes from.
    pub name: Name,
    /// The tiles it reads, in the order its step wants them.
    pub reads: Vec<usize>,
    /// The one tile it changes.
    pub write: usize,
    /// How long the work that waits for it takes at the least; see `rank`.
    pub priority: i32,
}

impl Task {
    /// Does the step. `read` lends the tile in a slot: a plain reference, or a borrow that the
    /// engine's [`seriatim::Data`] has checked.
    pub fn run<R, E>(&self, inputs: &Inputs, read: impl Fn(usize) -> Result<R, E>, out: &mut Tile) -> Result<(), String>
    where
        R: Deref<Target = Tile>,
        E: ToString,
    {
        let read = |place: usize| read(self.reads[place]).map_err(|error| error.to_string());
        match self.step {
            Step::Kernel { row, column } => {
                kernels::gaussian(&inputs.fit[row], &inputs.fit[column], out);
                if row == column {
                    kernels::add_ridge(out);
                }
            }
            Step::Targets { row } => kernels::targets(&inputs.fit[row], out),
            Step::Cross { test, row } => kernels::gaussian(&inputs.test[test], &inputs.fit[row], out),
            Step::Potrf => kernels::potrf(out)?,
            Step::Trsm => kernels::trsm(&*read(0)?, out),
            Step::Syrk => kernels::syrk(&*read(0)?, out),
            Step::Gemm => kernels::gemm(&*read(0)?, &*read(1)?, out),
            Step::Forward => kernels::forward(&*read(0)?, out),
            Step::ForwardUpdate => kernels::forward_update(&*read(0)?, &*read(1)?, out),
            Step::Backward => kernels::backward(&*read(0)?, out),
            Step::BackwardUpdate => kernels::backward_update(&*read(0)?, &*read(1)?, out),
            Step::Score { first } => kernels::score(&*read(0)?, &*read(1)?, first, out),
            Step::Classify => kernels::classify(&*read(0)?, out),
        }
        Ok(())
    }
}

/// The operations in serial order, and how the tiles are numbered.
#[derive(Debug)]
pub struct Plan {
    /// Blocks of rows to fit, which is also tiles a side of the kernel matrix.
    pub fit: usize,
    /// Blocks of rows to test.
    pub test: usize,
    pub tasks: Vec<Task>,
}

impl Plan {
    pub fn new(fit: usize, test: usize) -> Plan {
        let mut plan = Plan { fit, test, tasks: Vec::new() };
        plan.build();
        plan.factorise();
        plan.solve();
        plan.predict();
        let slots = plan.slots();
        rank(&mut plan.tasks, slots);
        plan
    }

    fn build(&mut self) {
        for column in 0..self.fit {
            for row in column..self.fit {
                self.add(Step::Kernel { row, column }, format!("{row},{column}"), &[], self.lower(row, column));
            }
        }
        for row in 0..self.fit {
            self.add(Step::Targets { row }, row, &[], self.weights(row));
        }
    }

    /// The right-looking tiled Cholesky: each factored column is taken out of all that lies to its
    /// right.
    fn factorise(&mut self) {
        for step in 0..self.fit {
            self.add(Step::Potrf, format!("{step},{step}"), &[], self.lower(step, step));
            for row in step + 1..self.fit {
                self.add(Step::Trsm, format!("{row},{step}"), &[self.lower(step, step)], self.lower(row, step));
            }
            for column in step + 1..self.fit {
                self.add(
                    Step::Syrk,
                    format!("{column},{column} from {step}"),
                    &[self.lower(column, step)],
                    self.lower(column, column),
                );
                for row in column + 1..self.fit {
                    let reads = [self.lower(row, step), self.lower(column, step)];
                    self.add(Step::Gemm, format!("{row},{column} from {step}"), &reads, self.lower(row, column));
                }
            }
        }
    }

    /// L Y = B from the top down, then Lᵀ X = Y from the bottom up.
    fn solve(&mut self) {
        for step in 0..self.fit {
            self.add(Step::Forward, step, &[self.lower(step, step)], self.weights(step));
            for row in step + 1..self.fit {
                let reads = [self.lower(row, step), self.weights(step)];
                self.add(Step::ForwardUpdate, format!("{row} from {step}"), &reads, self.weights(row));
            }
        }
        for step in (0..self.fit).rev() {
            self.add(Step::Backward, step, &[self.lower(step, step)], self.weights(step));
            for row in (0..step).rev() {
                let reads = [self.lower(step, row), self.weights(step)];
                self.add(Step::BackwardUpdate, format!("{row} from {step}"), &reads, self.weights(row));
            }
        }
    }

    /// The last block of weights is solved first, so the scores begin with it.
    fn predict(&mut self) {
        for test in 0..self.test {
            for row in (0..self.fit).rev() {
                self.add(Step::Cross { test, row }, format!("{test},{row}"), &[], self.cross(test, row));
                let reads = [self.cross(test, row), self.weights(row)];
                let first = row + 1 == self.fit;
                self.add(Step::Score { first }, format!("{test} from {row}"), &reads, self.scores(test));
            }
            self.add(Step::Classify, test, &[self.scores(test)], self.guesses(test));
        }
    }

    /// `tile` says in words which tile the step is about, as `write` does in numbers.
    fn add(&mut self, step: Step, tile: impl Display, reads: &[usize], write: usize) {
        let name = Name::from(format!("{} {tile}", step.name()));
        self.tasks.push(Task { step, name, reads: reads.to_vec(), write, priority: 0 });
    }

    /// How many tiles of all sorts there are.
    pub fn slots(&self) -> usize {
        self.guesses(self.test)
    }

    /// A tile of the kernel matrix's lower triangle; later of its factor L, which takes its place.
    pub fn lower(&self, row: usize, column: usize) -> usize {
        row * (row + 1) / 2 + column
    }

    /// A block row of the right-hand sides; later of the weights, which take their place.
    pub fn weights(&self, row: usize) -> usize {
        self.lower(self.fit, row)
    }

    /// A tile of the kernel between test and fit images.
    pub fn cross(&self, test: usize, row: usize) -> usize {
        self.weights(self.fit) + test * self.fit + row
    }

    /// The scores of a block of test images.
    pub fn scores(&self, test: usize) -> usize {
        self.cross(self.test, 0) + test
    }

    /// The digits read from a block of test images.
    pub fn guesses(&self, test: usize) -> usize {
        self.scores(self.test) + test
    }
}

/// Gives every task the length of the longest path from its start to the end of the plan as its
/// priority, so that the critical path goes first and the rest fills the gaps.
///
/// One walk from the last task to the first. For each tile it keeps the longest path that begins at
/// its next writer, and at the readers before that writer: a writer must wait for those too.
fn rank(tasks: &mut [Task], slots: usize) {
    let mut from_writer = vec![0; slots];
    let mut from_readers = vec![0; slots];
    for task in tasks.iter_mut().rev() {
        let after_reads = task.reads.iter().map(|&slot| from_writer[slot]).max().unwrap_or(0);
        let after = after_reads.max(from_writer[task.write]).max(from_readers[task.write]);
        task.priority = task.step.cost() + after;
        for &slot in &task.reads {
            from_readers[slot] = task.priority.max(from_readers[slot]);
        }
        from_writer[task.write] = task.priority;
        from_readers[task.write] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::Plan;
    use std::collections::HashSet;

    #[test]
    fn every_operation_has_a_name_of_its_own() {
        let plan = Plan::new(12, 3);
        let names: HashSet<&str> = plan.tasks.iter().map(|task| task.name.as_str()).collect();
        assert_eq!(names.len(), plan.tasks.len());
        assert!(names.contains("gemm 7,3 from 2") && names.contains("potrf 0,0"));
    }
}
