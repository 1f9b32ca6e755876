//! The sound operator has no finding.

use setpoint_prove::{Finding, Oracle};

use crate::lives::{grow, pair, proof, there_and_back};

#[test]
fn the_sound_operator_has_no_finding() {
    let report = proof(None, false).steps(there_and_back()).check();
    println!("{report}");
    assert_eq!(report.nondeterminism, None);
    assert_eq!((report.unconfirmed, report.masked), (0, 0));
    assert!(report.visited["crash in the recovery"].known > 0, "{report}");
    // The Secrets are made once.
    let meant =
        |advisory: &Finding| advisory.oracle == Oracle::Healing && advisory.headline.contains("secrets/");
    assert!(report.advisories.iter().all(meant), "{report}");
}

#[test]
fn two_sound_stores_have_no_finding() {
    let report = proof(None, false).without("crash in the recovery").steps(pair()).check();
    assert_eq!(report.unconfirmed, 0);
}

#[test]
fn a_consistent_start_is_never_stale() {
    let report = proof(None, false).server_like("1.31").steps(grow()).check();
    assert!(!report.visited.contains_key("stale restart"), "{report}");
    assert!(report.notes.iter().any(|note| note.contains("newest state")), "{report}");
}
