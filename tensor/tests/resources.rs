//! Resources and storage: what is drawn, who shares temporary space, and what the statistics say.

mod common;

use common::runtime;
use seriatim::{Context, Engine, Kind};
use seriatim_tensor::operator::{unary_map, Op, SimpleOp};
use seriatim_tensor::resource::ResourceRequest;
use seriatim_tensor::storage::{Pooling, Storage};
use seriatim_tensor::{DType, Distribution, ErrorKind, Runtime};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::Barrier;

/// χ² of counts against the numbers that are expected.
fn chi_squared(counts: &[usize], expected: &[f64]) -> f64 {
    counts.iter().zip(expected).map(|(count, expected)| (*count as f64 - expected).powi(2) / expected).sum()
}

#[test]
fn classes_are_drawn_by_their_weights() {
    let runtime = runtime(Kind::PerDevice, 2);
    runtime.seed(9).unwrap();
    let weights = [2.0, 0.0, 5.0, 1.0, 2.0];
    let drawn = runtime.multinomial(&weights, [100, 200]).unwrap();
    let mut counts = [0; 5];
    drawn.to_vec::<i64>().unwrap().iter().for_each(|class| counts[*class as usize] += 1);
    assert_eq!(counts[1], 0);
    let (counts, expected) = ([counts[0], counts[2], counts[3], counts[4]], [4_000.0, 10_000.0, 2_000.0, 4_000.0]);
    assert!(chi_squared(&counts, &expected) < 16.3, "once in a thousand times with three degrees: {counts:?}");
    assert!(chi_squared(&counts, &[4_300.0, 9_700.0, 2_000.0, 4_000.0]) > 16.3);
    for wrong in [&[][..], &[0.0], &[1.0, -0.5], &[f64::NAN], &[f64::INFINITY]] {
        assert_eq!(runtime.multinomial(wrong, [1]).unwrap_err().kind(), ErrorKind::BadParameter, "{wrong:?}");
    }
    // A class without a share is not drawn at either end.
    let ends = runtime.multinomial(&[0.0, 1.0, 0.0], [5_000]).unwrap();
    assert!(ends.to_vec::<i64>().unwrap().iter().all(|class| *class == 1));
}

#[test]
fn permutations_come_alike() {
    let runtime = runtime(Kind::Pooled, 1);
    runtime.seed(4).unwrap();
    let mut counts = [0; 24];
    for _ in 0..4_800 {
        let order = runtime.permutation(4).unwrap().to_vec::<i64>().unwrap();
        // The number of an order: how many smaller ones stand behind each.
        let behind = |at: usize| order[at + 1..].iter().filter(|other| **other < order[at]).count();
        counts[behind(0) * 6 + behind(1) * 2 + behind(2)] += 1;
    }
    assert!(chi_squared(&counts, &[200.0; 24]) < 49.7, "once in a thousand times with 23 degrees: {counts:?}");
}

#[test]
fn arrays_of_all_distributions_follow_the_seed() {
    let all = [
        Distribution::Gamma { shape: 0.3, scale: 2.0 },
        Distribution::Poisson { mean: 50.0 },
        Distribution::NegativeBinomial { successes: 3.0, probability: 0.25 },
    ];
    let draw = |runtime: &Runtime| {
        runtime.seed(6).unwrap();
        let whole = runtime.random([101], DType::I32, all[1]).unwrap().astype(DType::F64).unwrap();
        let drawn = all.map(|of| runtime.random([11, 13], DType::F64, of).unwrap().to_vec::<f64>().unwrap());
        [drawn.concat(), whole.to_vec::<f64>().unwrap()].concat()
    };
    let (one, other) = (draw(&runtime(Kind::Naive, 0)), draw(&runtime(Kind::PerDevice, 3)));
    assert_eq!(one, other);
    // Mean and deviation: 0.6 and 1.1, 50 and 7.1, 9 and 6. Means of 143 lie within 3.3 of theirs.
    for (drawn, (mean, deviation)) in one.chunks(143).zip([(0.6, 1.1), (50.0, 7.1), (9.0, 6.0)]) {
        let found = drawn.iter().sum::<f64>() / 143.0;
        assert!((found - mean).abs() < 3.3 * deviation / 143f64.sqrt(), "{found} for {mean}");
    }
}

#[test]
fn temporary_space_grows_and_is_used_again() {
    SimpleOp::unary("spacious", |x, env, out, req| {
        let space = env.ctx.requested[0].get_space::<f32>(x.0.size())?;
        x.0.reader().fill(space);
        out.writer(req).put(space);
        Ok(())
    })
    .resource_requests(&[ResourceRequest::TempSpace])
    .register()
    .unwrap();
    let (runtime, op) = (runtime(Kind::Naive, 0), Op::new("spacious", &[]).unwrap());
    let live = || runtime.storage().statistics(Context::cpu(0)).unwrap().live;
    let mut grown = Vec::new();
    for size in [100, 10, 1000, 100, 1000] {
        let x = runtime.arange(0.0, size as f64, 1.0, DType::F32).unwrap();
        let y = op.invoke(&[&x]).unwrap();
        assert_eq!(y.to_vec::<f32>().unwrap(), x.to_vec::<f32>().unwrap());
        drop((x, y));
        runtime.wait_all().unwrap();
        grown.push(live());
    }
    assert_eq!(grown, [512, 512, 4096, 4096, 4096]);
}

#[test]
fn operations_share_a_space_unless_there_are_two() {
    static MOST: AtomicUsize = AtomicUsize::new(0);
    static INSIDE: AtomicUsize = AtomicUsize::new(0);
    static MEET: Barrier = Barrier::new(2);
    SimpleOp::unary("alone", |x, _, out, req| {
        MOST.fetch_max(INSIDE.fetch_add(1, SeqCst) + 1, SeqCst);
        std::thread::sleep(std::time::Duration::from_millis(2));
        INSIDE.fetch_sub(1, SeqCst);
        unary_map(x.0, out, req, |x| x)
    })
    .resource_requests(&[ResourceRequest::TempSpace])
    .register()
    .unwrap();
    // Ends only if both operations are in it at once.
    SimpleOp::unary("together", |x, _, out, req| {
        MEET.wait();
        unary_map(x.0, out, req, |x| x)
    })
    .resource_requests(&[ResourceRequest::TempSpace])
    .register()
    .unwrap();
    for (name, spaces) in [("alone", 1), ("together", 2)] {
        let engine = Engine::builder().cpu_workers(2).pin(false).build().unwrap();
        let runtime = Runtime::builder(&engine).temp_spaces(spaces).build();
        let op = Op::new(name, &[]).unwrap();
        // More elements than are run inside of their push.
        let x = runtime.ones([10_000], DType::F32).unwrap();
        let both = [op.invoke(&[&x]).unwrap(), op.invoke(&[&x]).unwrap()];
        both.iter().for_each(|y| y.wait_to_read().unwrap());
    }
    assert_eq!(MOST.load(SeqCst), 1);
}

#[test]
fn statistics_count_every_block_of_each_kind_of_pool() {
    // Two blocks of 100 bytes, one of them given back, and one of 3,000 of pinned memory.
    for (pooling, block, pinned, pooled) in
        [(Pooling::Eighths, 128, 4096, 128), (Pooling::PowersOfTwo, 128, 4096, 128), (Pooling::None, 128, 3008, 0)]
    {
        let storage = Storage::builder().pooling(pooling).build();
        let kept = storage.alloc(100, Context::cpu(0)).unwrap();
        drop(storage.alloc(100, Context::cpu(0)).unwrap());
        let page = storage.alloc(3_000, Context::cpu_pinned(0)).unwrap();
        assert_eq!(page.bytes().as_ptr().addr() % 4096, 0);
        let of = storage.statistics(Context::cpu(0)).unwrap();
        let found = (of.live, of.pooled, of.peak, of.requests, of.system_calls);
        assert_eq!(found, (block, pooled, 2 * block, 2, 2), "{pooling:?}");
        let of = storage.statistics(Context::cpu_pinned(0)).unwrap();
        assert_eq!((of.live, of.peak, of.requests), (pinned, pinned, 1), "{pooling:?}");
        // A second request takes the block that came back, where blocks are kept.
        let again = storage.alloc(120, Context::cpu(0)).unwrap();
        let calls = storage.statistics(Context::cpu(0)).unwrap().system_calls;
        assert_eq!(calls, if pooling == Pooling::None { 3 } else { 2 });
        drop((kept, again));
        storage.release_all(Context::cpu(0)).unwrap();
        let of = storage.statistics(Context::cpu(0)).unwrap();
        assert_eq!((of.live, of.pooled), (0, 0));
    }
}
