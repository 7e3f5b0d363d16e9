//! Resources and storage: what is drawn, who shares temporary space, and what the statistics say.

mod common;

use common::{chi_squared, runtime};
use seriatim::{Context, Engine, Kind};
use seriatim_tensor::operator::{unary_map, Op, SimpleOp};
use seriatim_tensor::resource::ResourceRequest;
use seriatim_tensor::storage::{Pooling, Storage, Tag};
use seriatim_tensor::{DType, Distribution, ErrorKind, Runtime, Step};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::Barrier;

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
    assert_eq!(grown, [448, 448, 4096, 4096, 4096]);
}

#[test]
fn a_call_has_the_spaces_that_it_asks_for_at_once() {
    // Two spaces, each with memory of the processor besides, and a generator between them.
    SimpleOp::unary("two spaces", |x, env, out, req| {
        let requested = &mut env.ctx.requested;
        assert_ne!(requested[0].variable(), requested[2].variable());
        let size = x.0.size();
        for (at, factor) in [(0, 1.0), (2, 10.0)] {
            let space = requested[at].get_space::<f64>(size)?;
            x.0.reader().fill(space);
            space.iter_mut().for_each(|value| *value *= factor);
            requested[at].get_host_space::<f64>(2 * size)?.fill(100.0 * factor);
        }
        requested[1].get_random()?.skip(1);
        assert_eq!(requested[1].get_host_space::<f64>(1).unwrap_err().kind(), ErrorKind::BadParameter);
        // All four are there still: none is in the memory of another.
        let mut sums = vec![0.0; size];
        for at in [0, 2] {
            let space = requested[at].get_space::<f64>(size)?;
            sums.iter_mut().zip(space).for_each(|(sum, value)| *sum += *value);
            let host = requested[at].get_host_space::<f64>(2 * size)?;
            sums.iter_mut().zip(host).for_each(|(sum, value)| *sum += *value);
        }
        out.writer(req).put(&sums);
        Ok(())
    })
    .resource_requests(&[ResourceRequest::TempSpace, ResourceRequest::Random, ResourceRequest::TempSpace])
    .register()
    .unwrap();
    let op = Op::new("two spaces", &[]).unwrap();
    for (spaces, kind) in [(1, Kind::Naive), (1, Kind::PerDevice), (3, Kind::Pooled)] {
        let runtime = Runtime::builder(&Engine::builder().kind(kind).pin(false).build().unwrap());
        let runtime = runtime.temp_spaces(spaces).build();
        let x = runtime.arange(0.0, 3.0, 1.0, DType::F64).unwrap();
        let call = || (0..20).map(|_| op.invoke(&[&x])).collect::<Result<Vec<_>, _>>();
        let mut step = Step::capture(&[&x], |inputs| op.invoke(&[&inputs[0]])).unwrap();
        for y in call().unwrap().iter().chain([step.run(&[&x]).unwrap()]) {
            assert_eq!(y.to_vec::<f64>().unwrap(), [1100.0, 1111.0, 1122.0], "{spaces} {kind}");
        }
    }
    SimpleOp::unary("nine spaces", |x, _, out, req| unary_map(x.0, out, req, |x| x))
        .resource_requests(&[ResourceRequest::TempSpace; 9])
        .register()
        .unwrap();
    let x = runtime(Kind::Naive, 0).ones([1], DType::F32).unwrap();
    assert_eq!(Op::new("nine spaces", &[]).unwrap().invoke(&[&x]).unwrap_err().kind(), ErrorKind::BadParameter);
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
    for (pooling, block, pinned, pooled) in [
        (Pooling::Eighths, 128, 3072, 128),
        (Pooling::PowersOfTwo, 128, 4096, 128),
        (Pooling::Pages, 4096, 4096, 4096),
        (Pooling::None, 128, 3008, 0),
    ] {
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

#[test]
fn a_request_takes_a_block_of_up_to_twice_its_size() {
    let cpu = Context::cpu(0);
    for (pooling, large, small, too_small) in [
        (Pooling::Eighths, 1 << 20, 1 << 19, 1 << 18),
        (Pooling::Eighths, 2 << 20, 9 << 17, 1 << 19),
        (Pooling::PowersOfTwo, 4 << 20, 2 << 20, 1 << 20),
        (Pooling::Pages, 6 * 4096, 3 * 4096, 4096),
    ] {
        let storage = Storage::builder().pooling(pooling).build();
        drop(storage.alloc(large, cpu).unwrap());
        let kept = storage.alloc(small, cpu).unwrap();
        assert_eq!((kept.size(), kept.capacity()), (small, large), "{pooling:?}");
        let of = storage.statistics(cpu).unwrap();
        assert_eq!((of.live, of.pooled, of.system_calls), (large, 0, 1));
        // It goes back to where it came from.
        drop(kept);
        let other = storage.alloc(too_small, cpu).unwrap();
        assert_eq!(other.capacity(), too_small);
        assert_eq!(storage.alloc(large, cpu).unwrap().capacity(), large);
        assert_eq!(storage.statistics(cpu).unwrap().system_calls, 2, "{pooling:?}");
    }
}

#[test]
fn a_tag_counts_whole_blocks_and_ends_with_them() {
    let (storage, cpu, tag) = (Storage::builder().build(), Context::cpu(0), Tag::new("whole blocks").unwrap());
    let (one, other) = tag.scope(|| (storage.alloc(100, cpu).unwrap(), storage.alloc(1, cpu).unwrap()));
    let of = || storage.statistics_of(tag, cpu).unwrap();
    assert_eq!((of().live, of().peak, of().requests, of().system_calls), (192, 192, 2, 2));
    drop(one);
    assert_eq!(of().live, 64);
    other.release();
    assert_eq!((of().live, of().peak), (0, 192));
}

#[test]
fn truth_values_of_a_space_are_false() {
    SimpleOp::unary("truthless", |x, env, out, req| {
        let space = &mut env.ctx.requested[0];
        space.get_space::<u8>(x.0.size())?.fill(1);
        let is_true = space.get_space::<bool>(x.0.size())?.contains(&true);
        unary_map(x.0, out, req, |_| f64::from(u8::from(is_true)))
    })
    .resource_requests(&[ResourceRequest::TempSpace])
    .register()
    .unwrap();
    let x = Runtime::global().unwrap().zeros([5], DType::F64).unwrap();
    let found = Op::new("truthless", &[]).unwrap().invoke(&[&x]).unwrap();
    assert_eq!(found.to_vec::<f64>().unwrap(), [0.0; 5]);
}

#[test]
fn a_share_of_the_limit_is_not_filled_with_kept_blocks() {
    let cpu = Context::cpu(0);
    for (reserve, pooled) in [(0, 3 << 18), (50, 2 << 18), (75, 1 << 18), (100, 0), (1000, 0)] {
        let storage = Storage::builder().limit(1 << 20).reserve(reserve).build();
        let blocks = [0; 3].map(|_| storage.alloc(1 << 18, cpu).unwrap());
        // What is live may take the whole limit.
        let fourth = storage.alloc(1 << 18, cpu).unwrap();
        assert_eq!(storage.alloc(1, cpu).unwrap_err().kind(), ErrorKind::OutOfMemory);
        fourth.release();
        drop(blocks);
        let of = storage.statistics(cpu).unwrap();
        assert_eq!((of.live, of.pooled, of.peak), (0, pooled, 1 << 20), "{reserve}");
    }
    // Without a limit there is no share.
    let storage = Storage::builder().reserve(100).build();
    drop(storage.alloc(1 << 18, cpu).unwrap());
    assert_eq!(storage.statistics(cpu).unwrap().pooled, 1 << 18);
}
