//! One process of a sitting: its time, its disturbances and what it writes.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc::{channel, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

use super::jobs::{Job, Often};
use super::{Plan, Results};
use crate::machine::{cache_line_hop, Quiet, NEAR_BELOW};

/// How often a disturbed process is run again before its figures are taken as they are.
const RETRIES: usize = 3;
/// How often one whose cores were moved is. Where a host moves them all the time, more would be in
/// vain.
const RETRIES_MOVED: usize = 1;
/// A process that takes longer has failed.
const LONGEST: Duration = Duration::from_secs(300);

/// Runs a job, again while others disturb it, and keeps its records.
pub(super) fn perform(job: &Job, repetition: usize, plan: &Plan, results: &mut Results) -> Result<(), String> {
    // A quick sitting is for seeing that everything works.
    let (disturbed_again, moved_again) = if plan.quick { (0, 0) } else { (RETRIES, RETRIES_MOVED) };
    for attempt in 0..=RETRIES {
        let before = cache_line_hop();
        let quiet = Quiet::begin();
        let lines = child(job)?;
        // Counts do not depend on what else the machine does.
        let disturbed = quiet.disturbed() && job.often != Often::Once;
        let after = cache_line_hop();
        let moved = (before < NEAR_BELOW) != (after < NEAR_BELOW) && job.often != Often::Once;
        if disturbed && attempt < disturbed_again {
            results.discarded += 1;
            continue;
        }
        if moved && attempt < moved_again {
            results.moved += 1;
            continue;
        }
        results.kept_disturbed += usize::from(disturbed);
        for line in lines.lines() {
            let mut record: Value = serde_json::from_str(line).map_err(|error| format!("{error}: {line}"))?;
            record["repetition"] = repetition.into();
            record["hop_ns"] = (before.as_nanos() as f64).into();
            record["hop_after_ns"] = (after.as_nanos() as f64).into();
            record["disturbed"] = disturbed.into();
            results.records.push(record);
        }
        break;
    }
    Ok(())
}

/// What the process writes.
fn child(job: &Job) -> Result<String, String> {
    let myself = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(myself);
    command.args(&job.arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(preload) = &job.preload {
        command.env("LD_PRELOAD", preload);
    }
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    // Both are read by threads, so that neither pipe fills up while the other is waited for. A pipe
    // ends with the process.
    let (done, finished) = channel();
    let output = reader(child.stdout.take().expect("a pipe"), done.clone());
    let errors = reader(child.stderr.take().expect("a pipe"), done);
    let in_time = (0..2).all(|_| finished.recv_timeout(LONGEST).is_ok());
    if !in_time {
        child.kill().map_err(|error| error.to_string())?;
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    if !in_time {
        return Err(format!("it took more than {LONGEST:?}: {}", job.arguments.join(" ")));
    }
    let (output, errors) = (output.join().unwrap_or_default(), errors.join().unwrap_or_default());
    if status.success() {
        Ok(output)
    } else {
        let last = errors.lines().last().unwrap_or("it said nothing");
        Err(format!("{status}: {last}: {}", job.arguments.join(" ")))
    }
}

/// Reads all there is, says so, and gives it to the thread that joins.
fn reader(mut from: impl Read + Send + 'static, done: Sender<()>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What came before an error is worth having.
        let _ = from.read_to_end(&mut bytes);
        let _ = done.send(());
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
