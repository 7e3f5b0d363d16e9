//! A simulated machine, on which the engine runs under `--cfg seriatim_simulation`. It has as many
//! cores as there are threads. Every access that synchronises, and every row of plain data that is
//! named to `touch`, takes the time that its cache line takes to come.
//!
//! The code that runs is the engine's own, unchanged; only the time is simulated. `src/sync/mod.rs`
//! takes its primitives from here. `perf/simulation/` uses the machine for measurements that would
//! otherwise need hardware with as many cores. `lines` and `machine` say what is modelled, and
//! what is not.

#![cfg(seriatim_simulation)]

pub mod ledger;
pub mod lines;
pub mod machine;
pub mod thread;

mod atomics;

pub use atomics::{fence, AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicU8, AtomicUsize};
pub use std::sync::atomic::Ordering;
pub use std::sync::MutexGuard;
pub use thread::Mutex;

use machine::{access, pass, row, with, Kind};
use std::time::Duration;

/// A reading of the calling core's clock.
#[derive(Clone, Copy)]
pub struct Instant(u64);

impl Instant {
    pub fn now() -> Instant {
        pass(|parameters| parameters.clock);
        Instant(machine::now().unwrap_or(0))
    }

    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(Instant::now().0 - self.0)
    }
}

/// Charges one turn of a loop that waits.
pub fn spin_loop() {
    pass(|parameters| parameters.pause);
}

/// Charges a row of plain data that the caller is about to read or to write.
#[track_caller]
#[inline]
pub fn touch<T: ?Sized>(start: *const T, bytes: usize, writes: bool) {
    row(start.cast::<u8>().addr(), bytes, if writes { Kind::Store } else { Kind::Load });
}

/// Charges a request for a line that is to be written, which does not wait for the line.
#[track_caller]
#[inline]
pub fn ask<T: ?Sized>(place: *const T) {
    row(place.cast::<u8>().addr(), 1, Kind::Ask);
}

/// Says what lies in memory, for the tables of causes.
pub fn lay_out<T: ?Sized>(start: *const T, bytes: usize, distance: usize, name: &'static str) {
    machine::lay_out(start.cast::<u8>().addr(), bytes, distance, name);
}

/// The lines that all members of an epoch share: the epoch's number, and the ends of the queue of
/// deferred calls.
#[repr(C, align(128))]
struct EpochLines([u8; 256]);

static EPOCH: EpochLines = EpochLines([0; 256]);

/// The number of pins of a member after which it tries to advance the epoch: `crossbeam-epoch` 0.9.
const PINS: u32 = 128;

/// Charges what `crossbeam-epoch` does on a pin. Its own atomics are not those of this crate.
#[track_caller]
pub fn pinned<T>(member: &T) {
    let (place, own) = (std::panic::Location::caller(), std::ptr::from_ref(member).addr());
    access(EPOCH.0.as_ptr().addr(), Kind::Load, place);
    access(own, Kind::Locked, place);
    let tries = with(|machine| {
        let me = machine.current();
        let core = &mut machine.cores[me];
        core.pins += 1;
        let new = std::mem::replace(&mut core.member, own) != own;
        let tries = core.pins % PINS == 0;
        if new && !machine.members.contains(&own) {
            machine.members.push(own);
        }
        tries
    });
    if tries == Some(true) {
        advance(place);
    }
}

/// Charges what `crossbeam-epoch` does when a call is deferred and flushed.
#[track_caller]
pub fn deferred() {
    let place = std::panic::Location::caller();
    access(EPOCH.0.as_ptr().addr() + 128, Kind::Locked, place);
    advance(place);
}

/// Charges an attempt to advance the epoch: a look at every member's pin, the new epoch, and a look
/// for calls that may be made.
fn advance(place: &'static std::panic::Location<'static>) {
    let members = with(|machine| machine.members.clone()).unwrap_or_default();
    members.iter().for_each(|member| access(*member, Kind::Load, place));
    access(EPOCH.0.as_ptr().addr(), Kind::Store, place);
    access(EPOCH.0.as_ptr().addr() + 128, Kind::Load, place);
}

/// Like std's `thread_local`, but only for constant values.
#[macro_export]
macro_rules! per_thread {
    ($($(#[$attribute:meta])* static $name:ident: $type:ty = const { $init:expr };)*) => {
        $($(#[$attribute])* static $name: $crate::thread::LocalKey<$type> = $crate::thread::LocalKey::new({
            fn init() -> $type {
                $init
            }
            init
        });)*
    };
}
pub use per_thread as thread_local;
