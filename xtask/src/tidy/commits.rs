//! Subjects of commits are short enough for one line of `git log`.

use std::process::Command;

use anyhow::Result;

use crate::run;

const SUBJECT: usize = 72;
/// Earlier commits are as they are.
const BASE: &str = "b26fea74462fcde72307ea8b35b02f62c38defac";

/// Checks every commit after the base. A clone that does not have the base is not checked, and says so.
pub fn check(found: &mut Vec<String>) -> Result<()> {
    let is_ancestor = git(&["merge-base", "--is-ancestor", BASE, "HEAD"]).output()?;
    if !is_ancestor.status.success() {
        println!("tidy: subjects of commits are not checked: this clone does not have {}", &BASE[..7]);
        return Ok(());
    }
    let log = run::read(&mut git(&["log", "--no-merges", "--format=%h %s", &format!("{BASE}..HEAD")]))?;
    found.extend(log.lines().filter_map(too_long));
    Ok(())
}

fn git(words: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.current_dir(run::root()).args(words);
    command
}

/// A line is the short hash and the subject.
fn too_long(line: &str) -> Option<String> {
    let (hash, subject) = line.split_once(' ')?;
    let characters = subject.chars().count();
    (characters > SUBJECT).then(|| {
        format!("commit {hash}: its subject has {characters} characters, at most {SUBJECT}: {subject}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_count_and_not_bytes() {
        let subject = "é".repeat(SUBJECT);
        assert_eq!(too_long(&format!("abc1234 {subject}")), None);
        let said = too_long(&format!("abc1234 {subject}e")).expect("it is too long");
        assert!(said.starts_with("commit abc1234: its subject has 73 characters"), "{said}");
    }
}
