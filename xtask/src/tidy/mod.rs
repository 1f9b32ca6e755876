//! Rules of this repository that the compiler does not know. Runs as a test, so nobody forgets it.

mod dependencies;
mod documents;
mod commits;
mod sources;
mod prose;
mod futures;
mod errors;
mod names;
mod layers;
mod ratchets;

use std::fs;
use std::process::Command;

use anyhow::{Result, bail};

use self::ratchets::Ratchets;
use crate::{flags, run};

/// Checks everything and lists every violation. `--lower` first records the counts that have fallen; `--layers` prints
/// the upward imports that are left instead.
pub fn run(words: &[String]) -> Result<()> {
    flags::check(words, &["--lower", "--layers"])?;
    let asked = |flag: &str| words.iter().any(|word| word == flag);
    let files = tracked_files()?;
    if asked("--layers") {
        layers::print(&files);
        return Ok(());
    }
    let mut found = Vec::new();
    let mut ratchets = Ratchets::default();
    dependencies::check(&mut found)?;
    for file in &files {
        let Ok(text) = fs::read_to_string(run::root().join(file)) else { continue };
        sources::text_rules(file, &text, &mut found);
        if file.ends_with(".rs") {
            sources::source_rules(file, &text, &mut found);
            prose::count(file, &text, &mut ratchets);
            futures::check(file, &text, &mut found);
            errors::count(file, &text, &mut ratchets);
        }
    }
    sources::example_sizes(&files, &mut found);
    documents::check(&files, &mut found)?;
    commits::check(&mut found)?;
    names::count(&mut ratchets)?;
    layers::count(&files, &mut ratchets);
    layers::architecture::check(&mut found)?;
    if asked("--lower") {
        ratchets.lower()?;
    }
    ratchets.check(&mut found)?;
    if found.is_empty() {
        return Ok(());
    }
    bail!("{} violations:\n{}", found.len(), found.join("\n"))
}

fn tracked_files() -> Result<Vec<String>> {
    let listed = run::read(Command::new("git").current_dir(run::root()).args([
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
    ]))?;
    Ok(listed.lines().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        if let Err(error) = run(&[]) {
            panic!("{error}");
        }
    }
}
