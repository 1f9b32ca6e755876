//! Security contexts, tolerations, taints.

use serde_json::Value;

use crate::access::{at, int, items, text, truth};
use crate::go_struct;
use crate::validate::check::{Causes, descending_path};
use setpoint_api::cause::{BadValue, Path};
use setpoint_api::name;

/// Users and groups are numbers that the kernel knows.
fn id(causes: &mut Causes, context: &Value, field: &str, path: &Path) {
    if let Some(id) = int(context, field) {
        causes.wrong_number(&path.child(field), id, &name::in_range(id, 0, i64::from(i32::MAX)));
    }
}

/// The security context of a pod.
pub(super) fn pod(causes: &mut Causes, context: &Value, path: &Path) {
    id(causes, context, "fsGroup", path);
    id(causes, context, "runAsUser", path);
    id(causes, context, "runAsGroup", path);
    for (index, group) in items(context, "supplementalGroups").iter().enumerate() {
        let group = group.as_i64().unwrap_or_default();
        let wrong = name::in_range(group, 0, i64::from(i32::MAX));
        causes.wrong_number(&path.child("supplementalGroups").index(index), group, &wrong);
    }
    let policy = text(context, "fsGroupChangePolicy");
    if !policy.is_empty() {
        causes.one_of(&path.child("fsGroupChangePolicy"), policy, &["Always", "OnRootMismatch"]);
    }
    seccomp(causes, context, path);
}

/// Profiles that were named in annotations before there were fields for them.
pub(super) fn annotations(causes: &mut Causes, annotations: &Value, path: &Path) {
    for (key, profile) in annotations.as_object().into_iter().flatten() {
        let named = key == "seccomp.security.alpha.kubernetes.io/pod"
            || key.starts_with("container.seccomp.security.alpha.kubernetes.io/");
        let profile = profile.as_str().unwrap_or("");
        match profile.strip_prefix("localhost/") {
            _ if !named || matches!(profile, "runtime/default" | "docker/default" | "unconfined") => {}
            Some(file) => descending_path(causes, &path.child(key), file),
            None => causes.invalid(&path.child(key), profile, "must be a valid seccomp profile"),
        }
    }
}

fn seccomp(causes: &mut Causes, context: &Value, path: &Path) {
    let profile = at(context, "seccompProfile");
    if profile.is_null() {
        return;
    }
    let path = path.child("seccompProfile");
    let kind = text(profile, "type");
    if kind.is_empty() {
        causes.required(&path.child("type"), "type is required when seccompProfile is set");
    } else {
        causes.one_of(&path.child("type"), kind, &["Localhost", "RuntimeDefault", "Unconfined"]);
    }
    let local = at(profile, "localhostProfile");
    if kind == "Localhost" {
        if local.is_null() {
            causes.required(&path.child("localhostProfile"), "must be set when seccomp type is Localhost");
        }
    } else if let Some(local) = local.as_str() {
        let detail = "can only be set when seccomp type is Localhost";
        causes.invalid(&path.child("localhostProfile"), local, detail);
    }
}

/// The security context of a container.
pub(super) fn container(causes: &mut Causes, context: &Value, path: &Path) {
    if causes.policy().forbids_privileged && truth(context, "privileged") {
        causes.forbidden(&path.child("privileged"), "disallowed by cluster policy");
    }
    id(causes, context, "runAsUser", path);
    id(causes, context, "runAsGroup", path);
    let mount = text(context, "procMount");
    if !mount.is_empty() {
        causes.one_of(&path.child("procMount"), mount, &["Default", "Unmasked"]);
    }
    seccomp(causes, context, path);
    if at(context, "allowPrivilegeEscalation") == false {
        let whole = || BadValue::raw(go_struct::line("core.SecurityContext", context));
        if truth(context, "privileged") {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            causes.invalid(path, whole(), detail);
        }
        let added = items(context, "capabilities.add");
        if added.iter().any(|capability| capability == "CAP_SYS_ADMIN") {
            let detail =
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            causes.invalid(path, whole(), detail);
        }
    }
}

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// The effect of a taint or toleration.
pub(in crate::validate) fn effect(causes: &mut Causes, effect: &str, path: &Path) {
    causes.required_one_of(path, effect, &EFFECTS);
}

/// Tolerations.
pub(super) fn tolerations(causes: &mut Causes, tolerations: &[Value], path: &Path) {
    for (index, one) in tolerations.iter().enumerate() {
        let path = path.index(index);
        let (key, operator, value) = (text(one, "key"), text(one, "operator"), text(one, "value"));
        if !key.is_empty() {
            causes.wrong(&path.child("key"), key, &name::qualified_name(key));
        }
        if key.is_empty() && operator != "Exists" {
            let detail =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            causes.invalid(&path.child("operator"), operator, detail);
        }
        if !at(one, "tolerationSeconds").is_null() && text(one, "effect") != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            causes.invalid(&path.child("effect"), text(one, "effect"), detail);
        }
        match operator {
            "Equal" | "" => {
                let wrong = name::label_value(value);
                if !wrong.is_empty() {
                    causes.invalid(&path.child("operator"), value, &wrong.join(";"));
                }
            }
            "Exists" if !value.is_empty() => {
                let detail = "value must be empty when `operator` is 'Exists'";
                causes.invalid(&path.child("operator"), value, detail);
            }
            "Exists" => {}
            other => causes.one_of(&path.child("operator"), other, &["Equal", "Exists"]),
        }
        let effect = text(one, "effect");
        if !effect.is_empty() {
            causes.one_of(&path.child("effect"), effect, &EFFECTS);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn profiles_in_annotations_are_those_that_there_were() {
        let refused = |key: &str, profile: &str| {
            let mut causes = Causes::default();
            annotations(&mut causes, &json!({key: profile}), &Path::new("metadata.annotations"));
            causes.0.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let pod = "seccomp.security.alpha.kubernetes.io/pod";
        for good in ["runtime/default", "docker/default", "unconfined", "localhost/a/b.json"] {
            assert!(refused(pod, good).is_empty(), "{good}");
        }
        let expected = "metadata.annotations.seccomp.security.alpha.kubernetes.io/pod: Invalid value: \"bogus\": must be a \
                        valid seccomp profile";
        assert_eq!(refused(pod, "bogus"), [expected]);
        assert_eq!(refused("container.seccomp.security.alpha.kubernetes.io/c", "localhost/../x").len(), 1);
        assert!(refused("other", "bogus").is_empty());
    }
}
