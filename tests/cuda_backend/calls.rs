//! Each method of the seam.

use crate::client::{current, Count, Made, Standin};
use crate::handles::Driver;
use crate::Entered;
use seriatim::gpu::{Backend, Class};
use std::sync::Barrier;

#[test]
fn it_says_its_name_and_how_many_devices_there_are() {
    let standin = Standin::begin(1, 128);
    standin.devices(3);
    let cuda = Driver::open().unwrap();
    assert_eq!((cuda.name(), cuda.devices()), ("CUDA", Ok(3)));
    assert_eq!(format!("{cuda:?}"), "Cuda { devices: 3, .. }");
}

#[test]
fn streams_are_non_blocking_and_urgent_ones_have_the_highest_priority() {
    let standin = Standin::begin(1, 128);
    standin.devices(2);
    let cuda = Driver::open().unwrap();
    for device in [0, 1] {
        let before = cuda.enter(device).unwrap();
        for &class in Class::ALL {
            let stream = cuda.stream(device, class).unwrap();
            let priority = if class == Class::Urgent { -5 } else { 0 };
            assert_eq!(standin.stream(stream.raw()), Made { device, flags: 1, priority }, "{class:?}");
            cuda.drop_stream(stream);
        }
        cuda.leave(before);
    }
    assert_eq!((standin.count(Count::Streams), standin.reports()), (0, Vec::new()));
}

#[test]
fn a_mark_has_no_timing_and_is_nowhere_at_first() {
    let standin = Standin::by_hand();
    let gpu = Entered::new(&standin);
    let (stream, mark) = (gpu.stream(), gpu.mark());
    assert_eq!(standin.event_flags(mark.raw()), 2);
    assert_eq!(gpu.cuda.reached(mark), Ok(true));
    gpu.cuda.wait(stream, mark).unwrap();
    assert_eq!(standin.count(Count::Commands), 0, "nobody waits for it");
}

#[test]
fn a_mark_is_reached_when_its_stream_has_come_to_it() {
    let standin = Standin::by_hand();
    let gpu = Entered::new(&standin);
    let (stream, mark) = (gpu.stream(), gpu.mark());
    standin.access(stream.raw(), 1, true, 1);
    gpu.cuda.record(mark, stream).unwrap();
    assert_eq!(gpu.cuda.reached(mark), Ok(false));
    assert_eq!(standin.step(stream.raw(), 1), 0);
    assert_eq!(gpu.cuda.reached(mark), Ok(false));
    assert_eq!(standin.step(stream.raw(), 1), 0);
    assert_eq!(gpu.cuda.reached(mark), Ok(true));
}

#[test]
fn a_stream_waits_for_a_mark_of_another() {
    let standin = Standin::by_hand();
    let gpu = Entered::new(&standin);
    let (one, two, mark, end) = (gpu.stream(), gpu.stream(), gpu.mark(), gpu.mark());
    gpu.cuda.record(mark, one).unwrap();
    gpu.cuda.wait(two, mark).unwrap();
    gpu.cuda.record(end, two).unwrap();
    assert_eq!(standin.step(two.raw(), 2), 2, "it waits for the other");
    assert_eq!(standin.step(one.raw(), 1), 0);
    assert_eq!(standin.step(two.raw(), 2), 0);
    assert_eq!(gpu.cuda.reached(end), Ok(true));
}

#[test]
fn a_stream_waits_for_a_mark_of_another_device() {
    let standin = Standin::by_hand();
    standin.devices(2);
    let cuda = Driver::open().unwrap();
    let before = cuda.enter(0).unwrap();
    let (one, mark) = (cuda.stream(0, Class::ToDevice).unwrap(), cuda.mark(0).unwrap());
    cuda.record(mark, one).unwrap();
    let first = cuda.enter(1).unwrap();
    let two = cuda.stream(1, Class::Compute).unwrap();
    cuda.wait(two, mark).unwrap();
    assert_eq!(standin.step(two.raw(), 1), 1);
    assert_eq!((standin.step(one.raw(), 1), standin.step(two.raw(), 1)), (0, 0));
    cuda.leave(first);
    cuda.leave(before);
    assert_eq!(standin.reports(), [""; 0]);
}

#[test]
fn a_wait_keeps_the_recording_that_it_was_queued_with() {
    let standin = Standin::by_hand();
    let gpu = Entered::new(&standin);
    let (one, two, mark) = (gpu.stream(), gpu.stream(), gpu.mark());
    gpu.cuda.record(mark, one).unwrap();
    gpu.cuda.wait(two, mark).unwrap();
    // Recorded again behind something, and given back: the wait is for where it was.
    standin.access(one.raw(), 1, true, 1);
    gpu.cuda.record(mark, one).unwrap();
    gpu.cuda.drop_mark(mark);
    standin.access(two.raw(), 1, true, 2);
    assert_eq!(standin.step(one.raw(), 1), 0);
    assert_eq!(standin.step(two.raw(), 2), 0);
    assert_eq!(standin.step(one.raw(), 2), 0);
    assert_eq!(standin.count(Count::Recordings), 0);
    // And it is for nothing later.
    assert_eq!(standin.reports(), ["cell 1: the write '1' on stream 1 is not ordered after the write '2' on stream 2"]);
}

#[test]
fn finish_waits_for_all_that_is_queued() {
    let standin = Standin::begin(7, 1);
    let gpu = Entered::new(&standin);
    let (one, two, mark, end) = (gpu.stream(), gpu.stream(), gpu.mark(), gpu.mark());
    for label in 0..20 {
        standin.access(one.raw(), 1, true, label);
    }
    gpu.cuda.record(mark, one).unwrap();
    gpu.cuda.wait(two, mark).unwrap();
    gpu.cuda.record(end, two).unwrap();
    gpu.cuda.finish(two).unwrap();
    assert_eq!(gpu.cuda.reached(end), Ok(true));
    standin.host_access(1, true, 100);
    assert_eq!(standin.reports(), [""; 0]);
}

#[test]
fn what_is_given_back_is_gone() {
    let standin = Standin::begin(1, 128);
    let gpu = Entered::new(&standin);
    for _ in 0..10 {
        let (stream, mark) = (gpu.stream(), gpu.mark());
        gpu.cuda.record(mark, stream).unwrap();
        gpu.cuda.finish(stream).unwrap();
        gpu.cuda.drop_mark(mark);
        gpu.cuda.drop_stream(stream);
    }
    let left = [Count::Streams, Count::Events, Count::Recordings, Count::Commands].map(|what| standin.count(what));
    assert_eq!((left, standin.reports()), ([0; 4], Vec::new()));
}

#[test]
fn a_context_is_retained_once_when_it_is_first_used_and_released_at_the_end() {
    let standin = Standin::begin(1, 128);
    standin.devices(2);
    let cuda = Driver::open().unwrap();
    assert_eq!([0, 1].map(|device| standin.retained(device)), [0, 0]);
    let start = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                start.wait();
                let before = cuda.enter(1).unwrap();
                cuda.leave(before);
            });
        }
    });
    assert_eq!([0, 1].map(|device| standin.retained(device)), [0, 1]);
    drop(cuda);
    assert_eq!([0, 1].map(|device| standin.retained(device)), [0, 0]);
    assert_eq!(standin.reports(), [""; 0]);
}

#[test]
fn leaving_a_device_gives_back_what_was_current() {
    let standin = Standin::begin(1, 128);
    standin.devices(2);
    let cuda = Driver::open().unwrap();
    assert!(current().is_null());
    let nothing = cuda.enter(0).unwrap();
    let zero = current();
    let inner = cuda.enter(1).unwrap();
    let one = current();
    assert!(!zero.is_null() && !one.is_null() && zero != one);
    let same = cuda.enter(1).unwrap();
    assert_eq!(current(), one);
    std::thread::scope(|scope| scope.spawn(|| assert!(current().is_null())).join().unwrap());
    cuda.leave(same);
    assert_eq!(current(), one);
    cuda.leave(inner);
    assert_eq!(current(), zero);
    cuda.leave(nothing);
    assert!(current().is_null());
}

#[test]
fn ordering_costs_one_call_each() {
    let standin = Standin::begin(1, 128);
    let gpu = Entered::new(&standin);
    let (one, two, mark) = (gpu.stream(), gpu.stream(), gpu.mark());
    let before = standin.calls("*");
    for _ in 0..100 {
        gpu.cuda.record(mark, one).unwrap();
        gpu.cuda.wait(two, mark).unwrap();
        gpu.cuda.reached(mark).unwrap();
    }
    assert_eq!(standin.calls("*") - before, 300);
    let each = ["cuEventRecord", "cuStreamWaitEvent", "cuEventQuery"].map(|name| standin.calls(name));
    assert_eq!(each, [100; 3]);
}

#[test]
fn cores_are_those_that_the_system_lists_for_the_devices_address() {
    let standin = Standin::begin(1, 128);
    standin.devices(2);
    let listed = std::fs::read_dir("/sys/bus/pci/devices").ok().and_then(|mut devices| devices.next());
    let cuda = Driver::open().unwrap();
    match listed {
        Some(device) => {
            let address = device.unwrap().file_name().into_string().unwrap();
            let text = std::fs::read_to_string(format!("/sys/bus/pci/devices/{address}/local_cpulist")).unwrap();
            standin.address(1, &address.to_ascii_uppercase());
            let cores = cuda.cores(1);
            assert!(cores.is_sorted(), "{cores:?}");
            assert_eq!(cores.is_empty(), text.trim().is_empty(), "{cores:?} of '{text}'");
            if let Ok(one) = text.trim().parse::<usize>() {
                assert_eq!(cores, [one]);
            }
        }
        None => println!("skipped: this machine lists no devices"),
    }
    standin.address(0, "FFFF:FF:1F.7");
    assert_eq!(cuda.cores(0), [0; 0], "the system does not know it");
    standin.fail("cuDeviceGetPCIBusId", 1, 101);
    assert_eq!(cuda.cores(1), [0; 0]);
    assert_eq!(cuda.cores(2), [0; 0], "there is no such device");
}
