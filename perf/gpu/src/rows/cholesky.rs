//! A tiled Cholesky in double precision: through the engine, by hand on four streams, and the
//! vendor's own on the whole matrix.

use crate::algebra::{Algebra, DeviceTile};
use crate::driver::{Event, Stream};
use crate::lab::{say, Lab};
use crate::measure::Contestant;
use crate::record::{Figures, Limit, Question, Table};
use crate::tiles::{Matrix, On, Scratch, TileOps};
use seriatim::gpu::RawMemory;
use seriatim::Context;
use std::sync::Arc;
use std::time::Instant;

const STREAMS: usize = 4;
/// How far a factor may be from the vendor's, relative to its largest number.
const DIFFERENCE: f64 = 1e-9;
/// A factorisation that takes more seconds leaves no time for the rest.
const LONGEST: f64 = 4.0;

/// The matrix: its size, and that of a tile.
#[derive(Clone, Copy)]
struct Size {
    n: usize,
    tile: usize,
}

impl Size {
    fn tiles(self) -> usize {
        self.n / self.tile
    }

    /// The tiles of the lower half, column by column.
    fn places(self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.tiles()).flat_map(move |column| (column..self.tiles()).map(move |row| (row, column)))
    }

    /// Where a tile of the lower half lies among all of them.
    fn at(self, row: usize, column: usize) -> usize {
        row * (row + 1) / 2 + column
    }

    /// Thousands of millions of operations a second.
    fn rate(self, seconds: f64) -> f64 {
        (self.n as f64).powi(3) / 3.0 / seconds / 1e9
    }
}

/// Memory of bare calls, given back at the end of the row.
struct Memory<'a>(&'a Lab, Vec<RawMemory>);

impl Memory<'_> {
    fn doubles(&mut self, count: usize) -> Result<RawMemory, String> {
        let at = self.0.driver.allocate(count.max(1) * 8)?;
        self.1.push(at);
        Ok(at)
    }
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        for at in self.1.drain(..) {
            // SAFETY: it is this row's, and the row is over.
            let _ = unsafe { self.0.driver.free(at) };
        }
    }
}

/// The whole matrix, factorised by one call.
struct Whole {
    a: Matrix,
    scratch: Scratch,
    /// The bits of a difference and of a number, for comparisons.
    worst: RawMemory,
    stream: Stream,
}

impl Whole {
    fn new(lab: &Lab, memory: &mut Memory<'_>, ops: &dyn TileOps, n: usize) -> Result<Whole, String> {
        let length = ops.scratch(n)?;
        let scratch = Scratch { work: memory.doubles(length)?, length, info: memory.doubles(1)? };
        let a = Matrix::whole(memory.doubles(n * n)?, n, n);
        Ok(Whole { a, scratch, worst: memory.doubles(2)?, stream: lab.driver.stream()? })
    }

    fn on(&self) -> On<'static> {
        On::by_hand(self.stream.raw())
    }

    /// Fills the matrix and factorises it; returns the seconds of the second.
    fn factorise(&self, lab: &Lab, ops: &dyn TileOps) -> Result<f64, String> {
        // SAFETY: the matrix is this row's, and the stream is waited for.
        unsafe { lab.driver.fill(self.stream.raw(), self.a, (0, 0), self.a.rows) }?;
        lab.driver.synchronize(self.stream)?;
        let began = Instant::now();
        // SAFETY: as above.
        unsafe { ops.potrf(self.on(), self.a, self.scratch) }?;
        lab.driver.synchronize(self.stream)?;
        Ok(began.elapsed().as_secs_f64())
    }

    /// Compares tiles that are at rest with those of the factor.
    fn compare(&self, lab: &Lab, size: Size, tile: impl Fn(usize, usize) -> RawMemory) -> Result<(), String> {
        let driver = &lab.driver;
        // SAFETY: as above; the tiles are at rest, by the contract.
        unsafe { driver.zero(self.stream, self.worst, 16) }?;
        for (row, column) in size.places() {
            let first = (column * size.tile * size.n + row * size.tile) * 8;
            let at = RawMemory::new(self.a.at.raw().wrapping_byte_add(first));
            let whole = Matrix { at, rows: size.tile, columns: size.tile, right: size.n };
            let tile = Matrix::whole(tile(row, column), size.tile, size.tile);
            // SAFETY: as above.
            unsafe { driver.compare(self.stream.raw(), (tile, whole), row == column, self.worst) }?;
        }
        let found = driver.allocate_pinned(16)?.cast::<f64>();
        // SAFETY: the place is pinned and has sixteen bytes; it is kept for good.
        let [difference, largest] = unsafe {
            driver.copy_out(self.stream, self.worst, found.cast(), 16)?;
            driver.synchronize(self.stream)?;
            [*found, *found.add(1)]
        };
        let is_close = difference.is_finite() && largest.is_finite() && difference <= largest * DIFFERENCE;
        match is_close && largest > 0.0 {
            true => Ok(()),
            false => Err(format!("the factor differs by {difference:.1e} where numbers reach {largest:.1e}")),
        }
    }
}

/// Tiles that the engine orders.
struct Ours {
    tiles: Vec<DeviceTile>,
    algebra: Algebra,
}

impl Ours {
    fn new(lab: &Lab, ops: &Arc<dyn TileOps>, size: Size) -> Result<Ours, String> {
        let count = size.places().count();
        let tiles: Result<_, _> = (0..count).map(|_| DeviceTile::zeros(&lab.gpu, size.tile, size.tile)).collect();
        Ok(Ours { tiles: tiles.map_err(say)?, algebra: Algebra::new(&lab.gpu, ops, size.tile, size.tiles())? })
    }

    fn fill(&self, lab: &Lab, size: Size) -> Result<(), String> {
        for (row, column) in size.places() {
            let (tile, driver) = (self.tiles[size.at(row, column)].clone(), Arc::clone(&lab.driver));
            let operation = lab.engine.op("fill").context(Context::gpu(0)).write(&tile.data);
            let pushed = operation.push(move |run| {
                let stream = run.stream().ok_or("this operation has no stream")?;
                let first = (row * size.tile, column * size.tile);
                // SAFETY: the operation has declared the tile, of its own device.
                unsafe { driver.fill(stream, tile.write_on(run).map_err(say)?, first, size.n) }
            });
            pushed.map_err(say)?;
        }
        lab.engine.wait_for_all().map_err(say)
    }

    fn factorise(&self, lab: &Lab, size: Size) -> Result<f64, String> {
        self.fill(lab, size)?;
        let (algebra, tile) = (&self.algebra, |row, column| &self.tiles[size.at(row, column)]);
        let began = Instant::now();
        for step in 0..size.tiles() {
            algebra.potrf("potrf", step, tile(step, step)).map_err(say)?;
            for row in step + 1..size.tiles() {
                algebra.trsm("trsm", tile(step, step), tile(row, step)).map_err(say)?;
            }
            for column in step + 1..size.tiles() {
                algebra.syrk("syrk", tile(column, step), tile(column, column)).map_err(say)?;
                for row in column + 1..size.tiles() {
                    let (l, m) = ((tile(row, step), false), (tile(column, step), true));
                    algebra.gemm("gemm", -1.0, l, m, 1.0, tile(row, column)).map_err(say)?;
                }
            }
        }
        algebra.finish()?;
        Ok(began.elapsed().as_secs_f64())
    }

    /// Compares the tiles with the whole factor.
    fn compare(&self, lab: &Lab, size: Size, whole: &Whole) -> Result<(), String> {
        // The addresses, from an operation that has declared the tiles. All is at rest after it.
        let addresses = Arc::new(std::sync::Mutex::new(Vec::new()));
        let (tiles, found) = (self.tiles.clone(), Arc::clone(&addresses));
        let operation = lab.engine.op("addresses").context(Context::gpu(0));
        let pushed = operation.reads(self.tiles.iter().map(|tile| &tile.data)).push(move |run| {
            let all: Result<Vec<_>, _> = tiles.iter().map(|tile| tile.data.read_on(run)).collect();
            all.map(|all| *found.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = all)
        });
        pushed.and_then(|()| lab.engine.wait_for_all()).map_err(say)?;
        let addresses = addresses.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        whole.compare(lab, size, |row, column| addresses[size.at(row, column)])
    }
}

/// Tiles that are ordered by hand: each belongs to a stream, and has an event behind its last
/// change. A tile is changed on its own stream alone, and read by others when it is done.
struct ByHand {
    tiles: Vec<RawMemory>,
    events: Vec<Event>,
    streams: Vec<Stream>,
    scratch: Scratch,
}

impl ByHand {
    fn new(lab: &Lab, memory: &mut Memory<'_>, ops: &dyn TileOps, size: Size) -> Result<ByHand, String> {
        let (length, count) = (ops.scratch(size.tile)?, size.places().count());
        Ok(ByHand {
            tiles: (0..count).map(|_| memory.doubles(size.tile * size.tile)).collect::<Result<_, _>>()?,
            events: lab.events(count)?,
            streams: lab.streams(STREAMS)?,
            scratch: Scratch { work: memory.doubles(length)?, length, info: memory.doubles(1)? },
        })
    }

    fn matrix(&self, size: Size, (row, column): (usize, usize)) -> Matrix {
        Matrix::whole(self.tiles[size.at(row, column)], size.tile, size.tile)
    }

    /// Queues a change of a tile on its stream, behind the last changes of what it reads.
    fn change(
        &self,
        lab: &Lab,
        size: Size,
        to: (usize, usize),
        reads: &[(usize, usize)],
        queue: impl FnOnce(On<'_>) -> Result<(), String>,
    ) -> Result<(), String> {
        let owner = |(row, column): (usize, usize)| (row + column) % STREAMS;
        let stream = self.streams[owner(to)];
        for read in reads.iter().filter(|read| owner(**read) != owner(to)) {
            lab.driver.wait(stream, self.events[size.at(read.0, read.1)])?;
        }
        queue(On::by_hand(stream.raw()))?;
        lab.driver.record(self.events[size.at(to.0, to.1)], stream)
    }

    fn factorise(&self, lab: &Lab, ops: &dyn TileOps, size: Size) -> Result<f64, String> {
        for place in size.places() {
            let (a, first) = (self.matrix(size, place), (place.0 * size.tile, place.1 * size.tile));
            // SAFETY: the tile is this row's, and its stream orders what follows.
            self.change(lab, size, place, &[], |on| unsafe { lab.driver.fill(on.stream, a, first, size.n) })?;
        }
        self.finish(lab)?;
        let matrix = |row, column| self.matrix(size, (row, column));
        let began = Instant::now();
        for step in 0..size.tiles() {
            let (own, corner) = ((step, step), matrix(step, step));
            // SAFETY: the streams and events keep the order, as said above. The factorisations
            // follow each other by way of the tiles between them.
            self.change(lab, size, own, &[], |on| unsafe { ops.potrf(on, corner, self.scratch) })?;
            for row in step + 1..size.tiles() {
                let a = matrix(row, step);
                // SAFETY: as above.
                self.change(lab, size, (row, step), &[own], |on| unsafe { ops.trsm(on, corner, a) })?;
            }
            for column in step + 1..size.tiles() {
                let (from, l, a) = ((column, step), matrix(column, step), matrix(column, column));
                // SAFETY: as above.
                self.change(lab, size, (column, column), &[from], |on| unsafe { ops.syrk(on, l, a) })?;
                for row in column + 1..size.tiles() {
                    let (reads, m, c) = ([(row, step), from], matrix(row, step), matrix(row, column));
                    // SAFETY: as above.
                    let gemm = |on: On<'_>| unsafe { ops.gemm(on, -1.0, (m, false), (l, true), 1.0, c) };
                    self.change(lab, size, (row, column), &reads, gemm)?;
                }
            }
        }
        self.finish(lab)?;
        Ok(began.elapsed().as_secs_f64())
    }

    fn finish(&self, lab: &Lab) -> Result<(), String> {
        self.streams.iter().try_for_each(|stream| lab.driver.synchronize(*stream))
    }
}

/// Both sizes, each beside the vendor's factorisation and beside tiles by hand.
pub fn cholesky(lab: &Lab, table: &mut Table) -> Result<(), String> {
    let sizes = match lab.quick {
        true => [Size { n: 64, tile: 16 }, Size { n: 96, tile: 16 }],
        false => [Size { n: 16_384, tile: 1024 }, Size { n: 32_768, tile: 2048 }],
    };
    let four_fifths = |figures: &Figures| Some(figures.bare? * 0.8);
    let nine_tenths = |figures: &Figures| Some(figures.bare? * 0.9);
    let goals =
        [("80 % of the vendor's", Limit::AtLeast(four_fifths)), ("90 % of the vendor's", Limit::AtLeast(nine_tenths))];
    // What a factorisation of the size before has taken.
    let mut before: Option<(Size, f64)> = None;
    for (size, (goal, limit)) in sizes.into_iter().zip(goals) {
        let vendor = Question::new(format!("tiled Cholesky, n = {}", size.n), "Gflop/s").beside("the vendor's potrf");
        let vendor = vendor.goal(goal, limit).time(40);
        let hand = Question::new(format!("tiled Cholesky, n = {}", size.n), "Gflop/s").beside("tiles by hand");
        let limit = Limit::AtLeast(|figures| Some(figures.bare? * 0.95));
        let hand = hand.goal("95 % of tiles by hand on four streams", limit).time(40);
        let ops = match &lab.device.tiles {
            Ok(ops) => Arc::clone(ops),
            Err(why) => {
                table.unavailable(vendor, why.clone())?;
                table.unavailable(hand, why.clone())?;
                continue;
            }
        };
        let expected = before.map(|(other, seconds)| seconds * (size.n as f64 / other.n as f64).powi(3));
        if let Some(seconds) = expected.filter(|seconds| *seconds > LONGEST) {
            let why = format!("one run would take {seconds:.0} s");
            table.unavailable(vendor, why.clone())?;
            table.unavailable(hand, why)?;
            continue;
        }
        match rows(lab, table, &ops, size, vendor, hand) {
            Ok(seconds) => before = Some((size, seconds)),
            Err(why) => table.unavailable(Question::new(format!("tiled Cholesky, n = {}", size.n), ""), why)?,
        }
        // What the engine has kept goes back to the driver for what comes next.
        lab.gpu.trim();
        lab.engine.wait_for_all().map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Measures both rows of a size; returns the seconds of the vendor's factorisation.
fn rows(
    lab: &Lab,
    table: &mut Table,
    ops: &Arc<dyn TileOps>,
    size: Size,
    vendor: Question,
    hand: Question,
) -> Result<f64, String> {
    let mut memory = Memory(lab, Vec::new());
    let whole = Whole::new(lab, &mut memory, &**ops, size.n)?;
    let by_hand = ByHand::new(lab, &mut memory, &**ops, size)?;
    let tiled = Ours::new(lab, ops, size)?;
    let (whole, by_hand, tiled) = (&whole, &by_hand, &tiled);
    let ours = || -> Contestant<'_> {
        Box::new(move || {
            let seconds = tiled.factorise(lab, size)?;
            tiled.compare(lab, size, whole)?;
            Ok(size.rate(seconds))
        })
    };
    // The vendor's factor is there before the first comparison.
    whole.factorise(lab, &**ops)?;
    let seconds = whole.factorise(lab, &**ops)?;
    let vendors: Contestant<'_> = Box::new(move || whole.factorise(lab, &**ops).map(|seconds| size.rate(seconds)));
    table.measure(lab, vendor, ours(), Some(vendors))?;
    let hands: Contestant<'_> = Box::new(move || {
        let seconds = by_hand.factorise(lab, &**ops, size)?;
        whole.compare(lab, size, |row, column| by_hand.tiles[size.at(row, column)])?;
        Ok(size.rate(seconds))
    });
    table.measure(lab, hand, ours(), Some(hands))?;
    Ok(seconds)
}
