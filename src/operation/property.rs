//! What kind of work an operation is. Programs say it (`src/api/operation.rs`). Here is also which
//! kinds the I/O worker (`is_io`), the logs (`is_computed`, `is_ordinary`) and the pusher take.
//! `src/engine/dispatch/` picks the workers, and for devices `src/engine/gpu/devices.rs`. There is
//! no state here: a property is a number.

#![forbid(unsafe_code)]

/// What kind of work an operation is, which decides where it runs.
///
/// ```
/// use seriatim::{Engine, Property};
/// let engine = Engine::new()?;
/// let x = engine.new_variable();
/// engine.op("load").writes([x]).property(Property::CpuPrioritized).priority(3).push(|_| ())?;
/// engine.wait_for_var(x)?;
/// # Ok::<(), seriatim::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[repr(u8)]
#[non_exhaustive]
pub enum Property {
    /// Computes on the workers of its device.
    #[default]
    Normal,
    /// Copies from a GPU: runs on the copy worker of its device, or on the engine's I/O worker if
    /// its context is the processor.
    CopyFromGpu,
    /// Copies to a GPU: as [`CopyFromGpu`](Property::CopyFromGpu).
    CopyToGpu,
    /// Computes on the pool of workers kept for prioritised operations.
    CpuPrioritized,
    /// Computes on a GPU before its other operations.
    GpuPrioritized,
    /// Only starts something: runs on the pushing thread when it is ready at once.
    Async,
    /// Deletes a variable. Like `Async`, but runs even after
    /// [`notify_shutdown`](crate::Engine::notify_shutdown).
    DeleteVar,
    /// Runs even when what it uses is marked by a failure.
    NoSkip,
    /// Computes for well under a microsecond, and waits for nothing that its pushing thread does
    /// later. The push itself may run it, on any engine, if nothing holds it up and its closures
    /// have lately been too short to be worth shipping. Of an asynchronous operation this is meant
    /// of its closure. The push may also run other ready operations that were declared so: see
    /// [`OperationBuilder::short`](crate::OperationBuilder::short).
    Short,
    /// Reads or writes a file, or blocks otherwise, on the processor: runs on the engine's I/O
    /// worker, so that no worker that computes is held up. One runs at a time.
    Io,
}

impl Property {
    /// Every property, in the order of their numbers.
    pub(crate) const ALL: [Property; 10] = [
        Property::Normal,
        Property::CopyFromGpu,
        Property::CopyToGpu,
        Property::CpuPrioritized,
        Property::GpuPrioritized,
        Property::Async,
        Property::DeleteVar,
        Property::NoSkip,
        Property::Short,
        Property::Io,
    ];

    /// The property with this number, as the C interface has them.
    ///
    /// ```
    /// use seriatim::Property;
    /// assert_eq!(Property::from_number(5), Some(Property::Async));
    /// assert_eq!(Property::from_number(10), None);
    /// ```
    #[inline]
    pub fn from_number(number: u8) -> Option<Property> {
        Property::ALL.get(usize::from(number)).copied()
    }

    /// Whether the engine's ordinary workers run it.
    pub(crate) fn is_computed(self) -> bool {
        !self.is_io() && self != Property::CpuPrioritized
    }

    /// Whether nothing but its dependencies decides where and when it runs.
    #[inline]
    pub(crate) fn is_ordinary(self) -> bool {
        matches!(self, Property::Normal | Property::NoSkip | Property::Short)
    }

    /// Whether the engine's I/O worker runs it.
    pub(crate) fn is_io(self) -> bool {
        matches!(self, Property::CopyFromGpu | Property::CopyToGpu | Property::Io)
    }

    /// Whether the pushing thread runs the operation itself if nothing holds it up.
    pub(crate) fn runs_on_pusher(self) -> bool {
        matches!(self, Property::Async | Property::DeleteVar)
    }
}

/// A set of properties, which an instruction tests.
#[derive(Clone, Copy)]
pub(crate) struct Properties(u32);

impl Properties {
    /// Those that `has` accepts.
    pub fn that(has: impl Fn(Property) -> bool) -> Properties {
        let bits = Property::ALL.iter().filter(|property| has(**property)).map(|property| 1 << *property as u32);
        Properties(bits.sum())
    }

    /// Whether the set has this one.
    #[inline]
    pub fn has(self, property: Property) -> bool {
        self.0 >> property as u32 & 1 != 0
    }
}
