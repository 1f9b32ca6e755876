//! The bounds of a proof.

use std::time::Duration;

/// The bounds of a proof. All times are virtual, unless [`Pace::real`] says otherwise.
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
    /// The number of plans that are tried, besides the restarts at rest. Of a longer list an even part of each kind of
    /// fault is taken, and at least one plan. The report then says how many plans were left out.
    pub plans: usize,
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
    /// The kind of time, and the waits within a run.
    pub pace: Pace,
}

/// The kind of time of a run, and its waits.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Whether time is the machine's: for programs that are processes. They have no virtual time.
    pub real: bool,
    /// Time of each request. In virtual time, two programs that undo each other's writes would else stop the clock.
    pub latency: Duration,
    /// Time that a started operator has to look at what is there before a step begins. In real time: the silence
    /// after its watches are open.
    pub settled: Duration,
    /// Real time only: the wait for the watches of a started operator. An operator without them is then taken as
    /// started.
    pub start: Duration,
    /// Time between two steps that are not seen, and after the second.
    pub unseen: Duration,
    /// Time after which a program that ended is started again.
    pub again: Duration,
    /// The longest interval between two looks at whether there is rest.
    pub look: Duration,
    /// Time that a resource has to itself while others have not caught up yet.
    pub catch_up: Duration,
    /// The lengths of held watches in seconds. `None`: 6 s, and half of the patience.
    pub holds: Option<Vec<u64>>,
}

impl Default for Pace {
    fn default() -> Self {
        Pace {
            real: false,
            latency: Duration::from_millis(5),
            settled: Duration::from_secs(5),
            start: Duration::ZERO,
            unseen: Duration::from_secs(1),
            again: Duration::from_secs(10),
            look: Duration::from_secs(1),
            catch_up: Duration::from_secs(1),
            holds: None,
        }
    }
}

impl Pace {
    /// The pace of processes.
    pub fn real() -> Pace {
        Pace {
            real: true,
            latency: Duration::ZERO,
            settled: Duration::from_millis(300),
            start: Duration::from_secs(20),
            unseen: Duration::from_millis(200),
            again: Duration::from_millis(200),
            look: Duration::from_millis(50),
            catch_up: Duration::from_millis(300),
            holds: Some(vec![1]),
        }
    }
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
            plans: usize::MAX,
            shrink: true,
            findings: 1,
            watch_list: true,
            without: Vec::new(),
            only: Vec::new(),
            pace: Pace::default(),
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
