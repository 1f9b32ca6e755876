//! The status of a pod.

use std::net::IpAddr;

use serde_json::{Value, json};

use crate::access::{at, int, items, text};
use crate::validate::check::Causes;
use crate::validate::meta::IMMUTABLE;
use setpoint_api::cause::{BadValue, Cause, Path};
use setpoint_api::name;

/// A changed status.
pub(in crate::validate) fn update_status(causes: &mut Causes, pod: &Value, old: &Value) {
    let path = Path::new("status");
    for (index, condition) in items(pod, "status.conditions").iter().enumerate() {
        let path = path.child("conditions").index(index);
        let generation = int(condition, "observedGeneration").unwrap_or_default();
        if generation < 0 {
            causes.invalid(&path.child("observedGeneration"), generation, "must be a non-negative integer");
        }
        let kind = text(condition, "type");
        if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
            // The real server spells this path with a capital.
            causes.wrong(&path.child("Type"), kind, &name::qualified_name(kind));
        }
    }
    let nominated = text(pod, "status.nominatedNodeName");
    if nominated != text(old, "status.nominatedNodeName") && !nominated.is_empty() {
        causes.wrong(&path.child("nominatedNodeName"), nominated, &name::dns1123_subdomain(nominated));
        if !text(old, "spec.nodeName").is_empty() {
            let detail = "may not be set on pods that are already bound to a node";
            causes.forbidden(&path.child("nominatedNodeName"), detail);
        }
    }
    let class = text(pod, "status.qosClass");
    if class != text(old, "status.qosClass") {
        causes.invalid(&path.child("qosClass"), class, IMMUTABLE);
    }
    for list in ["containerStatuses", "initContainerStatuses"] {
        transitions(causes, pod, old, list, &path.child(list));
    }
    addresses(causes, pod, old, "podIPs", &path);
    let pod_ips = items(pod, "status.podIPs");
    if text(pod, "status.podIP").is_empty() != pod_ips.is_empty() {
        let detail = "podIP and podIPs must either both be set or both be unset";
        causes.invalid(&path.child("podIPs"), shown_addresses(pod_ips), detail);
    }
    let first = items(pod, "status.hostIPs").first().map(|ip| text(ip, "ip"));
    if let Some(first) = first.filter(|first| *first != text(pod, "status.hostIP")) {
        causes.invalid(&path.child("hostIPs").index(0).child("ip"), first, "must be equal to `hostIP`");
    }
    addresses(causes, pod, old, "hostIPs", &path);
}

/// At most one address of each family; those that were there are not judged again.
fn addresses(causes: &mut Causes, pod: &Value, old: &Value, field: &str, path: &Path) {
    let list = format!("status.{field}");
    let all = items(pod, &list);
    for (index, ip) in all.iter().enumerate() {
        let ip = text(ip, "ip");
        if !items(old, &list).iter().any(|one| text(one, "ip") == ip) {
            causes.ip(&path.child(field).index(index), ip);
        }
    }
    if all.len() < 2 {
        return;
    }
    let is_ipv4 = |ip: &Value| text(ip, "ip").parse().ok().map(|ip: IpAddr| ip.is_ipv4());
    let families: Vec<Option<bool>> = all.iter().map(is_ipv4).collect();
    if let Some(index) = families.iter().position(Option::is_none) {
        let wrong = text(&all[index], "ip");
        let detail = format!("failed to check for dual stack with error:invalid IP[{index}]: {wrong}");
        causes.push(Cause::internal(&path.child(field), &detail));
    }
    if families.contains(&None) || families.len() > 2 || families[0] == families[1] {
        let detail = "may specify no more than one IP for each IP family";
        causes.invalid(&path.child(field), shown_addresses(all), detail);
    }
}

fn shown_addresses(all: &[Value]) -> BadValue {
    let shown: Vec<Value> = all.iter().map(|ip| json!({"IP": text(ip, "ip")})).collect();
    BadValue::raw(Value::from(shown).to_string())
}

/// A container that ended for good does not run again.
fn transitions(causes: &mut Causes, pod: &Value, old: &Value, list: &str, path: &Path) {
    let policy = text(old, "spec.restartPolicy");
    if policy == "Always" {
        return;
    }
    let field = format!("status.{list}");
    for (index, before) in items(old, &field).iter().enumerate() {
        let terminated = at(before, "state.terminated");
        let failed = int(terminated, "exitCode").unwrap_or_default() != 0;
        if terminated.is_null() || (failed && policy == "OnFailure") {
            continue;
        }
        let name = text(before, "name");
        let restartable = list == "initContainerStatuses"
            && items(old, "spec.initContainers")
                .iter()
                .any(|one| text(one, "name") == name && text(one, "restartPolicy") == "Always");
        if restartable {
            continue;
        }
        let now = items(pod, &field).iter().find(|one| text(one, "name") == name);
        if now.is_some_and(|now| at(now, "state.terminated").is_null()) {
            let detail = "may not be transitioned to non-terminated state";
            causes.forbidden(&path.index(index).child("state"), detail);
        }
    }
}
