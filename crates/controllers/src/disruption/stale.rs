//! Pods that were said to be about to be deleted and were not: after two minutes the word is taken back.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use setpoint::predicate::Change;
use setpoint::{
    Action, Context, Controller, Error, Key, Manager, NotFoundExt, Reconciler, SetupError, Watch,
};

use crate::object::pod::{DISRUPTION_TARGET, condition, is_active};
use crate::object::time::whole_seconds;

/// Time for which a pod may be about to be deleted.
const TIMEOUT: SignedDuration = SignedDuration::from_secs(2 * 60);
/// A kubelet's own word is never taken back: it may end the pod much later.
const BY_KUBELET: &str = "TerminationByKubelet";

/// Registers the controller.
pub(super) fn register(manager: &Manager) -> Result<(), SetupError> {
    Controller::new(manager, "stale-pod-disruption")
        .watches(Watch::of::<Pod>().map_changes(of_pod))
        .field_owner(crate::FIELD_OWNER)
        .register(Stale)?;
    Ok(())
}

struct Stale;

impl Reconciler for Stale {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let Some(pod) = ctx.client().get::<Pod>(&key).await? else { return Ok(Action::done()) };
        let now = ctx.now();
        let Some(left) = left(&pod, now) else { return Ok(Action::done()) };
        if left.is_positive() {
            return Ok(Action::requeue_after(Duration::try_from(left).unwrap_or_default()));
        }
        // Locked to the state that was judged: the pod may be about to be deleted once more.
        ctx.client().update_status(&taken_back(&pod, now)).await.ignore_not_found()?;
        Ok(Action::done())
    }
}

/// Pods that say so; the others, nearly all, are not decoded.
fn of_pod(change: &Change<'_>) -> Vec<Key> {
    let said = |json: &[u8]| std::str::from_utf8(json).is_ok_and(|text| text.contains(DISRUPTION_TARGET));
    let pod = change.new.filter(|pod| !pod.is_terminating() && said(&pod.json()));
    pod.map(|pod| pod.key().clone()).into_iter().collect()
}

/// Returns the time for which the condition still holds, or `None` if there is no condition to remove.
fn left(pod: &Pod, now: Timestamp) -> Option<SignedDuration> {
    let said = condition(pod, DISRUPTION_TARGET).filter(|said| said.status == "True")?;
    if !is_active(pod) || said.reason.as_deref() == Some(BY_KUBELET) {
        return None;
    }
    let since = said.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    Some(TIMEOUT - now.duration_since(since))
}

fn taken_back(pod: &Pod, now: Timestamp) -> Pod {
    let mut pod = pod.clone();
    let generation = pod.metadata.generation;
    let conditions = pod.status.iter_mut().flat_map(|status| status.conditions.iter_mut().flatten());
    for said in conditions.filter(|said| said.type_ == DISRUPTION_TARGET) {
        *said = PodCondition {
            type_: DISRUPTION_TARGET.into(),
            status: "False".into(),
            observed_generation: generation,
            last_transition_time: Some(whole_seconds(now)),
            ..PodCondition::default()
        };
    }
    pod
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use setpoint::Object;
    use setpoint::queue::Trigger;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn pod(phase: &str, reason: &str) -> Value {
        json!({ "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "1", "generation": 4 },
            "status": { "phase": phase, "conditions": [
                { "type": "Ready", "status": "True" },
                { "type": "DisruptionTarget", "status": "True", "reason": reason, "message": "soon",
                  "lastTransitionTime": at(100).to_string() },
            ] } })
    }

    #[test]
    fn a_word_that_nothing_followed_is_taken_back_after_two_minutes() {
        let read = |pod: Value| serde_json::from_value::<Pod>(pod).unwrap();
        let evicted = read(pod("Running", "EvictionByEvictionAPI"));
        assert_eq!(left(&evicted, at(101)), Some(SignedDuration::from_secs(119)));
        assert_eq!(left(&evicted, at(220)), Some(SignedDuration::ZERO));
        assert_eq!(left(&read(pod("Failed", "EvictionByEvictionAPI")), at(220)), None, "it has ended");
        assert_eq!(left(&read(pod("Running", BY_KUBELET)), at(220)), None);
        let mut leaving = pod("Running", "EvictionByEvictionAPI");
        leaving["metadata"]["deletionTimestamp"] = json!(at(90).to_string());
        assert_eq!(left(&read(leaving), at(220)), None);
        let after = taken_back(&evicted, at(220));
        assert_eq!(left(&after, at(999)), None);
        let said = json!(condition(&after, DISRUPTION_TARGET).unwrap());
        let wanted = json!({ "type": "DisruptionTarget", "status": "False", "observedGeneration": 4,
            "lastTransitionTime": at(220).to_string() });
        assert_eq!(said, wanted);
    }

    #[test]
    fn only_pods_that_say_so_are_looked_at() {
        let queued = |pod: &Value| {
            let pod = Object::from_json(pod.to_string().as_bytes()).unwrap();
            !of_pod(&Change { trigger: Trigger::Updated, old: None, new: Some(&pod) }).is_empty()
        };
        let mut plain = pod("Running", "x");
        assert!(queued(&plain));
        plain["status"]["conditions"].as_array_mut().unwrap().pop();
        assert!(!queued(&plain));
    }
}
