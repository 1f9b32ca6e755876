//! Security contexts, tolerations, taints.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::windows;
use crate::access::{at, int, items, text, truth};
use crate::go_struct;
use crate::validate::check::{Causes, descending_path};
use setpoint_api::cause::{BadValue, Cause, Path};
use setpoint_api::name;

/// Users and groups are numbers that the kernel knows.
fn id(causes: &mut Causes, context: &Value, field: &str, path: &Path) {
    if let Some(id) = int(context, field) {
        causes.wrong_number(&path.child(field), id, &name::in_range(id, 0, i64::from(i32::MAX)));
    }
}

/// The security context of a pod.
pub(super) fn pod(causes: &mut Causes, spec: &Value, path: &Path) {
    let context = at(spec, "securityContext");
    id(causes, context, "fsGroup", path);
    id(causes, context, "runAsUser", path);
    id(causes, context, "runAsGroup", path);
    for (index, group) in items(context, "supplementalGroups").iter().enumerate() {
        let group = group.as_i64().unwrap_or_default();
        let wrong = name::in_range(group, 0, i64::from(i32::MAX));
        causes.wrong_number(&path.child("supplementalGroups").index(index), group, &wrong);
    }
    sysctls(causes, context, spec, &path.child("sysctls"));
    let one_of = |causes: &mut Causes, field: &str, known: &[&str]| {
        if let Some(value) = at(context, field).as_str() {
            causes.one_of(&path.child(field), value, known);
        }
    };
    one_of(causes, "fsGroupChangePolicy", &["Always", "OnRootMismatch"]);
    seccomp(causes, context, path);
    windows::options(causes, context, path);
    app_armor(causes, context, path);
    one_of(causes, "supplementalGroupsPolicy", &["Merge", "Strict"]);
    one_of(causes, "seLinuxChangePolicy", &["MountOption", "Recursive"]);
}

const SYSCTL: &str = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

/// Settings of the kernel. Those of a name space that is the host's are not the pod's to set.
fn sysctls(causes: &mut Causes, context: &Value, spec: &Value, path: &Path) {
    const LONGEST: usize = 253;
    static NAME: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(SYSCTL).expect("a constant expression compiles"));
    let mut names: Vec<&str> = Vec::new();
    for (index, sysctl) in items(context, "sysctls").iter().enumerate() {
        let (path, name) = (path.index(index).child("name"), text(sysctl, "name"));
        if name.is_empty() {
            causes.required(&path, "");
        } else if name.len() > LONGEST || !NAME.is_match(name) {
            let detail = format!("must have at most {LONGEST} characters and match regex {SYSCTL}");
            causes.invalid(&path, name, &detail);
        } else if names.contains(&name) {
            causes.push(Cause::duplicate(&path, name));
        }
        let dotted = name.replace('/', ".");
        let of_ipc = ["kernel.sem", "kernel.shm", "kernel.msg", "fs.mqueue."];
        if truth(spec, "hostNetwork") && dotted.starts_with("net.") {
            causes.invalid(&path, name, "may not be specified when 'hostNetwork' is true");
        } else if truth(spec, "hostIPC") && of_ipc.iter().any(|begin| dotted.starts_with(begin)) {
            causes.invalid(&path, name, "may not be specified when 'hostIPC' is true");
        }
        names.push(name);
    }
}

fn app_armor(causes: &mut Causes, context: &Value, path: &Path) {
    const LONGEST: usize = 4095;
    let profile = at(context, "appArmorProfile");
    if profile.is_null() {
        return;
    }
    let path = path.child("appArmorProfile");
    let (at_local, local) = (path.child("localhostProfile"), at(profile, "localhostProfile").as_str());
    match (text(profile, "type"), local) {
        ("Localhost", None | Some("")) => {
            causes.required(&at_local, "must be set when AppArmor type is Localhost");
        }
        ("Localhost", Some(local)) => {
            if local.trim() != local {
                causes.invalid(&at_local, local, "must not be padded with whitespace");
            }
            if local.len() > LONGEST {
                causes.push(Cause::too_long(&at_local, LONGEST));
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(local)) => {
            causes.invalid(&at_local, local, "can only be set when AppArmor type is Localhost");
        }
        ("RuntimeDefault" | "Unconfined", None) => {}
        ("", _) => causes.required(&path.child("type"), "type is required when appArmorProfile is set"),
        (other, _) => {
            causes.one_of(&path.child("type"), other, &["Localhost", "RuntimeDefault", "Unconfined"]);
        }
    }
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
        match local.as_str() {
            None => {
                let detail = "must be set when seccomp type is Localhost";
                causes.required(&path.child("localhostProfile"), detail);
            }
            Some(local) => descending_path(causes, &path.child("localhostProfile"), local),
        }
    } else if !local.is_null() {
        let detail = "can only be set when seccomp type is Localhost";
        let shown = BadValue::raw(go_struct::line("core.SeccompProfile", profile));
        causes.invalid(&path.child("localhostProfile"), shown, detail);
    }
}

/// The security context of a container. `host_users` says whose users its pod has.
pub(super) fn container(causes: &mut Causes, context: &Value, host_users: HostUsers, path: &Path) {
    if causes.policy().forbids_privileged && truth(context, "privileged") {
        causes.forbidden(&path.child("privileged"), "disallowed by cluster policy");
    }
    id(causes, context, "runAsUser", path);
    id(causes, context, "runAsGroup", path);
    let mount = text(context, "procMount");
    if !mount.is_empty() {
        causes.one_of(&path.child("procMount"), mount, &["Default", "Unmasked"]);
        if host_users == HostUsers::Shared && mount == "Unmasked" {
            causes.invalid(&path.child("procMount"), mount, "`hostUsers` must be false to use `Unmasked`");
        }
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
    windows::options(causes, context, path);
    app_armor(causes, context, path);
}

/// Whose users a pod has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum HostUsers {
    /// Those of the host.
    Shared,
    /// Its own.
    Apart,
}

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// The effect of a taint or toleration.
pub(in crate::validate) fn effect(causes: &mut Causes, effect: &str, path: &Path) {
    causes.required_one_of(path, effect, &EFFECTS);
}

/// Tolerations.
pub(in crate::validate) fn tolerations(causes: &mut Causes, tolerations: &[Value], path: &Path) {
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
