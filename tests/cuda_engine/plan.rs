//! What a random program runs on: the engine's settings and the stand-in's, all of a seed.

use crate::client::Standin;
use crate::common::Random;
use seriatim::{Engine, Kind};
use std::time::Duration;

/// The calls of a function, or of all: one in so many pauses, for up to so many microseconds.
pub type Pauses = (&'static str, u64, u64);
pub const NO_PAUSES: Pauses = ("*", 0, 0);
/// Long pauses where a thread has just asked or told the driver something: others go on, and marks
/// come round, before it acts on that.
const PAUSES: [Pauses; 8] = [
    NO_PAUSES,
    NO_PAUSES,
    NO_PAUSES,
    NO_PAUSES,
    ("*", 50, 100),
    ("cuEventRecord", 50, 500),
    ("cuStreamWaitEvent", 10, 2000),
    ("cuEventQuery", 100, 2000),
];

#[derive(Clone, Debug)]
pub struct Plan {
    pub kind: Kind,
    pub devices: usize,
    /// What the numbers of timelines begin with.
    pub start: u64,
    pub ahead: usize,
    pub workers: usize,
    /// Of 256 calls so many run a command more.
    pub pace: u64,
    /// So many commands run at a time.
    pub burst: u64,
    pub operations: usize,
    /// Of which function's calls some pause at their end.
    pub pauses: Pauses,
    /// Whether most operations are of devices, so that streams wait for streams.
    pub on_devices: bool,
    /// Whether short operations of the processor run inside their pushes.
    pub inline: bool,
}

impl Plan {
    pub fn drawn(random: &mut Random) -> Plan {
        Plan {
            kind: random.pick(&[Kind::PerDevice, Kind::PerDevice, Kind::Pooled, Kind::Naive]),
            devices: random.pick(&[1, 1, 2, 3]),
            start: random.pick(&[0, 0, (1 << 31) - 20, (1 << 32) - 20, (1 << 47) - 20]),
            ahead: random.pick(&[1, 3, 64, 64]),
            workers: random.between(1, 3),
            pace: random.pick(&[12, 30, 60, 128, 240]),
            burst: random.pick(&[1, 1, 4, 16]),
            operations: random.pick(&[30, 100, 300, 1000]),
            pauses: random.pick(&PAUSES),
            on_devices: random.chance(50),
            inline: random.chance(30),
        }
    }

    /// Sets the stand-in up for the plan.
    pub fn set_up(&self, standin: &Standin, seed: u64) {
        standin.again(seed, self.pace);
        standin.burst(self.burst);
        standin.devices(self.devices);
        let (function, one_in, micros) = self.pauses;
        standin.pauses(function, one_in, micros, seed);
    }

    pub fn engine(&self) -> Engine {
        let builder = Engine::builder().kind(self.kind).cpu_workers(2).pin(false).on_error(|_| ());
        let builder = builder.gpu_workers(self.workers).gpu_ahead(self.ahead);
        let builder = if self.inline { builder.inline_below(Duration::from_millis(1)) } else { builder };
        seriatim::testing::gpu_numbers_follow(builder, self.start).build().expect("the settings are valid")
    }
}
