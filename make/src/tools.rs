//! What `-t` does instead of a build.

use crate::error::Error;
use crate::finish::remove;
use crate::graph::{Escape, Graph};
use crate::pass::Loaded;
use crate::state::stat;
use crate::terminal::print;

/// Removes what has been built, but not what generators have made.
///
/// # Errors
/// If a file cannot be removed.
pub fn clean(graph: &Graph) -> Result<(), Error> {
    let mut count = 0;
    for edge in 0..graph.edges.len() {
        if graph.edges[edge].is_phony() || graph.flag(edge, b"generator")? {
            continue;
        }
        for output in &graph.edges[edge].outputs {
            count += usize::from(remove(graph.path(*output))?);
        }
        for name in [&b"depfile"[..], b"rspfile"] {
            let path = graph.binding(edge, name, Escape::None)?;
            count += usize::from(!path.is_empty() && remove(&path)?);
        }
    }
    print(format!("Cleaning... {count} files.\n").as_bytes());
    Ok(())
}

/// Removes outputs of earlier manifests that this one does not mention.
///
/// # Errors
/// If a file cannot be removed.
pub fn clean_dead(loaded: &Loaded) -> Result<(), Error> {
    let graph = &loaded.graph;
    let mut count = 0;
    for output in loaded.build_log.0.entries.keys() {
        let file = graph.find(output).map(|file| &graph.files[file]);
        if file.is_none_or(|file| file.producer.is_none() && file.first_user.is_none()) {
            count += usize::from(remove(output)?);
        }
    }
    print(format!("Cleaning... {count} files.\n").as_bytes());
    Ok(())
}

/// Writes into the log when these outputs were changed last; all of them if none is named.
///
/// # Errors
/// If a file cannot be looked at, or the log not be written.
pub fn restat(loaded: Loaded, outputs: &[&[u8]]) -> Result<(), Error> {
    let Loaded { graph, build_log: (mut log, path), .. } = loaded;
    for (output, entry) in &mut log.entries {
        if outputs.is_empty() || outputs.contains(&&**output) {
            entry.mtime = stat(output)?;
        }
    }
    log.rewrite(&path, &graph)
}

/// Lists what can be built, and by which rule.
pub fn targets(graph: &Graph) {
    let mut text = String::new();
    for (number, edge) in graph.edges.iter().enumerate() {
        for output in &edge.outputs {
            let rule = String::from_utf8_lossy(&graph.rule(number).name);
            text += &format!("{}: {rule}\n", graph.show(*output));
        }
    }
    print(text.as_bytes());
}

/// Writes the logs anew, without what is of no use any more.
///
/// # Errors
/// If a log cannot be written.
pub fn recompact(loaded: Loaded) -> Result<(), Error> {
    let Loaded { mut graph, build_log: (mut log, log_path), deps_log: (deps, deps_path) } = loaded;
    log.rewrite(&log_path, &graph)?;
    deps.rewrite(&deps_path, &mut graph)?;
    Ok(())
}
