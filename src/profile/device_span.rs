//! When an operation ran on its device, and on which stream. `engine/gpu/timing.rs` makes the
//! spans, on the watcher; `profile/recorder.rs` keeps them and joins them to the events;
//! `profile/overlap.rs`, `profile/table.rs` and `profile/trace.rs` read the copy. Spans are plain
//! values.

#![forbid(unsafe_code)]

use crate::device::backend::Class;
use crate::device::Context;
use std::fmt;

/// A stream of a device. Shown as in 'gpu(0) compute 1'.
///
/// ```
/// use seriatim::{gpu::Immediate, Context, Engine};
///
/// let engine = Engine::builder().gpus(Immediate::new(1)).gpu_workers(1).build()?;
/// engine.start_profiling();
/// engine.op("kernel").context(Context::gpu(0)).push(|_| ())?;
/// engine.wait_for_all()?;
/// let profile = engine.profile();
/// if let Some(span) = profile.events()[0].device() {
///     assert!(span.stream.to_string().starts_with("gpu(0) compute "));
/// }
/// # Ok::<(), seriatim::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct StreamName {
    /// The device.
    pub context: Context,
    /// What the stream is for.
    pub class: Class,
    /// Which of the device's streams of this class it is, from 1 on.
    pub number: u32,
}

impl StreamName {
    pub(crate) fn new(context: Context, class: Class, number: u32) -> StreamName {
        StreamName { context, class, number }
    }

    /// Whether it is for copies.
    pub(super) fn copies(self) -> bool {
        matches!(self.class, Class::ToDevice | Class::FromDevice)
    }

    /// A key that is in the order in which rows are drawn.
    pub(super) fn key(self) -> (u32, u8, u32) {
        (self.context.id(), self.class as u8, self.number)
    }
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StreamName { context, class, number } = self;
        match class {
            Class::Compute => write!(f, "{context} compute {number}"),
            Class::Urgent => write!(f, "{context} urgent {number}"),
            Class::ToDevice => write!(f, "{context} copy to"),
            Class::FromDevice => write!(f, "{context} copy from"),
        }
    }
}

/// When an operation ran on its device, in nanoseconds since the engine was made.
///
/// If the back end has a [clock](crate::gpu::DeviceClock), the device itself has noted both times,
/// and `accuracy` says how well they are mapped to the engine's clock. Their difference is the
/// device's own. Otherwise the times are the processor's: from the call of the closure, or the end
/// of what was before it on the stream, until the engine has seen that the work was done.
///
/// ```
/// use seriatim::{gpu::Immediate, Context, Engine};
///
/// let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
/// engine.start_profiling();
/// engine.op("kernel").context(Context::gpu(0)).push(|_| ())?;
/// engine.wait_for_all()?;
/// for event in engine.profile().events() {
///     if let Some(span) = event.device() {
///         println!("{} ran for {} ns on {}", event.name, span.end - span.start, span.stream);
///     }
/// }
/// # Ok::<(), seriatim::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct DeviceSpan {
    /// The stream.
    pub stream: StreamName,
    /// When the device began with it.
    pub start: u64,
    /// When the device was done with it.
    pub end: u64,
    /// By how many nanoseconds `start` may be too early or too late on the engine's clock; `None`
    /// if both times are the processor's.
    pub accuracy: Option<u64>,
}

impl DeviceSpan {
    pub(crate) fn new(stream: StreamName, (start, end): (u64, u64), accuracy: Option<u64>) -> DeviceSpan {
        DeviceSpan { stream, start, end, accuracy }
    }
}

/// Sees to it that the spans of one stream do not overlap: its work is done in order. They come in
/// that order. A span that the device has timed keeps its length, and is put later if need be. One
/// that the processor has timed is cut.
pub(super) fn put_in_order<'a>(spans: impl Iterator<Item = &'a mut DeviceSpan>) {
    let mut last: std::collections::HashMap<StreamName, &mut DeviceSpan> = std::collections::HashMap::new();
    for span in spans {
        if let Some(before) = last.remove(&span.stream) {
            if before.accuracy.is_none() && span.accuracy.is_some() {
                before.end = before.end.min(span.start).max(before.start);
            }
            let length = span.end - span.start;
            span.start = span.start.max(before.end);
            span.end = span.end.max(span.start);
            if span.accuracy.is_some() {
                span.end = span.start + length;
            }
        }
        last.insert(span.stream, span);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(number: u32, (start, end): (u64, u64), accuracy: Option<u64>) -> DeviceSpan {
        DeviceSpan::new(StreamName::new(Context::gpu(0), Class::Compute, number), (start, end), accuracy)
    }

    #[test]
    fn spans_of_one_stream_do_not_overlap() {
        let mut spans = [
            span(1, (10, 90), None),
            span(2, (20, 95), Some(1)),
            span(1, (40, 60), Some(1)),
            span(1, (55, 99), None),
            span(1, (70, 99), None),
            span(1, (98, 110), Some(1)),
            span(1, (109, 115), Some(1)),
        ];
        put_in_order(spans.iter_mut());
        let times = spans.map(|span| (span.start, span.end));
        assert_eq!(times, [(10, 40), (20, 95), (40, 60), (60, 99), (99, 99), (99, 111), (111, 117)]);
    }

    #[test]
    fn streams_have_names() {
        let name = |class: &Class| StreamName::new(Context::gpu(3), *class, 2).to_string();
        let names: Vec<_> = Class::ALL.iter().map(name).collect();
        assert_eq!(names, ["gpu(3) compute 2", "gpu(3) urgent 2", "gpu(3) copy to", "gpu(3) copy from"]);
    }
}
