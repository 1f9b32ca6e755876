//! RuntimeClass: a pod gets the overhead, the node selector and the tolerations of its class.

use serde_json::Value;
use setpoint_api::status::Status;

use super::request::{Cluster, Request};
use crate::access::{at, entries, items, object, remove, set, text};
use crate::resources::amounts;

const MISMATCH: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";

/// Gives a new pod what its class says.
pub(super) fn mutate(request: &Request<'_>, cluster: &dyn Cluster, pod: &mut Value) -> Result<(), Status> {
    let Some(class) = class(request, cluster, pod)? else { return Ok(()) };
    if !at(&class, "overhead").is_null() {
        let (fixed, given) = (at(&class, "overhead.podFixed"), at(pod, "spec.overhead"));
        if !amounts(given).is_empty() && amounts(given) != amounts(fixed) {
            return Err(request.forbidden(MISMATCH));
        }
        if fixed.is_null() {
            remove(pod, "spec.overhead");
        } else {
            set(pod, "spec.overhead", fixed.clone());
        }
    }
    for (key, value) in entries(&class, "scheduling.nodeSelector") {
        let selector = object(pod, "spec.nodeSelector");
        if let Some(given) = selector.get(key).filter(|given| *given != value) {
            let (value, given) = (value.as_str().unwrap_or_default(), given.as_str().unwrap_or_default());
            return Err(request.forbidden(&format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {given}"
            )));
        }
        selector.insert(key.clone(), value.clone());
    }
    if !at(&class, "scheduling").is_null() {
        let all = [items(pod, "spec.tolerations"), items(&class, "scheduling.tolerations")].concat();
        if !all.is_empty() {
            set(pod, "spec.tolerations", merged(&all).into());
        }
    }
    Ok(())
}

/// Refuses a pod whose overhead is not that of its class.
pub(super) fn validate(
    request: &Request<'_>,
    cluster: &dyn Cluster,
    pod: &Value,
) -> Result<Vec<String>, Status> {
    if !request.is_for("", "pods") || !request.creates() {
        return Ok(Vec::new());
    }
    let class = class(request, cluster, pod)?.filter(|class| !at(class, "overhead").is_null());
    let given = at(pod, "spec.overhead");
    match class {
        Some(class) if amounts(given) != amounts(at(&class, "overhead.podFixed")) => {
            Err(request.forbidden(MISMATCH))
        }
        None if !given.is_null() => Err(request
            .forbidden("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")),
        _ => Ok(Vec::new()),
    }
}

/// The class of a new pod, if it names one.
fn class(request: &Request<'_>, cluster: &dyn Cluster, pod: &Value) -> Result<Option<Value>, Status> {
    let name = at(pod, "spec.runtimeClassName");
    if !request.is_for("", "pods") || !request.creates() || name.is_null() {
        return Ok(None);
    }
    let name = name.as_str().unwrap_or_default();
    let class = cluster.get("node.k8s.io", "runtimeclasses", "", name);
    let absent = || request.forbidden(&format!("pod rejected: RuntimeClass \"{name}\" not found"));
    class.map(Some).ok_or_else(absent)
}

/// The tolerations without those that another one includes.
fn merged(all: &[Value]) -> Vec<Value> {
    let mut merged: Vec<Value> = Vec::new();
    for (index, one) in all.iter().enumerate() {
        let before = merged.iter().any(|other| includes(other, one));
        // Of equal tolerations the first one stays.
        let after = all[index + 1..].iter().any(|other| other != one && includes(other, one));
        if !before && !after {
            merged.push(one.clone());
        }
    }
    merged
}

/// Whether a toleration tolerates all that another one tolerates.
fn includes(whole: &Value, part: &Value) -> bool {
    if whole == part {
        return true;
    }
    let exists = text(whole, "operator") == "Exists";
    let of_any_key = text(whole, "key").is_empty() && exists;
    let same = |field: &str| text(whole, field) == text(part, field);
    if (!same("key") && !of_any_key) || (!same("effect") && !text(whole, "effect").is_empty()) {
        return false;
    }
    let seconds = |one| at(one, "tolerationSeconds").as_i64();
    if text(whole, "effect") == "NoExecute"
        && let Some(longest) = seconds(whole)
        && seconds(part).is_none_or(|seconds| seconds > longest)
    {
        return false;
    }
    match text(whole, "operator") {
        "Exists" => true,
        "Equal" | "" => text(part, "operator") == "Equal" && same("value"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{Objects, with_request};
    use super::*;

    fn classes() -> Objects {
        let full = json!({ "metadata": { "name": "full" }, "overhead": { "podFixed": { "cpu": "250m" } },
            "scheduling": { "nodeSelector": { "a": "b" }, "tolerations": [{ "key": "k", "operator": "Exists" }] } });
        Objects::new("runtimeclasses", vec![full, json!({ "metadata": { "name": "bare" } })])
    }

    fn admitted(spec: Value) -> Result<Value, String> {
        let mut pod = json!({ "spec": spec });
        let done = with_request("", "pods", None, |request| {
            mutate(request, &classes(), &mut pod)?;
            validate(request, &classes(), &pod)
        });
        done.map(|_| pod["spec"].clone()).map_err(|status| status.message)
    }

    #[test]
    fn a_pod_gets_what_its_class_says() {
        let pod = admitted(
            json!({ "runtimeClassName": "full", "overhead": { "cpu": "0.25" }, "nodeSelector": { "c": "d" } }),
        );
        let pod = pod.unwrap();
        assert_eq!(pod["overhead"], json!({ "cpu": "250m" }));
        assert_eq!(pod["nodeSelector"], json!({ "a": "b", "c": "d" }));
        assert_eq!(pod["tolerations"], json!([{ "key": "k", "operator": "Exists" }]));
        assert_eq!(
            admitted(json!({ "runtimeClassName": "bare" })),
            Ok(json!({ "runtimeClassName": "bare" }))
        );
    }

    #[test]
    fn a_pod_that_says_otherwise_is_refused() {
        for (spec, why) in [
            (json!({ "runtimeClassName": "none" }), "RuntimeClass \"none\" not found"),
            (json!({ "runtimeClassName": "full", "overhead": { "cpu": "1" } }), "doesn't match"),
            (
                json!({ "runtimeClassName": "full", "nodeSelector": { "a": "x" } }),
                "nodeSelector[a] = b; pod.spec.nodeSelector[a] = x",
            ),
            (
                json!({ "runtimeClassName": "bare", "overhead": { "cpu": "1" } }),
                "without corresponding RuntimeClass",
            ),
            (json!({ "overhead": { "cpu": "1" } }), "without corresponding RuntimeClass"),
        ] {
            let refused = admitted(spec.clone()).unwrap_err();
            assert!(refused.contains(why), "{spec}: {refused}");
        }
    }

    #[test]
    fn a_toleration_that_another_includes_goes() {
        let equal = |seconds: Value| json!({ "key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute", "tolerationSeconds": seconds });
        let of_key = json!({ "key": "k", "operator": "Exists" });
        let any = json!({ "operator": "Exists" });
        assert_eq!(merged(&[equal(json!(5)), of_key.clone()]), std::slice::from_ref(&of_key));
        assert_eq!(merged(&[of_key.clone(), any.clone(), of_key.clone()]), std::slice::from_ref(&any));
        assert_eq!(merged(&[of_key.clone(), of_key.clone()]), [of_key]);
        assert_eq!(merged(&[equal(json!(5)), equal(json!(9))]), [equal(json!(9))]);
        assert_eq!(merged(&[equal(json!(5)), equal(Value::Null)]), [equal(Value::Null)]);
        let other = json!({ "key": "k", "operator": "Equal", "value": "w" });
        assert_eq!(merged(&[equal(json!(5)), other.clone()]), [equal(json!(5)), other]);
    }
}
