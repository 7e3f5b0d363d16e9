//! How arrays end: the last owner of a chunk pushes the operation that frees its memory, behind all
//! others on its variable.
//!
//! Used by `array.rs`, whose owners end chunks and ask for kept ones, and by `runtime.rs`, which
//! has the [`Kept`].
//!
//! A chunk is kept with its variable for the next array that the same thread makes: deleting a
//! variable and making another takes five times as long as an operation that runs in its push. The
//! variable of another thread would be handed over first, so it is deleted instead. So are
//! variables that a program or a graph may still have, since later uses of them are to be refused,
//! and variables that a failure has marked: there the operation is skipped, and dropped.

use crate::ndarray::chunk::{Chunk, Placed};
use crate::ndarray::runtime::Runtime;
use crate::storage::slots::{List, Slots};
use seriatim::{Context, Variable};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Lists of kept chunks. Threads share one where there are more threads.
const LISTS: usize = 16;

/// The chunks that are kept, with their variables.
#[derive(Default)]
pub(super) struct Kept([Line; LISTS]);

/// A list in a line of its own, as each is another thread's.
#[derive(Default)]
#[repr(align(128))]
struct Line(List);

/// The number of the calling thread, which no other thread of the process has had.
pub(super) fn this_thread() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    thread_local!(static NUMBER: u32 = NEXT.fetch_add(1, Relaxed));
    NUMBER.with(|number| *number)
}

impl Kept {
    fn of(&self, thread: u32) -> &List {
        &self.0[thread as usize % LISTS].0
    }

    /// Takes all chunks, and returns their variables, to be deleted with the runtime.
    pub fn take_variables<'a>(&'a self, chunks: &'a Slots<Chunk>) -> impl Iterator<Item = Variable> + 'a {
        let all = self.0.iter().flat_map(move |line| std::iter::from_fn(move || line.0.pop(chunks)));
        all.map(move |number| chunks.get(number).whole().variable)
    }
}

impl Runtime {
    /// A chunk that is kept, with a variable for an array of this thread.
    pub(super) fn take_kept(&self) -> Option<(u32, Variable)> {
        let thread = this_thread();
        let number = self.kept().of(thread).pop(self.chunks())?;
        let (chunk, engine) = (self.chunks().get(number), self.engine());
        let variable = chunk.whole().variable;
        if chunk.maker() == thread {
            return Some((number, variable));
        }
        // A refusal means that the engine is stopped, and its variables end with it.
        let _ = engine.delete_variable(|_| (), Context::cpu(0), variable);
        Some((number, engine.new_variable()))
    }
}

/// A chunk that its last owner has left. If it is dropped, its variable is deleted, and with that
/// the memory freed.
pub(super) struct Ended {
    runtime: Runtime,
    number: u32,
    is_done: bool,
}

impl Ended {
    /// The caller was the last owner.
    pub fn new(runtime: &Runtime, number: u32) -> Ended {
        Ended { runtime: runtime.clone(), number, is_done: false }
    }

    /// Frees the memory, behind all operations on it.
    pub fn end(mut self) {
        let chunk = self.runtime.chunks().get(self.number);
        // Operations of a device have shares of its memory, or are owners. The last share that is
        // dropped deletes the variable. That of a graph has ended with the graph.
        if chunk.is_private() || matches!(chunk.placed(), Some(Placed::Device(_))) {
            self.is_done = true;
            return self.free(false);
        }
        if chunk.is_known() || chunk.placed().is_some() || chunk.maker() != this_thread() {
            return;
        }
        let (runtime, variable) = (self.runtime.clone(), chunk.whole().variable);
        let operation = || runtime.engine().op("free").write(variable);
        if operation().run_now(|_| self.free(true)) {
            self.is_done = true;
            return;
        }
        // If the push is refused, or the operation skipped, this is dropped with the closure.
        let _ = operation().short().push(move |_| {
            self.is_done = true;
            self.free(true);
        });
    }

    /// Frees the memory, and keeps the chunk with its variable, or without.
    fn free(&self, keep: bool) {
        let chunks = self.runtime.chunks();
        let chunk = chunks.get(self.number);
        let (tag, maker) = (chunk.tag(), chunk.maker());
        // SAFETY: the last owner is gone. If the variable is private, the graph is gone that had
        // one, and with it all operations that name the variable; else this runs in the last
        // operation on it. Views and arrays that are attached have chunks of their own.
        let (memory, placed, attached) = unsafe { chunk.clear() };
        placed.iter().for_each(|placed| self.runtime.end_placed(placed, tag));
        drop((memory, placed));
        match keep {
            true => self.runtime.kept().of(maker).push(chunks, self.number),
            false => chunks.give(self.number),
        }
        drop(attached);
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let variable = self.runtime.chunks().get(self.number).whole().variable;
        let ended = Ended { runtime: self.runtime.clone(), number: self.number, is_done: true };
        let engine = self.runtime.engine();
        if engine.delete_variable(move |_| ended.free(false), Context::cpu(0), variable).is_err() {
            self.runtime.lose();
        }
    }
}
