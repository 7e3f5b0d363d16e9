//! `View`: how a view shows the elements of its chunk.
//!
//! Used by `runtime.rs`, which keeps the views of a runtime, and by `array.rs`, whose arrays count
//! as its owners. A view is a record of `storage/slots.rs`, so making one allocates nothing.
//! Operations do not count as owners: they take the layout along.

use crate::shape::Layout;
use crate::storage::owners::Owners;
use std::cell::UnsafeCell;

#[derive(Default)]
pub(crate) struct View {
    pub owners: Owners,
    layout: UnsafeCell<Option<Layout>>,
}

// SAFETY: the layout is plain, and changes only while there is one owner, or none.
unsafe impl Sync for View {}

impl View {
    /// Counts one owner of a view that has none.
    ///
    /// # Safety
    /// The caller has the record alone.
    pub unsafe fn begin(&self, layout: Layout) {
        self.owners.begin();
        // SAFETY: as the caller says.
        *unsafe { &mut *self.layout.get() } = Some(layout);
    }

    /// The layout, for owners.
    #[inline]
    pub fn layout(&self) -> &Layout {
        // SAFETY: only `begin` changes it, and then nobody else has the record.
        unsafe { &*self.layout.get() }.as_ref().expect("a view that an array has was begun")
    }
}
