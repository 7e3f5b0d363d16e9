//! What a profile tells of devices, and how a trace draws it.

use crate::checker::read;
use crate::common::*;
use seriatim::gpu::{DeviceData, Immediate, PinnedData};
use seriatim::{Context, Engine, Kind, RunContext};
use std::time::Duration;

/// An engine that has copied to a device, computed there and copied back, five times.
fn profiled(kind: Kind) -> Engine {
    let engine = Engine::builder().kind(kind).gpus(Immediate::new(1)).build().unwrap();
    let gpu = engine.device(Context::gpu(0)).unwrap();
    let (host, x) = (PinnedData::from_slice(&gpu, &[1.0f32; 64]).unwrap(), DeviceData::zeros(&gpu, 64).unwrap());
    engine.start_profiling();
    for _ in 0..5 {
        engine.copy(&host, &x).unwrap();
        let work = |_: &RunContext<'_>| spin(Duration::from_micros(50));
        engine.op("kernel").context(gpu.context()).write(&x).push(work).unwrap();
        engine.copy(&x, &host).unwrap();
    }
    engine.op("read").read(&host).push(nothing).unwrap();
    engine.wait_for_all().unwrap();
    engine
}

#[test]
fn each_stream_has_a_row_and_arrows_lead_there() {
    for kind in [Kind::PerDevice, Kind::Pooled] {
        let profile = profiled(kind).profile();
        let mut text = Vec::new();
        profile.write_chrome_trace(&mut text).unwrap();
        let trace = read(&String::from_utf8(text).unwrap()).unwrap();
        let row = |place: usize| trace.threads[&trace.slices[place].thread].as_str();
        let of_device: Vec<usize> = (0..trace.slices.len()).filter(|place| row(*place).starts_with("gpu(0)")).collect();
        let is_drawn = |event: &&seriatim::Event| event.device().is_some_and(|span| span.start < span.end);
        assert_eq!(of_device.len(), profile.events().iter().filter(is_drawn).count());
        for stream in ["gpu(0) compute 1", "gpu(0) copy to", "gpu(0) copy from"] {
            let named = trace.threads.values().filter(|name| name.starts_with(&stream[..14])).count();
            assert!(named > 0, "{stream}: {:?}", trace.threads);
        }
        for place in of_device {
            let slice = &trace.slices[place];
            assert!(slice.arguments["accuracy_us"].is_number(), "{slice:?}");
            let arrows: Vec<usize> =
                trace.arrows.iter().filter(|arrow| arrow.1 == place).map(|arrow| arrow.0).collect();
            let [from] = arrows[..] else { panic!("{} arrows lead to {slice:?}", arrows.len()) };
            assert_eq!(trace.slices[from].name, slice.name);
            assert!(!row(from).starts_with("gpu(0)") && trace.slices[from].from <= slice.from, "{slice:?}");
        }
        // The arrows between operations are those of the workers' rows, as without a device.
        assert!(trace.leads(("kernel", false), "copy") && trace.leads(("copy", false), "read"), "{trace:?}");
    }
}

#[test]
fn the_table_has_the_times_of_devices_only_if_there_are_some() {
    let profile = profiled(Kind::PerDevice).profile();
    let of = |name: &str| *profile.summaries().iter().find(|summary| summary.name == name).unwrap();
    let on_device = of("kernel").on_device.unwrap();
    assert!(on_device.min >= 50_000 && on_device.total >= 250_000, "{on_device:?}");
    assert!(of("copy").on_device.is_some() && of("read").on_device.is_none());
    let table = profile.table();
    assert_eq!(table.matches("on device").count(), 2, "{table}");
    assert!(table.contains("gpu(0) copied for ") && table.contains("of computation; times to within "), "{table}");
    let overlap = profile.overlap(Context::gpu(0)).unwrap();
    assert_eq!((overlap.operations, overlap.host_timed), (15, 0));
    assert!(overlap.computing >= 250_000 && overlap.share() <= 1.0, "{overlap:?}");
    // One after the other: the copies wait for the kernels.
    assert!(overlap.both <= 2 * 15 * overlap.accuracy.unwrap(), "{overlap:?}");
    let renamed = profile.renamed(|_| "all");
    assert_eq!((renamed.overlap(Context::gpu(0)), renamed.summaries().len()), (Some(overlap), 1));

    let naive = profiled(Kind::Naive).profile();
    assert!(naive.events().iter().all(|event| event.device().is_none()));
    assert!(naive.overlap(Context::gpu(0)).is_none() && !naive.table().contains("gpu"), "{}", naive.table());
}
