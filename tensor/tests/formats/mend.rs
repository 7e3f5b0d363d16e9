//! Puts the right checksums into an archive of ZIP, so that changed values are read and not refused
//! at once.
//!
//! Used by `tensor/tests/formats.rs` and by the target `formats` of `fuzz/`.

use flate2::bufread::DeflateDecoder;
use flate2::Crc;
use std::io::Read;

/// The most bytes that an entry is unpacked to.
const MOST: u64 = 1 << 20;

fn word(bytes: &[u8], at: usize) -> Option<usize> {
    let of = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes([of[0], of[1], of[2], of[3]]) as usize)
}

fn half(bytes: &[u8], at: usize) -> Option<usize> {
    Some(usize::from(*bytes.get(at)?) + (usize::from(*bytes.get(at + 1)?) << 8))
}

/// The checksum of what an entry of the directory unpacks to.
fn checksum(bytes: &[u8], entry: usize) -> Option<u32> {
    let (method, packed, local) = (half(bytes, entry + 10)?, word(bytes, entry + 20)?, word(bytes, entry + 42)?);
    let at = local + 30 + half(bytes, local + 26)? + half(bytes, local + 28)?;
    let packed = bytes.get(at..at.checked_add(packed)?)?;
    let mut crc = Crc::new();
    if method == 8 {
        let mut unpacked = Vec::new();
        DeflateDecoder::new(packed).take(MOST).read_to_end(&mut unpacked).ok()?;
        crc.update(&unpacked);
    } else {
        crc.update(packed);
    }
    Some(crc.sum())
}

/// The same archive with right checksums in its directory; also of what is only nearly one.
pub fn mend(bytes: &[u8]) -> Vec<u8> {
    let mut mended = bytes.to_vec();
    for entry in 0..bytes.len().saturating_sub(45) {
        if bytes[entry..].starts_with(b"PK\x01\x02") {
            if let Some(sum) = checksum(&mended, entry) {
                mended[entry + 16..entry + 20].copy_from_slice(&sum.to_le_bytes());
            }
        }
    }
    mended
}
