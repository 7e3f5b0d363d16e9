//! Tiles: parts of one array, each of which is a value of its own. That they do not overlap is
//! checked once, here, on the thread that makes them.

use crate::api::engine::Engine;
use crate::api::typed::value::{Storage, Value};
use crate::error::{Error, ErrorKind};
use std::ops::Range;
use std::ptr::{slice_from_raw_parts_mut, NonNull};
use std::sync::Arc;

impl Engine {
    /// Makes a value of each part of `length` elements of an array, in order; the last one may be
    /// shorter. Operations that use different tiles run at once, in one array.
    ///
    /// A tile is a `Value<[T]>` like any other: an operation is lent it as `&[T]` or `&mut [T]`.
    /// The array is freed when the last tile is. A length of 0 is taken as 1.
    ///
    /// Worst case: that of [`new_variable`](Engine::new_variable) and an allocation for each tile.
    /// A vector that has room for more elements is copied.
    ///
    /// ```
    /// use seriatim::{Engine, Write};
    /// let engine = Engine::new()?;
    /// let tiles = engine.tiles(vec![1.0; 1000], 300);
    /// assert_eq!(tiles.len(), 4);
    /// for tile in &tiles {
    ///     engine.op("scale").run(Write(tile), |tile| tile.iter_mut().for_each(|x| *x *= 2.0))?;
    /// }
    /// let sum = engine.value(0.0);
    /// engine.op("sum").run((&tiles[..], Write(&sum)), |(tiles, sum)| {
    ///     *sum = tiles.iter().flatten().sum();
    /// })?;
    /// assert_eq!(*sum.read()?, 2000.0);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn tiles<T: Send + 'static>(&self, array: Vec<T>, length: usize) -> Vec<Value<[T]>> {
        let (array, length) = (array.into_boxed_slice(), length.max(1));
        let end = array.len();
        let storage = Arc::new(Storage::new(array));
        let ranges = (0..end).step_by(length).map(|start| start..end.min(start.saturating_add(length)));
        // SAFETY: each range ends within the array, and begins where the one before has ended.
        ranges.map(|range| unsafe { self.tile(&storage, range) }).collect()
    }

    /// Like [`tiles`](Engine::tiles), but the tiles are those ranges of the array, in any order.
    /// What lies between them is reached by nobody. A range may be empty.
    ///
    /// Worst case: also a sort of the ranges.
    ///
    /// # Errors
    /// [`BorrowConflict`](ErrorKind::BorrowConflict) if two of the ranges overlap, or one does not
    /// lie in the array. The array is then dropped.
    ///
    /// ```
    /// use seriatim::{Engine, ErrorKind, Write};
    /// let engine = Engine::new()?;
    /// let tiles = engine.tiles_at(vec![0; 10], &[1..10, 0..1])?;
    /// engine.op("fill").run((&tiles[1], Write(&tiles[0])), |(edge, inner)| inner.fill(edge[0] + 1))?;
    /// assert_eq!(tiles[0].read()?[8], 1);
    /// let error = engine.tiles_at(vec![0; 10], &[0..6, 5..10]).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::BorrowConflict);
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn tiles_at<T: Send + 'static>(
        &self,
        array: Vec<T>,
        ranges: &[Range<usize>],
    ) -> Result<Vec<Value<[T]>>, Error> {
        check(ranges, array.len())?;
        let storage = Arc::new(Storage::new(array.into_boxed_slice()));
        // SAFETY: the ranges lie in the array, and do not overlap.
        Ok(ranges.iter().map(|range| unsafe { self.tile(&storage, range.clone()) }).collect())
    }

    /// # Safety
    /// The range lies in the array, and no other tile has a part of it.
    unsafe fn tile<T: Send + 'static>(&self, storage: &Arc<Storage<[T]>>, range: Range<usize>) -> Value<[T]> {
        let start = storage.place().as_ptr().cast::<T>();
        // SAFETY: by the contract.
        unsafe {
            let part = slice_from_raw_parts_mut(start.add(range.start), range.len());
            Value::new(self, NonNull::new_unchecked(part), Arc::clone(storage))
        }
    }
}

/// Refuses ranges that overlap, or that do not lie in an array of this length.
fn check(ranges: &[Range<usize>], length: usize) -> Result<(), Error> {
    let wrong = |text| Err(Error::new(ErrorKind::BorrowConflict, text));
    if let Some(range) = ranges.iter().find(|range| range.start > range.end || range.end > length) {
        return wrong(format!("the range {range:?} is none of an array of {length} elements"));
    }
    let mut filled: Vec<&Range<usize>> = ranges.iter().filter(|range| !range.is_empty()).collect();
    filled.sort_unstable_by_key(|range| range.start);
    match filled.windows(2).find(|pair| pair[0].end > pair[1].start) {
        Some(pair) => {
            wrong(format!("the ranges {:?} and {:?} overlap: no element can be of two tiles", pair[0], pair[1]))
        }
        None => Ok(()),
    }
}
