//! Chrome's trace format.

#![forbid(unsafe_code)]

use super::recorder::Event;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Writes the events as complete slices ("X"), one row a thread.
pub fn write(events: &[Event], writer: impl Write) -> io::Result<()> {
    let mut out = io::BufWriter::new(writer);
    let process = std::process::id();
    out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
    write!(out, "{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":{process},\"args\":{{\"name\":\"seriatim\"}}}}")?;
    let threads: BTreeMap<u32, &str> = events.iter().map(|event| (event.thread, event.thread_name)).collect();
    for (thread, name) in threads {
        write!(
            out,
            ",\n{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":{process},\"tid\":{thread},\"args\":{{\"name\":{}}}}}",
            quoted(name)
        )?;
    }
    for event in events {
        // The format counts in microseconds, and takes fractions.
        let micro = |nanoseconds: u64| format!("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000);
        let span = |from: u64, to: u64| micro(to.saturating_sub(from));
        write!(
            out,
            ",\n{{\"name\":{},\"cat\":\"{:?}\",\"ph\":\"X\",\"pid\":{process},\"tid\":{},\"ts\":{},\"dur\":{},\
             \"args\":{{\"device\":\"{}\",\"waiting_us\":{},\"queueing_us\":{}}}}}",
            quoted(event.name),
            event.property,
            event.thread,
            micro(event.start),
            span(event.start, event.end),
            event.context,
            span(event.push, event.ready),
            span(event.ready, event.start),
        )?;
    }
    out.write_all(b"\n]}\n")?;
    out.flush()
}

/// A JSON string.
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
