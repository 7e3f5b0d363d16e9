//! Where the source locks: the other half of what `tests/allocations.rs` counts.
//!
//! A count of locks says something only if every lock is counted. So: there is one lock type, in
//! `src/sync/lock.rs`, which counts; nothing else that blocks is named anywhere but at the places
//! listed here, and every place that takes a lock is listed with the reason why no operation comes
//! by it on its way from push to completion.

use std::path::{Path, PathBuf};

/// Every place that takes a lock: file, function, why it is off the path.
const LOCKS: &[(&str, &str, &str)] = &[
    ("operation/name.rs", "from", "a name made of a String is interned; literals are not"),
    ("variable/names.rs", "set", "a program names a variable"),
    ("variable/names.rs", "get", "the text of an error or a report tells of a variable, and some were named"),
    ("variable/names.rs", "of_engine", "a program asks for a profile"),
    ("variable/names.rs", "forget", "an engine ends"),
    ("engine/lifecycle.rs", "stop_alone", "stops and starts exclude each other"),
    ("engine/lifecycle.rs", "start", "stops and starts exclude each other"),
    ("engine/fork.rs", "register", "a new engine enters the list for forks"),
    ("engine/fork.rs", "before", "a fork"),
    ("engine/fork.rs", "ask", "a fork"),
    ("engine/fork.rs", "lock", "a fork"),
    (
        "engine/failures.rs",
        "prune",
        "an operation has failed, after hundreds that nobody took; if the lock is taken it goes on without",
    ),
    ("engine/failures.rs", "take_all_live", "a wait for everything takes the failures, if there ever were any"),
    ("engine/wait/wait_list.rs", "hold", "by the two that follow, or a fork"),
    ("engine/wait/wait_list.rs", "announced", "a thread waits for everything that is in flight, or is about to park"),
    ("engine/wait/wait_list.rs", "forget", "a thread has waited"),
    (
        "engine/wait/wait_list.rs",
        "wake_if_due",
        "a thread waits, and what it waits for may have come; if the lock is taken, its holder wakes",
    ),
    ("engine/wait/crosswise.rs", "try_enter", "a thread that has a guard is about to sleep for another one"),
    ("engine/wait/crosswise.rs", "leave", "it has slept"),
    ("engine/wait/crosswise.rs", "lets_go", "an operation that it runs meanwhile drops the guard"),
    ("worker/thread_handle.rs", "register_as", "a waiter is about to park where it was not the last to"),
    ("worker/thread_handle.rs", "lock", "a fork"),
    (
        "worker/group.rs",
        "lock_warnings",
        "a worker starts, or could not be pinned, or someone asks for the warnings, or a fork",
    ),
    ("worker/cores.rs", "drop", "a pinned worker ends"),
    ("worker/pinning.rs", "pin_worker", "a pinned worker starts"),
    (
        "worker/pinning.rs",
        "part",
        "a thread that has waited stands on the core of a worker; if the lock is taken it goes on without",
    ),
    ("worker/pinning.rs", "lock_ids", "a fork"),
    ("worker/pinning.rs", "forget_workers", "a fork, in the child"),
    ("engine/gpu/admit.rs", "open", "a push names a device for the first time"),
    ("engine/gpu/admit.rs", "make", "a device is made ready for its first operation"),
    ("engine/gpu/devices.rs", "hold", "a graph is dropped, and the engine is stopped or stops"),
    ("engine/gpu/devices.rs", "let_go", "an engine has stopped"),
    ("engine/gpu/devices.rs", "start", "an engine starts again"),
    ("engine/gpu/watch.rs", "start", "the watcher of a device starts"),
    ("engine/gpu/watch.rs", "stop", "the watcher of a device ends"),
    ("engine/gpu/buffers.rs", "lists", "an array of a device is made or dropped, its memory is looked at, or a fork"),
    ("worker/threads.rs", "start", "workers start"),
    ("worker/threads.rs", "stop", "workers end"),
    ("pool/depot.rs", "fetch", "a thread has no blocks left: once a magazine, and not once the pools are warm"),
    ("pool/depot.rs", "put_away", "a thread has thousands of blocks too many"),
];

/// Everything else that could block or lock, and where its name may stand.
const NAMES: &[(&str, &[&str])] = &[
    // A static's lies beside it, and is taken through `lock::of_static`.
    (
        "Mutex",
        &[
            "sync/lock.rs",
            "sync/mod.rs",
            "sync/loom.rs",
            "sync/shuttle.rs",
            "engine/fork.rs",
            "engine/wait/crosswise.rs",
            "operation/name.rs",
            "variable/names.rs",
        ],
    ),
    // What a fork holds from before until after.
    (
        "MutexGuard",
        &[
            "sync/lock.rs",
            "sync/mod.rs",
            "sync/loom.rs",
            "sync/shuttle.rs",
            "engine/fork.rs",
            "engine/lifecycle.rs",
            "engine/wait/crosswise.rs",
            "engine/wait/wait_list.rs",
            "worker/group.rs",
            "worker/pinning.rs",
            "worker/thread_handle.rs",
        ],
    ),
    ("RwLock", &[]),
    ("Condvar", &[]),
    ("Barrier", &[]),
    ("LazyLock", &[]),
    ("mpsc", &["sync/loom.rs"]),
    ("parking_lot", &[]),
    ("Once", &["engine/fork.rs"]),
    // The engine of the process.
    // Set once: what a back end has found, a device, that it is lost, what profiles of it need, and
    // the memory of an array; and an answer, which is set by one thread and looked at by another
    // after that.
    (
        "OnceLock",
        &[
            "api/builder.rs",
            "api/pinned_fill.rs",
            "device/timed_marks.rs",
            "engine/gpu/admit.rs",
            "engine/gpu/devices.rs",
            "engine/gpu/lease.rs",
            "engine/wait/reply.rs",
            "profile/recorder.rs",
            "worker/group.rs",
        ],
    ),
    ("object_pool", &["pool/depot.rs"]),
];

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the source is there") {
        let path = entry.expect("it can be listed").path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Calls `visit` with the file, the function and the text of every line of code, tests left out.
fn lines(mut visit: impl FnMut(&str, &str, &str)) {
    let mut paths = Vec::new();
    files(&source(), &mut paths);
    assert!(paths.len() > 30, "this is not the source");
    for path in paths {
        let file = path.strip_prefix(source()).expect("it lies there").to_str().expect("names are ASCII").to_owned();
        if file.ends_with("/tests.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("it can be read");
        let mut function = String::new();
        for line in text.lines() {
            if ["#[cfg(test)]", "#[cfg(all(test"].iter().any(|tests| line.trim().starts_with(tests)) {
                break;
            }
            let code = line.split("//").next().unwrap_or_default();
            if let Some((_, name)) = code.split_once("fn ") {
                function =
                    name.chars().take_while(|character| character.is_alphanumeric() || *character == '_').collect();
            }
            visit(&file, &function, code);
        }
    }
}

/// Whether a word stands in a line by itself.
fn has_word(line: &str, word: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(is_part) && !line[at + word.len()..].starts_with(is_part))
}

#[test]
fn every_lock_is_taken_where_no_operation_comes_by() {
    let mut seen = vec![false; LOCKS.len()];
    lines(|file, function, line| {
        let locks = [".lock()", ".try_lock()", ".hold()", "::of_static(", ".try_pull(", ".pull(", ".attach("]
            .iter()
            .any(|call| line.contains(call));
        if !locks || file == "sync/lock.rs" {
            return;
        }
        match LOCKS.iter().position(|(known, name, _)| (*known, *name) == (file, function)) {
            Some(index) => seen[index] = true,
            None => panic!("src/{file}: {function} takes a lock: {line}\nif operations do not come by there, enter it in tests/locks.rs"),
        }
    });
    let gone: Vec<_> = LOCKS.iter().zip(seen).filter(|(_, seen)| !seen).map(|(lock, _)| lock).collect();
    assert!(gone.is_empty(), "these take no lock any more: {gone:?}");
}

#[test]
fn there_is_one_lock_type_and_it_counts() {
    lines(|file, function, line| {
        for (name, places) in NAMES {
            assert!(!has_word(line, name) || places.contains(&file), "src/{file}: {function} uses {name}: {line}");
        }
    });
    // The pool of a dependency locks inside: it is counted by hand.
    let memory = std::fs::read_to_string(source().join("pool/memory.rs")).expect("it is there");
    let calls = memory.matches(".try_pull()").count() + memory.matches(".attach(").count();
    assert_eq!(memory.matches("lock::count()").count(), calls);
}
