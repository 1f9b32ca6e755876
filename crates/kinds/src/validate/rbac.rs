//! Roles and bindings.

use serde_json::Value;

use super::check::Causes;
use super::meta::{self, IMMUTABLE};
use crate::access::{at, items, text};
use crate::go_struct;
use setpoint_api::cause::{BadValue, Path};
use setpoint_api::name;
use setpoint_api::selector::LabelSelector;

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn role(causes: &mut Causes, role: &Value, namespaced: bool) {
    // kube-apiserver reports the results of declarative validation last.
    let mut declared = Causes::default();
    for (index, rule) in items(role, "rules").iter().enumerate() {
        let path = Path::new("rules").index(index);
        if items(rule, "verbs").is_empty() {
            declared.required(&path.child("verbs"), "");
        }
        let urls = items(rule, "nonResourceURLs");
        let url_path = path.child("nonResourceURLs");
        let shown = || BadValue::raw(at(rule, "nonResourceURLs").to_string());
        if !urls.is_empty() {
            if namespaced {
                causes.invalid(&url_path, shown(), "namespaced rules cannot apply to non-resource URLs");
            }
            let resources = ["apiGroups", "resources", "resourceNames"]
                .iter()
                .any(|field| !items(rule, field).is_empty());
            if resources {
                let detail = "rules cannot apply to both regular resources and non-resource URLs";
                causes.invalid(&url_path, shown(), detail);
            }
            continue;
        }
        if items(rule, "apiGroups").is_empty() {
            let detail = "resource rules must supply at least one api group";
            causes.required(&path.child("apiGroups"), detail);
        }
        if items(rule, "resources").is_empty() {
            let detail = "resource rules must supply at least one resource";
            causes.required(&path.child("resources"), detail);
        }
    }
    if !namespaced {
        aggregation(causes, at(role, "aggregationRule"));
    }
    causes.extend(declared.0);
}

fn aggregation(causes: &mut Causes, rule: &Value) {
    if rule.is_null() {
        return;
    }
    let path = Path::new("aggregationRule.clusterRoleSelectors");
    let selectors = items(rule, "clusterRoleSelectors");
    if selectors.is_empty() {
        causes.required(&path, "at least one clusterRoleSelector required if aggregationRule is non-nil");
    }
    for (index, selector) in selectors.iter().enumerate() {
        let path = path.index(index);
        causes.extend(meta::label_selector(selector, &path));
        if LabelSelector::from_json(selector).is_err() {
            causes.invalid(&path, BadValue::raw("null"), "invalid label selector.");
        }
    }
}

pub(super) fn binding(causes: &mut Causes, binding: &Value, namespaced: bool) {
    let missing = binding_but_names(causes, binding, namespaced, false);
    causes.extend(missing.0);
    if text(binding, "roleRef.name").is_empty() {
        causes.required(&Path::new("roleRef.name"), "");
    }
}

/// Returns the absent names of subjects apart: the real server finds them last. It finds an absent name of the
/// role last too, but for an update.
fn binding_but_names(causes: &mut Causes, binding: &Value, namespaced: bool, update: bool) -> Causes {
    let path = Path::new("roleRef");
    let reference = at(binding, "roleRef");
    let mut missing = Causes::default();
    causes.one_of(&path.child("apiGroup"), text(reference, "apiGroup"), &[GROUP]);
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    causes.one_of(&path.child("kind"), text(reference, "kind"), kinds);
    let role = text(reference, "name");
    if role.is_empty() {
        if update {
            causes.required(&path.child("name"), "");
        }
    } else {
        causes.wrong(&path.child("name"), role, &name::NameRule::PathSegment.check(role, false));
    }
    for (index, one) in items(binding, "subjects").iter().enumerate() {
        subject(causes, &mut missing, one, namespaced, &Path::new("subjects").index(index));
    }
    missing
}

fn subject(causes: &mut Causes, missing: &mut Causes, subject: &Value, namespaced: bool, path: &Path) {
    let (name, group) = (text(subject, "name"), text(subject, "apiGroup"));
    if name.is_empty() {
        missing.required(&path.child("name"), "");
    }
    match text(subject, "kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                causes.wrong(&path.child("name"), name, &name::dns1123_subdomain(name));
            }
            causes.one_of(&path.child("apiGroup"), group, &[""]);
            if !namespaced && text(subject, "namespace").is_empty() {
                causes.required(&path.child("namespace"), "");
            }
        }
        "User" | "Group" => causes.one_of(&path.child("apiGroup"), group, &[GROUP]),
        other => causes.one_of(&path.child("kind"), other, &["ServiceAccount", "User", "Group"]),
    }
}

pub(super) fn binding_update(causes: &mut Causes, new: &Value, old: &Value, namespaced: bool) {
    let missing = binding_but_names(causes, new, namespaced, true);
    if at(new, "roleRef") != at(old, "roleRef") {
        let shown = BadValue::raw(go_struct::line("rbac.RoleRef", at(new, "roleRef")));
        causes.invalid(&Path::new("roleRef"), shown, IMMUTABLE);
    }
    causes.extend(missing.0);
}
