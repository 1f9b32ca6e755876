//! The admission plugins that kube-apiserver has on without flags, in its order.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use setpoint_peers::{ControlPlane, Options};

/// Stands before the names in the log.
const ORDER: &str = "admission controller(s) successfully in the following order: ";

fn file() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/admission/plugins.txt"))
}

/// Writes the plugins of both phases, each phase in a line.
pub fn record() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let _plane = ControlPlane::start(folder.path(), &Options::default())?;
    let log = std::fs::read_to_string(folder.path().join("kube-apiserver.log"))?;
    let lines = log.lines().filter_map(|line| line.split_once(ORDER));
    let mut phases = Vec::new();
    for (begin, names) in lines {
        let phase = begin.split_whitespace().last().context("the line names a phase")?;
        phases.push(format!("{phase} {}", names.trim_end_matches(['.', '"'])));
    }
    ensure!(phases.len() == 2, "the log has {} lines with plugins", phases.len());
    let file = file();
    std::fs::create_dir_all(file.parent().context("a file stands in a folder")?)?;
    std::fs::write(file, phases.join("\n") + "\n")?;
    Ok(())
}
