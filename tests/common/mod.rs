//! What the integration tests share: the engines to try everything on, operations that hold others
//! up, child processes, a watchdog, and random numbers that repeat.

#![allow(dead_code)] // Each test binary uses a part of it.

pub mod cores;

use seriatim::{Builder, Completion, Engine, Error, ErrorKind, Kind, Property, RunContext, Variable};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{mpsc, Arc};
use std::time::{Duration, Instant};

/// The settings that everything is tried with: each kind of engine, alone and with more workers
/// than this machine may have cores.
pub fn builders() -> Vec<Builder> {
    let workers = |kind, count| Engine::builder().kind(kind).cpu_workers(count);
    vec![
        workers(Kind::Naive, 1),
        workers(Kind::Pooled, 1),
        workers(Kind::Pooled, 3),
        workers(Kind::PerDevice, 1),
        workers(Kind::PerDevice, 3),
        // Almost everything runs inside its push, if it can.
        workers(Kind::Pooled, 2).inline_below(Duration::from_millis(1)),
        workers(Kind::PerDevice, 1).inline_below(Duration::from_millis(1)),
    ]
}

/// Runs a test on every engine, and says on which one it failed.
pub fn on_every_engine(test: impl Fn(Engine)) {
    with_every_builder(|builder| test(builder.build().expect("these settings are valid")));
}

/// As [`on_every_engine`], for tests that choose more settings.
pub fn with_every_builder(test: impl Fn(Builder)) {
    struct Tell(String);
    impl Drop for Tell {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("on the {} engine:", self.0);
            }
        }
    }
    for builder in builders() {
        let engine = builder.clone().build().expect("these settings are valid");
        let _tell = Tell(format!("{} ({} workers)", engine.kind(), engine.settings().cpu_workers));
        drop(engine);
        test(builder);
    }
}

/// An asynchronous operation that runs now and ends when the caller says so: what comes behind it
/// on its variables waits.
pub fn hold(engine: &Engine, reads: &[Variable], writes: &[Variable]) -> Completion {
    let (send, receive) = mpsc::channel();
    let start = move |_: &RunContext<'_>, completion| send.send(completion).expect("the test waits for it");
    let builder = engine.op("hold").reads(reads.iter().copied()).writes(writes.iter().copied());
    builder.property(Property::Async).push_async(start).expect("the engine runs");
    receive.recv_timeout(Duration::from_secs(60)).expect("nothing is before it")
}

/// A body that does nothing. Each closure that is pushed is compiled with all of a push: this one
/// once for all tests of a binary.
pub fn nothing(_: &RunContext<'_>) {}

/// A body that counts its runs.
pub fn counting(count: &Arc<AtomicUsize>) -> impl Fn(&RunContext<'_>) + Send + Sync + Clone + 'static + use<> {
    let count = Arc::clone(count);
    move |_| {
        count.fetch_add(1, SeqCst);
    }
}

/// Something that operations can stand in front of until it opens.
#[derive(Clone, Default)]
pub struct Gate(Arc<(AtomicBool, AtomicBool)>);

impl Gate {
    pub fn new() -> Gate {
        Gate::default()
    }

    /// Says that someone stands here, and stays until it opens.
    pub fn pass(&self) {
        self.0 .1.store(true, SeqCst);
        eventually("the gate opens", || self.0 .0.load(SeqCst));
    }

    /// Returns when someone stands here.
    pub fn wait_for_someone(&self) {
        eventually("someone comes to the gate", || self.0 .1.load(SeqCst));
    }

    pub fn open(&self) {
        self.0 .0.store(true, SeqCst);
    }
}

/// Waits for something that must come true before long.
#[track_caller]
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "it does not happen that {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Takes time without giving the core away.
pub fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Ends the process if a test hangs: a lost wake-up should be a failure with a name, not a job that
/// never ends.
pub struct Watchdog(#[allow(dead_code)] mpsc::Sender<()>);

impl Watchdog {
    pub fn new(seconds: u64, what: impl Into<String>) -> Watchdog {
        let (send, receive) = mpsc::channel::<()>();
        let what = what.into();
        std::thread::spawn(move || {
            if receive.recv_timeout(Duration::from_secs(seconds)) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("still not done after {seconds} s: {what}");
                std::process::abort();
            }
        });
        Watchdog(send)
    }
}

/// Checks the kind of an error, and that its message contains what a reader needs.
#[track_caller]
pub fn assert_says(error: &Error, kind: ErrorKind, parts: &[&str]) {
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    for part in parts {
        assert!(text.contains(part), "'{text}' does not say '{part}'");
    }
}

/// The error of an operation that failed with this message.
#[track_caller]
pub fn assert_failed(outcome: Result<(), Error>, message: &str) {
    assert_says(&outcome.expect_err(message), ErrorKind::OperationFailed, &[message]);
}

/// How much of something to do: `LONG_TESTS=1` asks for the long form, as CI does. Not named
/// SERIATIM_…: see `TASK`.
pub fn by_length<T>(usual: T, long: T) -> T {
    // Asked once: an answer from the environment is an allocation, and some tests count those.
    static LONG: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    let is_long = || std::env::var("LONG_TESTS").is_ok_and(|text| !text.is_empty() && text != "0");
    if *LONG.get_or_init(is_long) {
        long
    } else {
        usual
    }
}

/// Tells a child process what to do. Not named SERIATIM_…: the engine refuses variables of that
/// name that it does not know.
pub const TASK: &str = "TEST_CHILD_TASK";

/// The task of this process, if it is a child of a test.
pub fn task() -> Option<String> {
    std::env::var(TASK).ok()
}

/// Runs this test binary once more, for one task: what a test must do that would disturb its
/// neighbours (limits, forks, exits). Every binary that uses it has one test that carries out the
/// tasks.
pub fn child(task: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("the path of this binary"));
    command.args(["a_child_process_does_its_task", "--exact", "--nocapture", "--test-threads=1"]);
    // What is set for this process, such as the oracle's variables, is not for the child's engines.
    // A mutant is for the child as well.
    for (key, _) in std::env::vars().filter(|(key, _)| key.starts_with("SERIATIM_")) {
        command.env_remove(key);
    }
    command.env(TASK, task).env("RUST_BACKTRACE", "0").stdin(Stdio::null());
    command
}

/// Runs a child to its end; fails if it does not come to one.
#[track_caller]
pub fn run_child(command: &mut Command) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the test binary starts");
    let deadline = Instant::now() + Duration::from_secs(120);
    while child.try_wait().expect("it is our child").is_none() {
        if Instant::now() > deadline {
            let _ = child.kill();
            let output = child.wait_with_output().expect("it is our child");
            panic!("the child process hangs; it said:\n{}", said(&output));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().expect("it is our child")
}

/// Runs a child, which must succeed; returns what it said.
#[track_caller]
pub fn run_child_well(command: &mut Command) -> String {
    let output = run_child(command);
    assert!(output.status.success(), "the child process ended with {}; it said:\n{}", output.status, said(&output));
    said(&output)
}

/// All that a child said.
pub fn said(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned()).concat()
}

/// Forks. In the child: runs `inner` and ends the process, with success if it did not panic. In the
/// parent: waits for that. For child processes of tests only.
pub fn fork_and(inner: impl FnOnce()) {
    // SAFETY: the child runs Rust code on a copy of this thread. The test's process has no other
    // thread that holds a lock at this time: the engine's are stopped for the fork, the harness
    // runs one test, and other pushers wait.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "the system refused to fork");
    if pid == 0 {
        // What hangs is ended, and fails: a signal costs no thread.
        // SAFETY: it has no memory to be about.
        unsafe { libc::alarm(100) };
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(inner));
        // SAFETY: ends the process, without the parent's destructors.
        unsafe { libc::_exit(i32::from(outcome.is_err())) };
    }
    let mut status = 0;
    // SAFETY: `pid` is our child, and `status` is ours.
    let waited = unsafe { libc::waitpid(pid, &mut status, 0) };
    assert_eq!((waited, status), (pid, 0), "the child failed");
}

/// The number of threads of this process. Only in a child process does nobody else start any.
pub fn thread_count() -> usize {
    std::fs::read_dir("/proc/self/task").expect("proc is mounted").count()
}

/// Memory of this process that is in use, in bytes.
pub fn resident_memory() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("proc is mounted");
    let pages: usize =
        text.split_whitespace().nth(1).and_then(|field| field.parse().ok()).expect("statm has two fields");
    pages * 4096
}

/// Random numbers that are the same for the same seed (splitmix64).
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// Scrambles a word.
pub fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}
