//! Containers.

use std::collections::BTreeSet;

use serde_json::Value;

use super::security::HostUsers;
use super::volume::Volumes;
use super::{env, probe, resources, restart, security};
use crate::access::{at, int, items, text, truth};
use crate::validate::check::{Causes, descending_path};
use setpoint_api::cause::{Cause, Path};
use setpoint_api::name;

/// The parts of a pod that its containers refer to.
pub(super) struct OfPod<'a> {
    pub(super) volumes: Volumes<'a>,
    pub(super) claims: &'a BTreeSet<&'a str>,
}

/// All containers of a pod.
pub(super) fn containers(causes: &mut Causes, spec: &Value, of_pod: &OfPod<'_>, path: &Path) {
    let grace = int(spec, "terminationGracePeriodSeconds").unwrap_or_default();
    let mut names: BTreeSet<&str> = BTreeSet::new();
    regular(causes, spec, of_pod, &path.child("containers"), grace, &mut names);
    init(causes, spec, of_pod, &path.child("initContainers"), grace, &mut names);
    for (index, one) in items(spec, "ephemeralContainers").iter().enumerate() {
        let path = path.child("ephemeralContainers").index(index);
        common(causes, one, spec, of_pod, &path);
        let image = text(one, "image");
        if image.trim() != image {
            causes.invalid(&path.child("image"), image, "must not have leading or trailing whitespace");
        }
        let is_target_there = names.contains(text(one, "targetContainerName"));
        unique_name(causes, one, &path, &mut names);
        ephemeral(causes, one, is_target_there, &path);
    }
}

/// Fields that an ephemeral container may not have, in Go's order.
const NOT_EPHEMERAL: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// Checks the fields that an ephemeral container may not have. It may share the processes of one of the others.
fn ephemeral(causes: &mut Causes, container: &Value, is_target_there: bool, path: &Path) {
    let target = text(container, "targetContainerName");
    if !target.is_empty() && !is_target_there {
        causes.push(Cause::not_found(&path.child("targetContainerName"), target));
    }
    let refused = "cannot be set for an Ephemeral Container";
    for field in NOT_EPHEMERAL {
        if !crate::access::is_empty(container, field) {
            causes.forbidden(&path.child(field), refused);
        }
    }
    for (index, mount) in items(container, "volumeMounts").iter().enumerate() {
        for field in ["subPath", "subPathExpr"] {
            if !text(mount, field).is_empty() {
                causes.forbidden(&path.child("volumeMounts").index(index).child(field), refused);
            }
        }
    }
}

fn regular<'a>(
    causes: &mut Causes,
    spec: &'a Value,
    of_pod: &OfPod<'_>,
    path: &Path,
    grace: i64,
    names: &mut BTreeSet<&'a str>,
) {
    let all = items(spec, "containers");
    if all.is_empty() {
        return causes.required(path, "");
    }
    for (index, one) in all.iter().enumerate() {
        let path = path.index(index);
        common(causes, one, spec, of_pod, &path);
        unique_name(causes, one, &path, names);
        lifecycle_and_probes(causes, one, grace, &path);
        restart::policy(causes, one, &path);
    }
    host_port_conflicts(causes, all, path);
}

fn init<'a>(
    causes: &mut Causes,
    spec: &'a Value,
    of_pod: &OfPod<'_>,
    path: &Path,
    grace: i64,
    names: &mut BTreeSet<&'a str>,
) {
    for (index, one) in items(spec, "initContainers").iter().enumerate() {
        let list = path;
        let path = path.index(index);
        common(causes, one, spec, of_pod, &path);
        let policy = text(one, "restartPolicy");
        restart::init_policy(causes, one, &path);
        unique_name(causes, one, &path, names);
        host_port_conflicts(causes, std::slice::from_ref(one), list);
        if policy == "Always" {
            lifecycle_and_probes(causes, one, grace, &path);
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if !at(one, field).is_null() {
                let detail = "may not be set for init containers without restartPolicy=Always";
                causes.forbidden(&path.child(field), detail);
            }
        }
        for (index, one) in items(one, "resizePolicy").iter().enumerate() {
            if text(one, "restartPolicy") == "RestartContainer" {
                let path = path.child("resizePolicy").index(index).child("restartPolicy");
                let detail = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                causes.invalid(&path, "RestartContainer", detail);
            }
        }
    }
}

fn unique_name<'a>(causes: &mut Causes, container: &'a Value, path: &Path, names: &mut BTreeSet<&'a str>) {
    let name = text(container, "name");
    if !names.insert(name) {
        causes.push(Cause::duplicate(&path.child("name"), name));
    }
}

fn lifecycle_and_probes(causes: &mut Causes, container: &Value, grace: i64, path: &Path) {
    for hook in ["postStart", "preStop"] {
        let handler = at(container, &format!("lifecycle.{hook}"));
        if !handler.is_null() {
            probe::handler(causes, handler, Some(grace), &path.child("lifecycle").child(hook));
        }
    }
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        probe::probe(causes, kind, at(container, kind), &path.child(kind));
    }
}

/// Checks the rules for containers of every kind.
fn common(causes: &mut Causes, container: &Value, spec: &Value, of_pod: &OfPod<'_>, path: &Path) {
    causes.named(&path.child("name"), text(container, "name"), name::dns1123_label);
    if text(container, "image").is_empty() {
        causes.required(&path.child("image"), "");
    }
    causes.required_one_of(
        &path.child("terminationMessagePolicy"),
        text(container, "terminationMessagePolicy"),
        &["File", "FallbackToLogsOnError"],
    );
    ports(causes, items(container, "ports"), &path.child("ports"));
    env::env(causes, items(container, "env"), &path.child("env"));
    env::env_from(causes, items(container, "envFrom"), &path.child("envFrom"));
    mounts(causes, container, &of_pod.volumes, &path.child("volumeMounts"));
    devices(causes, container, &of_pod.volumes, &path.child("volumeDevices"));
    let pull = text(container, "imagePullPolicy");
    causes.required_one_of(&path.child("imagePullPolicy"), pull, &["Always", "IfNotPresent", "Never"]);
    resources::of_container(causes, at(container, "resources"), of_pod.claims, &path.child("resources"));
    restart::on_resize(causes, container, text(spec, "restartPolicy"), path);
    let users = if at(spec, "hostUsers") == false { HostUsers::Apart } else { HostUsers::Shared };
    security::container(causes, at(container, "securityContext"), users, &path.child("securityContext"));
}

fn ports(causes: &mut Causes, ports: &[Value], path: &Path) {
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = path.index(index);
        let name = text(port, "name");
        if !name.is_empty() {
            let wrong = name::port_name(name);
            if !wrong.is_empty() {
                causes.wrong(&path.child("name"), name, &wrong);
            } else if !names.insert(name) {
                causes.push(Cause::duplicate(&path.child("name"), name));
            }
        }
        match int(port, "containerPort").unwrap_or_default() {
            0 => causes.required(&path.child("containerPort"), ""),
            number => causes.wrong_number(&path.child("containerPort"), number, &name::port_number(number)),
        }
        let host = int(port, "hostPort").unwrap_or_default();
        if host != 0 {
            causes.wrong_number(&path.child("hostPort"), host, &name::port_number(host));
        }
        causes.required_one_of(&path.child("protocol"), text(port, "protocol"), &["SCTP", "TCP", "UDP"]);
    }
}

fn host_port_conflicts(causes: &mut Causes, containers: &[Value], path: &Path) {
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        for (at, port) in items(container, "ports").iter().enumerate() {
            let Some(host) = int(port, "hostPort").filter(|port| *port != 0) else { continue };
            let claim = format!("{}/{}/{host}", text(port, "protocol"), text(port, "hostIP"));
            if taken.contains(&claim) {
                let path = path.index(index).child("ports").index(at).child("hostPort");
                causes.push(Cause::duplicate(&path, &claim));
            } else {
                taken.insert(claim);
            }
        }
    }
}

fn mounts(causes: &mut Causes, container: &Value, volumes: &Volumes<'_>, path: &Path) {
    let devices = items(container, "volumeDevices");
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let device_names: BTreeSet<&str> = devices.iter().map(|device| text(device, "name")).collect();
    let device_paths: BTreeSet<&str> = devices.iter().map(|device| text(device, "devicePath")).collect();
    for (index, mount) in items(container, "volumeMounts").iter().enumerate() {
        let at = path.index(index);
        let (name, target) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            causes.required(&at.child("name"), "");
        }
        if !volumes.contains_key(name) {
            causes.push(Cause::not_found(&at.child("name"), name));
        }
        if target.is_empty() {
            causes.required(&at.child("mountPath"), "");
        }
        if !seen.insert(target) {
            causes.invalid(&at.child("mountPath"), target, "must be unique");
        }
        if device_names.contains(name) {
            causes.invalid(&at.child("name"), name, "must not already exist in volumeDevices");
        }
        if device_paths.contains(target) {
            let detail = "must not already exist as a path in volumeDevices";
            causes.invalid(&at.child("mountPath"), target, detail);
        }
        let (sub, expression) = (text(mount, "subPath"), text(mount, "subPathExpr"));
        if !sub.is_empty() {
            descending_path(causes, &path.child("subPath"), sub);
        }
        if !expression.is_empty() {
            if !sub.is_empty() {
                let detail = "subPathExpr and subPath are mutually exclusive";
                causes.invalid(&at.child("subPathExpr"), expression, detail);
            }
            descending_path(causes, &path.child("subPathExpr"), expression);
        }
        let propagation = text(mount, "mountPropagation");
        if !propagation.is_empty() {
            let known = ["Bidirectional", "HostToContainer", "None"];
            causes.one_of(&path.child("mountPropagation"), propagation, &known);
            if propagation == "Bidirectional" && !truth(container, "securityContext.privileged") {
                let detail = "Bidirectional mount propagation is available only to privileged containers";
                causes.forbidden(&path.child("mountPropagation"), detail);
            }
        }
        recursive_read_only(causes, mount, &path.child("recursiveReadOnly"));
    }
}

fn recursive_read_only(causes: &mut Causes, mount: &Value, path: &Path) {
    match at(mount, "recursiveReadOnly").as_str() {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if !truth(mount, "readOnly") {
                causes.forbidden(path, "may only be specified when readOnly is true");
            }
            if !matches!(text(mount, "mountPropagation"), "" | "None") {
                let detail = "may only be specified when mountPropagation is None or not specified";
                causes.forbidden(path, detail);
            }
        }
        Some(other) => causes.one_of(path, other, &["Disabled", "Enabled", "IfPossible"]),
    }
}

fn devices(causes: &mut Causes, container: &Value, volumes: &Volumes<'_>, path: &Path) {
    let mounts = items(container, "volumeMounts");
    let (mut names, mut paths): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for (index, device) in items(container, "volumeDevices").iter().enumerate() {
        let path = path.index(index);
        let (name, target) = (text(device, "name"), text(device, "devicePath"));
        let (at_name, at_target) = (path.child("name"), path.child("devicePath"));
        if name.is_empty() {
            causes.required(&at_name, "");
        }
        if names.contains(&name) {
            causes.invalid(&at_name, name, "must be unique");
        }
        match volumes.get(name) {
            None => causes.push(Cause::not_found(&at_name, name)),
            Some(volume)
                if at(volume, "persistentVolumeClaim").is_null() && at(volume, "ephemeral").is_null() =>
            {
                let detail =
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                causes.invalid(&at_name, name, detail);
            }
            Some(_) => {}
        }
        if target.is_empty() {
            causes.required(&at_target, "");
        }
        if paths.contains(&target) {
            causes.invalid(&at_target, target, "must be unique");
        }
        if target.split('/').any(|part| part == "..") {
            causes.invalid(&at_target, target, "can not contain backsteps ('..')");
        } else {
            paths.push(target);
        }
        if mounts.iter().any(|mount| text(mount, "name") == name) {
            causes.invalid(&at_name, name, "must not already exist in volumeMounts");
        }
        if mounts.iter().any(|mount| text(mount, "mountPath") == target) {
            causes.invalid(&at_target, target, "must not already exist as a path in volumeMounts");
        }
        names.extend(Some(name).filter(|name| !name.is_empty()));
    }
}
