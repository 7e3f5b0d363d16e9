//! Writer of Chrome's trace format, from the copy of the events that a [`Profile`](crate::Profile)
//! is. The arrows come from `profile/flows.rs`.
//!
//! What the format asks: complete slices ("X") of a thread nest. An asynchronous slice ("b", "e")
//! has an id. A flow ("s", "t", "f") has an id, and each of its ends is inside a slice of its
//! thread.
//!
//! How events are written: an operation that is not asynchronous is a slice. A push, and the start
//! and the end of an asynchronous operation, are moments, written as slices of a nanosecond. A
//! thread reads the clock before and after each of them, so they nest with all others. What an
//! operation did on a device is a slice in the row of its stream, and an arrow leads there.

#![forbid(unsafe_code)]

use crate::profile::device_span::{DeviceSpan, StreamName};
use crate::profile::flows::dependants;
use crate::profile::recorder::{Event, Use, VariablesNamed};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// What a line of the trace says about an event. Lines of the same time and length come in the
/// order of these variants, so that a slice is open before what is inside it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// All of an operation that is not asynchronous.
    Slice,
    /// All that an operation did on its device.
    OnDevice,
    Push,
    Started,
    Completed,
    Begin,
    End,
    /// A flow begins at the push, or at the end of the operation, with this number.
    FromPush,
    FromEnd(u32),
    /// The flow from the push passes through the operation to a dependant.
    Through,
    /// The flow with this number ends at the start of the operation.
    Arrival(u32),
    /// The flow with this number leads from the start of the operation to its device.
    ToDevice(u32),
    AtDevice(u32),
    /// The changes of the number of operations in flight and of the number that are ready.
    Count(i8, i8),
}

/// One line of the trace: the time, the length of the slice, what it says, and the event's index.
type TraceLine = (u64, Reverse<u64>, What, u32);

/// Writes the events in the order of time.
pub fn write(
    events: &[Event],
    threads: &BTreeMap<u32, &'static str>,
    names: &VariablesNamed,
    writer: impl Write,
) -> io::Result<()> {
    let mut out = io::BufWriter::new(writer);
    let process = std::process::id();
    out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
    write!(out, "{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":{process},\"args\":{{\"name\":\"seriatim\"}}}}")?;
    for (thread, name) in threads {
        let name = quoted(name);
        write!(out, ",\n{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":{process},\"tid\":{thread},")?;
        write!(out, "\"args\":{{\"name\":{name}}}}}")?;
    }
    let rows = stream_rows(events);
    for (stream, row) in rows.values() {
        write!(out, ",\n{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":{process},\"tid\":{row},")?;
        write!(out, "\"args\":{{\"name\":\"{stream}\"}}}}")?;
    }
    let row_of = |event: &Event| event.device().map_or(0, |span| rows[&span.stream.key()].1);
    let zero = events.iter().map(|event| event.push).min().unwrap_or(0);
    let (mut in_flight, mut ready) = (0_i64, 0_i64);
    let lines = lines(events);
    for (place, &(time, Reverse(length), what, index)) in lines.iter().enumerate() {
        let event = &events[index as usize];
        let (name, micros) = (quoted(event.name), micros(time.saturating_sub(zero)));
        if let What::Count(flying, readied) = what {
            in_flight += i64::from(flying);
            ready += i64::from(readied);
            // Of several changes at one time only the last is written.
            if !matches!(lines.get(place + 1), Some((next, _, What::Count(..), _)) if *next == time) {
                write!(out, ",\n{{\"name\":\"operations\",\"ph\":\"C\",\"pid\":{process},\"ts\":{micros},")?;
                write!(out, "\"args\":{{\"in flight\":{in_flight},\"ready\":{ready}}}}}")?;
            }
            continue;
        }
        let phase = match what {
            What::Slice | What::OnDevice | What::Push | What::Started | What::Completed => "X",
            What::Begin => "b",
            What::End => "e",
            What::FromPush | What::FromEnd(_) | What::ToDevice(_) => "s",
            What::Through => "t",
            What::Arrival(_) | What::AtDevice(_) | What::Count(..) => "f",
        };
        let thread = match what {
            What::OnDevice | What::AtDevice(_) => row_of(event),
            What::Push | What::FromPush => event.pushed_on,
            What::Completed | What::FromEnd(_) | What::End => event.ended_on,
            _ => event.started_on,
        };
        write!(out, ",\n{{\"ph\":\"{phase}\",\"pid\":{process},\"tid\":{thread},\"ts\":{micros}")?;
        match what {
            What::Slice => {
                let length = self::micros(length);
                write!(out, ",\"name\":{name},\"cat\":\"{:?}\",\"dur\":{length}", event.property)?;
                write_arguments(&mut out, event, names)?;
            }
            What::OnDevice => {
                let length = self::micros(length);
                write!(out, ",\"name\":{name},\"cat\":\"{:?}\",\"dur\":{length}", event.property)?;
                let accuracy = event.device().and_then(|span| span.accuracy);
                let accuracy = accuracy.map_or("\"by the processor's clock\"".to_owned(), self::micros);
                write!(out, ",\"args\":{{\"operation\":{name},\"accuracy_us\":{accuracy}}}")?;
            }
            What::Push | What::Started | What::Completed => {
                let verb = match what {
                    What::Push => "push",
                    What::Started => "start",
                    _ => "complete",
                };
                write!(out, ",\"name\":\"{verb}\",\"cat\":\"moment\",\"dur\":0.001,\"args\":{{\"operation\":{name}}}")?;
            }
            What::Begin => {
                write!(out, ",\"name\":{name},\"cat\":\"{:?}\",\"id\":{index}", event.property)?;
                write_arguments(&mut out, event, names)?;
            }
            What::End => write!(out, ",\"name\":{name},\"cat\":\"{:?}\",\"id\":{index}", event.property)?,
            What::FromPush | What::Through => write_flow(&mut out, index)?,
            What::FromEnd(flow) | What::Arrival(flow) => write_flow(&mut out, flow)?,
            What::ToDevice(flow) | What::AtDevice(flow) => write_flow(&mut out, flow)?,
            What::Count(..) => {}
        }
        out.write_all(b"}")?;
    }
    out.write_all(b"\n]}\n")?;
    out.flush()
}

/// The rows of streams have numbers from here on, above all numbers of threads.
const STREAM_ROWS: u32 = 1 << 30;

/// The row of each stream, by its key.
fn stream_rows(events: &[Event]) -> BTreeMap<(u32, u8, u32), (StreamName, u32)> {
    let mut rows = BTreeMap::new();
    for DeviceSpan { stream, .. } in events.iter().filter_map(Event::device) {
        rows.insert(stream.key(), (*stream, 0));
    }
    (STREAM_ROWS..).zip(rows.values_mut()).for_each(|(number, (_, row))| *row = number);
    rows
}

/// Returns the lines to be written, sorted.
///
/// A flow with the number of an event leads from its push to where it runs, and on to the first
/// operation that waited for it. Arrows to further operations are flows of their own, with numbers
/// above those of the events.
fn lines(events: &[Event]) -> Vec<TraceLine> {
    let mut lines: Vec<TraceLine> = Vec::with_capacity(10 * events.len());
    let mut next_flow = events.len() as u32;
    for ((index, event), dependants) in (0..).zip(events).zip(dependants(events)) {
        let mut add = |time: u64, length: u64, what: What| lines.push((time, Reverse(length), what, index));
        let moment = |add: &mut dyn FnMut(u64, u64, What), time: u64, what: What| add(time, 1, what);
        // A slice has a length even if the clock has not moved.
        let length = (event.end - event.start).max(1);
        if event.asynchronous {
            add(event.start, 0, What::Begin);
            add(event.end, 0, What::End);
            moment(&mut add, event.start, What::Started);
            moment(&mut add, event.end, What::Completed);
        } else {
            add(event.start, length, What::Slice);
        }
        if let Some(span) = event.device() {
            // Work that took no time is not drawn, so that slices of a row do not lie upon each
            // other.
            if span.start < span.end {
                add(span.start, span.end - span.start, What::OnDevice);
                add(event.start, 0, What::ToDevice(next_flow));
                add(span.start, 0, What::AtDevice(next_flow));
                next_flow += 1;
            }
        }
        let pushed = event.replay.is_none();
        if pushed {
            moment(&mut add, event.push, What::Push);
            add(event.push, 0, What::FromPush);
            add(event.push, 0, What::Count(1, 0));
            add(event.ready, 0, What::Count(0, 1));
            add(event.start, 0, What::Count(0, -1));
            add(event.end, 0, What::Count(-1, 0));
            let what = if dependants.is_empty() { What::Arrival(index) } else { What::Through };
            add(event.start, 0, what);
        }
        for (place, &dependant) in dependants.iter().enumerate() {
            let own = place == 0 && pushed;
            let flow = if own { index } else { next_flow };
            if !own {
                next_flow += 1;
                // An arrow begins in the last nanosecond of the slice, or at the moment of the
                // completion.
                let at = if event.asynchronous { event.end } else { event.start + length - 1 };
                lines.push((at, Reverse(0), What::FromEnd(flow), index));
            }
            lines.push((events[dependant as usize].start, Reverse(0), What::Arrival(flow), dependant));
        }
    }
    lines.sort_unstable();
    lines
}

fn write_flow(out: &mut impl Write, flow: u32) -> io::Result<()> {
    write!(out, ",\"name\":\"operation\",\"cat\":\"flow\",\"id\":{flow},\"bp\":\"e\"")
}

fn write_arguments(out: &mut impl Write, event: &Event, names: &VariablesNamed) -> io::Result<()> {
    let span = |from: u64, to: u64| micros(to.saturating_sub(from));
    let used = |writes: bool| {
        let used = event.uses().iter().filter(|used| used.writes() == writes);
        let name = |used: &Use| match names.get(&used.variable()) {
            Some(name) => quoted(&format!("{used} {name}")),
            None => format!("\"{used}\""),
        };
        used.map(name).collect::<Vec<_>>().join(",")
    };
    let (waiting, queueing) = (span(event.push, event.ready), span(event.ready, event.start));
    write!(out, ",\"args\":{{\"device\":\"{}\",\"priority\":{},", event.context, event.priority)?;
    write!(out, "\"reads\":[{}],\"writes\":[{}],", used(false), used(true))?;
    write!(out, "\"waiting_us\":{waiting},\"queueing_us\":{queueing}}}")
}

/// Formats a time: the format counts in microseconds, and takes fractions.
fn micros(nanoseconds: u64) -> String {
    format!("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000)
}

/// Formats a JSON string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control < ' ' => quoted.push_str(&format!("\\u{:04x}", control as u32)),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn names_are_escaped() {
        assert_eq!(quoted("a\"b\\c\n"), r#""a\"b\\c\u000a""#);
    }
}
