//! Every seeded bug is found by its plan.

use std::ops::RangeInclusive;

use seeded_operator::{Bug, NAME};
use setpoint_prove::{Oracle, PlanFile};

use crate::lives::proof;
use crate::plans::plan;

/// Checks that the plans of some bugs find them, by the oracle that should.
fn are_found(numbers: RangeInclusive<usize>) {
    let mut missed = Vec::new();
    for bug in bugs(numbers) {
        let (life, plan, oracle) = plan(bug);
        let file = PlanFile { subject: NAME.into(), seed: 1, life, plan }.to_yaml();
        let report = proof(Some(bug), bug.starts_late()).replay(&file).unwrap();
        let found =
            if oracle == Oracle::Effect { report.advisories.first() } else { report.findings.first() };
        match found {
            Some(found) if found.oracle == oracle => println!("{bug:?}: {}", found.headline),
            _ => missed.push(format!("{bug:?}, expected {oracle:?}:\n{file}\n{report}")),
        }
    }
    assert!(missed.is_empty(), "{} missed:\n{}", missed.len(), missed.join("\n"));
}

/// Returns the bugs with some numbers.
fn bugs(numbers: RangeInclusive<usize>) -> impl Iterator<Item = Bug> {
    let bugs: Vec<Bug> = Bug::ALL.into_iter().filter(|bug| numbers.contains(&(*bug as usize))).collect();
    assert!(bugs.len() >= 8, "{bugs:?}");
    bugs.into_iter()
}

#[test]
fn bugs_1_to_9_are_found() {
    are_found(1..=9);
}

#[test]
fn bugs_10_to_19_are_found() {
    are_found(10..=19);
}

#[test]
fn bugs_20_to_28_are_found() {
    are_found(20..=28);
}

#[test]
fn bugs_29_to_40_are_found() {
    are_found(29..=40);
}

#[test]
fn the_page_of_a_finding_shows_both_runs_and_loads_nothing() {
    let (life, plan, _) = plan(Bug::FirstSecretGuardsBoth);
    let file = PlanFile { subject: NAME.into(), seed: 1, life, plan }.to_yaml();
    let page = proof(Some(Bug::FirstSecretGuardsBoth), false).replay(&file).unwrap().html();
    for part in
        ["secrets/a-users is missing", "<b>operator 2</b>", "<h3>Undisturbed</h3>", "crash after a write"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    // The undisturbed column has the write that the run lacks, with its fields.
    assert!(page.contains("PATCH secrets/a-users → 201"), "{page}");
    assert!(page.contains("<td>metadata.name</td><td></td><td>&quot;a-users&quot;</td>"), "{page}");
    assert!(!page.contains("<script") && !page.contains("src="), "{page}");
}

#[test]
fn no_plan_of_a_stale_start_finds_anything_in_the_sound_operator() {
    // The other plans are parts of the proofs of the sound operator.
    for bug in bugs(10..=18).filter(|bug| bug.starts_late()) {
        let (life, plan, _) = plan(bug);
        let file = PlanFile { subject: NAME.into(), seed: 1, life, plan }.to_yaml();
        let report = proof(None, bug.starts_late()).replay(&file).unwrap();
        assert!(report.findings.is_empty(), "{bug:?}: {file}\n{report}");
    }
}
