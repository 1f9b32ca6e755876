//! Cases whose steps are code. The catalogue says what they want and what must be true.

use futures::future::BoxFuture;
use setpoint_wire::attack::Load;

use crate::load::Beside;
use crate::run::Played;
use crate::servers::Server;

mod certificates;
mod connections;
mod refused;

/// Plays a case on a server.
pub type Code = fn(&mut Server) -> BoxFuture<'_, anyhow::Result<Played>>;

const ALL: &[(&str, Code)] = &[
    ("certificate-ends-on-open-connection", |server| Box::pin(certificates::ends(server))),
    ("window-zero-holds-answers", |server| Box::pin(connections::window_zero(server))),
    ("silent-connections", |server| Box::pin(connections::silent(server))),
    ("half-of-a-handshake", |server| Box::pin(connections::half_handshake(server))),
    ("head-that-never-ends", |server| Box::pin(connections::endless_head(server))),
    ("rapid-reset", |server| Box::pin(connections::rapid_reset(server))),
    ("continuation-flood", |server| Box::pin(connections::continuation(server))),
    ("settings-and-pings", |server| Box::pin(connections::settings_and_pings(server))),
    ("table-of-headers", |server| Box::pin(connections::table(server))),
    ("head-of-two-megabytes", |server| Box::pin(connections::large_head(server))),
    ("more-streams-than-are-allowed", |server| Box::pin(connections::many_streams(server))),
    ("refused-before-its-body", |server| Box::pin(refused::before_its_body(server))),
    ("body-of-a-stranger", |server| Box::pin(refused::stranger(server))),
    ("body-that-never-comes", |server| Box::pin(refused::never_comes(server))),
    ("expect-continue-of-a-stranger", |server| Box::pin(refused::expect_continue(server))),
    ("two-lengths", |server| Box::pin(refused::two_lengths(server))),
    ("length-and-chunks", |server| Box::pin(refused::length_and_chunks(server))),
    ("chunks-that-lie", |server| Box::pin(refused::lying_chunks(server))),
    ("line-folding", |server| Box::pin(refused::folded(server))),
    ("absolute-target", |server| Box::pin(refused::absolute_target(server))),
];

/// The code of a case, if its steps are code.
pub fn find(id: &str) -> Option<Code> {
    ALL.iter().find(|(name, _)| *name == id).map(|(_, code)| *code)
}

/// The outcome of a case: its words, and the facts that do not hold.
pub fn said(text: impl Into<String>, broken: Vec<String>) -> Played {
    Played { said: text.into(), broken, ..Played::default() }
}

/// The quiet user beside an attack in code.
pub struct Quiet(Beside);

/// Seconds within which the quiet user is answered.
const QUIET_SECONDS: u64 = 30;

impl Quiet {
    pub fn begin(server: &Server) -> Quiet {
        let load = Load { parallel: 1, quiet_seconds: QUIET_SECONDS, memory_mib: u64::MAX };
        Quiet(Beside::begin(server, &load))
    }

    /// Ends, and returns the quiet user's complaints.
    pub async fn end(self) -> anyhow::Result<Vec<String>> {
        let seen = self.0.end().await?;
        Ok(seen.failed.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use setpoint_wire::attack::{self, Place};

    use super::*;

    /// The catalogue's promise: enough cases, each with a purpose, a name of its own, and something that must be true.
    #[test]
    fn the_catalogue_is_whole() {
        let (mut ids, mut counts) = (BTreeSet::new(), BTreeMap::<u8, usize>::new());
        for item in attack::load().unwrap() {
            for case in item.cases {
                *counts.entry(item.item).or_default() += 1;
                let is_code = case.attack.is_empty() && matches!(case.place, Place::Code | Place::Ours);
                assert_eq!(is_code, find(&case.id).is_some(), "{}", case.id);
                let steps = case.attack.iter().chain(&case.after);
                let states = case.must.is_some()
                    || case.place == Place::Start
                    || steps.clone().any(|step| step.must.is_some());
                assert!(states && !case.wants.is_empty(), "{} says nothing that must be true", case.id);
                assert!(ids.insert(case.id.clone()), "{} stands twice", case.id);
            }
        }
        assert!(ids.len() >= 120, "{} cases", ids.len());
        for item in 1..=16 {
            assert!(
                counts.get(&item).is_some_and(|count| *count >= 5),
                "item {item} has too few: {counts:?}"
            );
        }
        let unknown: Vec<_> =
            ALL.iter().filter(|(name, _)| !ids.contains(*name)).map(|(name, _)| name).collect();
        assert!(unknown.is_empty(), "the catalogue does not have {unknown:?}");
    }
}
