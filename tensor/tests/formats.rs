//! Bytes that anybody may have written, read as files: thousands of changed valid files of every
//! format, from seeds. LONG_TESTS has more of them, and `fuzz/` looks for others by coverage.

#[path = "formats/check.rs"]
mod check;
mod common;
#[path = "formats/files.rs"]
mod files;
#[path = "formats/memory.rs"]
mod memory;
#[path = "formats/mend.rs"]
mod mend;

use check::{check, runtime};
use common::Draws;
use files::{files, npy};
use seriatim_tensor::{ErrorKind, Format};

#[global_allocator]
static COUNTING: memory::Counting = memory::Counting;

/// How many changed files there are of each valid one.
fn rounds() -> usize {
    let is_long = std::env::var("LONG_TESTS").is_ok_and(|text| !text.is_empty() && text != "0");
    if is_long {
        20_000
    } else {
        500
    }
}

/// Numbers that lie at the edges of what lengths can be.
const EDGES: [u64; 12] =
    [0, 1, 0x7F, 0xFF, 0xFFFF, 0xFF_FFFF, 0x7FFF_FFFF, 0xFFFF_FFFF, 0x1_0000_0000, 1 << 47, i64::MAX as u64, u64::MAX];

/// What takes the place of words in the headers that are text.
const WORDS: [&str; 16] =
    ["0", "1", "9", "18446744073709551615", "-1", "(", ")", ",", "[", "]", "'", "\"", "True", "F64", "<f8", "\\u0000"];

/// Changes bytes in one of the ways that files are torn, or lie.
fn change(draws: &mut Draws, bytes: &mut Vec<u8>, others: &[u8]) {
    let length = bytes.len();
    let at = draws.below(length + 1);
    match draws.below(8) {
        0 => bytes.truncate(at),
        1 if at < length => bytes[at] ^= 1 << draws.below(8),
        2 if at < length => bytes[at] = draws.below(256) as u8,
        3 => {
            // A number of 2, 4 or 8 bytes, often where one is.
            let number = EDGES[draws.below(EDGES.len())].to_le_bytes();
            let at = if draws.below(2) == 0 { at / 4 * 4 } else { at };
            let width = [2, 4, 8][draws.below(3)].min(length.saturating_sub(at));
            bytes[at.min(length)..][..width].copy_from_slice(&number[..width]);
        }
        4 => {
            let word = WORDS[draws.below(WORDS.len())].bytes();
            let end = (at + draws.below(3)).min(length);
            bytes.splice(at..end, word);
        }
        5 => {
            let end = (at + draws.below(40)).min(length);
            bytes.drain(at..end);
        }
        6 => {
            // A part is there twice, or stands elsewhere.
            let part = bytes[at..(at + draws.below(80)).min(length)].to_vec();
            let to = draws.below(length + 1);
            bytes.splice(to..to, part);
        }
        _ => {
            let from = draws.below(others.len());
            let part = &others[from..(from + draws.below(60)).min(others.len())];
            bytes.splice(at..at, part.iter().copied());
        }
    }
}

#[test]
fn changed_files_are_errors_or_come_back() {
    let runtime = runtime();
    let mut draws = Draws::new(1);
    let files = files(&runtime);
    let rounds = rounds();
    for (name, format, bytes) in &files {
        assert!(check(&runtime, *format, bytes, false), "{name} is read");
        let mut read = 0;
        for round in 0..rounds {
            let others = &files[draws.below(files.len())].2;
            let mut changed = bytes.clone();
            // Half of the changes are single ones.
            for _ in 0..=draws.below(2) * draws.below(4) {
                change(&mut draws, &mut changed, others);
            }
            if *format == Format::Npz && round % 2 == 0 {
                changed = mend::mend(&changed);
            }
            read += usize::from(check(&runtime, *format, &changed, false));
        }
        assert!(read < rounds, "{name}: some of {rounds} changed files are refused");
    }
}

#[test]
fn each_length_of_a_file_is_checked() {
    // Every number of each file, wherever it may be, at every edge.
    let runtime = runtime();
    for (_, format, bytes) in files(&runtime).iter().filter(|(.., bytes)| bytes.len() < 700) {
        for at in 0..bytes.len() {
            for edge in EDGES {
                for width in [2, 4, 8].into_iter().filter(|width| at + width <= bytes.len()) {
                    let mut changed = bytes.clone();
                    changed[at..at + width].copy_from_slice(&edge.to_le_bytes()[..width]);
                    check(&runtime, *format, &changed, false);
                }
            }
        }
    }
}

#[test]
fn a_shape_without_elements_costs_nothing() {
    let runtime = runtime();
    for order in ["True", "False"] {
        for shape in ["(0, 288230376151711743)", "(288230376151711743, 0)", "(288230376151711743, 0, 1)"] {
            let header = format!("{{'descr': '<f4', 'fortran_order': {order}, 'shape': {shape}, }}");
            assert!(check(&runtime, Format::Npy, &npy(1, &header, &[]), false), "{header}");
        }
    }
}

#[test]
fn a_message_has_no_more_of_a_file_than_a_reader_wants() {
    let runtime = runtime();
    let long = "x".repeat(100_000);
    let json = format!(r#"{{"{long}":{{"shape":[1],"dtype":"{long}","data_offsets":[0,1]}}}}"#);
    let safetensors = [&(json.len() as u64).to_le_bytes()[..], json.as_bytes(), &[0]].concat();
    for (format, bytes) in [(Format::Npy, npy(2, &long, &[])), (Format::Safetensors, safetensors)] {
        let error = format.decode(&runtime, &bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadFormat);
        assert!(error.to_string().len() < 1_000);
    }
}

#[test]
#[should_panic(expected = "as many arrays come back")]
fn a_reader_that_loses_an_array_is_noticed() {
    let runtime = runtime();
    let (_, format, bytes) = files(&runtime).pop().unwrap();
    check(&runtime, format, &bytes, true);
}
