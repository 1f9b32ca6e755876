//! Every transcript of the real server, replayed against ours.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::fmt::Write;

use setpoint_api::Clock;
use setpoint_wire::play::play;
use setpoint_wire::setting::{SETTINGS, Setting};
use setpoint_wire::target::Target;
use setpoint_wire::{differences, transcript};

/// No answer differs but where `testdata/wire/differences.json` says so, and nothing stands there that is not needed.
#[tokio::test(start_paused = true)]
async fn ours_answers_as_the_real_server_did() {
    let kept = differences::kept().unwrap();
    let mut used = vec![false; kept.len()];
    let mut report = String::new();
    let clock = Clock::new(|| jiff::Timestamp::from_second(1_800_000_000).unwrap());
    let mut targets = BTreeMap::new();
    for setting in SETTINGS {
        targets.insert(setting, Target::ours(clock.clone(), setting).await.unwrap());
    }
    for (stem, transcripts) in transcript::load().unwrap() {
        let target = &targets[&Setting::of(&stem)];
        for recorded in transcripts {
            let again = play(target, &recorded.scenario()).await.unwrap();
            for (at, (real, ours)) in recorded.exchanges.iter().zip(&again.exchanges).enumerate() {
                for one in differences::between(&real.answer, &ours.answer) {
                    match kept.iter().position(|kept| kept.covers(&recorded.name, at, &one.path)) {
                        Some(entry) => used[entry] = true,
                        None => {
                            let request = &real.request.request;
                            writeln!(report, "{stem}/{} step {at} {request}: {one}", recorded.name).unwrap();
                        }
                    }
                }
            }
        }
    }
    for (kept, _) in kept.iter().zip(used).filter(|(_, used)| !used) {
        writeln!(report, "{} {:?} is listed and does not occur", kept.id, kept.scenarios).unwrap();
    }
    assert!(report.is_empty(), "{report}");
}

/// A reader of the list finds the reason of each entry.
#[test]
fn every_kept_difference_has_its_reason() {
    let text = std::fs::read_to_string(transcript::folder().join("../../docs/differences.md")).unwrap();
    for kept in differences::kept().unwrap() {
        assert!(text.contains(&format!("## {}", kept.id)), "docs/differences.md has no heading {}", kept.id);
    }
}

/// The recordings may grow. This is their minimum.
#[test]
fn there_are_enough_recordings() {
    let all: Vec<_> =
        transcript::load().unwrap().into_iter().flat_map(|(_, transcripts)| transcripts).collect();
    let is_patch = |step: &setpoint_wire::scenario::Step, kind: &str| {
        step.request.starts_with("PATCH ") && step.content_type.as_deref() == Some(kind)
    };
    let count = |kind: &str| {
        all.iter()
            .filter(|one| one.exchanges.iter().any(|exchange| is_patch(&exchange.request, kind)))
            .count()
    };
    let requests: usize = all.iter().map(|one| one.exchanges.len()).sum();
    assert!(requests >= 2500, "{requests} requests");
    assert!(count("apply") >= 200, "{} scenarios apply", count("apply"));
    assert!(count("strategic") >= 90, "{} scenarios merge strategically", count("strategic"));
    for kind in ["json-patch", "merge"] {
        assert!(count(kind) >= 15, "{} scenarios have a {kind}", count(kind));
    }
    let mut statuses: Vec<u16> =
        all.iter().flat_map(|one| &one.exchanges).map(|exchange| exchange.answer.status).collect();
    statuses.sort_unstable();
    statuses.dedup();
    for status in [200, 201, 400, 401, 403, 404, 405, 406, 409, 415, 422, 500] {
        assert!(statuses.contains(&status), "no answer with {status} among {statuses:?}");
    }
}
