use seriatim::*;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;

#[test]
fn smoke() {
    for kind in [Kind::Naive, Kind::Pooled, Kind::PerDevice] {
        for workers in [1, 3] {
            let engine = Engine::builder().kind(kind).cpu_workers(workers).build().unwrap();
            let vars: Vec<_> = (0..10).map(|_| engine.new_variable()).collect();
            let cells: Arc<Vec<AtomicU64>> = Arc::new((0..10).map(|_| AtomicU64::new(0)).collect());
            for i in 0..100_000usize {
                let (a, b, c) = (i % 10, (i * 7 + 3) % 10, (i * 3 + 1) % 10);
                let cells = cells.clone();
                engine
                    .op("x")
                    .reads([vars[a], vars[b]])
                    .writes([vars[c]])
                    .push(move |_| {
                        cells[c].store(cells[c].load(Relaxed) + 1, Relaxed);
                    })
                    .unwrap();
            }
            engine.wait_for_var(vars[0]).unwrap();
            engine.wait_for_all().unwrap();
            assert_eq!(cells.iter().map(|c| c.load(Relaxed)).sum::<u64>(), 100_000);
            let versions: u64 = vars.iter().map(|v| engine.version(*v).unwrap()).sum();
            assert_eq!(versions, 100_000);
        }
    }
}
