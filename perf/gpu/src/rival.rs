//! Another program that is measured beside the engine, such as one of CUDASTF: `SERIATIM_CUDASTF`.
//!
//! The protocol is in [README](../README.md): a line with a program's name and a number of
//! operations goes in, a line of JSON comes out.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{channel, Receiver};
use std::time::Duration;

/// No answer takes so long.
const LIMIT: Duration = Duration::from_secs(30);

/// The program, running.
pub struct Rival {
    child: Child,
    asks: Option<ChildStdin>,
    answers: Receiver<String>,
}

impl Rival {
    /// Starts it.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(path: &str) -> Result<Rival, String> {
        let started = Command::new(path).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.map_err(|error| format!("SERIATIM_CUDASTF={path} cannot be started: {error}"))?;
        let (asks, output) = (child.stdin.take(), child.stdout.take());
        let (send, answers) = channel();
        std::thread::spawn(move || {
            let lines = output.into_iter().flat_map(|output| BufReader::new(output).lines());
            lines.map_while(Result::ok).try_for_each(|line| send.send(line))
        });
        Ok(Rival { child, asks, answers })
    }

    /// Has it run a program of so many operations; returns the microseconds of one of them.
    ///
    /// # Errors
    /// If it does not know the program, has a wrong result, or does not answer.
    pub fn ask(&mut self, program: &str, operations: usize) -> Result<f64, String> {
        let answer = self.answer(program, operations)?;
        let micros = answer["micros"].as_f64().filter(|micros| micros.is_finite() && *micros > 0.0);
        micros.ok_or_else(|| format!("the rival has no time: {answer}"))
    }

    /// As [`Rival::ask`]; returns all that it says.
    ///
    /// # Errors
    /// As for [`Rival::ask`].
    pub fn answer(&mut self, program: &str, operations: usize) -> Result<serde_json::Value, String> {
        let asks = self.asks.as_mut().ok_or("the rival takes no lines")?;
        let asked = writeln!(asks, "{program} {operations}").and_then(|()| asks.flush());
        asked.map_err(|error| format!("the rival has gone: {error}"))?;
        let line = self.answers.recv_timeout(LIMIT).map_err(|error| format!("the rival does not answer: {error}"))?;
        let answer: serde_json::Value =
            serde_json::from_str(&line).map_err(|error| format!("the rival said {line:?}: {error}"))?;
        if let Some(why) = answer["error"].as_str() {
            return Err(format!("the rival: {why}"));
        }
        if answer["program"].as_str() != Some(program) || answer["right"].as_bool() != Some(true) {
            return Err(format!("the rival's result is not right: {line}"));
        }
        Ok(answer)
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        // Without lines to come it ends; if not, it is ended.
        self.asks = None;
        for _ in 0..50 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// A rival that answers by the protocol, and knows little.
    const PROGRAM: &str = r#"#!/bin/sh
while read -r program operations; do
    case $program in
        chain) echo "{\"program\":\"chain\",\"micros\":$operations.5,\"right\":true}" ;;
        fan-4) echo "{\"program\":\"fan-4\",\"micros\":1,\"right\":false}" ;;
        random) echo '{"program":"random","right":true}' ;;
        readers) echo 'readers took long' ;;
        stops) exit 1 ;;
        *) echo "{\"error\":\"there is no $program here\"}" ;;
    esac
done
"#;

    #[test]
    fn answers_are_taken_if_they_are_right() {
        let path = std::env::temp_dir().join(format!("seriatim-gpu-rival-{}", std::process::id()));
        std::fs::write(&path, PROGRAM).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut rival = Rival::start(path.to_str().expect("names are ASCII")).unwrap();
        assert_eq!(rival.ask("chain", 20), Ok(20.5));
        let wrong = [
            ("fan-4", "not right"),
            ("random", "has no time"),
            ("readers", "the rival said"),
            ("replay", "there is no replay here"),
            ("stops", "does not answer"),
            ("chain", "the rival"),
        ];
        for (program, expected) in wrong {
            let said = rival.ask(program, 20).unwrap_err();
            assert!(said.contains(expected), "{program}: {said}");
        }
        drop(rival);
        std::fs::remove_file(path).unwrap();
        assert!(Rival::start("/nowhere/rival").is_err());
    }
}
