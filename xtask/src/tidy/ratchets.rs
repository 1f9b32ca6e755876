//! Counts that only fall: `ratchets.txt` has those that are not zero yet.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};

use crate::run;

const FILE: &str = "xtask/ratchets.txt";

/// A rule, and the folder or crate that it is counted in.
type Place = (String, String);

/// The counts, with the place of each thing counted.
#[derive(Debug, Default)]
pub struct Ratchets {
    counted: BTreeMap<Place, Vec<String>>,
}

impl Ratchets {
    /// One more in this place. `found` says where it stands and what it is.
    pub fn count(&mut self, rule: &str, place: &str, found: String) {
        self.counted.entry((rule.to_owned(), place.to_owned())).or_default().push(found);
    }

    /// How many there are in this place.
    pub fn counted(&self, rule: &str, place: &str) -> usize {
        self.counted.get(&(rule.to_owned(), place.to_owned())).map_or(0, Vec::len)
    }

    /// Says which counts have grown, and which have fallen without their record.
    pub fn check(&self, found: &mut Vec<String>) -> Result<()> {
        let text = fs::read_to_string(run::root().join(FILE))?;
        self.compare(&parse(&text)?, found);
        Ok(())
    }

    /// Writes down every count that has fallen.
    pub fn lower(&self) -> Result<()> {
        let file = run::root().join(FILE);
        let text = fs::read_to_string(&file)?;
        fs::write(&file, self.lowered(&text)?)?;
        Ok(())
    }

    fn compare(&self, recorded: &BTreeMap<Place, usize>, found: &mut Vec<String>) {
        for ((rule, place), all) in &self.counted {
            let most = recorded.get(&(rule.clone(), place.clone())).copied().unwrap_or(0);
            if all.len() > most {
                found.push(format!("{place}: {} {rule}, at most {most}:\n  {}", all.len(), all.join("\n  ")));
            }
        }
        for ((rule, place), most) in recorded {
            let now = self.counted(rule, place);
            if now < *most {
                found.push(format!(
                    "{place}: {rule} fell from {most} to {now}: `cargo xtask tidy --lower` records it"
                ));
            }
        }
    }

    fn lowered(&self, text: &str) -> Result<String> {
        let mut lines = Vec::new();
        for line in text.lines() {
            match entry(line)? {
                None => lines.push(line.to_owned()),
                Some(((rule, place), most)) => {
                    let now = self.counted(&rule, &place).min(most);
                    if now > 0 {
                        lines.push(format!("{rule} {place} {now}"));
                    }
                }
            }
        }
        Ok(lines.join("\n") + "\n")
    }
}

fn parse(text: &str) -> Result<BTreeMap<Place, usize>> {
    text.lines().filter_map(|line| entry(line).transpose()).collect()
}

/// `None` is a comment or an empty line.
fn entry(line: &str) -> Result<Option<(Place, usize)>> {
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let [rule, place, count] = words[..] else { anyhow::bail!("{FILE}: `{line}` is not RULE PLACE COUNT") };
    let count = count.parse().with_context(|| format!("{FILE}: `{line}`"))?;
    Ok(Some(((rule.to_owned(), place.to_owned()), count)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_may_only_fall_and_its_record_falls_with_it() {
        let mut ratchets = Ratchets::default();
        for place in ["grown", "same", "fallen"] {
            ratchets.count("doors", place, format!("{place}.rs:1: one"));
        }
        let text = "# doors\ndoors same 1\ndoors fallen 2\ndoors gone 3\n";
        let mut found = Vec::new();
        ratchets.compare(&parse(text).unwrap(), &mut found);
        let expected = [
            "grown: 1 doors, at most 0:\n  grown.rs:1: one",
            "fallen: doors fell from 2 to 1: `cargo xtask tidy --lower` records it",
            "gone: doors fell from 3 to 0: `cargo xtask tidy --lower` records it",
        ];
        assert_eq!(found, expected);
        assert_eq!(ratchets.lowered(text).unwrap(), "# doors\ndoors same 1\ndoors fallen 1\n");
    }
}
