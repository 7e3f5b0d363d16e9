//! Operation blocks without a pool.

use seriatim::internals::block::Block;
use seriatim::internals::layout::size;
use seriatim::internals::tickets::word::UNUSED;
use std::alloc::{alloc, dealloc, handle_alloc_error, Layout};
use std::ops::Deref;

/// The addresses of fresh blocks. Keep it until all threads that use them are joined: it frees
/// them.
pub struct Blocks(Vec<usize>);

fn layout() -> Layout {
    Layout::from_size_align(size(0), std::mem::align_of::<Block>()).expect("a valid layout")
}

impl Blocks {
    /// Fresh blocks, which are in no list.
    pub fn new(count: usize) -> Blocks {
        let new_block = |_| {
            // SAFETY: fresh memory of the right size.
            unsafe {
                let block = alloc(layout()).cast::<Block>();
                if block.is_null() {
                    handle_alloc_error(layout());
                }
                Block::initialise(block, 0, UNUSED.0);
                block.expose_provenance()
            }
        };
        Blocks((0..count).map(new_block).collect())
    }

    /// The address of a block.
    pub fn pointer(&self, number: usize) -> *mut Block {
        std::ptr::with_exposed_provenance_mut(self.0[number])
    }
}

impl Deref for Blocks {
    type Target = [usize];

    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        for number in 0..self.0.len() {
            // SAFETY: allocated above with the same layout, and no thread uses it any more. Its
            // content needs no drop.
            unsafe { dealloc(self.pointer(number).cast(), layout()) };
        }
    }
}
