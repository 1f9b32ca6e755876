//! The report: the visited plans and the findings.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use crate::campaign::{Campaign, Explored, Visited};
use crate::html::{Summary, html};
use crate::judge::Finding;
use crate::page::escape;

/// The result of a proof.
pub struct Report {
    /// The name of the operator.
    pub subject: String,
    /// The number of steps of the life.
    pub steps: usize,
    /// The findings.
    pub findings: Vec<Finding>,
    /// Behaviour that may be meant, or may be a mistake. An advisory fails no proof.
    pub advisories: Vec<Finding>,
    /// Faults that were not tried, and why.
    pub notes: Vec<String>,
    /// The visited plans, by kind of fault.
    pub visited: BTreeMap<&'static str, Visited>,
    /// The visited plans, by step and kind of fault.
    pub matrix: BTreeMap<(usize, &'static str), Visited>,
    /// The number of runs, references and confirmations included.
    pub runs: usize,
    /// Findings that did not come again in three repetitions, and are not reported.
    pub unconfirmed: usize,
    /// The first difference between two equal undisturbed runs, if there is one.
    pub nondeterminism: Option<String>,
    /// The number of fields that differ between undisturbed runs, and are not compared.
    pub masked: usize,
}

impl Report {
    pub(crate) fn new(campaign: &Campaign, explored: Explored) -> Report {
        Report {
            subject: campaign.subject.name.clone(),
            steps: campaign.life.len(),
            findings: explored.findings,
            advisories: explored.advisories,
            notes: explored.notes,
            visited: explored.visited,
            matrix: explored.matrix,
            runs: explored.runs,
            unconfirmed: explored.unconfirmed,
            nondeterminism: explored.nondeterminism,
            masked: explored.masked,
        }
    }

    /// Returns the report as one HTML page that loads nothing from elsewhere and runs no script.
    pub fn html(&self) -> String {
        let kinds = self.visited.iter().map(|(kind, count)| (*kind, *count)).collect();
        html(&Summary {
            subject: &self.subject,
            steps: self.steps,
            runs: self.runs,
            findings: &self.findings,
            advisories: &self.advisories,
            notes: &self.notes,
            kinds,
            matrix: &self.matrix,
        })
    }

    /// Returns the report as JUnit XML: one test case for each kind of fault, and one for the undisturbed life.
    pub fn junit(&self) -> String {
        let mut cases = String::new();
        let undisturbed = std::iter::once("undisturbed");
        for kind in undisturbed.chain(self.visited.keys().copied()) {
            let of_kind = |finding: &&Finding| {
                finding.plan.as_ref().map_or("undisturbed", |plan| plan.at.kind()) == kind
            };
            let found: Vec<&Finding> = self.findings.iter().filter(of_kind).collect();
            let _ = write!(cases, "  <testcase classname=\"{}\" name=\"{kind}\">", escape(&self.subject));
            for finding in found {
                let (headline, trace) = (escape(&finding.headline), escape(&finding.trace));
                let _ = write!(cases, "<failure message=\"{headline}\">{trace}</failure>");
            }
            cases.push_str("</testcase>\n");
        }
        let (tests, failures) = (self.visited.len() + 1, self.findings.len());
        let name = escape(&self.subject);
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"{name}\" tests=\"{tests}\" \
             failures=\"{failures}\">\n{cases}</testsuite>\n"
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            writeln!(f, "✗ {}", finding.headline)?;
            match &finding.plan {
                None => writeln!(f, "  without any fault\n")?,
                Some(plan) => writeln!(f, "  {plan}; 4 of 4 times\n")?,
            }
            writeln!(f, "{}", finding.trace)?;
            writeln!(f, "  again: give this text to `.replay(..)`:\n")?;
            for line in finding.file.lines() {
                writeln!(f, "    {line}")?;
            }
            writeln!(f)?;
        }
        let found = self.findings.len();
        writeln!(f, "{}: {found} findings, {} steps, {} runs", self.subject, self.steps, self.runs)?;
        for (kind, count) in &self.visited {
            let Visited { plans, run, known, missed } = count;
            let left = plans.saturating_sub(run + known);
            write!(f, "  {kind}: {plans} plans, {run} run, {known} known states")?;
            writeln!(f, ", {missed} not reached, {left} left out")?;
        }
        if self.masked > 0 {
            writeln!(f, "  {} fields differ between undisturbed runs and are not compared", self.masked)?;
        }
        if self.unconfirmed > 0 {
            writeln!(f, "  {} findings did not come again and are not shown", self.unconfirmed)?;
        }
        for advisory in &self.advisories {
            writeln!(f, "  advisory: {}", advisory.headline)?;
        }
        for note in &self.notes {
            writeln!(f, "  {note}")?;
        }
        match &self.nondeterminism {
            Some(difference) => writeln!(f, "  not deterministic: {difference}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
