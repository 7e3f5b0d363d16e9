//! `OpReq`: how an operator writes a result. All folders above use it.

#![forbid(unsafe_code)]

/// How an operator writes a result (`OpReqType`).
///
/// ```
/// use seriatim_tensor::OpReq;
/// assert!(OpReq::Null.is_null() && !OpReq::Add.is_null());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum OpReq {
    /// Writes nothing (`kNullOp`).
    Null,
    /// Writes into memory whose contents do not count (`kWriteTo`).
    #[default]
    Write,
    /// Writes into memory that may be that of an input (`kWriteInplace`).
    Inplace,
    /// Adds to what is there (`kAddTo`).
    Add,
}

impl OpReq {
    /// Whether nothing is to be written, so that the work can be left out.
    ///
    /// ```
    /// assert!(!seriatim_tensor::OpReq::Write.is_null());
    /// ```
    pub fn is_null(self) -> bool {
        self == OpReq::Null
    }

    /// Whether what was there before does not count.
    ///
    /// ```
    /// assert!(!seriatim_tensor::OpReq::Add.overwrites());
    /// ```
    pub fn overwrites(self) -> bool {
        matches!(self, OpReq::Write | OpReq::Inplace)
    }
}
