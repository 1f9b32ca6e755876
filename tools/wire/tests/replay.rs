//! Every transcript of the real server, replayed against ours.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fmt::Write;

use setpoint_api::Clock;
use setpoint_wire::play::play;
use setpoint_wire::target::Target;
use setpoint_wire::{differences, transcript};

/// No answer differs but where `testdata/wire/differences.json` says so, and nothing stands there that is not needed.
#[tokio::test(start_paused = true)]
async fn ours_answers_as_the_real_server_did() {
    let kept = differences::kept().unwrap();
    let mut used = vec![false; kept.len()];
    let mut report = String::new();
    let clock = Clock::new(|| jiff::Timestamp::from_second(1_800_000_000).unwrap());
    let target = Target::ours(clock).await.unwrap();
    for (stem, transcripts) in transcript::load().unwrap() {
        for recorded in transcripts {
            let again = play(&target, &recorded.scenario()).await.unwrap();
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

/// Whoever reads the list finds the reason.
#[test]
fn every_kept_difference_has_its_reason() {
    let text = std::fs::read_to_string(transcript::folder().join("../../docs/differences.md")).unwrap();
    for kept in differences::kept().unwrap() {
        assert!(text.contains(&format!("## {}", kept.id)), "docs/differences.md has no heading {}", kept.id);
    }
}
