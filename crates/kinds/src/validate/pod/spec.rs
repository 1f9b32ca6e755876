//! The spec of a pod.

use serde_json::Value;

use super::{affinity, claims, container, host, resources, security, volume, windows};
use crate::access::{at, int, items, text, truth};
use crate::validate::check::Causes;
use crate::validate::meta;
use setpoint_api::cause::{Cause, Path};
use setpoint_api::name;

/// The spec of a pod, wherever it stands. `pod` is its name; empty in a template.
pub(in crate::validate) fn spec(causes: &mut Causes, spec: &Value, pod: &str, path: &Path) {
    let volumes = volume::volumes(causes, items(spec, "volumes"), pod, &path.child("volumes"));
    let claims = claims::of_pod(causes, spec, path);
    container::containers(causes, spec, &container::OfPod { volumes, claims: &claims }, path);
    resources::of_pod(causes, spec, &claims, path);
    host_network(causes, spec, !pod.is_empty(), path);
    let restart = text(spec, "restartPolicy");
    causes.required_one_of(&path.child("restartPolicy"), restart, &["Always", "OnFailure", "Never"]);
    causes.required_one_of(
        &path.child("dnsPolicy"),
        text(spec, "dnsPolicy"),
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
    );
    causes.extend(meta::labels(at(spec, "nodeSelector"), &path.child("nodeSelector")));
    security::pod(causes, spec, &path.child("securityContext"));
    if truth(spec, "shareProcessNamespace") && truth(spec, "hostPID") {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        causes.invalid(&path.child("shareProcessNamespace"), true, detail);
    }
    affinity::affinity(causes, at(spec, "affinity"), &path.child("affinity"));
    dns_config(causes, spec, &path.child("dnsConfig"));
    gates(causes, spec, path);
    topology(causes, items(spec, "topologySpreadConstraints"), &path.child("topologySpreadConstraints"));
    windows::host_processes(causes, spec, path);
    host::host_users(causes, spec, path);
    host::host_name(causes, spec, path);
    names(causes, spec, &["serviceAccountName", "nodeName"], path);
    if let Some(seconds) = int(spec, "activeDeadlineSeconds") {
        let wrong = name::in_range(seconds, 1, i64::from(i32::MAX));
        causes.wrong_number(&path.child("activeDeadlineSeconds"), seconds, &wrong);
    }
    names(causes, spec, &["hostname", "subdomain"], path);
    security::tolerations(causes, items(spec, "tolerations"), &path.child("tolerations"));
    host_aliases(causes, items(spec, "hostAliases"), &path.child("hostAliases"));
    names(causes, spec, &["priorityClassName", "runtimeClassName"], path);
    let policy = text(spec, "preemptionPolicy");
    if !policy.is_empty() {
        causes.one_of(&path.child("preemptionPolicy"), policy, &["PreemptLowerPriority", "Never"]);
    }
    let overhead = at(spec, "overhead");
    if !overhead.is_null() {
        // The real server judges the overhead as the limits of a container.
        let limits = serde_json::json!({ "limits": overhead });
        resources::requirements(causes, &limits, &path.child("overhead"));
    }
    operating_system(causes, spec, path);
    host::file_volumes(causes, spec, path);
}

/// Names that are there must be good.
fn names(causes: &mut Causes, spec: &Value, fields: &[&str], path: &Path) {
    for field in fields {
        let value = text(spec, field);
        let wrong = match *field {
            _ if value.is_empty() => continue,
            "hostname" | "subdomain" => name::dns1123_label(value),
            _ => name::dns1123_subdomain(value),
        };
        causes.wrong(&path.child(field), value, &wrong);
    }
}

/// A pod's ports are the host's; a template may leave them out.
fn host_network(causes: &mut Causes, spec: &Value, whole: bool, path: &Path) {
    if !truth(spec, "hostNetwork") {
        return;
    }
    for (index, container) in items(spec, "containers").iter().enumerate() {
        for (at, port) in items(container, "ports").iter().enumerate() {
            let host = int(port, "hostPort").unwrap_or_default();
            if host != int(port, "containerPort").unwrap_or_default() && (whole || host != 0) {
                let path = path.child("containers").index(index).child("ports").index(at).child("hostPort");
                causes.invalid(&path, host, "must match `containerPort` when `hostNetwork` is true");
            }
        }
    }
}

fn dns_config(causes: &mut Causes, spec: &Value, path: &Path) {
    let config = at(spec, "dnsConfig");
    if text(spec, "dnsPolicy") == "None" {
        if config.is_null() {
            return causes.required(path, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        if items(config, "nameservers").is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return causes.required(&path.child("nameservers"), detail);
        }
    }
    let servers = items(config, "nameservers");
    if servers.len() > 3 {
        let detail = "must not have more than 3 nameservers";
        causes.invalid(&path.child("nameservers"), at(config, "nameservers"), detail);
    }
    for (index, server) in servers.iter().enumerate() {
        causes.ip(&path.child("nameservers").index(index), server.as_str().unwrap_or_default());
    }
    let searches = items(config, "searches");
    if searches.len() > 32 {
        let detail = "must not have more than 32 search paths";
        causes.invalid(&path.child("searches"), at(config, "searches"), detail);
    }
    for (index, search) in searches.iter().filter_map(Value::as_str).enumerate() {
        let search = if search == "." { continue } else { search.strip_suffix('.').unwrap_or(search) };
        let wrong = name::dns1123_subdomain_with_underscore(search);
        causes.wrong(&path.child("searches").index(index), search, &wrong);
    }
    for (index, option) in items(config, "options").iter().enumerate() {
        if text(option, "name").is_empty() {
            causes.required(&path.child("options").index(index), "must not be empty");
        }
    }
}

fn gates(causes: &mut Causes, spec: &Value, path: &Path) {
    for (index, gate) in items(spec, "readinessGates").iter().enumerate() {
        let path = path.child("readinessGates").index(index).child("conditionType");
        let kind = text(gate, "conditionType");
        causes.wrong(&path, kind, &name::qualified_name(kind));
    }
    let mut seen: Vec<&str> = Vec::new();
    for (index, gate) in items(spec, "schedulingGates").iter().enumerate() {
        let path = path.child("schedulingGates").index(index);
        let gate = text(gate, "name");
        causes.wrong(&path, gate, &name::qualified_name(gate));
        if seen.contains(&gate) {
            causes.push(Cause::duplicate(&path, gate));
        }
        seen.push(gate);
    }
}

fn topology(causes: &mut Causes, constraints: &[Value], path: &Path) {
    let pair = |one: &Value| format!("{{{}, {}}}", text(one, "topologyKey"), text(one, "whenUnsatisfiable"));
    for (index, one) in constraints.iter().enumerate() {
        let path = path.index(index);
        let skew = int(one, "maxSkew").unwrap_or_default();
        if skew <= 0 {
            causes.invalid(&path.child("maxSkew"), skew, "must be greater than zero");
        }
        let key = text(one, "topologyKey");
        if key.is_empty() {
            causes.required(&path.child("topologyKey"), "can not be empty");
        }
        let action = text(one, "whenUnsatisfiable");
        causes.one_of(&path.child("whenUnsatisfiable"), action, &["DoNotSchedule", "ScheduleAnyway"]);
        if constraints[index + 1..].iter().any(|later| pair(later) == pair(one)) {
            causes.push(Cause::duplicate(&path.child("{topologyKey, whenUnsatisfiable}"), pair(one)));
        }
        if let Some(domains) = int(one, "minDomains") {
            let path = path.child("minDomains");
            if domains <= 0 {
                causes.invalid(&path, domains, "must be greater than zero");
            }
            if action != "DoNotSchedule" {
                let detail =
                    format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                causes.invalid(&path, domains, &detail);
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if let Some(policy) = at(one, field).as_str() {
                causes.one_of(&path.child(field), policy, &["Honor", "Ignore"]);
            }
        }
        affinity::label_keys(causes, one, &["matchLabelKeys"], &path);
        causes.extend(meta::label_selector(at(one, "labelSelector"), &path.child("labelSelector")));
    }
}

fn host_aliases(causes: &mut Causes, aliases: &[Value], path: &Path) {
    for (index, alias) in aliases.iter().enumerate() {
        causes.ip(&path.index(index).child("ip"), text(alias, "ip"));
        for (at, host) in items(alias, "hostnames").iter().enumerate() {
            let host = host.as_str().unwrap_or_default();
            let path = path.index(index).child("hostnames").index(at);
            causes.wrong(&path, host, &name::dns1123_subdomain(host));
        }
    }
}

/// Fields that mean nothing on Windows.
const LINUX_ONLY: [&str; 14] = [
    "hostPID",
    "hostIPC",
    "hostUsers",
    "shareProcessNamespace",
    "securityContext.appArmorProfile",
    "securityContext.seLinuxOptions",
    "securityContext.seccompProfile",
    "securityContext.fsGroup",
    "securityContext.fsGroupChangePolicy",
    "securityContext.sysctls",
    "securityContext.runAsUser",
    "securityContext.runAsGroup",
    "securityContext.supplementalGroups",
    "securityContext.supplementalGroupsPolicy",
];

fn operating_system(causes: &mut Causes, spec: &Value, path: &Path) {
    let os = at(spec, "os");
    if os.is_null() {
        return;
    }
    match text(os, "name") {
        "" => causes.required(&path.child("os.name"), "cannot be empty"),
        "linux" => {}
        "windows" => {
            for field in LINUX_ONLY {
                let value = at(spec, field);
                if !value.is_null() && value != false {
                    causes.forbidden(&path.child(field), "cannot be set for a windows pod");
                }
            }
        }
        other => causes.push(Cause::not_supported(&path.child("os"), other, &["linux", "windows"])),
    }
}
