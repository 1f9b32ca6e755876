//! The printed table: case, ours, real, verdict.

use anyhow::{Result, bail};
use setpoint_wire::attack::Case;
use setpoint_wire::differences::Kept;

use crate::run::{self, Played};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Both did the same, and what must be true is.
    Same,
    /// Ours holds; there is no real counterpart, or it was not asked.
    Holds,
    /// They differ, and the catalogue says why.
    Listed,
    /// The real server does not keep what the case says: the case is wrong, or upstream is.
    Real,
    /// They differ.
    Differs,
    /// Ours does not keep what the case says.
    Broken,
}

/// One line.
pub struct Row {
    pub item: u8,
    pub id: String,
    pub verdict: Verdict,
    ours: String,
    real: String,
    why: Vec<String>,
}

impl Row {
    pub fn new(item: u8, case: &Case, ours: &Played, real: Option<&Played>, kept: &[Kept]) -> Row {
        let differing = real.map_or(Vec::new(), |real| run::differences(case, real, ours, kept));
        let (verdict, why) = if !ours.broken.is_empty() {
            (Verdict::Broken, ours.broken.clone())
        } else if let Some(broken) =
            real.map(|real| &real.broken).filter(|broken| !broken.is_empty() && case.differs.is_none())
        {
            (Verdict::Real, broken.clone())
        } else if !differing.is_empty() {
            (Verdict::Differs, differing)
        } else if case.differs.is_some() {
            (Verdict::Listed, case.differs.iter().cloned().collect())
        } else if real.is_some() {
            (Verdict::Same, Vec::new())
        } else {
            (Verdict::Holds, Vec::new())
        };
        let show = |played: &Played| match &played.figures {
            Some(figures) => format!("{} ({figures})", played.said),
            None => played.said.clone(),
        };
        Row {
            item,
            id: case.id.clone(),
            verdict,
            ours: show(ours),
            real: real.map_or("-".to_owned(), show),
            why,
        }
    }

    pub fn print(&self) {
        let verdict = match self.verdict {
            Verdict::Same => "same",
            Verdict::Holds => "holds",
            Verdict::Listed => "listed",
            Verdict::Real => "CASE WRONG",
            Verdict::Differs => "DIFFERS",
            Verdict::Broken => "BROKEN",
        };
        println!("{:>2} {:<44} {:<34} {:<34} {verdict}", self.item, self.id, self.ours, self.real);
        for line in self.why.iter().take(8) {
            println!("     {line}");
        }
    }
}

/// Counts, and an error if a case did not hold.
pub fn summary(rows: &[Row]) -> Result<()> {
    let count = |verdict: Verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    println!(
        "{} cases: {} same, {} hold, {} listed, {} differ, {} wrong, {} broken",
        rows.len(),
        count(Verdict::Same),
        count(Verdict::Holds),
        count(Verdict::Listed),
        count(Verdict::Differs),
        count(Verdict::Real),
        count(Verdict::Broken),
    );
    let bad: Vec<&str> = rows
        .iter()
        .filter(|row| matches!(row.verdict, Verdict::Differs | Verdict::Broken | Verdict::Real))
        .map(|row| row.id.as_str())
        .collect();
    if bad.is_empty() { Ok(()) } else { bail!("{} cases fail: {}", bad.len(), bad.join(", ")) }
}
