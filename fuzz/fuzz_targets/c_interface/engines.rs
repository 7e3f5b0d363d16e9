//! The engines of a program: new ones, and ones that stay alive from input to input.

use crate::calls::ok;
use seriatim_c::*;
use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// The settings of an engine, as text.
pub struct Settings {
    pub kind: &'static CStr,
    pub workers: &'static CStr,
    pub bound: usize,
    pub when_full: &'static CStr,
    pub helps: bool,
}

const fn settings(
    kind: &'static CStr,
    workers: &'static CStr,
    bound: usize,
    when_full: &'static CStr,
    helps: bool,
) -> Settings {
    Settings { kind, workers, bound, when_full, helps }
}

/// The engines that there are. Each but the naive ones has threads, which cost more than a program.
pub static SETTINGS: [Settings; 8] = [
    settings(c"per-device", c"2", 0, c"block", true),
    settings(c"pooled", c"2", 0, c"block", false),
    settings(c"naive", c"1", 0, c"block", true),
    settings(c"per-device", c"1", 4, c"help", true),
    settings(c"per-device", c"2", 3, c"would-block", false),
    settings(c"pooled", c"1", 1, c"block", true),
    settings(c"per-device", c"3", 0, c"block", false),
    settings(c"naive", c"1", 2, c"would-block", false),
];

/// How many threads an operation is told that it may use.
pub const NESTED_THREADS: usize = 3;

/// An engine, as far as the program knows it.
pub struct Engine {
    pub settings: &'static Settings,
    /// The handles that the program may use and delete.
    pub handles: Vec<*mut SeriatimEngine>,
    /// A handle that keeps the engine alive after the program.
    pub keeper: *mut SeriatimEngine,
    pub is_stopped: bool,
    pub is_shut_down: bool,
    /// Whether operations in flight may call from inside, with handles of their own.
    pub has_callers: bool,
}

impl Engine {
    /// A new engine.
    pub fn new(number: usize) -> Engine {
        let settings = &SETTINGS[number];
        Engine::of(settings, make(settings), null_mut())
    }

    /// The engine of these settings that earlier programs have used.
    pub fn kept(number: usize) -> Engine {
        static KEPT: [AtomicPtr<SeriatimEngine>; SETTINGS.len()] =
            [const { AtomicPtr::new(null_mut()) }; SETTINGS.len()];
        let (settings, kept) = (&SETTINGS[number], &KEPT[number]);
        // One program runs after another, on one thread.
        if kept.load(Relaxed).is_null() {
            kept.store(make(settings), Relaxed);
        }
        let keeper = kept.load(Relaxed);
        Engine::of(settings, clone(keeper), keeper)
    }

    fn of(settings: &'static Settings, handle: *mut SeriatimEngine, keeper: *mut SeriatimEngine) -> Engine {
        let handles = vec![handle];
        Engine { settings, handles, keeper, is_stopped: false, is_shut_down: false, has_callers: false }
    }

    /// A handle of the program; null if it has none left, which the library refuses.
    pub fn handle(&self) -> *mut SeriatimEngine {
        self.handles.last().copied().unwrap_or(null_mut())
    }

    /// A handle for the end of the program; null if the engine has ended.
    pub fn any_handle(&self) -> *mut SeriatimEngine {
        if self.keeper.is_null() {
            self.handle()
        } else {
            self.keeper
        }
    }

    /// Whether a push waits until there is room.
    pub fn may_block(&self) -> bool {
        self.settings.bound > 0 && self.settings.when_full != c"would-block"
    }

    /// Whether a push may be refused for want of room.
    pub fn may_be_full(&self) -> bool {
        self.settings.bound > 0 && self.settings.when_full == c"would-block"
    }
}

/// Another handle.
pub fn clone(engine: *mut SeriatimEngine) -> *mut SeriatimEngine {
    let mut other = null_mut();
    // SAFETY: the engine lives.
    ok(unsafe { seriatim_engine_clone(engine, &mut other) });
    other
}

fn make(settings: &Settings) -> *mut SeriatimEngine {
    let bound = std::ffi::CString::new(settings.bound.to_string()).expect("there is no zero inside");
    let texts = [
        (c"ENGINE", settings.kind),
        // The last one counts.
        (c"CPU_WORKERS", c"7"),
        (c"SERIATIM_CPU_WORKERS", settings.workers),
        (c"PRIORITY_WORKERS", c"1"),
        (c"PIN", c"off"),
        (c"BOUND", bound.as_c_str()),
        (c"WHEN_FULL", settings.when_full),
        (c"WAITERS_HELP", if settings.helps { c"on" } else { c"off" }),
        (c"NESTED_THREADS", c"3"),
    ];
    let list = texts.map(|(key, value)| SeriatimSetting { key: key.as_ptr(), value: value.as_ptr() });
    let mut engine = null_mut();
    // SAFETY: the settings live until the call returns.
    ok(unsafe { seriatim_engine_new(list.as_ptr(), list.len(), &mut engine) });
    engine
}
