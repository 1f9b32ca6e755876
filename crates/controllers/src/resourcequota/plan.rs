//! Computes the status of a quota.

use serde_json::{Value, json};
use setpoint_kinds::resources::{Amounts, amounts, to_json};

/// Returns the status that the quota should have, or `None` if it has it. Resources that could not be measured keep
/// their values.
pub(super) fn status(quota: &Value, measured: Amounts) -> Option<Value> {
    let of = |path: &str| quota.pointer(path).map(amounts).unwrap_or_default();
    let (hard, before) = (of("/spec/hard"), of("/status/used"));
    let mut used = before.clone();
    used.extend(measured);
    used.retain(|name, _| hard.contains_key(name));
    (hard != of("/status/hard") || used != before)
        .then(|| json!({ "hard": to_json(&hard), "used": to_json(&used) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_follows_the_spec_and_what_was_measured() {
        let quota = json!({ "spec": { "hard": { "pods": "2", "odd.example.com/x": "1" } } });
        let used = amounts(&json!({ "pods": "1" }));
        let first = status(&quota, used.clone()).unwrap();
        assert_eq!(
            first,
            json!({ "hard": { "odd.example.com/x": "1", "pods": "2" }, "used": { "pods": "1" } })
        );
        let mut settled = quota;
        settled["status"] = first;
        assert_eq!(status(&settled, used), None);
        // Pods could not be listed, so their earlier counts stay.
        assert_eq!(status(&settled, Amounts::new()), None);
        let fewer = status(&settled, amounts(&json!({ "pods": "0" }))).unwrap();
        assert_eq!(fewer["used"], json!({ "pods": "0" }));
        settled["spec"]["hard"] = json!({ "secrets": "1" });
        let other = status(&settled, amounts(&json!({ "secrets": "3" }))).unwrap();
        assert_eq!(other, json!({ "hard": { "secrets": "1" }, "used": { "secrets": "3" } }));
    }
}
