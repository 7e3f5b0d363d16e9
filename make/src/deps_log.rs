//! The log of dependencies, `.ninja_deps`: for each output what its command has said that it reads.
//! The format is `ninja`'s, version 4, in the byte order of the machine: a signature, then records.
//! A record is a length, and either a path, whose number is its place among the paths, or an output
//! with its time and its inputs.

use crate::error::Error;
use crate::graph::{FileId, Graph};
use crate::path::as_path;
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};

const SIGNATURE: &[u8] = b"# ninjadeps\n";
const VERSION: u32 = 4;
const HEAD: usize = SIGNATURE.len() + 4;
/// The bit of a length that tells the two kinds of records apart.
const IS_DEPS: u32 = 1 << 31;
const LARGEST: usize = (1 << 19) - 1;

/// A log with more records than this, and three times as many as outputs, is written anew.
const MANY_RECORDS: usize = 1000;
const RATIO: usize = 3;

/// What an output was made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Deps {
    /// The time of the output then.
    pub mtime: i64,
    /// The numbers of the inputs in the log.
    pub inputs: Vec<u32>,
}

/// A log in memory.
#[derive(Default, Debug)]
pub struct DepsLog {
    /// The files by their numbers in the log.
    files: Vec<FileId>,
    /// The numbers in the log by the files.
    numbers: HashMap<FileId, u32>,
    deps: Vec<Option<Deps>>,
    records: usize,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl DepsLog {
    /// Reads a log. If there is none it is empty; a part that cannot be read is cut off, with a
    /// warning.
    ///
    /// # Errors
    /// If a file is there and cannot be read, or not be cut.
    pub fn load(path: &[u8], graph: &mut Graph) -> Result<(DepsLog, Option<String>), Error> {
        let mut log = DepsLog::default();
        let bytes = match fs::read(as_path(path)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((log, None)),
            Err(error) => return Err(Error::io("loading deps log", path, &error)),
        };
        if bytes.len() < HEAD || !bytes.starts_with(SIGNATURE) || word(&bytes, SIGNATURE.len()) != VERSION {
            let _ = fs::remove_file(as_path(path));
            return Ok((log, Some("bad deps log signature or version; starting over".to_owned())));
        }
        let mut at = HEAD;
        while at < bytes.len() {
            match log.record(&bytes[at..], graph) {
                Some(length) => at += length,
                None => {
                    let cut =
                        OpenOptions::new().write(true).open(as_path(path)).and_then(|file| file.set_len(at as u64));
                    cut.map_err(|error| Error::io("cutting deps log", path, &error))?;
                    return Ok((log, Some("premature end of file; recovering".to_owned())));
                }
            }
        }
        Ok((log, None))
    }

    /// Reads one record; its length, or nothing if it is none.
    fn record(&mut self, bytes: &[u8], graph: &mut Graph) -> Option<usize> {
        let length = if bytes.len() >= 4 { word(bytes, 0) } else { return None };
        let size = (length & !IS_DEPS) as usize;
        let body = bytes.get(4..4 + size).filter(|_| (4..=LARGEST).contains(&size) && size % 4 == 0)?;
        if length & IS_DEPS != 0 {
            if size < 12 {
                return None;
            }
            let output = word(body, 0) as usize;
            let mtime = (u64::from(word(body, 8)) << 32 | u64::from(word(body, 4))) as i64;
            let inputs: Vec<u32> = (3..size / 4).map(|place| word(body, 4 * place)).collect();
            if output >= self.files.len() || inputs.iter().any(|input| *input as usize >= self.files.len()) {
                return None;
            }
            self.set(output, Deps { mtime, inputs });
            self.records += 1;
        } else {
            let (path, checksum) = body.split_at(size - 4);
            let padding = path.iter().rev().take(3).take_while(|byte| **byte == 0).count();
            let path = &path[..path.len() - padding];
            let number = self.files.len() as u32;
            if path.is_empty() || word(checksum, 0) != !number {
                return None;
            }
            let file = graph.file(path);
            if self.numbers.contains_key(&file) {
                return None;
            }
            self.numbers.insert(file, number);
            self.files.push(file);
        }
        Some(4 + size)
    }

    fn set(&mut self, output: usize, deps: Deps) {
        if self.deps.len() <= output {
            self.deps.resize(output + 1, None);
        }
        self.deps[output] = Some(deps);
    }

    /// What is known of an output: the time, and the inputs.
    pub fn of(&self, output: FileId) -> Option<(i64, impl Iterator<Item = FileId> + '_)> {
        let number = *self.numbers.get(&output)? as usize;
        let deps = self.deps.get(number)?.as_ref()?;
        Some((deps.mtime, deps.inputs.iter().map(|input| self.files[*input as usize])))
    }

    /// The first output that has been made of a file.
    pub fn first_made_of(&self, file: FileId) -> Option<FileId> {
        let number = self.numbers.get(&file)?;
        let made = self.deps.iter().position(|deps| deps.as_ref().is_some_and(|deps| deps.inputs.contains(number)))?;
        Some(self.files[made])
    }

    /// Whether most records are of no use any more.
    pub fn is_worn(&self) -> bool {
        let outputs = self.deps.iter().flatten().count();
        self.records > MANY_RECORDS && self.records > outputs * RATIO
    }

    /// Writes the log anew, with the outputs that an edge makes that has `deps`, and reads it
    /// again.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn rewrite(self, path: &[u8], graph: &mut Graph) -> Result<DepsLog, Error> {
        let mut temporary = path.to_vec();
        temporary.extend_from_slice(b".recompact");
        let _ = fs::remove_file(as_path(&temporary));
        let mut writer = DepsLogWriter { path: temporary.clone(), ..DepsLogWriter::default() };
        for (number, deps) in self.deps.iter().enumerate() {
            let Some(deps) = deps else { continue };
            let output = self.files[number];
            let is_live = match graph.producer(output) {
                Some(edge) => graph.flag(edge, b"deps")?,
                None => false,
            };
            if is_live {
                let inputs = deps.inputs.iter().map(|input| graph.path(self.files[*input as usize]).to_vec());
                writer.record(graph.path(output), deps.mtime, &inputs.collect::<Vec<_>>())?;
            }
        }
        writer.finish()?;
        fs::rename(as_path(&temporary), as_path(path)).map_err(|error| Error::io("writing deps log", path, &error))?;
        Ok(DepsLog::load(path, graph)?.0)
    }
}

/// Appends to a log.
#[derive(Default, Debug)]
pub struct DepsLogWriter {
    path: Vec<u8>,
    numbers: HashMap<Box<[u8]>, u32>,
    deps: Vec<Option<Deps>>,
    file: Option<File>,
}

impl DepsLogWriter {
    /// Goes on with a log.
    pub fn new(path: &[u8], log: DepsLog, graph: &Graph) -> DepsLogWriter {
        let numbers = log.files.iter().enumerate().map(|(number, file)| (graph.path(*file).into(), number as u32));
        DepsLogWriter { path: path.to_vec(), numbers: numbers.collect(), deps: log.deps, file: None }
    }

    /// Closes the file until the next record.
    pub fn close(&mut self) {
        self.file = None;
    }

    /// Records what an output was made of, unless that is what the log says already.
    ///
    /// # Errors
    /// If the file cannot be written, or the record is too long for the format.
    pub fn record(&mut self, output: &[u8], mtime: i64, inputs: &[Vec<u8>]) -> Result<(), Error> {
        let mut bytes = Vec::new();
        let result = self.append(output, mtime, inputs, &mut bytes).and_then(|()| self.write(&bytes));
        result.map_err(|error| Error::io("writing deps log", &self.path, &error))
    }

    fn append(&mut self, output: &[u8], mtime: i64, inputs: &[Vec<u8>], bytes: &mut Vec<u8>) -> io::Result<()> {
        let output = self.number(output, bytes)?;
        let inputs = inputs.iter().map(|input| self.number(input, bytes)).collect::<io::Result<Vec<_>>>()?;
        let deps = Deps { mtime, inputs };
        if self.deps.get(output as usize).is_some_and(|known| known.as_ref() == Some(&deps)) {
            return Ok(());
        }
        let size = 4 * (3 + deps.inputs.len());
        if size > LARGEST {
            return Err(io::Error::other("an output has more inputs than the format has room for"));
        }
        bytes.extend_from_slice(&(size as u32 | IS_DEPS).to_ne_bytes());
        bytes.extend_from_slice(&output.to_ne_bytes());
        bytes.extend_from_slice(&(mtime as u32).to_ne_bytes());
        bytes.extend_from_slice(&((mtime >> 32) as u32).to_ne_bytes());
        for input in &deps.inputs {
            bytes.extend_from_slice(&input.to_ne_bytes());
        }
        if self.deps.len() <= output as usize {
            self.deps.resize(output as usize + 1, None);
        }
        self.deps[output as usize] = Some(deps);
        Ok(())
    }

    /// The number of a path, with a record of it if it has none yet.
    fn number(&mut self, path: &[u8], bytes: &mut Vec<u8>) -> io::Result<u32> {
        if let Some(number) = self.numbers.get(path) {
            return Ok(*number);
        }
        let number = self.numbers.len() as u32;
        let padding = (4 - path.len() % 4) % 4;
        let size = path.len() + padding + 4;
        if size > LARGEST || path.is_empty() {
            return Err(io::Error::other("a path is longer than the format has room for"));
        }
        bytes.extend_from_slice(&(size as u32).to_ne_bytes());
        bytes.extend_from_slice(path);
        bytes.extend_from_slice(&[0; 3][..padding]);
        bytes.extend_from_slice(&(!number).to_ne_bytes());
        self.numbers.insert(path.into(), number);
        Ok(number)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut file = match self.file.take() {
            Some(file) => file,
            None => {
                let mut file = OpenOptions::new().append(true).create(true).open(as_path(&self.path))?;
                if file.metadata()?.len() == 0 {
                    file.write_all(&[SIGNATURE, &VERSION.to_ne_bytes()].concat())?;
                }
                file
            }
        };
        file.write_all(bytes)?;
        self.file = Some(file);
        Ok(())
    }

    /// Makes the file if there is none, as `ninja` does at the end of each run.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn finish(&mut self) -> Result<(), Error> {
        self.write(b"").map_err(|error| Error::io("writing deps log", &self.path, &error))?;
        self.close();
        Ok(())
    }
}
