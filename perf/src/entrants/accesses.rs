//! The variables of a program as an engine's own handles.

use crate::program::Program;

/// The variables of every distinct operation, as handles of one engine, in flat arrays.
pub struct Accesses<V> {
    reads: Vec<V>,
    read_ends: Vec<usize>,
    writes: Vec<V>,
    write_ends: Vec<usize>,
}

impl<V: Copy> Accesses<V> {
    /// Makes as many variables as the program needs, and lists them for each operation.
    pub fn new(program: &Program, new_variable: impl Fn() -> V) -> Accesses<V> {
        let variables: Vec<V> = (0..program.variables()).map(|_| new_variable()).collect();
        let handle = |index: &u32| variables[*index as usize];
        let mut accesses = Accesses { reads: Vec::new(), read_ends: vec![0], writes: Vec::new(), write_ends: vec![0] };
        for operation in distinct(program) {
            accesses.reads.extend(program.reads(operation).iter().map(handle));
            accesses.read_ends.push(accesses.reads.len());
            accesses.writes.extend(program.writes(operation).iter().map(handle));
            accesses.write_ends.push(accesses.writes.len());
        }
        accesses
    }

    /// What a distinct operation reads.
    #[inline]
    pub fn reads(&self, operation: u32) -> &[V] {
        let operation = operation as usize;
        &self.reads[self.read_ends[operation]..self.read_ends[operation + 1]]
    }

    /// What a distinct operation changes.
    #[inline]
    pub fn writes(&self, operation: u32) -> &[V] {
        let operation = operation as usize;
        &self.writes[self.write_ends[operation]..self.write_ends[operation + 1]]
    }
}

/// The numbers of a program's distinct operations.
pub fn distinct(program: &Program) -> std::ops::Range<u32> {
    0..crate::program::small(program.distinct())
}
