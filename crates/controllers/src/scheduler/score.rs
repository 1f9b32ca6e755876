//! Which of the nodes that can take a pod should.

use super::node_info::{NodeInfo, PodInfo};
use crate::placement::affinity;
use crate::placement::taint::is_tolerated;

/// Parts of a whole that load is measured in.
const WHOLE: i128 = 10_000;

/// The less, the better: soft taints, then preferences, then load after taking the pod, then the number of pods.
pub fn score(pod_info: &PodInfo<'_>, info: &NodeInfo) -> (usize, i64, i128, i64) {
    let tolerations = pod_info.spec.tolerations.as_deref().unwrap_or_default();
    let soft = |taint: &&_| is_soft(taint) && !is_tolerated(taint, tolerations);
    let load = load(info.weight.0 + pod_info.weight.0, info.allocatable.cpu_millis)
        + load(info.weight.1 + pod_info.weight.1, info.allocatable.memory);
    let preference = affinity::preference(pod_info.spec, &info.name, &info.labels);
    (info.taints.iter().filter(soft).count(), -preference, load, info.pods)
}

fn is_soft(taint: &k8s_openapi::api::core::v1::Taint) -> bool {
    taint.effect == "PreferNoSchedule"
}

fn load(used: i64, have: i64) -> i128 {
    if have <= 0 { WHOLE } else { (i128::from(used) * WHOLE / i128::from(have)).min(WHOLE) }
}
