//! From bytes to a program. Total: any bytes make a valid program, and an input that is a little
//! different makes a program that is a little different, which is what a fuzzer that mutates inputs
//! lives on.

use crate::bytes::Bytes;
use crate::program::*;
use seriatim::{IdlePolicy, Kind, WhenFull};

/// So many operations are pushed at most, nested ones included: about a millisecond's work.
const MOST_PUSHES: usize = 64;
const MOST_STEPS: usize = 96;

/// The settings of the engines: few, so that most programs find theirs alive.
const SETTINGS: [(usize, IdlePolicy, bool, usize, WhenFull); 8] = [
    (2, IdlePolicy::SpinThenPark, true, 0, WhenFull::Block),
    (1, IdlePolicy::SpinThenPark, false, 0, WhenFull::Block),
    (3, IdlePolicy::Park, false, 0, WhenFull::Block),
    (2, IdlePolicy::SpinThenPark, true, 3, WhenFull::Block),
    (2, IdlePolicy::SpinThenPark, true, 1, WhenFull::Help),
    (1, IdlePolicy::Park, false, 4, WhenFull::Help),
    (2, IdlePolicy::SpinThenPark, true, 3, WhenFull::WouldBlock),
    (3, IdlePolicy::Park, false, 1, WhenFull::Block),
];

/// The program of an input, and whether it is to run on a new engine.
pub fn program(input: &[u8]) -> (Program, bool) {
    let mut bytes = Bytes::new(input);
    let engine = bytes.next();
    let (workers, idle, waiters_help, bound, when_full) = SETTINGS[usize::from(engine >> 2) % SETTINGS.len()];
    let surroundings = bytes.next();
    // Starting threads, and one more that draws graphs, cost more than the program.
    let (fresh, watched) = (surroundings >> 3 == 30, surroundings >> 3 == 31);
    let shape = Shape {
        kind: [Kind::PerDevice, Kind::Pooled, Kind::Naive, Kind::PerDevice][usize::from(engine % 4)],
        workers,
        idle,
        waiters_help,
        bound,
        when_full,
        // Chosen with something that it has little to do with, so that no input of the corpus
        // changes its meaning otherwise.
        inline_below: [0, 1_000_000][usize::from(waiters_help)],
        variables: [3, 1, 2, 5, 8, 16, 30, 4][usize::from(surroundings % 8)],
        // None, so that no input of the corpus changes its meaning.
        commutative: 0,
        watched,
    };
    let counts = bytes.next();
    let (threads, operators, may_fail) =
        (usize::from(counts % 4) + 1, usize::from(counts >> 2) % 4, counts & 0x80 != 0);
    let mut decoder = Decoder { bytes, variables: shape.variables, pushes: 0, restarts: 0, may_fail };
    let operators = (0..operators).map(|_| decoder.template()).collect();
    let mut pushers = vec![Vec::new(); threads];
    for _ in 0..MOST_STEPS {
        if decoder.bytes.is_empty() || decoder.pushes >= MOST_PUSHES {
            break;
        }
        let choice = decoder.bytes.next();
        let step = decoder.step(choice & 0x3f);
        pushers[usize::from(choice >> 6) % threads].extend(step);
    }
    (Program { shape, operators, graphs: Vec::new(), pushers }.tamed(), fresh)
}

struct Decoder<'a> {
    bytes: Bytes<'a>,
    variables: usize,
    pushes: usize,
    restarts: usize,
    may_fail: bool,
}

impl Decoder<'_> {
    /// A step; none where a program has had enough of its kind.
    fn step(&mut self, choice: u8) -> Option<Step> {
        match choice {
            0..=43 => Some(Step::Push(self.operation(2))),
            44..=51 => {
                self.pushes += 1;
                Some(Step::Use(self.bytes.below(4), self.priority()))
            }
            52..=53 => Some(Step::Delete(self.variable())),
            54..=60 => Some(Step::WaitFor(self.variable())),
            61..=62 => Some(Step::WaitForAll),
            _ => {
                // Dear as well.
                self.restarts += usize::from(self.bytes.next() % 8 == 7);
                (self.restarts == 1).then_some(Step::Restart)
            }
        }
    }

    fn operation(&mut self, depth: usize) -> Operation {
        self.pushes += 1;
        let choice = self.bytes.next();
        let template = self.template();
        // Most bits are clear in most operations, which are then short.
        let special = choice & 1 != 0;
        let mut operation = Operation {
            template,
            priority: if special { self.priority() } else { 0 },
            context: if special { self.bytes.below(6) as u32 } else { 0 },
            large: choice & 0b1110 == 0b1110,
            nested: Vec::new(),
        };
        let nested = if choice >> 5 == 7 && depth > 0 { 1 + usize::from(choice >> 4) % 2 } else { 0 };
        for _ in 0..nested {
            if self.pushes < MOST_PUSHES {
                operation.nested.push(self.operation(depth - 1));
            }
        }
        operation
    }

    fn template(&mut self) -> Template {
        let choice = self.bytes.next();
        let wide = choice >> 4 == 15;
        let reads = if wide { self.bytes.below(25) } else { usize::from(choice % 4) };
        let writes = if wide { self.bytes.below(12) } else { [1, 0, 1, 2][usize::from(choice >> 2) % 4] };
        let reads = (0..reads).map(|_| self.variable()).collect();
        let writes = (0..writes).map(|_| self.variable()).collect();
        let kind = self.bytes.next();
        let body = match kind % 16 {
            index @ 0..=7 if self.may_fail && kind >= 0x80 => BAD[usize::from(index)],
            8..=10 => Body::Complete,
            11..=13 => Body::CompleteElsewhere,
            _ => Body::Return,
        };
        let property = PROPERTIES[if kind & 0x40 != 0 { self.bytes.below(PROPERTIES.len()) } else { 0 }];
        // Some take long enough that what comes behind them is pushed before they end.
        let work = [0, 0, 100, 2_000][usize::from(kind >> 4) % 4];
        Template { reads, writes, property, body, work, commutes: false }
    }

    fn variable(&mut self) -> usize {
        self.bytes.below(self.variables)
    }

    fn priority(&mut self) -> i32 {
        self.bytes.below(5) as i32 - 2
    }
}
