//! The dependence patterns of Task Bench: which points of the row before a point of a row reads.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;

/// How many inputs a point has in the patterns where that is a parameter.
const RADIX: i64 = 5;
/// After how many rows a pattern that changes from row to row repeats.
const PERIOD: i64 = 3;
/// The share of the window that `random_nearest` keeps.
const FRACTION: f64 = 0.25;

/// A pattern, by Task Bench's names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pattern {
    /// No point reads anything.
    Trivial,
    /// A point reads itself.
    NoComm,
    /// The two neighbours and itself, clipped.
    Stencil1d,
    /// A wavefront that grows from the left and ends on the right.
    Dom,
    /// A binary tree that grows until it is as wide as the graph.
    Tree,
    /// Butterflies.
    Fft,
    /// All points of the row before.
    AllToAll,
    /// A window of five.
    Nearest,
    /// Five points, spread over the row, that move from row to row.
    Spread,
    /// A random part of a window of five.
    RandomNearest,
}

impl Pattern {
    /// All of them, in the order of the tables.
    pub const ALL: [Pattern; 10] = [
        Pattern::Trivial,
        Pattern::NoComm,
        Pattern::Stencil1d,
        Pattern::Nearest,
        Pattern::Spread,
        Pattern::Fft,
        Pattern::Tree,
        Pattern::Dom,
        Pattern::RandomNearest,
        Pattern::AllToAll,
    ];

    /// Its name in Task Bench.
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Trivial => "trivial",
            Pattern::NoComm => "no_comm",
            Pattern::Stencil1d => "stencil_1d",
            Pattern::Dom => "dom",
            Pattern::Tree => "tree",
            Pattern::Fft => "fft",
            Pattern::AllToAll => "all_to_all",
            Pattern::Nearest => "nearest",
            Pattern::Spread => "spread",
            Pattern::RandomNearest => "random_nearest",
        }
    }

    /// The pattern of that name.
    pub fn named(name: &str) -> Option<Pattern> {
        Pattern::ALL.into_iter().find(|pattern| pattern.name() == name)
    }
}

/// A graph of `steps` rows of at most `width` points.
#[derive(Clone, Copy, Debug)]
pub struct Graph {
    /// Which points read which.
    pub pattern: Pattern,
    /// The most points in a row.
    pub width: i64,
    /// How many rows there are.
    pub steps: i64,
}

impl Graph {
    /// Why the graph cannot be, if it cannot.
    pub fn check(&self) -> Result<(), String> {
        let parts = (self.width + RADIX - 1) / RADIX;
        match self.pattern {
            Pattern::Spread if PERIOD > parts => Err(format!("spread needs a width above {}", RADIX * (PERIOD - 1))),
            _ if self.width < 1 || self.steps < 1 => Err(String::from("an empty graph")),
            _ => Ok(()),
        }
    }

    /// The points of row `step`: those in `offset..offset + width`.
    pub fn row(&self, step: i64) -> std::ops::Range<i64> {
        let (start, width) = match self.pattern {
            Pattern::Dom => {
                let start = (step + self.width - self.steps).max(0);
                (start, self.width.min(step + 1).min(self.steps - step))
            }
            Pattern::Tree if step < 62 => (0, self.width.min(1 << step)),
            _ => (0, self.width),
        };
        start..start + width
    }

    /// What point `point` of row `step` reads of the row before, in ascending order; nothing in the
    /// first row.
    pub fn inputs(&self, step: i64, point: i64) -> Vec<i64> {
        if step == 0 {
            return Vec::new();
        }
        let window = point - RADIX / 2..=point + (RADIX - 1) / 2;
        let candidates: Vec<i64> = match self.pattern {
            Pattern::Trivial => Vec::new(),
            Pattern::NoComm => vec![point],
            Pattern::Stencil1d => vec![point - 1, point, point + 1],
            Pattern::Dom => vec![point - 1, point],
            Pattern::Tree => vec![point / 2],
            Pattern::Fft => {
                let stages = i64::from(u64::BITS - (self.width - 1).leading_zeros()).max(1);
                let distance = 1 << ((step + stages - 1) % stages);
                vec![point - distance, point, point + distance]
            }
            Pattern::AllToAll => (0..self.width).collect(),
            Pattern::Nearest => window.collect(),
            Pattern::Spread => (0..RADIX).map(|part| self.spread(step, point, part)).collect(),
            Pattern::RandomNearest => {
                window.filter(|input| *input == point || chance(step % PERIOD, *input, point) < FRACTION).collect()
            }
        };
        let before = self.row(step - 1);
        let mut inputs: Vec<i64> = candidates.into_iter().filter(|input| before.contains(input)).collect();
        inputs.sort_unstable();
        inputs.dedup();
        inputs
    }

    fn spread(&self, step: i64, point: i64, part: i64) -> i64 {
        let moved = if part > 0 { step % PERIOD } else { 0 };
        (point + part * self.width / RADIX + moved) % self.width
    }
}

/// A number in 0..1 for each possible dependence: Task Bench's hash, SipHash-2-4 over five numbers
/// of 64 bits.
fn chance(set: i64, input: i64, point: i64) -> f64 {
    let (graph, key) = (0_i64, *b"\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x00");
    let mut hasher = SipHasher24::new_with_key(&key);
    for number in [graph, RADIX, set, input, point] {
        hasher.write(&number.to_le_bytes());
    }
    hasher.finish() as f64 / 2.0_f64.powi(64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(pattern: Pattern, width: i64, step: i64, point: i64) -> Vec<i64> {
        Graph { pattern, width, steps: 1000 }.inputs(step, point)
    }

    #[test]
    fn the_patterns_are_task_benchs() {
        assert!(inputs(Pattern::Trivial, 16, 5, 3).is_empty());
        assert_eq!(inputs(Pattern::NoComm, 16, 5, 3), [3]);
        assert_eq!(inputs(Pattern::Stencil1d, 16, 5, 0), [0, 1]);
        assert_eq!(inputs(Pattern::Stencil1d, 16, 5, 15), [14, 15]);
        assert_eq!(inputs(Pattern::Nearest, 16, 5, 1), [0, 1, 2, 3]);
        assert_eq!(inputs(Pattern::AllToAll, 4, 1, 2), [0, 1, 2, 3]);
        // Row 1 has distance 2^0, row 2 the next: d = (t + D − 1) mod D with D = 4.
        assert_eq!(inputs(Pattern::Fft, 16, 1, 4), [3, 4, 5]);
        assert_eq!(inputs(Pattern::Fft, 16, 2, 4), [2, 4, 6]);
        assert_eq!(inputs(Pattern::Fft, 16, 4, 4), [4, 12]);
        // 16 / 5 parts: 0, 3, 6, 9, 12; all but the first move with the row.
        assert_eq!(inputs(Pattern::Spread, 16, 3, 0), [0, 3, 6, 9, 12]);
        assert_eq!(inputs(Pattern::Spread, 16, 4, 0), [0, 4, 7, 10, 13]);
        assert_eq!(inputs(Pattern::Tree, 16, 2, 3), [1]);
    }

    #[test]
    fn rows_grow_and_shrink() {
        let tree = Graph { pattern: Pattern::Tree, width: 16, steps: 1000 };
        assert_eq!([0, 1, 3, 4, 9].map(|step| tree.row(step)), [0..1, 0..2, 0..8, 0..16, 0..16]);
        let dom = Graph { pattern: Pattern::Dom, width: 4, steps: 10 };
        assert_eq!([0, 2, 5, 8, 9].map(|step| dom.row(step)), [0..1, 0..3, 0..4, 2..4, 3..4]);
        // Every point of a row but the first has something to read.
        for step in 1..10 {
            assert!(dom.row(step).all(|point| !dom.inputs(step, point).is_empty()));
        }
    }

    #[test]
    fn random_nearest_keeps_about_its_fraction_and_always_the_point_itself() {
        let graph = Graph { pattern: Pattern::RandomNearest, width: 1000, steps: 1000 };
        let rows: Vec<Vec<i64>> = (2..998).map(|point| graph.inputs(1, point)).collect();
        assert!(rows.iter().zip(2..).all(|(row, point)| row.contains(&point)));
        let kept: usize = rows.iter().map(|row| row.len() - 1).sum();
        let share = kept as f64 / (4 * rows.len()) as f64;
        assert!((0.2..0.3).contains(&share), "{share}");
        assert_ne!(rows, (2..998).map(|point| graph.inputs(2, point)).collect::<Vec<_>>(), "another set, other inputs");
    }
}
