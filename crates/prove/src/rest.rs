//! The definition of rest.
//!
//! A cluster is at rest when no request of the operator is in flight, no watch is held, the operator has consumed the
//! last event of each watch, and nothing was written for the patience of the settings. Leases, heartbeats and Events
//! do not count as writes. Time is virtual: it passes only when nothing can run, so whatever could be delivered has
//! been delivered.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use setpoint_store::{Event, Store};
use tokio::time::Instant;

use crate::resource::{is_background, of_key};
use crate::settings::Settings;
use crate::wire::Wire;

/// The reason why a step did not come to rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unrest {
    /// The operator sent more writes than the settings allow.
    Writes(usize),
    /// The time limit passed.
    Limit(Duration),
    /// The operator wrote while nothing happened.
    Idle {
        /// The number of writes.
        writes: usize,
        /// The time in hours.
        hours: u64,
    },
}

impl std::fmt::Display for Unrest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unrest::Writes(count) => write!(f, "{count} writes of the operator in one step"),
            Unrest::Idle { writes, hours } => write!(f, "{writes} writes in {hours} idle hours"),
            Unrest::Limit(limit) => write!(f, "no rest within {} virtual minutes", limit.as_secs() / 60),
        }
    }
}

/// The most commits that a run remembers. The report of a run with more shows the first.
const COMMITS: usize = 100_000;

/// The commits of a run, apart from background writes. The store's own history ends after some minutes.
#[derive(Clone)]
pub struct Commits(Arc<Mutex<Log>>);

struct Log {
    last: Instant,
    events: Vec<Arc<Event>>,
}

impl Commits {
    /// Follows a store.
    pub fn of(store: &Store) -> Commits {
        let commits = Commits(Arc::new(Mutex::new(Log { last: Instant::now(), events: Vec::new() })));
        let noted = commits.clone();
        store.on_commit(move |events| {
            let mut log = noted.log();
            for event in events {
                if of_key(&event.key).is_some_and(|name| !is_background(&name.resource)) {
                    log.last = Instant::now();
                    if log.events.len() < COMMITS {
                        log.events.push(event.clone());
                    }
                }
            }
        });
        commits
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last(&self) -> Instant {
        self.log().last
    }

    /// Returns the events after a revision.
    pub fn after(&self, revision: u64) -> Vec<Arc<Event>> {
        self.log().events.iter().filter(|event| event.revision > revision).cloned().collect()
    }
}

/// Waits until everything is at rest. Returns early with `Ok(true)` if `enough` says so at a quiet moment.
///
/// # Errors
/// If rest does not come.
pub async fn rest(
    wire: &Wire,
    commits: &Commits,
    patience: Duration,
    settings: &Settings,
    enough: impl Fn() -> bool,
) -> Result<bool, Unrest> {
    let limit = Instant::now() + settings.limit;
    let mut asked = None;
    loop {
        let writes = wire.writes();
        if writes > settings.writes {
            return Err(Unrest::Writes(writes));
        }
        let (sent, answered) = wire.quiet();
        let since = sent.max(commits.last());
        let last =
            if settings.pace.real { wire.last_seen().map_or(since, |seen| seen.max(since)) } else { since };
        let now = Instant::now();
        if answered && now >= since + patience {
            return Ok(false);
        }
        if answered && now >= last + settings.settle && asked.replace(last) != Some(last) && enough() {
            return Ok(true);
        }
        if now > limit {
            return Err(Unrest::Limit(settings.limit));
        }
        let next = if answered { since + patience } else { now + settings.pace.look };
        // A loop of writes must not run until the patience ends before it is noticed.
        tokio::time::sleep_until(next.min(now + settings.pace.look).max(now + Duration::from_millis(1)))
            .await;
    }
}
