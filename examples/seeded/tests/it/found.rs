//! Every seeded bug is found by its plan.

use seeded_operator::{Bug, NAME};
use setpoint_prove::{Oracle, PlanFile};

use crate::lives::proof;
use crate::plans::plan;

#[test]
fn every_seeded_bug_is_found_by_its_plan() {
    let mut missed = Vec::new();
    for bug in Bug::ALL {
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
    assert!(missed.is_empty(), "{} of {}:\n{}", missed.len(), Bug::ALL.len(), missed.join("\n"));
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
fn no_plan_finds_anything_in_the_sound_operator() {
    for bug in Bug::ALL {
        let (life, plan, _) = plan(bug);
        let file = PlanFile { subject: NAME.into(), seed: 1, life, plan }.to_yaml();
        let report = proof(None, bug.starts_late()).replay(&file).unwrap();
        assert!(report.findings.is_empty(), "{bug:?}: {file}\n{report}");
    }
}
