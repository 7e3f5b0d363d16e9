//! Which versions were measured, on which machine.

use std::process::Command;

use serde::Serialize;

use crate::machine::cores;

/// The version of a crate, as `Cargo.lock` has it.
pub fn of(name: &str) -> String {
    let lock = include_str!("../../Cargo.lock");
    let mut lines = lock.lines().skip_while(|line| *line != format!("name = \"{name}\""));
    let version =
        lines.nth(1).and_then(|line| line.strip_prefix("version = \"")).and_then(|rest| rest.strip_suffix('"'));
    String::from(version.unwrap_or("unknown"))
}

/// The machine and the build, for the thread that reads a figure later. What cannot be found out is
/// empty.
#[derive(Serialize, Clone, Debug)]
pub struct Machine {
    /// The processor's own name.
    pub processor: String,
    /// Cores that the driver may use.
    pub cores: usize,
    /// Memory, in GiB.
    pub memory_gib: u64,
    /// The kernel's release.
    pub kernel: String,
    /// The hypervisor, if there is one.
    pub hypervisor: Option<String>,
    /// The compiler's version.
    pub rustc: String,
    /// The commit that was measured, and whether the working tree differs from it.
    pub commit: String,
    /// Whether the working tree differs from it.
    pub changed: bool,
}

impl Machine {
    /// Looks around.
    pub fn here() -> Machine {
        let field = |path: &str, name: &str| {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let line = text.lines().find(|line| line.starts_with(name));
            let value = line.and_then(|line| line.split_once(':')).map(|(_, value)| String::from(value.trim()));
            value.unwrap_or_default()
        };
        let memory = field("/proc/meminfo", "MemTotal");
        let kibibytes: u64 = memory.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0);
        let virtual_machine = field("/proc/cpuinfo", "flags").split_whitespace().any(|flag| flag == "hypervisor");
        let vendor = || output("systemd-detect-virt", &[]).filter(|name| !name.is_empty());
        Machine {
            processor: field("/proc/cpuinfo", "model name"),
            cores: cores(),
            memory_gib: kibibytes >> 20,
            kernel: output("uname", &["-r"]).unwrap_or_default(),
            hypervisor: virtual_machine.then(|| vendor().unwrap_or_else(|| String::from("unnamed"))),
            rustc: output("rustc", &["--version"]).unwrap_or_default(),
            commit: output("git", &["rev-parse", "--short", "HEAD"]).unwrap_or_default(),
            changed: output("git", &["status", "--porcelain"]).is_some_and(|changes| !changes.is_empty()),
        }
    }
}

/// What a command prints, without the white space at its end.
fn output(command: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(command).args(arguments).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim_end().to_string())
}
