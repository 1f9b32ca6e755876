//! Priority: pods get the number of their PriorityClass, and one class at most is the default.

use serde_json::Value;
use setpoint_api::status::Status;

use super::request::{Cluster, Request};
use crate::access::{at, copy, int, set, text, truth};

const GROUP: &str = "scheduling.k8s.io";
const CLASSES: &str = "priorityclasses";
const LOWER: &str = "PreemptLowerPriority";

/// Gives a pod its priority. A pod that changes keeps the priority that it has.
pub(super) fn mutate(request: &Request<'_>, cluster: &dyn Cluster, pod: &mut Value) -> Result<(), Status> {
    if !request.is_for("", "pods") {
        return Ok(());
    }
    let Some(old) = request.old else { return establish(request, cluster, pod) };
    for field in ["spec.priority", "spec.preemptionPolicy"] {
        if at(pod, field).is_null() {
            copy(pod, old, field);
        }
    }
    Ok(())
}

fn establish(request: &Request<'_>, cluster: &dyn Cluster, pod: &mut Value) -> Result<(), Status> {
    let name = text(pod, "spec.priorityClassName").to_owned();
    let class = if name.is_empty() {
        default_class(cluster)
    } else {
        let class = cluster.get(GROUP, CLASSES, "", &name);
        let absent = || request.forbidden(&format!("no PriorityClass with name {name} was found"));
        Some(class.ok_or_else(absent)?)
    };
    let value = class.as_ref().and_then(|class| int(class, "value")).unwrap_or_default();
    if let Some(given) = int(pod, "spec.priority").filter(|given| *given != value) {
        return Err(request.forbidden(&format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
             computed {value} from the given PriorityClass name"
        )));
    }
    let policy = class.as_ref().map_or(LOWER, |class| text(class, "preemptionPolicy"));
    let policy = if policy.is_empty() { LOWER } else { policy };
    let given = text(pod, "spec.preemptionPolicy");
    if !given.is_empty() && given != policy {
        return Err(request.forbidden(&format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission \
             controller computed {policy} from the given PriorityClass name"
        )));
    }
    if name.is_empty()
        && let Some(class) = &class
    {
        set(pod, "spec.priorityClassName", text(class, "metadata.name").into());
    }
    set(pod, "spec.priority", value.into());
    set(pod, "spec.preemptionPolicy", policy.into());
    Ok(())
}

/// The default class with the lowest value, and of these the first by name.
fn default_class(cluster: &dyn Cluster) -> Option<Value> {
    let classes = cluster.list(GROUP, CLASSES, "").into_iter();
    let defaults = classes.filter(|class| truth(class, "globalDefault"));
    defaults.min_by_key(|class| int(class, "value").unwrap_or_default())
}

/// Refuses a second default class.
pub(super) fn validate(
    request: &Request<'_>,
    cluster: &dyn Cluster,
    class: &Value,
) -> Result<Vec<String>, Status> {
    if !request.is_for(GROUP, CLASSES) || !truth(class, "globalDefault") {
        return Ok(Vec::new());
    }
    let Some(default) = default_class(cluster) else { return Ok(Vec::new()) };
    let name = text(&default, "metadata.name");
    if request.creates() || name != text(class, "metadata.name") {
        return Err(request.forbidden(&format!(
            "PriorityClass {name} is already marked as default. Only one default can exist"
        )));
    }
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{Objects, with_request};
    use super::*;

    fn classes() -> Objects {
        let class = |name: &str, value: i64, default: bool| json!({ "metadata": { "name": name }, "value": value, "globalDefault": default });
        Objects::new(CLASSES, vec![class("a", 7, true), class("b", 5, true), class("c", 9, false)])
    }

    fn admitted(mut spec: Value, old: Option<&Value>, cluster: &Objects) -> Result<Value, String> {
        spec = json!({ "spec": spec });
        let done = with_request("", "pods", old, |request| mutate(request, cluster, &mut spec));
        done.map(|()| spec["spec"].clone()).map_err(|status| status.message)
    }

    #[test]
    fn a_pod_gets_the_number_of_its_class() {
        let number = |name: &str, value: i64| json!({ "priorityClassName": name, "priority": value, "preemptionPolicy": LOWER });
        assert_eq!(admitted(json!({ "priorityClassName": "c" }), None, &classes()), Ok(number("c", 9)));
        assert_eq!(admitted(json!({}), None, &classes()), Ok(number("b", 5)), "the lowest default");
        let none = Objects::new(CLASSES, Vec::new());
        assert_eq!(admitted(json!({}), None, &none), Ok(json!({ "priority": 0, "preemptionPolicy": LOWER })));
        let refused = admitted(json!({ "priorityClassName": "c", "priority": 8 }), None, &classes());
        assert!(refused.is_err_and(|text| text.contains("computed 9 from")));
        let refused = admitted(json!({ "preemptionPolicy": "Never" }), None, &classes());
        assert!(refused.is_err_and(|text| text.contains("computed PreemptLowerPriority from")));
        let absent = admitted(json!({ "priorityClassName": "z" }), None, &classes());
        assert_eq!(absent.unwrap_err(), "pods \"x\" is forbidden: no PriorityClass with name z was found");
    }

    #[test]
    fn a_changed_pod_keeps_its_number() {
        let old = json!({ "spec": { "priority": 3, "preemptionPolicy": "Never" } });
        assert_eq!(admitted(json!({}), Some(&old), &classes()), Ok(old["spec"].clone()));
        assert_eq!(admitted(json!({ "priority": 4 }), Some(&old), &classes()).unwrap()["priority"], 4);
    }

    #[test]
    fn one_class_is_the_default() {
        let class = |name: &str| json!({ "metadata": { "name": name }, "globalDefault": true });
        let check = |name: &str, old: Option<&Value>| {
            with_request(GROUP, CLASSES, old, |request| validate(request, &classes(), &class(name)))
        };
        assert!(check("d", None).is_err() && check("b", None).is_err());
        assert!(check("c", Some(&class("c"))).is_err());
        assert_eq!(check("b", Some(&class("b"))), Ok(Vec::new()));
    }
}
