//! Chunks go to the device, are worked on there, and come back: how much of the copies lies under
//! other work?
//!
//! Two answers. Each stage is run alone, and all three together: what the whole takes less than the
//! sum of its stages is time in which two of them ran at once. And one run of all three is
//! profiled: the device says when it did what, which is drawn by stream.

use crate::device::Device;
use crate::measure::{interleaved, Contestant, Spread};
use crate::mix::{mixed, Mix, Mixture};
use seriatim::gpu::{DeviceData, PinnedData};
use seriatim::{Context, Engine, Error, Overlap, Profile};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How much there is to do.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub chunks: usize,
    /// Numbers of eight bytes in a chunk.
    pub length: usize,
    /// Steps of the kernel.
    pub spin: u64,
}

/// What the stages take, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub copy_in: Spread,
    pub compute: Spread,
    pub copy_out: Spread,
    pub together: Spread,
}

impl Outcome {
    /// The longest stage.
    pub fn longest(&self) -> f64 {
        self.copy_in.median.max(self.compute.median).max(self.copy_out.median)
    }

    /// Which share of the copies' time lay under other work, at the least. Not known, if there was
    /// no time to speak of.
    pub fn hidden(&self) -> Option<f64> {
        let copies = self.copy_in.median + self.copy_out.median;
        let saved = copies + self.compute.median - self.together.median;
        (copies > 0.0).then(|| (saved / copies).clamp(0.0, 1.0))
    }

    /// A bar for each stage, as long as it takes.
    pub fn drawn(&self) -> String {
        const WIDTH: f64 = 60.0;
        let spreads = [self.copy_in, self.compute, self.copy_out, self.together];
        let longest = spreads.iter().map(|spread| spread.median).fold(1e-12, f64::max);
        let names = ["in, alone", "compute, alone", "out, alone", "all three"];
        let line = |(name, spread): (&str, Spread)| {
            let bar = "█".repeat((spread.median / longest * WIDTH).round() as usize);
            format!("  {name:<15} {:>9.3} ms  {bar}\n", spread.median * 1e3)
        };
        names.into_iter().zip(spreads).map(line).collect()
    }
}

/// What a profile says of one run of all three stages.
#[derive(Clone, Debug)]
pub struct Picture {
    /// The streams by name, and when each was busy, in nanoseconds.
    pub rows: BTreeMap<String, Vec<(u64, u64)>>,
    pub overlap: Overlap,
}

impl Picture {
    /// That of a profile, whose operations were all on one device.
    fn of(profile: &Profile, device: Context) -> Result<Picture, String> {
        let mut rows = BTreeMap::<String, Vec<(u64, u64)>>::new();
        for span in profile.events().iter().filter_map(|event| event.device()) {
            rows.entry(span.stream.to_string()).or_default().push((span.start, span.end));
        }
        let overlap = profile.overlap(device).ok_or("the profile knows of no device")?;
        Ok(Picture { rows, overlap })
    }

    /// A line for each stream: a block where it was busy, from the first start to the last end.
    pub fn drawn(&self) -> String {
        const WIDTH: u64 = 60;
        let spans = || self.rows.values().flatten();
        let begin = spans().map(|span| span.0).min().unwrap_or_default();
        let length = spans().map(|span| span.1).max().unwrap_or_default().saturating_sub(begin).max(1);
        let line = |(name, spans): (&String, &Vec<(u64, u64)>)| {
            let cell = |at: u64| {
                let (from, to) = (begin + length * at / WIDTH, begin + length * (at + 1) / WIDTH);
                // At least a block for each span, however short it is.
                spans.iter().any(|span| span.0 < to.max(from + 1) && span.1.max(span.0 + 1) > from)
            };
            let cells: String = (0..WIDTH).map(|at| if cell(at) { '█' } else { '·' }).collect();
            format!("  {name:<20} {cells}\n")
        };
        self.rows.iter().map(line).collect()
    }
}

struct Chunk {
    from: PinnedData<u64>,
    on_device: DeviceData<u64>,
    to: PinnedData<u64>,
}

/// The program, ready to run more than once.
pub struct Pipeline {
    engine: Engine,
    mix: Arc<dyn Mix>,
    chunks: Vec<Chunk>,
    shape: Shape,
    /// How often the numbers on the device were worked on since they came.
    worked: Cell<u32>,
}

fn say(error: Error) -> String {
    error.to_string()
}

/// The number at a place of a chunk.
fn number(chunk: usize, at: usize) -> u64 {
    (chunk as u64) << 32 | at as u64
}

impl Pipeline {
    /// # Errors
    /// If there is no memory.
    pub fn new(device: &Device, shape: Shape) -> Result<Pipeline, String> {
        let engine = device.engine().build().map_err(say)?;
        let gpu = engine.device(Context::gpu(0)).map_err(say)?;
        let chunk = |chunk| {
            let values: Vec<u64> = (0..shape.length).map(|at| number(chunk, at)).collect();
            Ok(Chunk {
                from: PinnedData::from_slice(&gpu, &values)?,
                on_device: DeviceData::zeros(&gpu, shape.length)?,
                to: PinnedData::zeros(&gpu, shape.length)?,
            })
        };
        let chunks = (0..shape.chunks).map(chunk).collect::<Result<_, Error>>().map_err(say)?;
        Ok(Pipeline { engine, mix: Arc::clone(&device.mix), chunks, shape, worked: Cell::new(0) })
    }

    /// Measures each stage alone and all of them, in turn.
    ///
    /// # Errors
    /// What has failed, a wrong value included.
    pub fn measure(&self, rounds: usize, limit: Duration) -> Result<Outcome, String> {
        let timed = |stages: [bool; 3]| -> Contestant<'_> { Box::new(move || self.run(stages)) };
        let mut contestants = [
            timed([true, false, false]),
            timed([false, true, false]),
            timed([false, false, true]),
            timed([true, true, true]),
        ];
        let spreads = interleaved(rounds, limit, &mut contestants)?;
        let [copy_in, compute, copy_out, together] = spreads[..] else { unreachable!("there are four") };
        Ok(Outcome { copy_in, compute, copy_out, together })
    }

    /// Runs all of them once, and has the device say when it did what.
    ///
    /// # Errors
    /// As for [`Pipeline::measure`].
    pub fn profiled(&self) -> Result<Picture, String> {
        self.engine.start_profiling();
        let ran = self.run([true; 3]);
        let profile = self.engine.profile();
        self.engine.stop_profiling();
        ran?;
        let picture = Picture::of(&profile, Context::gpu(0))?;
        let (found, expected) = (picture.overlap.operations, 3 * self.shape.chunks as u64);
        match found == expected {
            true => Ok(picture),
            false => Err(format!("the profile has {found} of {expected} operations")),
        }
    }

    /// Runs some of the stages on every chunk; says how long that took.
    fn run(&self, [copy_in, compute, copy_out]: [bool; 3]) -> Result<f64, String> {
        let began = Instant::now();
        for chunk in &self.chunks {
            if copy_in {
                self.engine.copy(&chunk.from, &chunk.on_device).map_err(say)?;
            }
            if compute {
                self.compute(chunk).map_err(say)?;
            }
            if copy_out {
                self.engine.copy(&chunk.on_device, &chunk.to).map_err(say)?;
            }
        }
        self.engine.wait_for_all().map_err(say)?;
        let took = began.elapsed().as_secs_f64();
        self.worked.set(if copy_in { 0 } else { self.worked.get() } + u32::from(compute));
        if copy_out {
            self.check()?;
        }
        Ok(took)
    }

    fn compute(&self, chunk: &Chunk) -> Result<(), Error> {
        let (array, mix, shape) = (chunk.on_device.clone(), Arc::clone(&self.mix), self.shape);
        self.engine.op("compute").context(Context::gpu(0)).write(&chunk.on_device).push(move |run| {
            let stream = run.stream().ok_or("this operation has no stream")?;
            let out = array.write_on(run).map_err(say)?;
            let what = Mixture { out, from: [None; 3], id: 1, spin: shape.spin, count: shape.length };
            // SAFETY: the operation has declared the array, of its own device.
            unsafe { mix.mix(0, stream, &what) }
        })
    }

    /// Looks at some numbers of every chunk that came back.
    fn check(&self) -> Result<(), String> {
        for (place, chunk) in self.chunks.iter().enumerate() {
            let found = chunk.to.read().map_err(say)?;
            let looked_at = (0..self.shape.length).step_by(1 + self.shape.length / 1000);
            for at in looked_at.chain(self.shape.length.checked_sub(1)) {
                let work = |value, _| mixed(value, [0; 3], 1, self.shape.spin);
                let expected = (0..self.worked.get()).fold(number(place, at), work);
                if found[at] != expected {
                    return Err(format!("number {at} of chunk {place} is {} and not {expected}", found[at]));
                }
            }
        }
        Ok(())
    }
}
