//! A look at engines of other processes that run: what each publishes once a second, in a terminal.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
Shows what engines do, once a second. An engine publishes that if its setting says where:
SERIATIM_PUBLISH=FOLDER in the environment, or Builder::publish.

  seriatim-top FOLDER          all engines that are published there
  seriatim-top FOLDER/7-1.sock one of them: engine 1 of process 7
  seriatim-top --once PLACE    once, and not again

The first look at an engine tells of its whole life, later ones of the second before.
";

#[cfg(unix)]
fn main() -> ExitCode {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let once = arguments.iter().position(|argument| argument == "--once");
    once.into_iter().for_each(|place| drop(arguments.remove(place)));
    match &arguments[..] {
        [help] if help == "--help" || help == "-h" => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        [place] if !place.starts_with('-') => match unix::watch(Path::new(place), once.is_some()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(message) => {
                eprintln!("seriatim-top: {message}");
                ExitCode::from(1)
            }
        },
        _ => {
            eprint!("{HELP}");
            ExitCode::from(2)
        }
    }
}

#[cfg(not(unix))]
fn main() -> ExitCode {
    eprintln!("seriatim-top: this system has no Unix sockets\n\n{HELP}");
    ExitCode::from(1)
}

#[cfg(unix)]
mod unix {
    use super::*;
    use std::os::unix::net::UnixStream;

    /// What ends the text of a look.
    const END: u8 = 0xc;

    /// The sockets at a place: those of a folder, or the one that it is.
    fn sockets(place: &Path) -> Result<Vec<PathBuf>, String> {
        if !place.is_dir() {
            return Ok(vec![place.to_owned()]);
        }
        let entries = std::fs::read_dir(place).map_err(|said| format!("{}: {said}", place.display()))?;
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let mut found: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|end| end == "sock")).collect();
        found.sort();
        Ok(found)
    }

    /// Reads one look; `None` when the engine has ended.
    fn look(reader: &mut BufReader<UnixStream>) -> Option<String> {
        let mut text = Vec::new();
        reader.read_until(END, &mut text).ok()?;
        (text.pop() == Some(END)).then(|| String::from_utf8_lossy(&text).into_owned())
    }

    /// Shows what engines at a place publish, until none does any more.
    pub fn watch(place: &Path, once: bool) -> Result<(), String> {
        let mut readers: BTreeMap<PathBuf, BufReader<UnixStream>> = BTreeMap::new();
        let mut refused = None;
        let mut seen = false;
        loop {
            for socket in sockets(place)? {
                if readers.contains_key(&socket) {
                    continue;
                }
                match UnixStream::connect(&socket) {
                    Ok(stream) => drop(readers.insert(socket, BufReader::new(stream))),
                    // What a process has left that was ended.
                    Err(said) => refused = Some(format!("{}: {said}", socket.display())),
                }
            }
            let mut shown = String::new();
            readers.retain(|socket, reader| {
                let Some(text) = look(reader) else { return false };
                let name = socket.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                shown.push_str(&format!("engine {name} (process-engine)\n{text}\n"));
                true
            });
            if shown.is_empty() {
                let nobody = || refused.unwrap_or_else(|| format!("no engine is published at {}", place.display()));
                return if seen { Ok(()) } else { Err(nobody()) };
            }
            seen = true;
            let mut out = std::io::stdout().lock();
            // Clears the terminal, with what has scrolled away.
            let clear = if out.is_terminal() && !once { "\x1b[H\x1b[2J\x1b[3J" } else { "" };
            if write!(out, "{clear}{shown}").and_then(|()| out.flush()).is_err() || once {
                return Ok(());
            }
        }
    }
}
