//! Arrays of a device that operations name as resources: what their closures are lent, in which
//! order kernels run, and which operations are refused. The stand-in judges every access.

use crate::client::{memory, queue, queue_again, Standin};
use crate::common::{assert_says, Watchdog};
use crate::programs::LIMIT;
use seriatim::gpu::{DeviceData, DeviceHandle, DeviceSlice, DeviceSliceMut, PinnedData};
use seriatim::{CancelToken, Context, Engine, Error, ErrorKind, Kind, Resources, RunContext, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const GPU: Context = Context::gpu(0);
const KINDS: [Kind; 3] = [Kind::PerDevice, Kind::Pooled, Kind::Naive];
const LENGTH: usize = 40;
const BYTES: usize = LENGTH * 8;
/// An illegal address, by which a device is lost.
const ILLEGAL_ADDRESS: i32 = 700;

fn begin(kind: Kind, standin: &Standin) -> (Engine, Watchdog) {
    standin.again(3, 100);
    standin.devices(2);
    let engine = Engine::builder().kind(kind).cpu_workers(1).pin(false).on_error(|_| ()).build().unwrap();
    (engine, Watchdog::new(120, format!("arrays as resources, {kind}")))
}

/// The first number of an array, at an address that the stand-in allows.
fn number(at: usize, writes: bool) -> Option<&'static AtomicU64> {
    let at = memory(at as u64, BYTES, writes, 1);
    // SAFETY: memory of the stand-in is aligned and leaked; what several threads use at once, which
    // a test finds, they use by this type.
    (!at.is_null()).then(|| unsafe { AtomicU64::from_ptr(at.cast()) })
}

/// A kernel: y = 31 y + x.
fn fold(run: &RunContext<'_>, x: DeviceSlice<'_, u64>, mut y: DeviceSliceMut<'_, u64>) -> Result<(), Error> {
    assert_eq!((x.len(), y.len(), x.is_empty() || y.is_empty()), (LENGTH, LENGTH, false));
    let (from, to) = (x.memory(run)?.raw().addr(), y.memory(run)?.raw().addr());
    let body = move || match (number(from, false), number(to, true)) {
        (Some(x), Some(y)) => {
            y.store(y.load(Relaxed).wrapping_mul(31).wrapping_add(x.load(Relaxed)), Relaxed);
            0
        }
        _ => ILLEGAL_ADDRESS,
    };
    assert_eq!(queue(run.stream().expect("there is one on a GPU").raw(), body), 0);
    Ok(())
}

fn first(engine: &Engine, gpu: &DeviceHandle, array: &DeviceData<u64>) -> u64 {
    let back = PinnedData::zeros(gpu, LENGTH).unwrap();
    engine.copy(array, &back).unwrap();
    engine.wait_for_var_timeout(back.variable(), LIMIT).unwrap();
    back.read().unwrap()[0]
}

#[test]
fn kernels_have_the_arrays_that_their_operations_name_in_order() {
    let standin = Standin::begin(3, 100);
    for kind in KINDS {
        let (engine, _watchdog) = begin(kind, &standin);
        let gpu = engine.device(GPU).unwrap();
        let mut expected: Vec<u64> = (1..=5).collect();
        let arrays: Vec<_> =
            expected.iter().map(|value| DeviceData::from_slice(&gpu, &[*value; LENGTH]).unwrap()).collect();
        let mut random = 1_u64;
        for _ in 0..200 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (from, to) = ((random >> 33) as usize % 5, (random >> 40) as usize % 5);
            if from != to {
                let kernel = engine.op("fold").context(GPU);
                let uses = (&arrays[from], Write(&arrays[to]));
                kernel.run_with(uses, |run, (x, y)| fold(run, x, y)).unwrap();
                expected[to] = expected[to].wrapping_mul(31).wrapping_add(expected[from]);
            }
        }
        for (array, expected) in arrays.iter().zip(&expected) {
            assert_eq!(first(&engine, &gpu, array), *expected, "{kind}");
        }
        // The operations keep the arrays that they name.
        engine
            .op("last")
            .context(GPU)
            .run_with((&arrays[0], Write(&arrays[1])), |run, (x, y)| fold(run, x, y))
            .unwrap();
        drop((arrays, gpu));
        engine.wait_for_all_timeout(LIMIT).unwrap();
        drop(engine);
        assert_eq!(standin.reports(), [""; 0], "{kind}");
    }
}

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("on purpose");
    }
}

#[test]
fn operations_elsewhere_are_refused() {
    let standin = Standin::begin(3, 100);
    for kind in KINDS {
        let (engine, _watchdog) = begin(kind, &standin);
        let gpu = engine.device(GPU).unwrap();
        let [x, y] = [(); 2].map(|()| DeviceData::<u64>::zeros(&gpu, LENGTH).unwrap());
        let refused = |outcome: Result<(), Error>, of: &str| {
            assert_says(&outcome.unwrap_err(), ErrorKind::BufferMismatch, &[of, "an array of gpu(0)", ".context()"]);
        };
        fn unasked() {
            unreachable!("nothing is pushed");
        }
        refused(engine.op("here").run(&x, |_| unasked()), "cpu(0)");
        refused(engine.op("here").run_with(Write(&x), |_, _| unasked()), "cpu(0)");
        refused(engine.op("here").context(Context::gpu(1)).run((&x, Write(&y)), |_| unasked()), "gpu(1)");
        refused(engine.op("here").run(([&x], Some(Write(&y)), ()), |_| unasked()), "cpu(0)");
        refused(engine.op("here").run(vec![&x, &y], |_| unasked()), "cpu(0)");
        refused(engine.op("here").compute_on(&x, |_| unasked()).map(drop), "cpu(0)");
        refused(engine.op("here").token(&CancelToken::new()).run(&x, |_| unasked()), "cpu(0)");
        refused(engine.scope(|s| s.op("here").run(&x, |_| unasked())), "cpu(0)");
        refused(engine.capture(|c| c.op("here").run(&x, |_| unasked())).map(drop), "cpu(0)");
        // The closure goes, and a panic of its destructor is nobody's.
        let loud = PanicsWhenDropped;
        refused(engine.op("here").run(&x, move |_| _ = &loud), "cpu(0)");
        let twice = engine.op("twice").context(GPU).run((&x, Write(&x)), |_| unasked());
        assert_eq!(twice.unwrap_err().kind(), ErrorKind::BorrowConflict);

        // An operator is told its context with each use.
        let look = engine.op("look").operator_on(&x, |x| assert_eq!(x.len(), LENGTH)).unwrap();
        engine.push(&look, GPU, 0).unwrap();
        engine.wait_for_all_timeout(LIMIT).unwrap();
        drop((x, y, gpu, look));
        drop(engine);
        assert_eq!(standin.reports(), [""; 0], "{kind}");
    }
}

/// Named by generic code, as any resource.
fn look<V>(engine: &Engine, uses: V) -> Result<(), Error>
where
    V: for<'a> Resources<Item<'a> = DeviceSlice<'a, u64>>,
{
    engine.op("look").context(GPU).run_with(uses, |run, x| x.memory(run).map(drop))
}

#[test]
fn graphs_and_generic_code_name_arrays() {
    let standin = Standin::begin(3, 100);
    for kind in KINDS {
        let (engine, _watchdog) = begin(kind, &standin);
        let gpu = engine.device(GPU).unwrap();
        let [x, y] = [1, 0].map(|value| DeviceData::from_slice(&gpu, &[value; LENGTH]).unwrap());
        look(&engine, &x).unwrap();
        let record = |c: &mut seriatim::Capture| {
            let again = |run: &RunContext<'_>, (x, mut y): (DeviceSlice<'_, u64>, DeviceSliceMut<'_, u64>)| {
                let (from, to) = (x.memory(run)?.raw().addr(), y.memory(run)?.raw().addr());
                let body = move || match (number(from, false), number(to, true)) {
                    (Some(x), Some(y)) => {
                        y.store(3 * y.load(Relaxed) + x.load(Relaxed), Relaxed);
                        0
                    }
                    _ => ILLEGAL_ADDRESS,
                };
                assert_eq!(queue_again(run.stream().expect("there is one").raw(), body), 0);
                Ok::<(), Error>(())
            };
            c.op("again").context(GPU).device_graph().run_with((&x, Write(&y)), again)
        };
        let (graph, ()) = engine.capture(record).unwrap();
        for _ in 0..5 {
            graph.replay().unwrap();
        }
        assert_eq!(first(&engine, &gpu, &y), 121, "{kind}");
        drop((x, y, gpu, graph));
        engine.wait_for_all_timeout(LIMIT).unwrap();
        drop(engine);
        assert_eq!(standin.reports(), [""; 0], "{kind}");
    }
}
