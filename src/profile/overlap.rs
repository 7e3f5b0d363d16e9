//! How much of a device's copies lies under its computation. Used by `profile/mod.rs` and
//! `profile/table.rs`, on a copy of the events.

#![forbid(unsafe_code)]

use crate::profile::device_span::DeviceSpan;
use crate::profile::recorder::Event;
use std::collections::BTreeMap;
use std::fmt;

/// How much of the time in which a device copied it also computed, in nanoseconds.
///
/// Each time is counted once, however many streams were busy then: `copying` is the length of the
/// union of the spans of its copies, `computing` that of its other operations, and `both` that of
/// the intersection of the two.
///
/// ```
/// use seriatim::gpu::{DeviceData, Immediate, PinnedData};
/// use seriatim::{Context, Engine};
///
/// let engine = Engine::builder().gpus(Immediate::new(1)).build()?;
/// let gpu = engine.device(Context::gpu(0))?;
/// let (host, x) = (PinnedData::from_slice(&gpu, &[1.0f32; 1000])?, DeviceData::zeros(&gpu, 1000)?);
/// engine.start_profiling();
/// engine.copy(&host, &x)?;
/// engine.op("kernel").context(gpu.context()).push(|_| ())?;
/// engine.wait_for_all()?;
/// let overlap = engine.profile().overlap(gpu.context()).expect("the device was used");
/// assert!(overlap.share() <= 1.0 && overlap.both <= overlap.copying.min(overlap.computing));
/// # Ok::<(), seriatim::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Overlap {
    /// For how long the device copied.
    pub copying: u64,
    /// For how long it computed.
    pub computing: u64,
    /// For how long it did both.
    pub both: u64,
    /// How many operations it did. Asynchronous ones, which have no span on the device
    /// ([`Event::device`]), are not among them.
    ///
    /// [`Event::device`]: crate::Event::device
    pub operations: u64,
    /// Of how many of these the times are the processor's (see
    /// [`DeviceSpan`](crate::DeviceSpan)).
    pub host_timed: u64,
    /// The worst accuracy of the other times; `None` if there are no others.
    pub accuracy: Option<u64>,
}

impl Overlap {
    /// The share of copying that lies under computation: `both / copying`, or 0 if nothing was
    /// copied.
    ///
    /// ```
    /// let engine = seriatim::Engine::new()?;
    /// let overlap = engine.profile().overlap(seriatim::Context::gpu(0));
    /// assert!(overlap.is_none_or(|overlap| overlap.share() <= 1.0));
    /// # Ok::<(), seriatim::Error>(())
    /// ```
    pub fn share(&self) -> f64 {
        self.both as f64 / self.copying.max(1) as f64
    }
}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micro = |nanoseconds: u64| nanoseconds as f64 / 1e3;
        let (share, copying, computing) = (100.0 * self.share(), micro(self.copying), micro(self.computing));
        write!(f, "copied for {copying:.1} µs, of which {share:.1} % under {computing:.1} µs of computation; ")?;
        let Some(accuracy) = self.accuracy else { return write!(f, "times by the processor's clock") };
        write!(f, "times to within {:.1} µs", micro(accuracy))?;
        match self.host_timed {
            0 => Ok(()),
            some => write!(f, ", {some} of {} operations by the processor's clock", self.operations),
        }
    }
}

/// The overlap of each device that the events name.
pub fn of_devices(events: &[Event]) -> BTreeMap<u32, Overlap> {
    let mut devices: BTreeMap<u32, Vec<&DeviceSpan>> = BTreeMap::new();
    for span in events.iter().filter_map(Event::device) {
        devices.entry(span.stream.context.id()).or_default().push(span);
    }
    devices.into_iter().map(|(device, spans)| (device, of_spans(&spans))).collect()
}

/// The overlap of the spans of one device.
fn of_spans(spans: &[&DeviceSpan]) -> Overlap {
    let times = |copies: bool| spans.iter().filter(move |span| span.stream.copies() == copies);
    let union = |copies: bool| united(times(copies).map(|span| (span.start, span.end)).collect());
    let (copies, kernels) = (union(true), union(false));
    Overlap {
        copying: length(&copies),
        computing: length(&kernels),
        both: length(&intersected(&copies, &kernels)),
        operations: spans.len() as u64,
        host_timed: spans.iter().filter(|span| span.accuracy.is_none()).count() as u64,
        accuracy: spans.iter().filter_map(|span| span.accuracy).max(),
    }
}

/// The union of spans: in order, and apart from each other.
fn united(mut spans: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    spans.sort_unstable();
    let mut union: Vec<(u64, u64)> = Vec::new();
    for (start, end) in spans {
        match union.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => union.push((start, end)),
        }
    }
    union
}

/// What two unions have in common.
fn intersected(left: &[(u64, u64)], right: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
    let mut common = Vec::new();
    while let (Some(one), Some(other)) = (left.peek(), right.peek()) {
        let (start, end) = (one.0.max(other.0), one.1.min(other.1));
        if start < end {
            common.push((start, end));
        }
        if one.1 <= other.1 {
            left.next();
        } else {
            right.next();
        }
    }
    common
}

fn length(union: &[(u64, u64)]) -> u64 {
    union.iter().map(|(start, end)| end - start).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::backend::Class;
    use crate::device::Context;
    use crate::profile::device_span::StreamName;
    use crate::util::random::random;

    #[test]
    fn the_worst_accuracy_is_that_of_the_spans_that_have_one() {
        let span = |accuracy| DeviceSpan::new(StreamName::new(Context::gpu(0), Compute, 1), (1, 2), accuracy);
        let of = |spans: &[DeviceSpan]| {
            let overlap = of_spans(&spans.iter().collect::<Vec<_>>());
            (overlap.accuracy, overlap.operations, overlap.host_timed)
        };
        assert_eq!(of(&[span(Some(3)), span(None), span(Some(5))]), (Some(5), 3, 1));
        assert_eq!(of(&[span(None)]), (None, 1, 1));
    }

    fn overlap(spans: &[(Class, u32, u64, u64)]) -> (u64, u64, u64) {
        let spans: Vec<DeviceSpan> = spans
            .iter()
            .map(|(class, number, start, end)| {
                DeviceSpan::new(StreamName::new(Context::gpu(0), *class, *number), (*start, *end), Some(1))
            })
            .collect();
        let overlap = of_spans(&spans.iter().collect::<Vec<_>>());
        assert!(overlap.share() <= 1.0);
        (overlap.copying, overlap.computing, overlap.both)
    }

    use Class::{Compute, FromDevice, ToDevice, Urgent};

    #[test]
    fn times_under_two_compute_streams_count_once() {
        let copy = (ToDevice, 1, 100, 200);
        assert_eq!(overlap(&[copy, (Compute, 1, 100, 200), (Compute, 2, 100, 200)]), (100, 100, 100));
        assert_eq!(overlap(&[copy, (Compute, 1, 0, 150), (Urgent, 1, 140, 180)]), (100, 180, 80));
    }

    #[test]
    fn copies_both_ways_at_once_count_once() {
        let copies = [(ToDevice, 1, 0, 100), (FromDevice, 1, 50, 150)];
        assert_eq!(overlap(&copies), (150, 0, 0));
        assert_eq!(overlap(&[copies[0], copies[1], (Compute, 1, 90, 300)]), (150, 210, 60));
    }

    /// Also if a program has changed the figures.
    #[test]
    fn the_text_says_whose_times_they_are() {
        let figures =
            |accuracy, operations, host_timed| Overlap { accuracy, operations, host_timed, ..Overlap::default() };
        let ends = |overlap: Overlap, end: &str| assert!(overlap.to_string().ends_with(end), "{overlap}");
        ends(figures(None, 3, 3), "computation; times by the processor's clock");
        ends(figures(Some(2500), 3, 0), "computation; times to within 2.5 µs");
        ends(figures(Some(2500), 3, 1), "to within 2.5 µs, 1 of 3 operations by the processor's clock");
        ends(figures(None, 3, 4), "computation; times by the processor's clock");
        ends(figures(Some(2500), 3, 4), "to within 2.5 µs, 4 of 3 operations by the processor's clock");
    }

    #[test]
    fn spans_that_only_touch_do_not_overlap() {
        assert_eq!(overlap(&[(ToDevice, 1, 0, 10), (Compute, 1, 10, 20), (Compute, 1, 20, 30)]), (10, 20, 0));
        assert_eq!(overlap(&[]), (0, 0, 0));
    }

    /// Against a count nanosecond by nanosecond.
    #[test]
    fn random_spans() {
        let mut random = random(7);
        let mut below = |bound: u64| random(bound as usize) as u64;
        for _ in 0..200 {
            let spans: Vec<_> = (0..below(12))
                .map(|_| {
                    let (class, start) = (Class::ALL[below(4) as usize], below(50));
                    (class, 1 + below(2) as u32, start, start + below(20))
                })
                .collect();
            let busy = |at: u64, copies: bool| {
                let is_copy = |class| matches!(class, ToDevice | FromDevice);
                spans.iter().any(|(class, _, start, end)| is_copy(*class) == copies && (*start..*end).contains(&at))
            };
            let count = |is: &dyn Fn(u64) -> bool| (0..100).filter(|at| is(*at)).count() as u64;
            let expected = (
                count(&|at| busy(at, true)),
                count(&|at| busy(at, false)),
                count(&|at| busy(at, true) && busy(at, false)),
            );
            assert_eq!(overlap(&spans), expected, "{spans:?}");
        }
    }
}
