//! The examples without a GPU: right where the device is, and found wrong where it is not.

use seriatim::gpu::RawStream;
use seriatim_gpu_bench::device::{Device, Which};
use seriatim_gpu_bench::digits_gpu::{Digits, Outcome};
use seriatim_gpu_bench::mix::{Mix, Mixture, OnProcessor};
use seriatim_gpu_bench::pipeline_gpu::{Picture, Pipeline, Shape};
use seriatim_gpu_bench::tiles::{Matrix, On, Operand, Processor, Scratch, TileOps};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Duration;

fn processor() -> Device {
    Device::open(Which::Processor).expect("it is there")
}

fn digits(device: &Device, tile: usize) -> Result<Outcome, String> {
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../digits/data/digits.csv.gz");
    Digits::new(device, &images, tile)?.run()
}

#[test]
fn the_digits_are_read_as_well_as_by_the_processor() {
    for tile in [125, 311] {
        let outcome = digits(&processor(), tile).unwrap();
        outcome.check().unwrap();
        assert_eq!(outcome.right, 286);
    }
}

/// Operations of which one product in so many is a little too large.
struct Off(AtomicUsize, f64);

// SAFETY (of every block below): what is passed on is what the caller has said of it.
impl TileOps for Off {
    fn name(&self) -> String {
        "wrong".to_owned()
    }

    fn scratch(&self, n: usize) -> Result<usize, String> {
        Processor.scratch(n)
    }

    unsafe fn potrf(&self, on: On<'_>, a: Matrix, scratch: Scratch) -> Result<(), String> {
        // SAFETY: as above.
        unsafe { Processor.potrf(on, a, scratch) }
    }

    unsafe fn trsm(&self, on: On<'_>, l: Matrix, a: Matrix) -> Result<(), String> {
        // SAFETY: as above.
        unsafe { Processor.trsm(on, l, a) }
    }

    unsafe fn syrk(&self, on: On<'_>, l: Matrix, a: Matrix) -> Result<(), String> {
        // SAFETY: as above.
        unsafe { Processor.syrk(on, l, a) }
    }

    unsafe fn gemm(&self, on: On<'_>, alpha: f64, a: Operand, b: Operand, beta: f64, c: Matrix) -> Result<(), String> {
        let is_off = self.0.fetch_add(1, Relaxed) % 100 == 50;
        let alpha = if is_off { alpha * (1.0 + self.1) } else { alpha };
        // SAFETY: as above.
        unsafe { Processor.gemm(on, alpha, a, b, beta, c) }
    }

    unsafe fn solve(&self, on: On<'_>, l: Matrix, transposed: bool, y: Matrix) -> Result<(), String> {
        // SAFETY: as above.
        unsafe { Processor.solve(on, l, transposed, y) }
    }
}

#[test]
fn a_device_that_computes_otherwise_is_found() {
    let off = |by| Device { tiles: Ok(Arc::new(Off(AtomicUsize::new(0), by))), ..processor() };
    // Rounding is no fault.
    digits(&off(1e-14), 125).unwrap().check().unwrap();
    let said = digits(&off(1e-6), 125).unwrap().check().unwrap_err();
    assert!(said.contains("differ from the processor's"), "{said}");
    // So far off that the matrix is none of a Gaussian kernel any more.
    let outcome = digits(&off(-3.0), 125).and_then(|outcome| outcome.check());
    assert!(outcome.is_err());
}

/// A kernel that leaves out its last number.
struct Short;

impl Mix for Short {
    unsafe fn mix(&self, device: usize, stream: RawStream, what: &Mixture) -> Result<(), String> {
        // SAFETY: fewer numbers than the caller has said.
        unsafe { OnProcessor.mix(device, stream, &Mixture { count: what.count - 1, ..*what }) }
    }
}

#[test]
fn a_pipeline_brings_every_number_back() {
    let shape = Shape { chunks: 5, length: 3000, spin: 7 };
    let measured = |device: &Device| Pipeline::new(device, shape)?.measure(2, Duration::from_secs(60));
    let outcome = measured(&processor()).unwrap();
    assert!(outcome.longest() > 0.0 && outcome.hidden().is_some_and(|share| (0.0..=1.0).contains(&share)));
    assert_eq!(outcome.drawn().lines().count(), 4);
    let picture = Pipeline::new(&processor(), shape).and_then(|pipeline| pipeline.profiled()).unwrap();
    assert_eq!(picture.overlap.operations, 15);
    let copies: Vec<_> = picture.rows.iter().filter(|(name, _)| name.contains("copy")).collect();
    assert_eq!(copies.iter().map(|(_, spans)| spans.len()).collect::<Vec<_>>(), [5, 5], "{:?}", picture.rows);
    assert!(picture.drawn().lines().count() >= 3 && picture.drawn().contains("gpu(0) copy to"), "{}", picture.drawn());
    let said = measured(&Device { mix: Arc::new(Short), ..processor() }).unwrap_err();
    assert!(said.contains("number 2999 of chunk 0"), "{said}");
}

/// Sixty columns from the first start to the last end: what overlaps stands one above the other.
#[test]
fn overlap_is_drawn_where_it_is() {
    let rows = [("copy", vec![(1000, 1300), (1590, 1600)]), ("compute", vec![(1150, 1450)])];
    let rows: BTreeMap<_, _> = rows.into_iter().map(|(name, spans)| (name.to_owned(), spans)).collect();
    let drawn = Picture { rows, overlap: Default::default() }.drawn();
    let cells = |from: usize, to: usize| (0..60).map(move |at| if (from..to).contains(&at) { '█' } else { '·' });
    let copy: String = cells(0, 30).take(59).chain(['█']).collect();
    let compute: String = cells(15, 45).collect();
    assert_eq!(drawn, format!("  {:<20} {compute}\n  {:<20} {copy}\n", "compute", "copy"));
}
