//! Questions about a pod: whether it is active, ready, available.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodCondition, Volume};

use crate::object::time::whole_seconds;

/// The phase, empty if unset.
pub fn phase(pod: &Pod) -> &str {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

/// The node the pod is bound to, empty if none.
pub fn node_name(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

/// The pod's volumes.
pub fn volumes(pod: &Pod) -> impl Iterator<Item = &Volume> {
    pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten())
}

/// The claim behind a volume.
pub fn claim_name(pod: &Pod, volume: &Volume) -> Option<String> {
    let made = || format!("{}-{}", pod.metadata.name.as_deref().unwrap_or_default(), volume.name);
    let given = volume.persistent_volume_claim.as_ref().map(|source| source.claim_name.clone());
    given.or_else(|| volume.ephemeral.as_ref().map(|_| made()))
}

/// Whether the pod has ended.
pub fn is_terminal(pod: &Pod) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Whether the pod counts as a replica: neither ended nor on its way out.
pub fn is_active(pod: &Pod) -> bool {
    !is_terminal(pod) && pod.metadata.deletion_timestamp.is_none()
}

/// Whether the pod is on its way out and still running.
pub fn is_terminating(pod: &Pod) -> bool {
    !is_terminal(pod) && pod.metadata.deletion_timestamp.is_some()
}

/// A condition by type.
pub fn condition<'a>(pod: &'a Pod, type_: &str) -> Option<&'a PodCondition> {
    pod.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == type_)
}

/// Returns the condition that says why another component deletes the pod, or `None` if the pod has this condition
/// already.
pub fn disruption_target(pod: &Pod, reason: &str, message: &str, now: Timestamp) -> Option<PodCondition> {
    let said = condition(pod, DISRUPTION_TARGET);
    let since = said.filter(|said| said.status == "True").and_then(|said| said.last_transition_time.clone());
    let wanted = PodCondition {
        type_: DISRUPTION_TARGET.into(),
        status: "True".into(),
        reason: Some(reason.into()),
        message: Some(message.into()),
        observed_generation: pod.metadata.generation,
        last_transition_time: Some(since.unwrap_or_else(|| whole_seconds(now))),
        last_probe_time: None,
    };
    (said != Some(&wanted)).then_some(wanted)
}

/// Condition: the pod is about to be deleted, and for which reason.
pub const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// Whether the pod's Ready condition is true.
pub fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|condition| condition.status == "True")
}

/// Returns the time since which the pod has been ready, if it is.
pub fn ready_since(pod: &Pod) -> Option<Timestamp> {
    condition(pod, "Ready")
        .filter(|condition| condition.status == "True")
        .and_then(|condition| condition.last_transition_time.as_ref())
        .map(|time| time.0)
}

/// Whether the pod has been ready for `min_ready_seconds`.
pub fn is_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> bool {
    if !is_ready(pod) {
        return false;
    }
    min_ready_seconds == 0 || until_available(pod, min_ready_seconds, now).is_some_and(|left| left.is_zero())
}

/// Returns the time until a ready pod counts as available: zero if it does already, `None` if it is not ready.
pub fn until_available(pod: &Pod, min_ready_seconds: i32, now: Timestamp) -> Option<SignedDuration> {
    let since = ready_since(pod)?;
    let left = SignedDuration::from_secs(min_ready_seconds.into()) - now.duration_since(since);
    Some(left.max(SignedDuration::ZERO))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodStatus;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn ready_pod(since: &str) -> Pod {
        Pod {
            status: Some(PodStatus {
                phase: Some("Running".into()),
                conditions: Some(vec![PodCondition {
                    type_: "Ready".into(),
                    status: "True".into(),
                    last_transition_time: Some(Time(since.parse().unwrap())),
                    ..Default::default()
                }]),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    #[test]
    fn a_ready_pod_becomes_available_at_the_second() {
        let pod = ready_pod("2026-01-01T00:00:00Z");
        for (now, available, left) in [
            ("2026-01-01T00:00:09Z", false, 1),
            ("2026-01-01T00:00:10Z", true, 0),
            ("2026-01-01T00:01:00Z", true, 0),
        ] {
            let now = now.parse().unwrap();
            assert_eq!(is_available(&pod, 10, now), available);
            assert_eq!(until_available(&pod, 10, now), Some(SignedDuration::from_secs(left)));
            assert!(is_available(&pod, 0, now));
        }
        assert!(!is_available(&Pod::default(), 0, Timestamp::UNIX_EPOCH));
    }
}
