//! The command line.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use lexopt::prelude::*;
use seriatim::Kind;

use digits::data::FIT_ROWS;

/// What `--help` prints.
pub const HELP: &str = "\
Reads handwritten digits by Gaussian-kernel ridge regression, every tile of the linear algebra an operation.

Usage: cargo run --release -p digits -- [OPTIONS]

  --engine NAME    naive, pooled or per-device [per-device]
  --workers N      worker threads; the naive engine has none [one for each core]
  --tile N         rows and columns of a tile, 16 to 1500 [125]
  --repeat N       timed runs of each kind, interleaved; the medians are shown [3]
  --trace PATH     write a Chrome trace of one run, which Perfetto opens
  --data PATH      the images [digits/data/digits.csv.gz]
  --help           this text

Exit code: 0 when 286 of the 297 test images are read right, 1 when not or when a run fails, 2 for bad input.
";

/// A tile smaller than this makes operations by the hundred thousand; one larger than the matrix
/// makes no sense.
const TILE: RangeInclusive<usize> = 16..=FIT_ROWS;
const WORKERS: RangeInclusive<usize> = 1..=256;
const REPEAT: RangeInclusive<usize> = 1..=1000;

/// The options, each with its default filled in.
#[derive(Debug)]
pub struct Args {
    pub engine: Kind,
    pub workers: usize,
    pub tile: usize,
    pub repeat: usize,
    pub trace: Option<PathBuf>,
    pub data: PathBuf,
}

impl Args {
    /// Reads the process's arguments; `None` when help was asked for.
    ///
    /// # Errors
    /// One line that names the argument and what it may be.
    pub fn parse() -> Result<Option<Args>, String> {
        let mut args = Args {
            engine: Kind::PerDevice,
            workers: std::thread::available_parallelism().map_or(1, usize::from).min(*WORKERS.end()),
            // Twelve equal tiles a side: enough to keep a few workers busy, large enough that an
            // operation takes tens of microseconds.
            tile: 125,
            repeat: 3,
            trace: None,
            data: PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/data/digits.csv.gz")),
        };
        let mut parser = lexopt::Parser::from_env();
        while let Some(argument) = parser.next().map_err(hint)? {
            match argument {
                Long("engine") => args.engine = Kind::from_str(&text(&mut parser)?).map_err(hint)?,
                Long("workers") => args.workers = number(&mut parser, "--workers", WORKERS)?,
                Long("tile") => args.tile = number(&mut parser, "--tile", TILE)?,
                Long("repeat") => args.repeat = number(&mut parser, "--repeat", REPEAT)?,
                Long("trace") => args.trace = Some(parser.value().map_err(hint)?.into()),
                Long("data") => args.data = parser.value().map_err(hint)?.into(),
                Long("help") | Short('h') => return Ok(None),
                other => return Err(hint(other.unexpected())),
            }
        }
        Ok(Some(args))
    }
}

fn text(parser: &mut lexopt::Parser) -> Result<String, String> {
    parser.value().and_then(|value| value.string()).map_err(hint)
}

fn number(parser: &mut lexopt::Parser, name: &str, range: RangeInclusive<usize>) -> Result<usize, String> {
    let value = text(parser)?;
    match value.parse() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(format!("{name} must be a whole number from {} to {}, not {value:?}", range.start(), range.end())),
    }
}

fn hint(error: impl Display) -> String {
    format!("{error}; --help lists the options")
}
