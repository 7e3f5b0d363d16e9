//! What does it cost to write to lines that another core has had?
//!
//! Two cores have blocks of two lines in turns. The one writes to both lines of each block. The
//! other one writes to the first line and reads the second, or writes to both. Nanoseconds a block,
//! of each side; nothing runs beside it, so that no line is waited for while the other side has it.
//! Where the first column of a row is much larger than the second, who only reads a line makes the
//! next who writes to it wait: see `src/platform/cache_line.rs`.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use std::time::Instant;

use seriatim_perf::arguments::Arguments;
use seriatim_perf::machine::{cache_line_hop, Mode};

/// As many as a ring has, and as far from each other.
const BLOCKS: usize = 2048;

/// Four lines, of which two are used.
#[repr(align(256))]
#[derive(Default)]
struct Block([[AtomicU64; 8]; 4]);

/// Whose turn it is.
const WRITER: usize = 0;
const OTHER: usize = 1;
const NOBODY: usize = 2;

struct Table {
    blocks: Vec<Block>,
    turn: AtomicUsize,
}

impl Table {
    fn wait_for(&self, side: usize) -> bool {
        let mut looks = 0_u32;
        loop {
            match self.turn.load(Acquire) {
                NOBODY => return false,
                turn if turn == side => return true,
                // In case there is one core only. Two threads that yield all the time come to share
                // one.
                _ if looks % 100_000 == 99_999 => std::thread::yield_now(),
                _ => spin_loop(),
            }
            looks += 1;
        }
    }

    /// Has one side go through all blocks; says how many nanoseconds each took.
    fn go_through(&self, side: usize, go_on: impl Fn(&Block)) -> f64 {
        let start = Instant::now();
        self.blocks.iter().for_each(go_on);
        let nanoseconds = start.elapsed().as_secs_f64() * 1e9 / self.blocks.len() as f64;
        self.turn.store(1 - side, Release);
        nanoseconds
    }
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

/// The times of the writer and of the other one, which writes to the second line or only reads it.
fn measure(rounds: usize, writes: bool) -> (f64, f64) {
    let blocks = (0..BLOCKS).map(|_| Block::default()).collect();
    let table = Table { blocks, turn: AtomicUsize::new(WRITER) };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut times = Vec::new();
            while table.wait_for(OTHER) {
                times.push(table.go_through(OTHER, |Block([first, second, ..])| {
                    let _ = first[0].compare_exchange(1, 2, AcqRel, Acquire);
                    black_box(second[0].load(Relaxed));
                    if writes {
                        second[0].store(0, Relaxed);
                    }
                    first[0].store(0, Release);
                }));
            }
            median(times)
        });
        let mut times = Vec::new();
        for round in 0..=rounds {
            table.wait_for(WRITER);
            let time = table.go_through(WRITER, |Block([first, second, ..])| {
                let value = first[0].load(Acquire);
                first[1..].iter().chain(&second[..6]).for_each(|word| word.store(value, Relaxed));
                first[0].store(1, Release);
            });
            if round > 0 {
                times.push(time);
            }
        }
        table.wait_for(WRITER);
        table.turn.store(NOBODY, Release);
        (median(times), other.join().expect("it does not panic"))
    })
}

fn main() {
    let (samples, rounds) = match Arguments::mode("lines") {
        Mode::Full => (9, 40),
        Mode::Quick => (3, 40),
        Mode::Test => (1, 2),
        Mode::List => return,
    };
    println!("{:>8} {:>22} {:>22}", "", "the other one reads", "the other one writes");
    println!("{:>8} {:>10} {:>11} {:>10} {:>11}", "hop, ns", "writer, ns", "other, ns", "writer, ns", "other, ns");
    for _ in 0..samples {
        let hop = cache_line_hop().as_nanos();
        let (reads, writes) = (measure(rounds, false), measure(rounds, true));
        println!("{hop:>8} {:>10.1} {:>11.1} {:>10.1} {:>11.1}", reads.0, reads.1, writes.0, writes.1);
    }
}
