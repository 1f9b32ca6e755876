//! `cargo xtask dist`: the files that users of this platform install.

use std::fs;

use anyhow::{Result, ensure};

use crate::{e2e, flags, packages, run};

/// Builds the binary in release mode, and everything of it into `target/dist`.
pub fn run(words: &[String]) -> Result<()> {
    flags::check(words, &[])?;
    let program = e2e::build()?;
    let folder = run::target_folder().join("dist");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let missing: Vec<&str> =
        packages::TOOLS.iter().filter(|tool| run::found(tool).is_none()).copied().collect();
    ensure!(missing.is_empty(), "not on the path: {}", missing.join(", "));
    packages::make(&program, &folder)?;
    for entry in fs::read_dir(&folder)? {
        let entry = entry?;
        println!("{:>10} {}", entry.metadata()?.len(), entry.path().display());
    }
    Ok(())
}
