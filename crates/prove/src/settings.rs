//! The bounds of a proof.

use std::time::Duration;

/// The bounds of a proof. All times are virtual.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Seed of the cluster, of the operator, and of the delays of the reference runs.
    pub seed: u64,
    /// A step is at rest when nothing was written for this long: longer than the longest back-off that can be pending.
    pub patience: Duration,
    /// A run with a fault ends when its state has been that of the undisturbed run for this long.
    pub settle: Duration,
    /// A step that is not at rest after this long never rests.
    pub limit: Duration,
    /// A step in which the operator sends more writes than this never rests.
    pub writes: usize,
    /// The number of runs after which the exploration ends. The report then says how many plans were left out.
    pub runs: usize,
    /// Whether the life of a finding is shortened. That takes a few undisturbed lives.
    pub shrink: bool,
    /// The number of findings after which the exploration ends.
    pub findings: usize,
    /// Whether the server streams first states (WatchList), as servers do from 1.32 on. Stale restarts are legal only
    /// without.
    pub watch_list: bool,
    /// Kinds of faults that are not tried, by their names in the report.
    pub without: Vec<String>,
    /// The only kinds of faults that are tried, by their names in the report. Empty: all kinds.
    pub only: Vec<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            seed: 1,
            patience: Duration::from_secs(10 * 60),
            settle: Duration::from_secs(60),
            limit: Duration::from_secs(60 * 60),
            writes: 1_000,
            runs: 10_000,
            shrink: true,
            findings: 1,
            watch_list: true,
            without: Vec::new(),
            only: Vec::new(),
        }
    }
}

impl Settings {
    /// Returns whether a kind of fault is tried.
    pub(crate) fn tries(&self, kind: &str) -> bool {
        let named = |names: &[String]| names.iter().any(|name| name == kind);
        !named(&self.without) && (self.only.is_empty() || named(&self.only))
    }
}
