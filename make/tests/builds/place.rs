//! A folder with a manifest, and what a build in it prints. Used by the tests beside it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

/// A folder with a manifest, in which nothing has been built.
pub struct Place(pub PathBuf);

/// What a build has printed, and how it ended.
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub error: String,
}

impl Place {
    pub fn new(name: &str, manifest: &str) -> Place {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("builds-{name}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let place = Place(folder);
        place.put("build.ninja", manifest);
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn put(&self, name: &str, text: &str) {
        // The clock of a file system may stand still for some milliseconds.
        thread::sleep(Duration::from_millis(12));
        fs::write(self.path(name), text).unwrap();
    }

    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seriatim-make"));
        command.args(arguments).current_dir(&self.0).env_remove("NINJA_STATUS").env_remove("CLICOLOR_FORCE");
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        thread::sleep(Duration::from_millis(12));
        ran(self.command(arguments).output().unwrap())
    }

    /// A build that goes well; the outputs of what ran, in no order.
    pub fn build(&self, arguments: &[&str]) -> Vec<String> {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.error);
        ran.lines()
    }
}

pub fn ran(output: Output) -> Ran {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code().unwrap_or(-1), out: text(output.stdout), error: text(output.stderr) }
}

impl Ran {
    /// The descriptions of what ran.
    pub fn lines(&self) -> Vec<String> {
        let lines = self.out.lines().filter(|line| line.starts_with('['));
        let mut found: Vec<_> = lines.map(|line| line.split_once("] ").unwrap().1.to_owned()).collect();
        found.sort();
        found
    }
}

/// Each command says its output. `cp` keeps an output whose content would be the same.
pub const RULES: &str = "\
rule cat
  command = cat $in > $out
  description = $out
rule same
  command = cat $in > $out.new; if cmp -s $out.new $out; then rm $out.new; else mv $out.new $out; fi
  description = $out
  restat = 1
rule fail
  command = echo it is broken; exit 3
  description = $out
rule touch
  command = touch $out
  description = $out
";

pub fn place(name: &str, statements: &str) -> Place {
    Place::new(name, &format!("{RULES}{statements}"))
}

pub fn nothing_to_do(place: &Place) {
    let ran = place.run(&[]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "seriatim-make: no work to do.\n"), "{}", ran.error);
}

/// As a compiler: reads its input and `h`, and says so.
pub const CC: &str = "rule cc\n  command = cat $in h > $out && echo \"$out: $in h\" > $out.d\n  description = $out\n  \
                  depfile = $out.d\n";
