//! The parts of its host that a pod shares, and the fields that do not go with them.

use serde_json::Value;

use crate::access::{at, items, text, truth};
use crate::validate::check::Causes;
use setpoint_api::cause::{Cause, Path};
use setpoint_api::name;

/// The name of the host that the pod sees.
pub(super) fn host_name(causes: &mut Causes, spec: &Value, path: &Path) {
    const LONGEST: usize = 64;
    let Some(host) = at(spec, "hostnameOverride").as_str() else { return };
    let path = path.child("hostnameOverride");
    for field in ["setHostnameAsFQDN", "hostNetwork"] {
        if truth(spec, field) {
            causes.forbidden(&path, &format!("may not be specified when {field} is true"));
        }
    }
    if host.len() > LONGEST {
        causes.push(Cause::too_long(&path, LONGEST));
    }
    causes.wrong(&path, host, &name::dns1123_subdomain(host));
}

/// Name spaces of the host that a pod with its own users may not have.
pub(super) fn host_users(causes: &mut Causes, spec: &Value, path: &Path) {
    const WHEN: &str = "when `hostUsers` is false";
    if at(spec, "hostUsers") != false {
        return;
    }
    if truth(spec, "hostNetwork") {
        causes.forbidden(&path.child("hostNetwork"), WHEN);
    }
    // The real server spells these with a capital.
    for (field, shown) in [("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if truth(spec, field) {
            causes.forbidden(&path.child(shown), WHEN);
        }
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for (index, container) in items(spec, list).iter().enumerate() {
            if !items(container, "volumeDevices").is_empty() {
                causes.forbidden(&path.child(list).index(index).child("volumeDevices"), WHEN);
            }
        }
    }
}

/// Variables come from files of volumes that the pod has for itself.
pub(super) fn file_volumes(causes: &mut Causes, spec: &Value, path: &Path) {
    let volumes = items(spec, "volumes");
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for (index, container) in items(spec, list).iter().enumerate() {
            for (at_env, variable) in items(container, "env").iter().enumerate() {
                if at(variable, "valueFrom.fileKeyRef").is_null() {
                    continue;
                }
                let volume = text(variable, "valueFrom.fileKeyRef.volumeName");
                let path = path.child(list).index(index).child("env").index(at_env);
                let path = path.child("valueFrom.fileKeyRef.volumeName");
                match volumes.iter().rfind(|one| text(one, "name") == volume) {
                    None => causes.push(Cause::not_found(&path, volume)),
                    Some(found) if at(found, "emptyDir").is_null() => {
                        causes.invalid(&path, volume, "referenced volume must be of type emptyDir");
                    }
                    Some(_) => {}
                }
            }
        }
    }
}
