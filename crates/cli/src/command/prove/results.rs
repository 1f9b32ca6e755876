//! The results: plan files, logs, and the text.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use setpoint_prove::Visited;
use setpoint_prove_blackbox::{Proof, Proved};

use super::{count, step};

/// Writes a plan file and a log for each finding. Returns the plan files.
pub fn write(proved: &Proved, folder: &Path) -> io::Result<Vec<PathBuf>> {
    if proved.found.is_empty() {
        return Ok(Vec::new());
    }
    fs::create_dir_all(folder)?;
    let mut number = 1;
    let mut written = Vec::new();
    for found in &proved.found {
        let file = loop {
            let file = folder.join(format!("{number}.yaml"));
            number += 1;
            if !file.exists() {
                break file;
            }
        };
        fs::write(&file, found.replay.to_yaml())?;
        fs::write(file.with_extension("log"), &found.log)?;
        written.push(file);
    }
    Ok(written)
}

/// Returns the findings and the summary.
pub fn text(proof: &Proof, proved: &Proved, written: &[PathBuf]) -> String {
    let mut text = String::new();
    for (index, found) in proved.found.iter().enumerate() {
        let finding = &found.finding;
        let _ = writeln!(text, "✗ {}", finding.headline);
        match &finding.plan {
            None => text.push_str("  without any fault\n\n"),
            Some(plan) => {
                let _ = writeln!(text, "  {}: {}; 4 of 4 times\n", step(proof, plan.step), plan.at);
            }
        }
        let _ = writeln!(text, "{}", finding.trace);
        if let Some(file) = written.get(index) {
            let _ = writeln!(text, "  the operator's output: {}", file.with_extension("log").display());
            let _ = writeln!(text, "  again: setpoint prove --replay {}\n", file.display());
        }
    }
    summary(proof, proved, &mut text);
    text
}

fn summary(proof: &Proof, proved: &Proved, text: &mut String) {
    let report = &proved.report;
    let (time, plans) = proved.pace;
    let _ = writeln!(
        text,
        "{}: {} in {}, {}; {} in {:.1} s",
        report.subject,
        count(report.findings.len(), "finding"),
        count(proof.life.len(), "step"),
        count(report.runs, "run"),
        count(plans, "plan"),
        time.as_secs_f64(),
    );
    for note in &report.notes {
        let _ = writeln!(text, "  {note}");
    }
    for advisory in &report.advisories {
        let _ = writeln!(text, "  advice: {}", advisory.headline);
    }
    let mut left_out = 0;
    for (kind, Visited { plans, run, known, missed }) in &report.visited {
        let left = plans.saturating_sub(run + known);
        left_out += left;
        let _ = write!(text, "  {kind}: {}, {run} run, {known} known states", count(*plans, "plan"));
        let _ = writeln!(text, ", {missed} not reached, {left} left out");
    }
    if report.masked > 0 {
        let fields = count(report.masked, "field");
        let _ = writeln!(text, "  not compared, because undisturbed runs differ in it: {fields}");
    }
    if report.unconfirmed > 0 {
        let _ = writeln!(
            text,
            "  {} did not come again and are not shown",
            count(report.unconfirmed, "suspicion")
        );
    }
    match (proved.stopped, left_out) {
        (true, _) => text.push_str("  stopped: this is what was found so far\n"),
        (false, _) if report.findings.iter().any(|finding| finding.plan.is_none()) => {
            text.push_str("  The life is wrong without faults, so no faults were tried.\n");
        }
        (false, 0) => text.push_str(
            "  All single faults of this life were visited. This says nothing about other lives.\n",
        ),
        (false, _) => text.push_str(
            "  Not all single faults of this life were run: the budget or the findings were used up.\n",
        ),
    }
}
