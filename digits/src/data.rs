//! Reading the images: a gzipped table of 8 × 8 grey values and the digit each row shows.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;

use crate::tile::Tile;

/// How many images the fit is made from: the first rows of the file.
pub const FIT_ROWS: usize = 1500;
/// How many images are kept back to test it: the rows after those.
pub const TEST_ROWS: usize = 297;
/// Ten digits, so ten right-hand sides.
pub const CLASSES: usize = 10;
const PIXELS: usize = 64;
/// The grey values are whole numbers from 0 to this.
const WHITE: u8 = 16;

/// As many images as a tile has rows.
#[derive(Debug)]
pub struct Block {
    /// One image a row, every pixel scaled to 0..=1.
    pub pixels: Tile,
    /// The squared length of each row, so that a distance costs one dot product.
    pub norms: Vec<f64>,
    /// The digit each image shows.
    pub labels: Vec<u8>,
}

/// All the images, cut into blocks of rows. Nothing changes them, so they need no variables.
#[derive(Debug)]
pub struct Inputs {
    pub fit: Vec<Block>,
    pub test: Vec<Block>,
}

/// Reads the images and cuts them into blocks of `tile` rows; the last block may be shorter.
///
/// # Errors
/// One line that names the file, what is wrong with it and what to do.
pub fn read(path: &Path, tile: usize) -> Result<Inputs, String> {
    let complain =
        |what: String| format!("{}: {what}; give --data a copy of digits/data/digits.csv.gz", path.display());
    let file = File::open(path).map_err(|error| complain(format!("cannot open it ({error})")))?;
    let mut text = String::new();
    GzDecoder::new(file)
        .read_to_string(&mut text)
        .map_err(|error| complain(format!("not a whole gzip file of text ({error})")))?;
    let mut rows = Vec::with_capacity(FIT_ROWS + TEST_ROWS);
    for (index, line) in text.lines().enumerate() {
        rows.push(parse(line).map_err(|what| complain(format!("line {}: {what}", index + 1)))?);
    }
    if rows.len() != FIT_ROWS + TEST_ROWS {
        return Err(complain(format!("{} images where {} belong", rows.len(), FIT_ROWS + TEST_ROWS)));
    }
    let (fit, test) = rows.split_at(FIT_ROWS);
    Ok(Inputs { fit: fit.chunks(tile).map(block).collect(), test: test.chunks(tile).map(block).collect() })
}

/// 64 grey values, then the digit.
fn parse(line: &str) -> Result<[u8; PIXELS + 1], String> {
    let mut row = [0; PIXELS + 1];
    let mut count = 0;
    for field in line.split(',') {
        let most = if count < PIXELS { WHITE } else { CLASSES as u8 - 1 };
        let value = field.trim().parse().ok().filter(|&value| value <= most);
        let value = value.ok_or_else(|| format!("{:?} is no whole number from 0 to {most}", brief(field)))?;
        match row.get_mut(count) {
            Some(place) => *place = value,
            None => return Err(format!("more than {} numbers", PIXELS + 1)),
        }
        count += 1;
    }
    if count < row.len() {
        return Err(format!("{count} numbers where {} belong", PIXELS + 1));
    }
    Ok(row)
}

/// Enough of a field to find it by, however long the line.
fn brief(field: &str) -> String {
    field.chars().take(20).collect()
}

fn block(rows: &[[u8; PIXELS + 1]]) -> Block {
    let pixels = Tile::from_fn(rows.len(), PIXELS, |row, pixel| f64::from(rows[row][pixel]) / f64::from(WHITE));
    let square = |row: usize| (0..PIXELS).map(|pixel| pixels[(row, pixel)].powi(2)).sum();
    let norms = (0..rows.len()).map(square).collect();
    let labels = rows.iter().map(|row| row[PIXELS]).collect();
    Block { pixels, norms, labels }
}
