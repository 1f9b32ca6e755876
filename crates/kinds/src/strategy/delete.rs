//! How much time a deleted object gets.

use serde_json::Value;

use crate::access::{int, text};
use crate::facts::Facts;

/// The grace period in seconds of a kind that is deleted gracefully; none where deletion is immediate.
/// `requested` is what the delete asks for.
pub fn grace_period(facts: &Facts, object: &Value, requested: Option<i64>) -> Option<i64> {
    if !facts.graceful {
        return None;
    }
    let wanted = requested.or_else(|| int(object, "spec.terminationGracePeriodSeconds")).unwrap_or(0);
    let unscheduled = text(object, "spec.nodeName").is_empty();
    let finished = matches!(text(object, "status.phase"), "Failed" | "Succeeded");
    Some(match wanted {
        _ if unscheduled || finished => 0,
        negative if negative < 0 => 1,
        seconds => seconds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_a_running_pod_gets_time() {
        let pod = Facts::builtin("", "Pod").unwrap();
        let running = json!({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 30}});
        assert_eq!(grace_period(pod, &running, None), Some(30));
        assert_eq!(grace_period(pod, &running, Some(5)), Some(5));
        assert_eq!(grace_period(pod, &running, Some(-1)), Some(1));
        assert_eq!(grace_period(pod, &json!({"spec": {}}), Some(5)), Some(0));
        let done = json!({"spec": {"nodeName": "n"}, "status": {"phase": "Succeeded"}});
        assert_eq!(grace_period(pod, &done, Some(5)), Some(0));
        assert_eq!(grace_period(Facts::builtin("", "ConfigMap").unwrap(), &running, Some(5)), None);
    }
}
