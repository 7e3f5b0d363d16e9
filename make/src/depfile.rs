//! What commands say that they read: files of dependencies as compilers write them for `make`, and
//! the lines that Microsoft's compiler prints. Read by `scan.rs` before a build and by `finish.rs`
//! after a command. The rules are those of `ninja`'s `depfile_parser.in.cc` and `clparser.cc`.

use crate::path::canonicalize;
use std::collections::BTreeSet;

/// A file of dependencies.
#[derive(Default, PartialEq, Eq, Debug)]
pub struct Depfile {
    /// What is made, in order, each once.
    pub outputs: Vec<Vec<u8>>,
    /// What is read, in order, each once.
    pub inputs: Vec<Vec<u8>>,
}

/// Where a name ends.
enum End {
    /// At something else, such as a space.
    Word,
    /// At the end of a line, which ends a rule.
    Line,
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte >= 0x80 || b"+?\"'&,/_:.~()}{%=@[]!-".contains(&byte)
}

/// Takes the next name off the text. A backslash escapes a space, a hash sign or a colon; before
/// anything else it stands for itself.
fn name(text: &mut &[u8]) -> (Vec<u8>, End) {
    let mut out = Vec::new();
    loop {
        let slashes = text.iter().take_while(|byte| **byte == b'\\').count();
        let after = text.get(slashes).copied();
        let next = text.get(slashes + 1).copied();
        let mut take = |count: usize| *text = &text[count.min(text.len())..];
        match after {
            None if slashes == 0 => return (out, End::Line),
            // 2N+1 backslashes and a space: N backslashes and a space. 2N: they end the name.
            Some(b' ') if slashes % 2 == 1 => {
                out.extend(std::iter::repeat_n(b'\\', slashes / 2));
                out.push(b' ');
                take(slashes + 1);
            }
            Some(b' ') if slashes > 0 => {
                out.extend(std::iter::repeat_n(b'\\', slashes));
                take(slashes + 1);
                return (out, End::Word);
            }
            Some(b'#') if slashes > 0 => {
                out.extend(std::iter::repeat_n(b'\\', slashes - 1));
                out.push(b'#');
                take(slashes + 1);
            }
            // Before white space it is the end of a target whose name ends with a backslash.
            Some(b':') if slashes > 0 && matches!(next, None | Some(b'\0' | b' ' | b'\r' | b'\n' | b'\t')) => {
                out.extend(std::iter::repeat_n(b'\\', slashes));
                out.push(b':');
                take(slashes + 2);
                return (out, if next == Some(b'\n') { End::Line } else { End::Word });
            }
            Some(b':') if slashes > 0 => {
                out.extend(std::iter::repeat_n(b'\\', slashes - 1));
                out.push(b':');
                take(slashes + 1);
            }
            // A line that goes on ends the name.
            Some(b'\n') if slashes == 1 => {
                take(2);
                return (out, End::Word);
            }
            Some(b'\r') if slashes == 1 && next == Some(b'\n') => {
                take(3);
                return (out, End::Word);
            }
            None | Some(b'\0' | b'\r' | b'\n') if slashes > 1 => {
                out.extend(std::iter::repeat_n(b'\\', slashes));
                take(slashes);
            }
            None | Some(b'\0' | b'\r') if slashes == 1 => {
                take(1);
                return (out, End::Word);
            }
            Some(byte) if slashes > 0 => {
                out.extend(std::iter::repeat_n(b'\\', slashes));
                out.push(byte);
                take(slashes + 1);
            }
            Some(b'$') if next == Some(b'$') => {
                out.push(b'$');
                take(2);
            }
            Some(byte) if is_plain(byte) => {
                let length = text.iter().take_while(|byte| is_plain(**byte)).count();
                out.extend_from_slice(&text[..length]);
                *text = &text[length..];
            }
            Some(b'\n') => {
                take(1);
                return (out, End::Line);
            }
            Some(b'\r') if next == Some(b'\n') => {
                take(2);
                return (out, End::Line);
            }
            _ => {
                take(1);
                return (out, End::Word);
            }
        }
    }
}

impl Depfile {
    /// Reads a file's text.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(mut text: &[u8]) -> Result<Depfile, &'static str> {
        let mut found = Depfile::default();
        let (mut has_target, mut is_target, mut is_poisoned, mut is_empty) = (false, true, false, true);
        while !text.is_empty() {
            let (mut name, end) = name(&mut text);
            let is_input = !is_target;
            if name.last() == Some(&b':') {
                name.pop();
                is_target = false;
                has_target = true;
            }
            if !name.is_empty() {
                is_empty = false;
                if !found.inputs.contains(&name) {
                    if is_input {
                        if is_poisoned {
                            return Err("inputs may not also have inputs");
                        }
                        found.inputs.push(name);
                    } else if !found.outputs.contains(&name) {
                        found.outputs.push(name);
                    }
                } else if !is_input {
                    is_poisoned = true;
                }
            }
            if matches!(end, End::Line) {
                is_target = true;
                is_poisoned = false;
            }
        }
        if !has_target && !is_empty {
            return Err("expected ':' in depfile");
        }
        Ok(found)
    }
}

/// What Microsoft's compiler has printed, without the lines that are for us, and the headers that
/// those name.
pub fn parse_msvc(output: &[u8], prefix: &[u8]) -> (Vec<u8>, Vec<Vec<u8>>) {
    let prefix: &[u8] = if prefix.is_empty() { b"Note: including file: " } else { prefix };
    let (mut rest, mut kept, mut headers) = (output, Vec::new(), BTreeSet::new());
    let mut has_headers = false;
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| b"\r\n".contains(byte)).unwrap_or(rest.len());
        let line = &rest[..end];
        let after = &rest[end..];
        rest = after.strip_prefix(b"\r\n").or(after.strip_prefix(b"\r")).or(after.strip_prefix(b"\n")).unwrap_or(after);
        match line.strip_prefix(prefix).filter(|header| !header.is_empty()) {
            Some(header) => {
                has_headers = true;
                let mut header = header[header.iter().take_while(|byte| **byte == b' ').count()..].to_vec();
                canonicalize(&mut header);
                if !is_of_the_system(&header) {
                    headers.insert(header);
                }
            }
            None if !has_headers && is_source(line) => {}
            None => {
                kept.extend_from_slice(line);
                kept.push(b'\n');
            }
        }
    }
    (kept, headers.into_iter().collect())
}

fn is_of_the_system(path: &[u8]) -> bool {
    let path = String::from_utf8_lossy(path).to_ascii_lowercase();
    path.contains("program files") || path.contains("microsoft visual studio")
}

fn is_source(line: &[u8]) -> bool {
    let line = line.to_ascii_lowercase();
    [".c", ".cc", ".cxx", ".cpp", ".c++"].iter().any(|ending| line.ends_with(ending.as_bytes()))
}
