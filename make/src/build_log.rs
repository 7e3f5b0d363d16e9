//! The log of commands, `.ninja_log`: for each output the hash of the command that made it, and
//! when the command began. `ninja` reads what this program writes, and the other way round.
//!
//! Versions 5 to 7 are understood. A log that is there is continued in its own version, so that
//! the `ninja` that began it can go on with it; a new one has version 7. Lines are appended, and
//! the last one of an output counts.

use crate::error::Error;
use crate::graph::{EdgeId, Graph};
use crate::hash::{murmurhash, rapidhash};
use crate::path::as_path;
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};

const OLDEST: u32 = 5;
const NEWEST: u32 = 7;
/// From this version on commands have another hash.
const RAPID: u32 = 7;

/// A log with more lines than this, and three times as many lines as outputs, is written anew.
const MANY_LINES: usize = 100;
const RATIO: usize = 3;

/// What is known of an output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The hash of the command.
    pub hash: u64,
    /// When the command began, in milliseconds after its build.
    pub start: i64,
    /// When the command ended.
    pub end: i64,
    /// The time of the file system when the command began; that of the output where it restats.
    pub mtime: i64,
}

/// A log in memory.
#[derive(Debug)]
pub struct BuildLog {
    /// The outputs by their paths.
    pub entries: HashMap<Box<[u8]>, Entry>,
    /// The version in which it goes on.
    pub version: u32,
    lines: usize,
}

impl Default for BuildLog {
    fn default() -> BuildLog {
        BuildLog { entries: HashMap::new(), version: NEWEST, lines: 0 }
    }
}

/// The next number or text up to a tab.
fn field<'l>(line: &mut &'l [u8]) -> Option<&'l [u8]> {
    let end = line.iter().position(|byte| *byte == b'\t')?;
    let (field, rest) = line.split_at(end);
    *line = &rest[1..];
    Some(field)
}

fn number(text: &[u8]) -> i64 {
    std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

fn entry(mut line: &[u8]) -> Option<(&[u8], Entry)> {
    let start = number(field(&mut line)?);
    let end = number(field(&mut line)?);
    let mtime = number(field(&mut line)?);
    let output = field(&mut line)?;
    let hash = std::str::from_utf8(line).ok().and_then(|text| u64::from_str_radix(text.trim(), 16).ok())?;
    Some((output, Entry { hash, start, end, mtime }))
}

impl BuildLog {
    /// Reads a log. If there is none it is empty, and so it is, with a warning, if its version is
    /// not understood; that file is removed.
    ///
    /// # Errors
    /// If a file is there and cannot be read.
    pub fn load(path: &[u8]) -> Result<(BuildLog, Option<String>), Error> {
        let text = match fs::read(as_path(path)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((BuildLog::default(), None)),
            Err(error) => return Err(Error::io("loading build log", path, &error)),
        };
        if text.is_empty() {
            return Ok((BuildLog::default(), None));
        }
        let head = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let version = head.strip_prefix(b"# ninja log v").map_or(0, |number_of| number(number_of) as u32);
        if !(OLDEST..=NEWEST).contains(&version) {
            let _ = fs::remove_file(as_path(path));
            let age = if version < OLDEST { "old" } else { "new" };
            return Ok((BuildLog::default(), Some(format!("build log version is too {age}; starting over"))));
        }
        let mut log = BuildLog { version, ..BuildLog::default() };
        // A last line without an end is of a build that was cut off.
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        for line in text[..whole].split(|byte| *byte == b'\n').skip(1) {
            if let Some((output, entry)) = entry(line) {
                log.lines += 1;
                log.entries.insert(output.into(), entry);
            }
        }
        Ok((log, None))
    }

    /// The hash of a command, as logs of this version have it.
    pub fn hash(&self, command: &[u8]) -> u64 {
        hash(self.version, command)
    }

    /// Whether most lines are of no use any more.
    pub fn is_worn(&self) -> bool {
        self.lines > MANY_LINES && self.lines > self.entries.len() * RATIO
    }

    /// Writes the log anew: outputs that no edge makes and that are not there are left out.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn rewrite(&mut self, path: &[u8], graph: &Graph) -> Result<(), Error> {
        self.entries.retain(|output, _| {
            graph.find(output).is_some_and(|file| graph.producer(file).is_some()) || as_path(output).exists()
        });
        let mut temporary = path.to_vec();
        temporary.extend_from_slice(b".recompact");
        let write = || -> io::Result<()> {
            let mut file = BufWriter::new(File::create(as_path(&temporary))?);
            writeln!(file, "# ninja log v{}", self.version)?;
            for (output, entry) in &self.entries {
                write_line(&mut file, output, entry)?;
            }
            file.flush()?;
            fs::rename(as_path(&temporary), as_path(path))
        };
        write().map_err(|error| Error::io("writing build log", path, &error))?;
        self.lines = self.entries.len();
        Ok(())
    }
}

fn hash(version: u32, command: &[u8]) -> u64 {
    if version >= RAPID {
        rapidhash(command)
    } else {
        murmurhash(command)
    }
}

fn write_line(to: &mut impl Write, output: &[u8], entry: &Entry) -> io::Result<()> {
    let mut line = format!("{}\t{}\t{}\t", entry.start, entry.end, entry.mtime).into_bytes();
    line.extend_from_slice(output);
    line.extend_from_slice(format!("\t{:x}\n", entry.hash).as_bytes());
    to.write_all(&line)
}

/// Appends to a log. The file is opened when something is written, and closed while a command runs
/// that may change the log itself.
#[derive(Debug)]
pub struct BuildLogWriter {
    path: Vec<u8>,
    version: u32,
    file: Option<File>,
}

impl BuildLogWriter {
    /// Goes on with a log.
    pub fn new(path: &[u8], log: &BuildLog) -> BuildLogWriter {
        BuildLogWriter { path: path.to_vec(), version: log.version, file: None }
    }

    /// Closes the file until the next record.
    pub fn close(&mut self) {
        self.file = None;
    }

    /// Records that a command has made its outputs.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn record(&mut self, graph: &Graph, edge: EdgeId, (start, end): (i64, i64), mtime: i64) -> Result<(), Error> {
        let hash = hash(self.version, &graph.logged_command(edge)?);
        let entry = Entry { hash, start, end, mtime };
        let mut lines = Vec::new();
        for output in &graph.edges[edge].outputs {
            write_line(&mut lines, graph.path(*output), &entry).expect("memory takes it");
        }
        self.append(&lines).map_err(|error| Error::io("writing build log", &self.path, &error))
    }

    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None => {
                let mut file = OpenOptions::new().append(true).create(true).open(as_path(&self.path))?;
                if file.metadata()?.len() == 0 {
                    writeln!(file, "# ninja log v{}", self.version)?;
                }
                file
            }
        };
        file.write_all(lines)?;
        self.file = Some(file);
        Ok(())
    }

    /// Makes the file if there is none, as `ninja` does at the end of each run.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(&mut self) -> Result<(), Error> {
        self.append(b"").map_err(|error| Error::io("writing build log", &self.path, &error))?;
        self.close();
        Ok(())
    }
}

/// The path of a log, in the folder that the manifest names for it.
pub fn path_in(build_folder: &[u8], name: &str) -> Vec<u8> {
    if build_folder.is_empty() {
        return name.as_bytes().to_vec();
    }
    [build_folder, b"/", name.as_bytes()].concat()
}
