//! Whether and when a pod leaves a tainted node.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Taint, Toleration};

use crate::placement::taint::tolerates;

/// The fate of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The pod stays, until something changes.
    Stay,
    /// The pod is deleted at this time, unless something changes.
    GoAt(Timestamp),
    /// The pod is deleted now.
    Go,
}

/// The taints that make pods leave.
pub fn no_execute(node: &Node) -> Vec<Taint> {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.filter(|taint| taint.effect == "NoExecute").cloned().collect()
}

/// Decides from the NoExecute taints of the pod's node. A pod with a set deletion time goes then, even if its
/// tolerations change meanwhile, as long as they tolerate the taints for a limited time at all.
pub fn fate(
    taints: &[Taint],
    tolerations: &[Toleration],
    deletion_time: Option<Timestamp>,
    now: Timestamp,
) -> Fate {
    let mut least: Option<i64> = None;
    for taint in taints {
        let Some(used) = tolerations.iter().find(|toleration| tolerates(toleration, taint)) else {
            return Fate::Go;
        };
        least = least.into_iter().chain(used.toleration_seconds).min();
    }
    let Some(seconds) = least else { return Fate::Stay };
    let tolerated = SignedDuration::from_secs(seconds.max(0));
    let end = deletion_time.or_else(|| now.checked_add(tolerated).ok());
    match end {
        Some(end) if end > now => Fate::GoAt(end),
        Some(_) => Fate::Go,
        // A time that no calendar reaches.
        None => Fate::Stay,
    }
}
