//! The command line of a benchmark that is not criterion's, but is run beside those that are: by
//! `cargo bench`, with flags meant for criterion.

use crate::machine::Mode;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What such a benchmark was asked.
#[derive(Debug, PartialEq, Eq)]
pub struct Arguments {
    pub mode: Mode,
    /// Keep the figures under this name.
    pub save: Option<String>,
    /// Show the figures beside those that were kept under this name.
    pub baseline: Option<String>,
    /// What it was asked besides, and does not know.
    unknown: Vec<String>,
}

impl Arguments {
    /// Reads this process's command line, for a benchmark that keeps baselines; says on standard
    /// error what it does not know.
    ///
    /// # Errors
    /// One line, if a baseline has no name, or one that is no name of a file.
    pub fn from_process(benchmark: &str) -> Result<Arguments, String> {
        let arguments = Arguments::parse(std::env::args().skip(1), true)?;
        arguments.tell(benchmark);
        Ok(arguments)
    }

    /// The same for a benchmark that keeps none, and has a mode only.
    pub fn mode(benchmark: &str) -> Mode {
        let arguments = Arguments::parse(std::env::args().skip(1), false).expect("only baselines can be wrong");
        arguments.tell(benchmark);
        arguments.mode
    }

    fn tell(&self, benchmark: &str) {
        for unknown in &self.unknown {
            eprintln!("{benchmark}: does not know '{unknown}', and runs without it");
        }
    }

    fn parse(given: impl Iterator<Item = String>, keeps: bool) -> Result<Arguments, String> {
        let all: Vec<String> = given.collect();
        let mut arguments = Arguments { mode: Mode::of(&all), save: None, baseline: None, unknown: Vec::new() };
        let mut given = all.into_iter();
        while let Some(argument) = given.next() {
            let (flag, value) = match argument.split_once('=') {
                Some((flag, value)) => (flag.to_owned(), Some(value.to_owned())),
                None => (argument.clone(), None),
            };
            match flag.as_str() {
                "--bench" | "--test" | "--quick" | "--list" => {}
                "--save-baseline" | "--baseline" if keeps => {
                    let name = value.or_else(|| given.next()).filter(|name| is_name(name));
                    let name = Some(name.ok_or(format!("{flag} needs a name of letters, digits, '-', '_' and '.'"))?);
                    *if flag == "--baseline" { &mut arguments.baseline } else { &mut arguments.save } = name;
                }
                _ => arguments.unknown.push(argument),
            }
        }
        Ok(arguments)
    }
}

fn is_name(text: &str) -> bool {
    !text.starts_with(['-', '.'])
        && !text.is_empty()
        && text.chars().all(|character| character.is_ascii_alphanumeric() || "-_.".contains(character))
}

/// A figure for each workload and entrant.
pub type Figures = BTreeMap<String, BTreeMap<String, f64>>;

/// Where the figures of that name are kept: in the target folder, which is three above the
/// benchmark's program.
pub fn kept_at(benchmark: &str, name: &str) -> PathBuf {
    let program = std::env::current_exe().unwrap_or_default();
    let target = program.ancestors().nth(3).unwrap_or(Path::new("target"));
    target.join(benchmark).join(format!("{name}.json"))
}

/// Keeps figures.
///
/// # Errors
/// One line that names the file.
pub fn keep(path: &Path, figures: &Figures) -> Result<(), String> {
    let text = serde_json::to_string_pretty(figures).map_err(|error| error.to_string())?;
    let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, text + "\n"));
    written.map_err(|error| format!("{}: {error}", path.display()))
}

/// The figures that were kept.
///
/// # Errors
/// One line that names the file and says how it is made.
pub fn kept(path: &Path) -> Result<Figures, String> {
    let text = fs::read_to_string(path)
        .map_err(|error| format!("{}: {error}; --save-baseline NAME makes it", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str, keeps: bool) -> Result<Arguments, String> {
        Arguments::parse(text.split_whitespace().map(str::to_owned), keeps)
    }

    #[test]
    fn what_is_known_is_taken_and_the_rest_is_named() {
        let arguments = parse("--bench --save-baseline new --baseline=old --sample-size 10 chain", true).unwrap();
        assert_eq!((arguments.mode, arguments.save.as_deref()), (Mode::Full, Some("new")));
        assert_eq!(arguments.baseline.as_deref(), Some("old"));
        assert_eq!(arguments.unknown, ["--sample-size", "10", "chain"]);
        let arguments = parse("--test --save-baseline new", false).unwrap();
        assert_eq!((arguments.mode, arguments.save), (Mode::Test, None));
        assert_eq!(arguments.unknown, ["--save-baseline", "new"]);
        for wrong in ["--save-baseline", "--baseline ../x", "--baseline --test", "--save-baseline="] {
            assert!(parse(wrong, true).unwrap_err().contains("needs a name"), "{wrong}");
        }
    }

    #[test]
    fn figures_are_kept() {
        let path = std::env::temp_dir().join(format!("seriatim-figures-{}", std::process::id())).join("a.json");
        let figures = Figures::from([("chain".to_owned(), BTreeMap::from([("naive".to_owned(), 12.5)]))]);
        assert!(kept(&path).unwrap_err().contains("--save-baseline"));
        keep(&path, &figures).unwrap();
        assert_eq!(kept(&path).unwrap(), figures);
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }
}
