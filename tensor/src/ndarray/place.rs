//! `Place`: where the elements of a blob lie, and how they may be reached.
//!
//! Used by `access.rs`, whose blobs give out the elements, and by `pieces.rs` and `device_blob.rs`.

use crate::dtype::DType;
use crate::ndarray::device_blob::Reach;
use crate::ndarray::frame::{Argument, Frame};
use crate::shape::Layout;
use std::marker::PhantomData;

/// Says that the elements do not lie one after the other.
const SCATTERED: usize = usize::MAX;

#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub base: *mut u8,
    /// Of the argument, or made by the operator: a copy would be most of a blob.
    pub layout: &'a Layout,
    /// How many elements there are, if they lie one after the other, or [`SCATTERED`]. Kernels ask
    /// for this several times.
    row: usize,
    pub dtype: DType,
    pub reach: Reach,
    of: PhantomData<&'a [u8]>,
}

impl<'a> Place<'a> {
    #[inline]
    pub fn new(base: *mut u8, layout: &'a Layout, dtype: DType, reach: Reach) -> Place<'a> {
        let row = if layout.is_contiguous() { layout.shape.size() } else { SCATTERED };
        Place { base, layout, row, dtype, reach, of: PhantomData }
    }

    /// The same memory, shown in another way.
    #[inline]
    pub fn shown<'b>(&self, layout: &'b Layout) -> Place<'b>
    where
        'a: 'b,
    {
        Place::new(self.base, layout, self.dtype, self.reach)
    }

    /// The same, beside another blob that reaches the memory.
    pub fn beside(&self) -> Place<'a> {
        Place { reach: Reach::Shared, ..*self }
    }

    /// How many elements there are, if they lie one after the other.
    #[inline]
    pub fn row(&self) -> Option<usize> {
        Some(self.row).filter(|row| *row != SCATTERED)
    }

    /// Where the memory begins, for those who walk over its elements here.
    #[inline]
    pub fn here(&self) -> *mut u8 {
        self.reach.check_processor();
        self.base
    }

    /// The address of the first element.
    #[inline]
    pub fn first(&self) -> *mut u8 {
        self.base.wrapping_add(self.layout.offset * self.dtype.size())
    }

    /// Whether it is the place of this argument. Only those of one array have the same layout.
    #[inline]
    pub fn is_of(&self, frame: &Frame, argument: Argument) -> bool {
        std::ptr::eq(self.layout, frame.layout(argument))
    }

    /// Follows the memory of the argument that it shows. Returns whether that is a block of the
    /// storage.
    ///
    /// # Safety
    /// As for [`Frame::read`], or [`Frame::write`] if the place is of a `BlobMut`.
    #[inline]
    pub unsafe fn follow(&mut self, frame: &'a Frame, argument: Argument) -> bool {
        // SAFETY: as the caller says.
        let block = unsafe { frame.block(argument) };
        self.base = block.unwrap_or(self.base);
        block.is_some()
    }
}
