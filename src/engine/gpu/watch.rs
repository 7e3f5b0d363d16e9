//! The watcher of a device: the one thread that asks how far the device has come.
//!
//! In each round it
//!
//! - hands out the parked operations whose device has come to what they wait for;
//! - gives room on the streams to the operations that wait for some;
//! - ends the asynchronous operations whose streams have come to their marks;
//! - counts what the device has done as completed;
//! - frees kept memory, if arrays wait for room or a program trims (`allocate.rs`). Only in these
//!   calls the driver may wait for the device.
//!
//! It calls no closure of the program. But it may drop some, as the last thread that has a graph or
//! the closure of a pipeline.
//!
//! An operation is parked by a push into the watcher's inbox, from which only the watcher takes.
//! The watcher falls asleep by the same word (`sleep.rs`).
//!
//! A `Watcher` lies on that thread's stack, and no other thread touches it; what is shared is in
//! `devices.rs`. `admit.rs` starts the thread when a push or a completion first needs it, and ends
//! it when the engine stops.

use crate::device::backend::Class;
use crate::device::raw::DriverError;
use crate::engine::backpressure::give_room_back;
use crate::engine::core::Core;
use crate::engine::gpu::devices::{DeviceStream, Gpu};
use crate::engine::gpu::loss::insist;
use crate::engine::gpu::sleep::rest;
use crate::engine::gpu::timing::Reader;
use crate::engine::gpu::turn::{destination, park};
use crate::engine::settings::IdlePolicy;
use crate::error::{Error, ErrorKind};
use crate::operation::block::{Block, FLAG_GPU};
use crate::sync::{thread, Ordering::*};
use crate::thread::context::ThreadContext;
use crate::thread::kept;
use crate::util::spin::Spin;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ptr::null_mut;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the watcher sleeps between two questions, if the device has not come further for a
/// while.
const NAP: Duration = Duration::from_micros(50);
/// For how long after the last step of the device it keeps its core.
const AWAKE: Duration = Duration::from_micros(20);

/// How long a device may refuse to say how far it has come, before it counts as lost.
const LONGEST_SILENCE: Duration = Duration::from_secs(1);
/// How often it tries to enter the device, if the driver refuses that.
const ENTERING_TRIES: usize = 100;

/// Starts the watcher of a device, unless it runs.
pub fn start(core: &Arc<Core>, gpu: &Arc<Gpu>) -> Result<(), Error> {
    let mut thread = gpu.thread.lock();
    if thread.is_some() {
        return Ok(());
    }
    gpu.stops.store(false, Relaxed);
    let (own, watched) = (Arc::clone(core), Arc::clone(gpu));
    // Before the workers can queue anything; nothing is in flight when a watcher starts.
    let counted = gpu.lines.iter().map(|line| line.timeline.queued()).collect();
    let started = thread::Builder::new().name(gpu.watcher_name.clone()).spawn(move || {
        kept::begin(own.memory.id);
        own.threads.begin();
        Watcher::new(&own, &watched, counted).run();
        own.threads.end();
    });
    match started {
        Ok(started) => *thread = Some(started),
        Err(said) => {
            let message = format!("the system refused the thread that watches {}: {said}", gpu.context());
            return Err(Error::new(ErrorKind::ThreadRefused, message));
        }
    }
    Ok(())
}

/// Ends the watcher. Nothing is in flight.
pub fn stop(gpu: &Gpu) {
    let Some(thread) = gpu.thread.lock().take() else { return };
    gpu.stops.store(true, SeqCst);
    gpu.wake_watcher();
    // Panics of the program's destructors are caught, and it has nothing to report.
    let _ = thread.join();
}

struct Watcher<'a> {
    core: &'a Arc<Core>,
    gpu: &'a Gpu,
    local: &'a ThreadContext,
    /// What waits for each timeline: the number, and the order of arrival.
    parked: Vec<BinaryHeap<Reverse<(u64, u64, Operation)>>>,
    /// What waits for room on a stream, by class: the priority, and the order of pushes.
    waiting: [BinaryHeap<(i32, Reverse<u64>, Operation)>; Class::ALL.len()],
    /// Up to which number operations were counted as completed.
    counted: Vec<u64>,
    arrived: u64,
    /// Reads when the operations that are profiled ran.
    reader: Reader,
    /// Since when the device refuses to say how far it has come.
    refused_since: Option<Instant>,
}

/// A block in a heap, which orders by what stands before it.
type Operation = *mut Block;

impl<'a> Watcher<'a> {
    fn new(core: &'a Arc<Core>, gpu: &'a Gpu, counted: Vec<u64>) -> Watcher<'a> {
        Watcher {
            core,
            gpu,
            local: core.local(),
            parked: gpu.lines.iter().map(|_| BinaryHeap::new()).collect(),
            waiting: Default::default(),
            counted,
            arrived: 0,
            reader: Reader::default(),
            refused_since: None,
        }
    }

    fn run(mut self) {
        if let Err(refusal) = self.enter() {
            self.core.lose(self.gpu, &refusal);
        }
        let new_spin = || match self.core.settings.idle {
            IdlePolicy::Spin => Spin::new(AWAKE, Duration::MAX),
            IdlePolicy::SpinThenPark => Spin::new(AWAKE, self.core.settings.spin_for),
            IdlePolicy::Park => Spin::new(Duration::ZERO, Duration::ZERO),
        };
        // None once its time is up: from then on the watcher naps between two questions.
        let mut spin = Some(new_spin());
        loop {
            let mut moved = self.take();
            moved |= self.ask();
            self.hand_out();
            moved |= self.find_memory();
            if moved {
                self.core.flush(self.local);
                spin = Some(new_spin());
            } else if self.is_idle() {
                if self.gpu.stops.load(SeqCst) {
                    return self.reader.release(self.gpu);
                }
                rest(&self.gpu.watcher, || self.is_idle() && !self.gpu.stops.load(Relaxed));
                spin = Some(new_spin());
            } else if !spin.as_mut().is_some_and(Spin::pause) {
                spin = None;
                thread::park_timeout(NAP);
            }
        }
    }

    /// Makes the device current on this thread. A call that is refused is asked again: without a
    /// watcher the device is of no use.
    fn enter(&self) -> Result<(), DriverError> {
        insist(ENTERING_TRIES, || {
            let entered = self.gpu.backend.enter(self.gpu.number);
            if entered.is_err() {
                thread::park_timeout(NAP);
            }
            entered.map(|_| ())
        })
    }

    /// Takes what was parked since the last look; says whether there was anything.
    fn take(&mut self) -> bool {
        let mut list = self.gpu.watcher.inbox.take();
        let mut oldest_first = null_mut::<Block>();
        // SAFETY: what comes out of the inbox is ours.
        unsafe {
            while !list.is_null() {
                let next = (*list).link;
                (*list).link = oldest_first;
                (oldest_first, list) = (list, next);
            }
            let any = !oldest_first.is_null();
            while !oldest_first.is_null() {
                let block = oldest_first;
                oldest_first = (*block).link;
                self.sort(block);
            }
            any
        }
    }

    /// Puts an operation where it waits next, or hands it out.
    ///
    /// # Safety
    /// The operation is ready, and ours to give away.
    unsafe fn sort(&mut self, block: *mut Block) {
        let fleet = self.core.gpus.fleet.get().expect("there is a device");
        // SAFETY: by the contract.
        unsafe {
            let (context, class) = destination(block);
            let queues_here = (*block).flags & FLAG_GPU != 0 && context == self.gpu.context();
            if queues_here && Block::is_voided(block) {
                // A cancelled operation may not look at its variables (`execute.rs`), and waits for
                // nothing.
                return self.core.submit_to_worker(self.local, self.gpu, class, block);
            }
            if let Some(ticket) = self.core.obstacle(block, queues_here.then_some(self.gpu)) {
                let (gpu, line) = fleet.of(ticket);
                if gpu.number != self.gpu.number {
                    return park(gpu, block);
                }
                // With this mark the watcher sees that the device has come there before it has done
                // all that is queued behind. If the driver refuses the mark, a later look makes
                // one, and sees the error.
                let _ = gpu.lines[line].timeline.mark(&*gpu.backend, ticket.number());
                self.arrived += 1;
                self.parked[line].push(Reverse((ticket.number(), self.arrived, block)));
            } else if queues_here {
                self.gpu.waiting[class as usize].fetch_add(1, Relaxed);
                self.waiting[class as usize].push(((*block).priority, Reverse((*block).sequence), block));
            } else {
                (*block).link = null_mut();
                self.core.hand_out(self.local, block);
            }
        }
    }

    /// Asks how far the device has come, and counts what is done as completed; says whether there
    /// was anything new.
    fn ask(&mut self) -> bool {
        let (mut completed, mut refused) = (0, None);
        for (index, (line, counted)) in self.gpu.lines.iter().zip(&mut self.counted).enumerate() {
            let timeline = &line.timeline;
            if timeline.queued() == *counted {
                continue;
            }
            if self.gpu.lost.get().is_none() {
                if let Err(refusal) = timeline.poll(&*self.gpu.backend) {
                    refused = Some(refusal);
                }
            }
            // The operations that a lost device will never do are over as well.
            let is_lost = self.gpu.lost.get().is_some();
            let over = if is_lost { timeline.queued() } else { timeline.done() };
            // Before they count as completed: who waits for that finds the times.
            if let Some(timing) = self.gpu.timing.get().filter(|_| !is_lost && over > *counted) {
                self.reader.read(self.core, self.gpu, timing, index, *counted + 1..=over);
            }
            completed += over - std::mem::replace(counted, over);
        }
        let (ended, looked) = self.core.end_due(self.gpu);
        self.bear(refused.or(looked.err()));
        // Before they count as completed, as in `Core::end`.
        if completed > 0 && self.core.settings.bound > 0 {
            give_room_back(self.core, completed as usize);
        }
        (0..completed).for_each(|_| self.local.count_completed());
        completed > 0 || ended
    }

    /// What becomes of a device that has refused to say how far it has come, if it has. One that is
    /// not lost, such as one with a stream that is being captured, is asked again for a while.
    fn bear(&mut self, refused: Option<DriverError>) {
        let Some(refusal) = refused else {
            self.refused_since = None;
            return;
        };
        let since = *self.refused_since.get_or_insert_with(Instant::now);
        if refusal.is_lost() {
            self.core.lose(self.gpu, &refusal);
        } else if since.elapsed() >= LONGEST_SILENCE {
            let message = format!("for {LONGEST_SILENCE:?} it did not say how far it has come: {refusal}");
            self.core.lose(self.gpu, &DriverError::lost(message));
        }
    }

    /// Hands out what waits for something that has come.
    fn hand_out(&mut self) {
        let is_lost = self.gpu.lost.get().is_some();
        for (line, of) in self.gpu.lines.iter().enumerate() {
            let done = of.timeline.done();
            while let Some(Reverse((number, ..))) = self.parked[line].peek() {
                if *number > done && !is_lost {
                    break;
                }
                let Some(Reverse((.., block))) = self.parked[line].pop() else { break };
                // SAFETY: it was parked here, so it is ours.
                unsafe { self.sort(block) };
            }
        }
        for &class in Class::ALL {
            let waiting = self.waiting[class as usize].len();
            // A worker that found the stream with room owned would give the operation back at once.
            let room = if waiting == 0 || is_lost { waiting } else { self.gpu.free_room(class) };
            for _ in 0..room.min(waiting) {
                let Some((.., block)) = self.waiting[class as usize].pop() else { break };
                self.gpu.waiting[class as usize].fetch_sub(1, Relaxed);
                // SAFETY: as above.
                unsafe { self.core.submit_to_worker(self.local, self.gpu, class, block) };
            }
        }
    }

    /// Frees what was trimmed, and finds memory for the arrays that wait for some; says whether
    /// anything of that is done.
    fn find_memory(&mut self) -> bool {
        let fleet = self.core.gpus.fleet.get().expect("there is a device");
        self.gpu.serve(fleet).unwrap_or_else(|refusal| {
            self.core.lose(self.gpu, &refusal);
            true
        })
    }

    /// Whether nothing is queued, and nothing waits.
    fn is_idle(&self) -> bool {
        let is_counted = |(line, counted): (&DeviceStream, &u64)| line.timeline.queued() == *counted;
        self.gpu.lines.iter().zip(&self.counted).all(is_counted)
            && self.waiting.iter().all(BinaryHeap::is_empty)
            && !self.gpu.spare_marks.is_any_due()
            && !self.gpu.buffers.is_any_waiting()
    }
}
