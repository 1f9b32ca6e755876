//! The sound operator has no finding.

use setpoint_prove::{Finding, Oracle, Prove, Report};

use crate::lives::{grow, pair, proof, there_and_back};

/// Checks that some kinds of faults find nothing in a life of the sound operator, and that all plans were visited.
fn is_sound(proof: Prove, kinds: &[&str]) -> Report {
    let report = kinds.iter().fold(proof, |proof, kind| proof.only(kind)).check();
    println!("{report}");
    assert_eq!(report.nondeterminism, None);
    assert_eq!((report.unconfirmed, report.masked), (0, 0));
    for kind in kinds {
        let count = report.visited.get(*kind).copied().unwrap_or_default();
        assert!(count.plans > 0 && count.run + count.known == count.plans, "{kind}: {report}");
    }
    report
}

#[test]
fn the_sound_operator_stands_crashes() {
    let life = proof(None, false).steps(there_and_back());
    is_sound(life, &["crash after a write", "crash before a write", "crash in the recovery"]);
}

#[test]
fn the_sound_operator_stands_writes_that_fail() {
    let kinds = ["lost answer", "connection reset", "refused write", "server restart", "slow deletion"];
    is_sound(proof(None, false).steps(there_and_back()), &kinds);
}

#[test]
fn the_sound_operator_stands_other_people() {
    let kinds = ["concurrent writer", "early next step", "unseen step", "child deleted by hand"];
    is_sound(proof(None, false).steps(there_and_back()), &kinds);
}

#[test]
fn the_sound_operator_stands_cut_watches() {
    is_sound(proof(None, false).steps(there_and_back()), &["cut watch", "cut and list again"]);
}

#[test]
fn the_sound_operator_stands_late_watches() {
    is_sound(proof(None, false).steps(grow()), &["held watch", "order of kinds"]);
}

#[test]
fn the_sound_operator_stands_time_and_edits() {
    let kinds = ["idle time", "clock jump", "second namespace", "child edited by hand"];
    let report = is_sound(proof(None, false).steps(there_and_back()), &kinds);
    // The Secrets are made once.
    let meant =
        |advisory: &Finding| advisory.oracle == Oracle::Healing && advisory.headline.contains("secrets/");
    assert!(report.advisories.iter().all(meant), "{report}");
}

#[test]
fn two_sound_stores_stand_crashes() {
    is_sound(proof(None, false).steps(pair()), &["crash after a write", "lost answer"]);
}

#[test]
fn the_sound_operator_stands_a_crash_with_an_old_cache_after_it() {
    let life = proof(None, true).server_like("1.31").steps(grow());
    is_sound(life, &["stale restart after a crash"]);
}

#[test]
fn a_consistent_start_is_never_stale() {
    let life = proof(None, false).server_like("1.31").steps(grow());
    let report = is_sound(life, &["crash after a write"]);
    assert!(!report.visited.contains_key("stale restart"), "{report}");
    assert!(report.notes.iter().any(|note| note.contains("newest state")), "{report}");
}

const LEADERS: [&str; 4] = ["change of leader", "late standby", "leader cut off", "rolling replacement"];

#[test]
fn two_replicas_of_the_sound_operator_stand_the_end_of_the_leader() {
    let report = is_sound(proof(None, false).steps(there_and_back()), &LEADERS);
    let missed: usize = LEADERS.iter().map(|kind| report.visited[kind].missed).sum();
    assert_eq!(missed, 0, "another replica takes over in each run: {report}");
}

#[test]
fn two_sound_replicas_that_trust_their_caches_stand_the_end_of_the_leader() {
    is_sound(proof(None, true).steps(grow()), &LEADERS);
}
