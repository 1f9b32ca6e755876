//! Deployments and their kin.

use serde_json::Value;

use super::check::Causes;
use super::{meta, pod};
use crate::access::{at, entries, int, is_empty, items, remove, set, text};
use crate::go_struct;
use setpoint_api::cause::{BadValue, Cause, Path};
use setpoint_api::go_format;
use setpoint_api::name;
use setpoint_api::selector::LabelSelector;

const MISMATCH: &str = "`selector` does not match template `labels`";

/// Labels as a message shows them.
pub(super) fn shown_labels(labels: &Value) -> BadValue {
    match labels.as_object() {
        Some(labels) if !labels.is_empty() => BadValue::raw(go_format::json(&Value::Object(labels.clone()))),
        _ => BadValue::raw("null"),
    }
}

/// The selector itself.
fn selector(causes: &mut Causes, spec: &Value, path: &Path, word: &str) {
    let selector = at(spec, "selector");
    if selector.is_null() {
        return causes.required(path, "");
    }
    causes.extend(meta::label_selector(selector, path));
    empty_selector(causes, selector, path, word);
}

fn empty_selector(causes: &mut Causes, selector: &Value, path: &Path, word: &str) {
    let empty = is_empty(selector, "matchLabels") && is_empty(selector, "matchExpressions");
    if !selector.is_null() && empty {
        causes.invalid(path, BadValue::raw("{}"), &format!("empty selector is invalid for {word}"));
    }
}

fn template_matches(causes: &mut Causes, selector: &LabelSelector, template: &Value, path: &Path) {
    let labels = at(template, "metadata.labels");
    if !selector.is_everything() && !selector.matches_object(template) {
        causes.invalid(&path.child("metadata.labels"), shown_labels(labels), MISMATCH);
    }
}

/// A template whose pods run for ever.
fn lasting(causes: &mut Causes, template: &Value, path: &Path, owner: &str) {
    pod::template(causes, template, path);
    lasting_policy(causes, template, path, owner);
}

fn lasting_policy(causes: &mut Causes, template: &Value, path: &Path, owner: &str) {
    let policy = text(template, "spec.restartPolicy");
    if policy != "Always" {
        causes.push(Cause::not_supported(&path.child("spec.restartPolicy"), policy, &["Always"]));
    }
    if !at(template, "spec.activeDeadlineSeconds").is_null() {
        let detail = format!("activeDeadlineSeconds in {owner} is not Supported");
        causes.forbidden(&path.child("spec.activeDeadlineSeconds"), &detail);
    }
}

/// Selector and template of a Deployment or ReplicaSet.
fn replica_template(causes: &mut Causes, spec: &Value, path: &Path) {
    let template_path = path.child("template");
    match LabelSelector::from_json(at(spec, "selector")) {
        Err(_) => {
            let shown = BadValue::raw(meta::show_selector(at(spec, "selector")));
            causes.invalid(&path.child("selector"), shown, "invalid label selector");
        }
        Ok(selector) => {
            template_matches(causes, &selector, at(spec, "template"), &template_path);
            lasting(causes, at(spec, "template"), &template_path, "ReplicaSet");
        }
    }
}

pub(super) fn deployment(causes: &mut Causes, object: &Value) {
    let (path, spec) = (Path::new("spec"), at(object, "spec"));
    causes.non_negative(&path.child("replicas"), int(spec, "replicas"));
    selector(causes, spec, &path.child("selector"), "deployment");
    replica_template(causes, spec, &path);
    deployment_strategy(causes, at(spec, "strategy"), &path.child("strategy"));
    let ready = int(spec, "minReadySeconds");
    causes.non_negative(&path.child("minReadySeconds"), ready);
    causes.non_negative(&path.child("revisionHistoryLimit"), int(spec, "revisionHistoryLimit"));
    if let Some(deadline) = int(spec, "progressDeadlineSeconds") {
        let path = path.child("progressDeadlineSeconds");
        causes.non_negative(&path, Some(deadline));
        if deadline <= ready.unwrap_or_default() {
            causes.invalid(&path, deadline, "must be greater than minReadySeconds");
        }
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.trim_end_matches('%').parse::<i64>() == Ok(0),
        _ => true,
    }
}

fn deployment_strategy(causes: &mut Causes, strategy: &Value, path: &Path) {
    let rolling = at(strategy, "rollingUpdate");
    let rolling_path = path.child("rollingUpdate");
    match text(strategy, "type") {
        "Recreate" => {
            if !rolling.is_null() {
                let detail = "may not be specified when strategy `type` is 'Recreate'";
                causes.forbidden(&rolling_path, detail);
            }
        }
        "RollingUpdate" => {
            let (unavailable, surge) = (at(rolling, "maxUnavailable"), at(rolling, "maxSurge"));
            let path = rolling_path.child("maxUnavailable");
            causes.positive_int_or_percent(&path, unavailable);
            causes.positive_int_or_percent(&rolling_path.child("maxSurge"), surge);
            if is_zero(unavailable) && is_zero(surge) {
                causes.invalid(&path, unavailable, "may not be 0 when `maxSurge` is 0");
            }
            causes.at_most_hundred_percent(&path, unavailable);
        }
        _ => {
            let shown = BadValue::raw(go_struct::line("apps.DeploymentStrategy", strategy));
            causes.push(Cause::not_supported(path, shown, &["Recreate", "RollingUpdate"]));
        }
    }
}

pub(super) fn replica_set(causes: &mut Causes, object: &Value) {
    let (path, spec) = (Path::new("spec"), at(object, "spec"));
    causes.non_negative(&path.child("replicas"), int(spec, "replicas"));
    causes.non_negative(&path.child("minReadySeconds"), int(spec, "minReadySeconds"));
    selector(causes, spec, &path.child("selector"), "deployment");
    replica_template(causes, spec, &path);
}

pub(super) fn replication_controller(causes: &mut Causes, object: &Value) {
    let (path, spec) = (Path::new("spec"), at(object, "spec"));
    if entries(spec, "selector").next().is_none() {
        causes.required(&path.child("selector"), "");
    }
    let template = at(spec, "template");
    if template.is_null() {
        causes.required(&path.child("template"), "");
    } else {
        let template_path = path.child("template");
        template_matches(causes, &LabelSelector::from_map(at(spec, "selector")), template, &template_path);
        lasting(causes, template, &template_path, "ReplicationController");
    }
    causes.non_negative(&path.child("minReadySeconds"), int(spec, "minReadySeconds"));
    causes.non_negative(&path.child("replicas"), int(spec, "replicas"));
}

pub(super) fn stateful_set(causes: &mut Causes, object: &Value) {
    stateful_set_spec(causes, object, true);
}

/// `claims` says whether the claim templates are judged: they never change, so that it is too late later.
fn stateful_set_spec(causes: &mut Causes, object: &Value, claims: bool) {
    let (path, spec) = (Path::new("spec"), at(object, "spec"));
    let policy = text(spec, "podManagementPolicy");
    if !matches!(policy, "OrderedReady" | "Parallel") {
        let detail = "must be 'OrderedReady' or 'Parallel'";
        causes.invalid(&path.child("podManagementPolicy"), policy, detail);
    }
    stateful_set_strategy(causes, at(spec, "updateStrategy"), &path.child("updateStrategy"));
    let retention = at(spec, "persistentVolumeClaimRetentionPolicy");
    for field in ["whenDeleted", "whenScaled"] {
        let path = path.child("persistentVolumeClaimRetentionPolicy").child(field);
        causes.one_of(&path, text(retention, field), &["Retain", "Delete"]);
    }
    if claims {
        for (index, claim) in items(spec, "volumeClaimTemplates").iter().enumerate() {
            let path = path.child("volumeClaimTemplates").index(index);
            pod::claim_spec(causes, at(claim, "spec"), &path.child("spec"));
        }
    }
    causes.non_negative(&path.child("replicas"), int(spec, "replicas"));
    causes.non_negative(&path.child("minReadySeconds"), int(spec, "minReadySeconds"));
    causes.non_negative(&path.child("ordinals.start"), int(spec, "ordinals.start"));
    let service = text(spec, "serviceName");
    if !service.is_empty() {
        causes.wrong(&path.child("serviceName"), service, &name::dns1123_label(service));
    }
    selector(causes, spec, &path.child("selector"), "statefulset");
    let template_path = path.child("template");
    match LabelSelector::from_json(at(spec, "selector")) {
        Err(_) => {
            let shown = BadValue::raw(meta::show_selector(at(spec, "selector")));
            causes.invalid(&path.child("selector"), shown, "");
        }
        Ok(selector) => {
            template_matches(causes, &selector, at(spec, "template"), &template_path);
            pod::template(causes, &with_claims(spec), &template_path);
        }
    }
    lasting_policy(causes, at(spec, "template"), &template_path, "StatefulSet");
}

/// The template with a volume for each claim that the set makes.
fn with_claims(spec: &Value) -> Value {
    let mut template = at(spec, "template").clone();
    let claims = items(spec, "volumeClaimTemplates");
    if claims.is_empty() {
        return template;
    }
    let mut volumes: Vec<Value> = Vec::new();
    for claim in claims {
        let name = text(claim, "metadata.name");
        volumes.push(serde_json::json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
    }
    let own = items(&template, "spec.volumes").iter();
    let own =
        own.filter(|volume| !claims.iter().any(|claim| text(claim, "metadata.name") == text(volume, "name")));
    volumes.extend(own.cloned());
    set(&mut template, "spec.volumes", Value::Array(volumes));
    template
}

fn stateful_set_strategy(causes: &mut Causes, strategy: &Value, path: &Path) {
    let rolling = at(strategy, "rollingUpdate");
    let rolling_path = path.child("rollingUpdate");
    match text(strategy, "type") {
        "" => causes.required(path, ""),
        "OnDelete" => {
            if !rolling.is_null() {
                let shown = go_struct::line("*apps.RollingUpdateStatefulSetStrategy", rolling);
                let detail = "only allowed for updateStrategy 'RollingUpdate'";
                causes.invalid(&rolling_path, BadValue::raw(shown), detail);
            }
        }
        "RollingUpdate" => {
            causes.non_negative(&rolling_path.child("partition"), int(rolling, "partition"));
            let unavailable = at(rolling, "maxUnavailable");
            let path = rolling_path.child("maxUnavailable");
            causes.positive_int_or_percent(&path, unavailable);
            if !unavailable.is_null() && is_zero(unavailable) {
                causes.invalid(&path, unavailable, "cannot be 0");
            }
            causes.at_most_hundred_percent(&path, unavailable);
        }
        _ => {
            let shown = go_struct::line("apps.StatefulSetUpdateStrategy", strategy);
            causes.invalid(path, BadValue::raw(shown), "must be 'RollingUpdate' or 'OnDelete'");
        }
    }
}

pub(super) fn stateful_set_update(causes: &mut Causes, new: &Value, old: &Value) {
    stateful_set_spec(causes, new, false);
    let selector = at(new, "spec.selector");
    let shown = if selector.is_null() { "null".into() } else { meta::show_selector(selector) };
    causes.immutable(new, old, "spec.selector", BadValue::raw(shown));
    let claims =
        go_struct::line("[]core.PersistentVolumeClaim", &without_kind(at(new, "spec.volumeClaimTemplates")));
    causes.immutable(new, old, "spec.volumeClaimTemplates", BadValue::raw(claims));
    causes.immutable(new, old, "spec.serviceName", text(new, "spec.serviceName"));
    causes.immutable(new, old, "spec.podManagementPolicy", text(new, "spec.podManagementPolicy"));
}

/// The server's own type does not carry the kind of a claim.
fn without_kind(claims: &Value) -> Value {
    let mut claims = claims.clone();
    for claim in claims.as_array_mut().into_iter().flatten() {
        remove(claim, "kind");
        remove(claim, "apiVersion");
    }
    claims
}

pub(super) fn daemon_set(causes: &mut Causes, object: &Value) {
    let (path, spec) = (Path::new("spec"), at(object, "spec"));
    let selected = at(spec, "selector");
    causes.extend(meta::label_selector(selected, &path.child("selector")));
    if let Ok(selector) = LabelSelector::from_json(selected)
        && !selector.matches_object(at(spec, "template"))
    {
        let labels = at(spec, "template.metadata.labels");
        causes.invalid(&path.child("template.metadata.labels"), shown_labels(labels), MISMATCH);
    }
    empty_selector(causes, selected, &path.child("selector"), "daemonset");
    lasting(causes, at(spec, "template"), &path.child("template"), "DaemonSet");
    causes.non_negative(&path.child("minReadySeconds"), int(spec, "minReadySeconds"));
    daemon_set_strategy(causes, at(spec, "updateStrategy"), &path.child("updateStrategy"));
    causes.non_negative(&path.child("revisionHistoryLimit"), int(spec, "revisionHistoryLimit"));
}

fn daemon_set_strategy(causes: &mut Causes, strategy: &Value, path: &Path) {
    match text(strategy, "type") {
        "OnDelete" => {}
        "RollingUpdate" => {
            let path = path.child("rollingUpdate");
            let rolling = at(strategy, "rollingUpdate");
            let (unavailable, surge) = (at(rolling, "maxUnavailable"), at(rolling, "maxSurge"));
            causes.positive_int_or_percent(&path.child("maxUnavailable"), unavailable);
            causes.positive_int_or_percent(&path.child("maxSurge"), surge);
            causes.at_most_hundred_percent(&path.child("maxUnavailable"), unavailable);
            causes.at_most_hundred_percent(&path.child("maxSurge"), surge);
            match (is_zero(unavailable), is_zero(surge)) {
                (false, false) => {
                    let detail = "may not be set when maxUnavailable is non-zero";
                    causes.invalid(&path.child("maxSurge"), surge, detail);
                }
                (true, true) => {
                    causes.required(&path.child("maxUnavailable"), "cannot be 0 when maxSurge is 0");
                }
                _ => {}
            }
        }
        _ => {
            let shown = BadValue::raw(go_struct::line("apps.DaemonSetUpdateStrategy", strategy));
            causes.push(Cause::not_supported(path, shown, &["RollingUpdate", "OnDelete"]));
        }
    }
}

/// The selector of a workload never changes.
pub(super) fn immutable_selector(causes: &mut Causes, new: &Value, old: &Value) {
    let selector = at(new, "spec.selector");
    let shown = if selector.is_null() { "null".into() } else { meta::show_selector(selector) };
    causes.immutable(new, old, "spec.selector", BadValue::raw(shown));
}

pub(super) fn controller_revision(causes: &mut Causes, object: &Value) {
    if at(object, "data").is_null() {
        causes.required(&Path::new("data"), "data is mandatory");
    }
    causes.non_negative(&Path::new("revision"), int(object, "revision"));
}

pub(super) fn controller_revision_update(causes: &mut Causes, new: &Value, old: &Value) {
    causes.non_negative(&Path::new("revision"), int(new, "revision"));
    causes.immutable(new, old, "data", BadValue::raw(go_format::json(at(new, "data"))));
}
