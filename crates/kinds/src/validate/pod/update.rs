//! Permitted changes of a pod.

use serde_json::Value;

use super::whole;
use crate::access::{at, copy, int, items, items_mut, text};
use crate::go_struct;
use crate::strategy::semantically_equal;
use crate::validate::check::Causes;
use setpoint_api::cause::{BadValue, Path};
use setpoint_api::go_format::quote;
use setpoint_api::name;

const ALLOWED: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// A changed pod, but for its metadata.
pub(in crate::validate) fn update(causes: &mut Causes, pod: &Value, old: &Value) {
    whole(causes, pod);
    let path = Path::new("spec");
    for list in ["containers", "initContainers"] {
        if containers(causes, at(pod, "spec"), at(old, "spec"), list, &path.child(list)) {
            return;
        }
    }
    if deadline(causes, pod, old, &path.child("activeDeadlineSeconds")) {
        return;
    }
    tolerations(causes, pod, old, &path.child("tolerations"));
    gates(causes, pod, old, &path.child("schedulingGates"));
    if semantically_equal(at(pod, "spec"), at(old, "spec")) {
        return;
    }
    let munged = munge(pod, old);
    if !semantically_equal(at(&munged, "spec"), at(old, "spec")) {
        let print = |pod: &Value| go_struct::pretty("core.PodSpec", &without_empty_lists(at(pod, "spec")));
        let difference = go_struct::unified(&print(old), &print(&munged));
        let detail = format!("pod updates may not change fields other than {ALLOWED}\n{difference}");
        causes.forbidden(&path, &detail);
    }
}

/// An empty list in the request is none in the server's own type.
fn without_empty_lists(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(without_empty_lists).collect(),
        Value::Object(fields) => fields
            .iter()
            .filter(|(_, value)| !value.as_array().is_some_and(Vec::is_empty))
            .map(|(name, value)| (name.clone(), without_empty_lists(value)))
            .collect(),
        other => other.clone(),
    }
}

/// The new pod with what may change as it was.
fn munge(pod: &Value, old: &Value) -> Value {
    let mut munged = pod.clone();
    for list in ["spec.containers", "spec.initContainers"] {
        for (container, old) in items_mut(&mut munged, list).iter_mut().zip(items(old, list)) {
            copy(container, old, "image");
        }
    }
    for field in ["spec.activeDeadlineSeconds", "spec.schedulingGates", "spec.tolerations"] {
        copy(&mut munged, old, field);
    }
    let grace = "spec.terminationGracePeriodSeconds";
    if int(old, grace).is_some_and(|seconds| seconds < 0) && int(pod, grace) == Some(1) {
        copy(&mut munged, old, grace);
    }
    if !items(old, "spec.schedulingGates").is_empty() {
        // A gated pod may still be narrowed to fewer nodes.
        copy(&mut munged, old, "spec.nodeSelector");
        copy(&mut munged, old, "spec.affinity");
    }
    munged
}

/// Whether the check ends here.
fn containers(causes: &mut Causes, spec: &Value, old: &Value, list: &str, path: &Path) -> bool {
    let (new, old) = (items(spec, list), items(old, list));
    if new.len() != old.len() {
        causes.forbidden(path, "pod updates may not add or remove containers");
        return true;
    }
    for (index, container) in new.iter().enumerate() {
        if text(container, "image").is_empty() {
            causes.required(&path.index(index).child("image"), "");
        }
    }
    false
}

/// Whether the check ends here.
fn deadline(causes: &mut Causes, pod: &Value, old: &Value, path: &Path) -> bool {
    let field = "spec.activeDeadlineSeconds";
    match (int(pod, field), int(old, field)) {
        (Some(new), _) if new < 0 || new > i64::from(i32::MAX) => {
            causes.wrong_number(path, new, &name::in_range(new, 0, i64::from(i32::MAX)));
            true
        }
        (Some(new), Some(old)) if old < new => {
            causes.invalid(path, new, "must be less than or equal to previous value");
            true
        }
        (None, Some(_)) => {
            let detail = "must not update from a positive integer to nil value";
            causes.invalid(path, BadValue::raw("null"), detail);
            false
        }
        _ => false,
    }
}

fn tolerations(causes: &mut Causes, pod: &Value, old: &Value, path: &Path) {
    let without_time = |toleration: &Value| {
        let mut toleration = toleration.clone();
        crate::access::remove(&mut toleration, "tolerationSeconds");
        toleration
    };
    let kept = items(old, "spec.tolerations")
        .iter()
        .all(|one| items(pod, "spec.tolerations").iter().any(|new| without_time(new) == without_time(one)));
    if !kept {
        causes.forbidden(path, "existing toleration can not be modified except its tolerationSeconds");
    }
}

fn gates(causes: &mut Causes, pod: &Value, old: &Value, path: &Path) {
    let known = items(old, "spec.schedulingGates");
    for (index, gate) in items(pod, "spec.schedulingGates").iter().enumerate() {
        if !known.iter().any(|one| text(one, "name") == text(gate, "name")) {
            let detail =
                format!("only deletion is allowed, but found new scheduling gate '{}'", text(gate, "name"));
            causes.forbidden(&path.index(index).child("name"), &detail);
        }
    }
}

/// Ephemeral containers come and never go.
pub(in crate::validate) fn ephemeral_containers(causes: &mut Causes, pod: &Value, old: &Value) {
    whole(causes, pod);
    let path = Path::new("spec.ephemeralContainers");
    let list = "spec.ephemeralContainers";
    for before in items(old, list) {
        let name = text(before, "name");
        let quoted = quote(name);
        match items(pod, list).iter().rfind(|one| text(one, "name") == name) {
            None => {
                let detail = format!("existing ephemeral containers {quoted} may not be removed\n");
                causes.forbidden(&path, &detail);
            }
            Some(after) if !semantically_equal(after, before) => {
                let print = |one: &Value| go_struct::pretty("core.EphemeralContainer", one);
                let difference = go_struct::unified(&print(before), &print(after));
                let detail =
                    format!("existing ephemeral containers {quoted} may not be changed\n{difference}");
                causes.forbidden(&path, &detail);
            }
            Some(_) => {}
        }
    }
}

/// Nothing but processor and memory of containers changes, and not so that the pod's class does.
pub(in crate::validate) fn resize(causes: &mut Causes, pod: &Value, old: &Value) {
    whole(causes, pod);
    let path = Path::new("spec");
    if crate::strategy::qos_class(pod) != crate::strategy::qos_class(old) {
        let detail = "Pod QOS Class may not change as a result of resizing";
        causes.invalid(&path, text(pod, "status.qosClass"), detail);
    }
    let names = |pod: &Value, list: &str| -> Vec<String> {
        items(pod, list).iter().map(|one| text(one, "name").to_owned()).collect()
    };
    for list in ["containers", "initContainers"] {
        let field = format!("spec.{list}");
        let (after, before) = (names(pod, &field), names(old, &field));
        if after.len() != before.len() {
            return causes.forbidden(&path, &format!("{list} may not be added or removed on resize"));
        }
        if after != before {
            return causes.forbidden(&path, &format!("{list} may not be renamed or reordered on resize"));
        }
    }
    for list in ["containers", "initContainers"] {
        let field = format!("spec.{list}");
        for (after, before) in items(pod, &field).iter().zip(items(old, &field)) {
            let mut after = after.clone();
            for amount in ["limits.cpu", "limits.memory", "requests.cpu", "requests.memory"] {
                copy(&mut after, before, &format!("resources.{amount}"));
            }
            copy(&mut after, before, "resizePolicy");
            if !semantically_equal(&after, before) {
                causes.forbidden(&path, "only cpu and memory resources are mutable");
            }
        }
    }
}
