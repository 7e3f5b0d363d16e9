//! Paths as a manifest has them: bytes, in their shortest form, and quoted for the shell.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The path for calls of the system.
pub fn as_path(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}

/// Brings a path into the form by which files are known: without `.`, empty parts and, where what
/// is before is known, `..`. As `ninja` does it, so a final `/` goes and a symbolic link is not
/// looked at.
pub fn canonicalize(path: &mut Vec<u8>) {
    if path.is_empty() || !has_odd_part(path) {
        return;
    }
    let absolute = path[0] == b'/';
    let mut out = Vec::with_capacity(path.len());
    // How many parts of `out` a `..` can take back.
    let mut parts = 0;
    for part in path.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." if parts > 0 => {
                parts -= 1;
                let end = out.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                out.truncate(end);
            }
            part => {
                if !out.is_empty() {
                    out.push(b'/');
                }
                out.extend_from_slice(part);
                parts += usize::from(part != b"..");
            }
        }
    }
    if absolute {
        out.insert(0, b'/');
    }
    if out.is_empty() {
        out.push(b'.');
    }
    *path = out;
}

/// Whether some part is empty or begins with a dot: most paths have none, and stay as they are.
fn has_odd_part(path: &[u8]) -> bool {
    let path = if path[0] == b'/' { &path[1..] } else { path };
    path.split(|byte| *byte == b'/').any(|part| part.is_empty() || part[0] == b'.')
}

/// Appends a path as one word for the shell.
pub fn quote(path: &[u8], to: &mut Vec<u8>) {
    let is_safe = |byte: &u8| byte.is_ascii_alphanumeric() || b"_+-./".contains(byte);
    if path.iter().all(is_safe) {
        to.extend_from_slice(path);
        return;
    }
    to.push(b'\'');
    for byte in path {
        if *byte == b'\'' {
            to.extend_from_slice(b"'\\'");
        }
        to.push(*byte);
    }
    to.push(b'\'');
}

/// The text for a person.
pub fn show(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_canonical_as_ninja_has_them() {
        let cases = [
            ("foo.h", "foo.h"),
            ("./foo.h", "foo.h"),
            ("./foo/./bar.h", "foo/bar.h"),
            ("./x/foo/../bar.h", "x/bar.h"),
            ("./x/foo/../../bar.h", "bar.h"),
            ("foo//bar", "foo/bar"),
            ("foo//.//..///bar", "bar"),
            ("./x/../foo/../../bar.h", "../bar.h"),
            ("foo/./.", "foo"),
            ("foo/bar/..", "foo"),
            ("foo/.hidden_bar", "foo/.hidden_bar"),
            ("/foo", "/foo"),
            ("//foo", "/foo"),
            ("..", ".."),
            ("../", ".."),
            ("../foo", "../foo"),
            ("../../foo/bar", "../../foo/bar"),
            ("test/../../foo/bar", "../foo/bar"),
            (".", "."),
            ("./.", "."),
            ("foo/..", "."),
            ("foo/.._bar", "foo/.._bar"),
            ("foo/", "foo"),
            ("", ""),
            ("/", "/"),
            ("../..", "../.."),
            ("../../..", "../../.."),
        ];
        for (given, expected) in cases {
            let mut path = given.as_bytes().to_vec();
            canonicalize(&mut path);
            assert_eq!(show(&path), expected, "{given}");
        }
    }

    #[test]
    fn words_are_quoted_where_the_shell_needs_it() {
        let quoted = |path: &str| {
            let mut to = Vec::new();
            quote(path.as_bytes(), &mut to);
            show(&to)
        };
        assert_eq!(
            quoted("some/sensible/path/without/crazy/characters.c++"),
            "some/sensible/path/without/crazy/characters.c++"
        );
        assert_eq!(quoted("foo bar\"/'$@d!st!c'/path'"), "'foo bar\"/'\\''$@d!st!c'\\''/path'\\'''");
    }
}
