//! The command line: that of `ninja`, and a few words more.

use crate::error::{Error, ErrorKind};
use lexopt::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;

/// What `--help` prints.
pub const HELP: &str = "\
usage: seriatim-make [options] [targets...]

if targets are unspecified, builds the 'default' target, as ninja does.

options:
  --version      print the version of ninja that it stands for, and its own
  -v, --verbose  show all command lines while building
  --quiet        don't show progress status, just command output

  -C DIR   change to DIR before doing anything else
  -f FILE  specify input build file [default=build.ninja]

  -j N     run N jobs in parallel (0 means infinity) [default depends on the cores]
  -k N     keep going until N jobs fail (0 means infinity) [default=1]
  -l N     do not start new jobs if the load average is greater than N
  -n       dry run (don't run commands but act like they succeeded)
  --trace FILE  write the commands as a Chrome trace, which Perfetto opens

  -d MODE  keepdepfile or keeprsp: keep such files after they are used
  -t TOOL  clean, cleandead, recompact, restat [outputs], or targets all
  -w FLAG  accepted: phonycycle=warn
";

/// The version that `--version` prints: build systems look at its beginning.
pub const VERSION: &str = concat!("1.13.0.seriatim-make-", env!("CARGO_PKG_VERSION"));

/// What is shown.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Verbosity {
    /// What commands print.
    Quiet,
    /// Progress as well.
    #[default]
    Normal,
    /// All command lines.
    Verbose,
}

/// What to do instead of a build.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tool {
    /// Remove what has been built.
    Clean,
    /// Remove what was built once, and is not part of the manifest any more.
    CleanDead,
    /// List what can be built.
    Targets,
    /// Write the logs anew.
    Recompact,
    /// Write into the log when outputs were changed last: those that are named, or all.
    Restat,
}

/// The options, each with its default filled in.
#[derive(Clone, Debug)]
pub struct Options {
    /// `-C`
    pub folder: Option<PathBuf>,
    /// `-f`
    pub manifest: String,
    /// `-j`
    pub jobs: usize,
    /// `-k`
    pub failures: usize,
    /// `-l`
    pub load: Option<f64>,
    /// `-n`
    pub dry_run: bool,
    /// `-v`, `--quiet`
    pub verbosity: Verbosity,
    /// `--trace`
    pub trace: Option<PathBuf>,
    /// `-d keepdepfile`
    pub keeps_depfiles: bool,
    /// `-d keeprsp`
    pub keeps_response_files: bool,
    /// `-t`
    pub tool: Option<Tool>,
    /// What to build.
    pub targets: Vec<OsString>,
}

/// What the command line asks for.
#[derive(Debug)]
pub enum Asked {
    /// Something that takes the manifest.
    Run(Box<Options>),
    /// To print this.
    Print(String),
}

impl Default for Options {
    fn default() -> Options {
        Options {
            folder: None,
            manifest: "build.ninja".to_owned(),
            jobs: default_jobs(),
            failures: 1,
            load: None,
            dry_run: false,
            verbosity: Verbosity::Normal,
            trace: None,
            keeps_depfiles: false,
            keeps_response_files: false,
            tool: None,
            targets: Vec::new(),
        }
    }
}

/// As many as `ninja` has: some more than there are cores, since commands wait for files.
fn default_jobs() -> usize {
    match std::thread::available_parallelism().map_or(1, usize::from) {
        1 => 2,
        2 => 3,
        cores => cores + 2,
    }
}

impl Options {
    /// Reads the arguments, without the program's name.
    ///
    /// # Errors
    /// [`ErrorKind::Usage`], or [`ErrorKind::Unsupported`] for what only `ninja` has.
    pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Asked, Error> {
        let mut options = Options::default();
        let mut parser = lexopt::Parser::from_args(arguments);
        while let Some(argument) = parser.next().map_err(usage)? {
            match argument {
                Short('h') | Long("help") => return Ok(Asked::Print(HELP.to_owned())),
                Long("version") => return Ok(Asked::Print(format!("{VERSION}\n"))),
                Short('v') | Long("verbose") => options.verbosity = Verbosity::Verbose,
                Long("quiet") => options.verbosity = Verbosity::Quiet,
                Short('C') => options.folder = Some(parser.value().map_err(usage)?.into()),
                Short('f') => options.manifest = text(&mut parser)?,
                Short('j') => options.jobs = limit(&mut parser, "-j")?,
                Short('k') => options.failures = limit(&mut parser, "-k")?,
                Short('l') => match text(&mut parser)?.parse::<f64>() {
                    Ok(load) => options.load = Some(load).filter(|load| *load > 0.0),
                    Err(_) => return Err(usage("-l takes a number")),
                },
                Short('n') => options.dry_run = true,
                Long("trace") => options.trace = Some(parser.value().map_err(usage)?.into()),
                Short('d') => options.debug(&text(&mut parser)?)?,
                Short('w') => warning(&text(&mut parser)?)?,
                Short('t') => {
                    let name = text(&mut parser)?;
                    let rest = parser.raw_args().map_err(usage)?.collect();
                    options.choose(&name, rest)?;
                    return Ok(Asked::Run(Box::new(options)));
                }
                Value(target) => options.targets.push(target),
                other => return Err(usage(other.unexpected())),
            }
        }
        Ok(Asked::Run(Box::new(options)))
    }

    fn debug(&mut self, mode: &str) -> Result<(), Error> {
        match mode {
            "keepdepfile" => self.keeps_depfiles = true,
            "keeprsp" => self.keeps_response_files = true,
            other => return Err(unsupported(&format!("-d {other}"), "-d keepdepfile and -d keeprsp")),
        }
        Ok(())
    }

    fn choose(&mut self, name: &str, rest: Vec<OsString>) -> Result<(), Error> {
        self.tool = Some(match name {
            "clean" if rest.is_empty() => Tool::Clean,
            "cleandead" if rest.is_empty() => Tool::CleanDead,
            "targets" if rest == ["all"] => Tool::Targets,
            "recompact" if rest.is_empty() => Tool::Recompact,
            "restat" => {
                self.targets = rest;
                Tool::Restat
            }
            other => {
                let rest: Vec<_> = rest.iter().map(|word| word.to_string_lossy()).collect();
                let asked = format!("-t {other} {}", rest.join(" "));
                return Err(unsupported(asked.trim_end(), "-t clean, cleandead, recompact, restat and targets all"));
            }
        });
        Ok(())
    }
}

fn warning(flag: &str) -> Result<(), Error> {
    match flag {
        "phonycycle=warn" | "dupbuild=err" | "depfilemulti=err" => Ok(()),
        other => Err(unsupported(&format!("-w {other}"), "-w phonycycle=warn")),
    }
}

fn unsupported(asked: &str, has: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{asked} is ninja's; this program has {has}"))
}

fn usage(said: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Usage, format!("{said}; --help lists the options"))
}

fn text(parser: &mut lexopt::Parser) -> Result<String, Error> {
    parser.value().and_then(|value| value.string()).map_err(usage)
}

/// A number of which 0 stands for no limit.
fn limit(parser: &mut lexopt::Parser, name: &str) -> Result<usize, Error> {
    let text = text(parser)?;
    match text.parse::<i64>() {
        Ok(number) if number > 0 => Ok(number as usize),
        Ok(0) => Ok(usize::MAX),
        Ok(_) if name == "-k" => Ok(usize::MAX),
        _ => Err(usage(format!("{name} takes a whole number, not {text:?}"))),
    }
}
