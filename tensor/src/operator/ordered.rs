//! The elements of an array in order, as a slice in the type of the computation; and results that
//! are made in one.
//!
//! Used by operators whose loops go over slices. An array whose elements do not lie one after the
//! other, or that are of another type, is copied into scratch.

#![forbid(unsafe_code)]

use crate::dtype::Element;
use crate::error::Error;
use crate::ndarray::access::{Blob, BlobMut};
use crate::operator::parts::Workers;
use crate::operator::property::{OpContext, Scratch};
use crate::request::OpReq;

/// The elements of a blob in order.
pub(super) enum Ordered<'a, T> {
    Slice(&'a [T]),
    Copied(Scratch<T>),
}

impl<'a, T: Element> Ordered<'a, T> {
    #[inline]
    pub fn new(ctx: &OpContext<'_, '_>, blob: &Blob<'a>) -> Result<Ordered<'a, T>, Error> {
        match blob.as_slice() {
            Some(slice) => Ok(Ordered::Slice(slice)),
            None => Ordered::copied(ctx, blob),
        }
    }

    #[inline(never)]
    fn copied(ctx: &OpContext<'_, '_>, blob: &Blob<'a>) -> Result<Ordered<'a, T>, Error> {
        let mut copied = ctx.scratch(blob.size())?;
        blob.reader().fill(copied.as_mut_slice());
        Ok(Ordered::Copied(copied))
    }

    pub fn get(&mut self) -> &[T] {
        match self {
            Ordered::Slice(slice) => slice,
            Ordered::Copied(copied) => copied.as_mut_slice(),
        }
    }
}

/// Has `make` write a result in order, and writes it as the request says. `make` is given memory
/// whose contents do not count, and writes all of it.
pub(super) fn write<T: Element>(
    ctx: &OpContext<'_, '_>,
    out: &mut BlobMut<'_>,
    req: OpReq,
    make: impl FnOnce(&mut [T]) -> Result<(), Error>,
) -> Result<(), Error> {
    write_with(ctx.workers(), out, req, make)
}

/// The same for a kernel that has its memory from its workers.
pub(super) fn write_with<T: Element>(
    workers: Workers<'_>,
    out: &mut BlobMut<'_>,
    req: OpReq,
    make: impl FnOnce(&mut [T]) -> Result<(), Error>,
) -> Result<(), Error> {
    if req.is_null() {
        return Ok(());
    }
    // Added to what is there, a sum would have other bits than made first and added then.
    match out.as_mut_slice::<T>() {
        Some(values) if req.overwrites() => make(values),
        _ => {
            let mut result = workers.scratch::<T>(out.size())?;
            make(result.as_mut_slice())?;
            out.writer(req).put(result.as_mut_slice());
            Ok(())
        }
    }
}
