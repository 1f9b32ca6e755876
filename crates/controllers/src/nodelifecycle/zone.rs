//! The pace at which pods of failed nodes are evicted: zone by zone, slower if many nodes fail, and not at all if all
//! fail. In the last case the fault is probably the control plane's own.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;

use crate::object::node;

/// The time between two nodes of a zone.
const PERIOD: SignedDuration = SignedDuration::from_secs(10);
/// The time between two nodes if a large part of a large zone has failed.
const SLOW_PERIOD: SignedDuration = SignedDuration::from_secs(100);
/// A zone with more nodes is large.
const LARGE: usize = 50;
/// The part of a zone's nodes that has failed when it is a large part, in percent.
const MANY_PERCENT: usize = 55;
/// Fewer failed nodes are never a large part.
const MANY: usize = 3;

/// A region and a zone.
pub type Zone = (String, String);

/// The state of the zones.
#[derive(Debug, Default)]
pub struct Zones(BTreeMap<Zone, Counts>);

#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    ready: usize,
    failed: usize,
}

/// The zone of a node.
pub fn zone(node: &Node) -> Zone {
    let label = |name: &str| {
        let labels = node.metadata.labels.as_ref();
        labels.and_then(|labels| labels.get(name)).cloned().unwrap_or_default()
    };
    (label("topology.kubernetes.io/region"), label("topology.kubernetes.io/zone"))
}

impl Zones {
    /// Counts nodes, except for those that opt out.
    pub fn of<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Self {
        let mut zones = Zones::default();
        for node in nodes {
            let labels = node.metadata.labels.as_ref();
            if labels.is_some_and(|labels| labels.contains_key("node.kubernetes.io/exclude-disruption")) {
                continue;
            }
            let counts = zones.0.entry(zone(node)).or_default();
            if node::is_ready(node) { counts.ready += 1 } else { counts.failed += 1 }
        }
        zones
    }

    /// Whether no node is ready anywhere.
    pub fn is_dark(&self) -> bool {
        self.0.values().all(|counts| counts.ready == 0)
    }

    /// Returns the time between two nodes of the zone, or `None` if no pod is evicted.
    fn period(&self, zone: &Zone) -> Option<SignedDuration> {
        let counts = self.0.get(zone).copied().unwrap_or_default();
        let all = counts.ready + counts.failed;
        let many = counts.failed >= MANY && counts.failed * 100 >= all * MANY_PERCENT;
        match (counts.ready > 0 && many, all > LARGE) {
            (false, _) => Some(PERIOD),
            (true, true) => Some(SLOW_PERIOD),
            (true, false) => None,
        }
    }
}

/// When whose turn was.
#[derive(Debug, Default)]
pub struct Pace {
    last: BTreeMap<Zone, Timestamp>,
    /// Whether no node was ready at the last look.
    pub dark: bool,
}

/// Whether it is a node's turn.
#[derive(Debug, PartialEq, Eq)]
pub enum Turn {
    /// It is the node's turn, and the turn was taken.
    Now,
    /// The turn comes after this time.
    In(SignedDuration),
    /// The turn comes only when other nodes are ready.
    Never,
}

impl Pace {
    /// Takes the turn of a node of the zone if there is one.
    pub fn take(&mut self, zone: &Zone, zones: &Zones, now: Timestamp) -> Turn {
        let Some(period) = zones.period(zone) else { return Turn::Never };
        if let Some(last) = self.last.get(zone) {
            let left = period - now.duration_since(*last);
            if left.is_positive() {
                return Turn::In(left);
            }
        }
        self.last.insert(zone.clone(), now);
        Turn::Now
    }
}
