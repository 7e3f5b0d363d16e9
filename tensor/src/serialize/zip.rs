//! Archives of ZIP, as far as NumPy uses them: entries that are stored or deflated, found by the
//! directory at the end. Used by `npz.rs`.
//!
//! Written by hand: a crate would bring its own readers of files, and ours must refuse what lies
//! about its lengths before it takes memory for it. `flate2`, which the engine's examples use
//! already, inflates and computes the checksum. Encrypted archives, those in several parts and
//! those beyond 4 GiB (ZIP64) are refused.

#![forbid(unsafe_code)]

use crate::error::{Error, ErrorKind};
use crate::serialize::bytes::{bad, Cut};
use flate2::bufread::DeflateDecoder;
use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};
use std::borrow::Cow;
use std::io::{Read, Write};

const FORMAT: &str = "zip";
const LOCAL: u32 = 0x0403_4b50;
const CENTRAL: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
/// The bytes of the record at the end, without its comment.
const END_LENGTH: usize = 22;
const STORED: u16 = 0;
const DEFLATED: u16 = 8;
const ENCRYPTED: u16 = 1;
/// Names are in UTF-8.
const UTF8: u16 = 1 << 11;
/// The first of January 1980: files of the same arrays are the same.
const DATE: u16 = 0x21;

/// A file of an archive.
pub(super) struct Entry<'a> {
    pub name: String,
    method: u16,
    checksum: u32,
    size: usize,
    packed: &'a [u8],
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// The record at the end: how many entries there are, and where their directory begins and ends.
fn end(bytes: &[u8]) -> Result<(usize, usize, usize), Error> {
    let last = bytes.len().checked_sub(END_LENGTH);
    let places = last.map(|last| (last.saturating_sub(usize::from(u16::MAX))..=last).rev()).into_iter().flatten();
    for at in places {
        let mut cut = Cut::new(FORMAT, &bytes[at..]);
        if cut.u32()? != END {
            continue;
        }
        let [disk, first_disk, here, count] = [cut.u16()?, cut.u16()?, cut.u16()?, cut.u16()?];
        let (size, from, comment) = (cut.u32()? as usize, cut.u32()? as usize, usize::from(cut.u16()?));
        if at + END_LENGTH + comment != bytes.len() {
            continue;
        }
        if (disk, first_disk, here) != (0, 0, count) {
            return Err(bad(FORMAT, "it is one of several parts, or has ZIP64's directory"));
        }
        if from.checked_add(size) != Some(at) {
            return Err(bad(FORMAT, format!("its directory of {size} bytes from {from} on does not end at {at}")));
        }
        return Ok((usize::from(count), from, at));
    }
    Err(bad(FORMAT, "it has no directory at its end"))
}

/// The entries of an archive, whose values are still packed.
pub(super) fn entries(bytes: &[u8]) -> Result<Vec<Entry<'_>>, Error> {
    let (count, from, to) = end(bytes)?;
    let mut directory = Cut::new(FORMAT, &bytes[from..to]);
    let (mut found, mut packed) = (Vec::new(), 0usize);
    for _ in 0..count {
        let entry = entry(&mut directory, &bytes[..from])?;
        // Entries that share bytes could be unpacked to far more than the file has.
        packed = packed.saturating_add(entry.packed.len());
        if packed > from {
            return Err(bad(FORMAT, "its entries lie one over the other"));
        }
        found.push(entry);
    }
    directory.end()?;
    Ok(found)
}

/// The next entry of a directory; `files` is what lies before that.
fn entry<'a>(directory: &mut Cut<'_>, files: &'a [u8]) -> Result<Entry<'a>, Error> {
    if directory.u32()? != CENTRAL {
        return Err(bad(FORMAT, "an entry of its directory does not begin with PK\\x01\\x02"));
    }
    let [_, _, flags, method, _, _] = directory.words::<6>()?;
    let (checksum, packed, size) = (directory.u32()?, directory.u32()?, directory.u32()?);
    let [name, extra, comment, _, _] = directory.words::<5>()?;
    let (_, at) = (directory.u32()?, directory.u32()? as usize);
    let name = std::str::from_utf8(directory.take(usize::from(name))?).map_err(|_| bad(FORMAT, "a name is no text"))?;
    directory.take(usize::from(extra) + usize::from(comment))?;
    let wrong = |what: &str| bad(FORMAT, format!("'{name}' {what}"));
    if flags & ENCRYPTED != 0 {
        return Err(wrong("is encrypted"));
    }
    if ![STORED, DEFLATED].contains(&method) {
        return Err(wrong(&format!("is packed by method {method}: 0 (stored) and 8 (deflated) are known")));
    }
    if [packed, size].contains(&u32::MAX) {
        return Err(wrong("is of ZIP64"));
    }
    let mut local = Cut::new(FORMAT, files.get(at..).ok_or_else(|| wrong("lies beyond the file"))?);
    if local.u32()? != LOCAL {
        return Err(wrong("does not begin with PK\\x03\\x04"));
    }
    let [_, _, same_method, _, _] = local.words::<5>()?;
    local.take(12)?;
    let [length, extra] = local.words::<2>()?;
    if same_method != method || local.take(usize::from(length))? != name.as_bytes() {
        return Err(wrong("has another name or method in the directory"));
    }
    local.take(usize::from(extra))?;
    let packed = local.take(packed as usize)?;
    if method == STORED && packed.len() != size as usize {
        return Err(wrong(&format!("is stored, and has {} bytes for {size}", packed.len())));
    }
    Ok(Entry { name: name.to_owned(), method, checksum, size: size as usize, packed })
}

impl<'a> Entry<'a> {
    /// The values. Memory is taken as they are unpacked, so a size that is not true takes none.
    pub fn unpack(&self) -> Result<Cow<'a, [u8]>, Error> {
        let wrong = |what: &str| bad(FORMAT, format!("'{}' {what}", self.name));
        let bytes = if self.method == STORED {
            Cow::Borrowed(self.packed)
        } else {
            let mut unpacked = Vec::new();
            let mut decoder = DeflateDecoder::new(self.packed).take(self.size as u64 + 1);
            decoder.read_to_end(&mut unpacked).map_err(|error| wrong(&format!("cannot be unpacked: {error}")))?;
            if unpacked.len() != self.size || decoder.get_ref().total_in() != self.packed.len() as u64 {
                return Err(wrong(&format!("does not unpack to the {} bytes that it should have", self.size)));
            }
            Cow::Owned(unpacked)
        };
        match checksum(&bytes) == self.checksum {
            true => Ok(bytes),
            false => Err(wrong("has another checksum")),
        }
    }
}

/// Makes an archive.
#[derive(Default)]
pub(super) struct Archive {
    files: Vec<u8>,
    directory: Vec<u8>,
    count: u16,
}

/// A number that has 32 bits in an archive.
fn small(number: usize) -> Result<u32, Error> {
    u32::try_from(number).ok().filter(|number| *number != u32::MAX).ok_or_else(|| {
        let message = "an archive beyond 4 GiB: write several, or safetensors";
        Error::new(ErrorKind::TooLarge, message)
    })
}

impl Archive {
    /// Adds a file, deflated or stored as it is.
    pub fn add(&mut self, name: &str, bytes: &[u8], deflates: bool) -> Result<(), Error> {
        let failed = |error: std::io::Error| Error::with_source(ErrorKind::Io, format!("cannot pack: {error}"), error);
        let packed = if deflates {
            let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(bytes).map_err(failed)?;
            Cow::Owned(encoder.finish().map_err(failed)?)
        } else {
            Cow::Borrowed(bytes)
        };
        let length = u16::try_from(name.len()).map_err(|_| bad(FORMAT, "a name has more than 65,535 bytes"))?;
        let method = if deflates { DEFLATED } else { STORED };
        let at = small(self.files.len())?;
        // What both headers have: version 2.0, flags, method, time, checksum, sizes and lengths.
        let mut facts: Vec<u8> = [20, UTF8, method, 0, DATE].iter().flat_map(|word| word.to_le_bytes()).collect();
        for number in [checksum(bytes), small(packed.len())?, small(bytes.len())?] {
            facts.extend(number.to_le_bytes());
        }
        facts.extend([length, 0].iter().flat_map(|word| word.to_le_bytes()));
        self.files.extend(LOCAL.to_le_bytes());
        for part in [&facts[..], name.as_bytes(), &packed] {
            self.files.extend(part);
        }
        self.directory.extend(CENTRAL.to_le_bytes());
        self.directory.extend(20u16.to_le_bytes());
        self.directory.extend(&facts);
        // No comment, the first part, no attributes.
        self.directory.extend([0; 10]);
        self.directory.extend(at.to_le_bytes());
        self.directory.extend(name.as_bytes());
        self.count = self.count.checked_add(1).filter(|count| *count != u16::MAX).ok_or_else(|| {
            Error::new(ErrorKind::TooLarge, "an archive of 65,535 arrays: write several, or safetensors")
        })?;
        Ok(())
    }

    /// The archive's bytes.
    pub fn finish(self) -> Result<Vec<u8>, Error> {
        let (size, from) = (small(self.directory.len())?, small(self.files.len())?);
        let mut bytes = [self.files, self.directory].concat();
        bytes.extend(END.to_le_bytes());
        bytes.extend([0, 0, self.count, self.count].iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend([size, from].iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend([0, 0]);
        Ok(bytes)
    }
}
