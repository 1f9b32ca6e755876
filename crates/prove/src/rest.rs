//! The definition of rest.
//!
//! A cluster is at rest when no request of the operator is in flight, no watch is held, the operator has consumed the
//! last event of each watch, and nothing was written for the patience of the settings. Leases, heartbeats and Events
//! do not count as writes.
//!
//! Virtual time passes only when nothing can run, so whatever could be delivered has been delivered. In real time that
//! is looked at: each watch has shown the last revision of its resource, and the operator's process only waits. While
//! it computes, or waits for a processor, no patience passes. So rest does not depend on the speed of the machine.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use setpoint_store::{Event, Store};
use tokio::time::Instant;

use crate::resource::{ObjectName, is_background, of_key};
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
            Unrest::Limit(limit) => write!(f, "no rest within {} s", limit.as_secs()),
        }
    }
}

/// The most commits that a run remembers. The report of a run with more shows the first.
const COMMITS: usize = 100_000;

/// The longest time for which a process that only computes is taken as at work.
const COMPUTES: Duration = Duration::from_secs(30);
/// Time that counts as looked at after a look, in intervals of looks.
const LOOKS: u32 = 4;

/// The commits of a run, apart from background writes. The store's own history ends after some minutes.
#[derive(Clone)]
pub struct Commits(Arc<Mutex<Log>>);

struct Log {
    last: Instant,
    events: Vec<Arc<Event>>,
    /// The last revision of each resource in each namespace.
    newest: BTreeMap<(String, String), u64>,
}

impl Commits {
    /// Follows a store.
    pub fn of(store: &Store) -> Commits {
        let commits = Commits(Arc::new(Mutex::new(Log {
            last: Instant::now(),
            events: Vec::new(),
            newest: BTreeMap::new(),
        })));
        let noted = commits.clone();
        store.on_commit(move |events| {
            let mut log = noted.log();
            for event in events {
                let name = of_key(&event.key).filter(|name| !is_background(&name.resource));
                if let Some(ObjectName { resource, namespace, .. }) = name {
                    log.last = Instant::now();
                    log.newest.insert((resource, namespace), event.revision);
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

    /// Returns the last revision of a resource, in a namespace or in all.
    fn newest(&self, resource: &str, namespace: &str) -> u64 {
        let log = self.log();
        let of = log.newest.iter().filter(|((known, within), _)| {
            known == resource && (namespace.is_empty() || within == namespace)
        });
        of.map(|(_, revision)| *revision).max().unwrap_or_default()
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
    let mut looks = Looks::new(settings.pace.look);
    loop {
        let writes = wire.writes();
        if writes > settings.writes {
            return Err(Unrest::Writes(writes));
        }
        let (sent, mut answered) = wire.quiet();
        let mut since = sent.max(commits.last());
        let mut last = since;
        if settings.pace.real {
            answered = answered && wire.shows_all(|resource, namespace| commits.newest(resource, namespace));
            since = since.max(looks.look(wire, since, answered, writes));
            last = wire.last_seen().map_or(since, |seen| seen.max(since));
        }
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

/// The looks at a process in real time.
struct Looks {
    interval: Duration,
    last: Instant,
    /// The time for which the process has only waited, as far as somebody looked.
    calm: Duration,
    /// The moment since which nothing happens, and the number of writes at that moment.
    quiet: Option<(Instant, usize)>,
}

impl Looks {
    fn new(interval: Duration) -> Looks {
        Looks { interval, last: Instant::now(), calm: Duration::ZERO, quiet: None }
    }

    /// Looks at the process. Returns the moment since which it only waits. `since` is the last write of anybody.
    fn look(&mut self, wire: &Wire, since: Instant, answered: bool, writes: usize) -> Instant {
        let now = Instant::now();
        let passed = now.duration_since(self.last);
        self.last = now;
        let computes = answered && now < since + COMPUTES && wire.is_busy();
        // Time in which nobody looked does not count: requests may have waited in a socket.
        let counted = passed.min(self.interval * LOOKS);
        self.calm = if computes { Duration::ZERO } else { (self.calm + counted).min(now - since) };
        if let Some((quiet, before)) = self.quiet
            && writes > before
        {
            wire.waited(since.duration_since(quiet));
        }
        self.quiet = match self.quiet {
            _ if !answered || computes => None,
            Some((quiet, before)) if before == writes => Some((quiet.max(since), before)),
            _ => Some((now, writes)),
        };
        // After such a time the next look decides.
        if passed > counted { now } else { now - self.calm }
    }
}
