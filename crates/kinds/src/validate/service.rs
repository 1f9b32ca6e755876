//! Services.

use std::collections::BTreeSet;

use std::net::IpAddr;

use serde_json::Value;

use super::check::{BAD_CIDR, Causes, parse_cidr, special_ip};
use super::meta;
use crate::access::{at, int, items, text};
use crate::go_struct;
use setpoint_api::cause::{BadValue, Cause, Path};
use setpoint_api::name;

pub(super) fn service(causes: &mut Causes, service: &Value) {
    known_service(causes, service, &[]);
}

/// A Service; source ranges that it had before are judged by the rules of old.
fn known_service(causes: &mut Causes, service: &Value, ranges: &[Value]) {
    let (path, spec) = (Path::new("spec"), at(service, "spec"));
    let kind = text(spec, "type");
    let headless = text(spec, "clusterIP") == "None";
    let all = items(spec, "ports");
    if all.is_empty() && !headless && kind != "ExternalName" {
        causes.required(&path.child("ports"), "");
    }
    match kind {
        "LoadBalancer" | "NodePort" if headless => {
            let detail = format!("may not be set to 'None' for {kind} services");
            causes.invalid(&path.child("clusterIPs").index(0), "None", &detail);
        }
        "ExternalName" => external_name(causes, spec, &path),
        _ => {}
    }
    ports(causes, all, &path.child("ports"));
    causes.extend(meta::labels(at(spec, "selector"), &path.child("selector")));
    affinity(causes, spec, &path);
    cluster_ips(causes, spec, &path);
    for (index, ip) in items(spec, "externalIPs").iter().enumerate() {
        let path = path.child("externalIPs").index(index);
        let ip = ip.as_str().unwrap_or_default();
        match ip.parse() {
            Ok(parsed) => {
                if let Some(detail) = special_ip(parsed) {
                    causes.invalid(&path, ip, detail);
                }
            }
            Err(_) => causes.ip(&path, ip),
        }
    }
    causes.required_one_of(
        &path.child("type"),
        kind,
        &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"],
    );
    if kind == "ClusterIP" {
        for (index, port) in all.iter().enumerate() {
            if int(port, "nodePort").unwrap_or_default() != 0 {
                let path = path.child("ports").index(index).child("nodePort");
                causes.forbidden(&path, "may not be used when `type` is 'ClusterIP'");
            }
        }
    }
    unique_ports(causes, all, &path.child("ports"));
    balancer(causes, spec, &path, ranges);
    traffic(causes, spec, &path);
}

fn external_name(causes: &mut Causes, spec: &Value, path: &Path) {
    if !text(spec, "clusterIP").is_empty() || !items(spec, "clusterIPs").is_empty() {
        causes.forbidden(&path.child("clusterIPs"), "may not be set for ExternalName services");
    }
    for field in ["ipFamilies", "ipFamilyPolicy"] {
        if !crate::access::is_empty(spec, field) {
            causes.forbidden(&path.child(field), "may not be set for ExternalName services");
        }
    }
    let name = text(spec, "externalName");
    if name.is_empty() {
        causes.required(&path.child("externalName"), "");
    } else {
        let trimmed = name.strip_suffix('.').unwrap_or(name);
        causes.wrong(&path.child("externalName"), trimmed, &name::dns1123_subdomain(trimmed));
    }
}

fn ports(causes: &mut Causes, ports: &[Value], path: &Path) {
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = path.index(index);
        let name = text(port, "name");
        if name.is_empty() {
            if ports.len() > 1 {
                causes.required(&path.child("name"), "");
            }
        } else {
            causes.wrong(&path.child("name"), name, &name::dns1123_label(name));
            if !names.insert(name) {
                causes.push(Cause::duplicate(&path.child("name"), name));
            }
        }
        let number = int(port, "port").unwrap_or_default();
        causes.wrong_number(&path.child("port"), number, &name::port_number(number));
        causes.required_one_of(&path.child("protocol"), text(port, "protocol"), &["SCTP", "TCP", "UDP"]);
        causes.port_or_name(&path.child("targetPort"), at(port, "targetPort"));
        if let Some(protocol) = at(port, "appProtocol").as_str() {
            causes.wrong(&path.child("appProtocol"), protocol, &name::qualified_name(protocol));
        }
    }
}

fn affinity(causes: &mut Causes, spec: &Value, path: &Path) {
    let kind = text(spec, "sessionAffinity");
    causes.required_one_of(&path.child("sessionAffinity"), kind, &["ClientIP", "None"]);
    if kind == "ClientIP" {
        let seconds = int(spec, "sessionAffinityConfig.clientIP.timeoutSeconds").unwrap_or_default();
        if !(1..=86400).contains(&seconds) {
            let path = path.child("sessionAffinityConfig.clientIP.timeoutSeconds");
            causes.invalid(&path, seconds, "must be greater than 0 and less than 86400");
        }
    } else if kind == "None" && !at(spec, "sessionAffinityConfig").is_null() {
        let detail = "must not be set when session affinity is None";
        causes.forbidden(&path.child("sessionAffinityConfig"), detail);
    }
}

/// Addresses and families, which the server looks at before it gives out an address too.
pub(super) fn cluster_ips(causes: &mut Causes, spec: &Value, path: &Path) {
    if text(spec, "type") == "ExternalName" {
        return;
    }
    let list = items(spec, "clusterIPs");
    let list_path = path.child("clusterIPs");
    let shown = || BadValue::raw(at(spec, "clusterIPs").to_string());
    let one = text(spec, "clusterIP");
    match list.first().and_then(Value::as_str) {
        None if !one.is_empty() => causes.required(&list_path, ""),
        Some(_) if one.is_empty() => {
            causes.invalid(&list_path, shown(), "must be empty when `clusterIP` is not specified");
        }
        Some(first) if first != one => {
            causes.invalid(&list_path, shown(), "first value must match `clusterIP`")
        }
        _ => {}
    }
    let families = items(spec, "ipFamilies");
    for (index, family) in families.iter().enumerate() {
        let path = path.child("ipFamilies").index(index);
        causes.one_of(&path, family.as_str().unwrap_or_default(), &["IPv4", "IPv6"]);
        if families[..index].contains(family) {
            causes.push(Cause::duplicate(&path, family));
        }
    }
    if let Some(policy) = at(spec, "ipFamilyPolicy").as_str() {
        let known = ["PreferDualStack", "RequireDualStack", "SingleStack"];
        causes.one_of(&path.child("ipFamilyPolicy"), policy, &known);
    }
    for (index, ip) in list.iter().filter_map(Value::as_str).enumerate() {
        if index == 0 && ip == "None" {
            if list.len() > 1 {
                causes.invalid(&list_path, shown(), "'None' must be the first and only value");
            }
        } else {
            causes.ip(&list_path.index(index), ip);
        }
    }
    if list.len() > 2 {
        causes.invalid(&list_path, shown(), "may only hold up to 2 values");
    }
    let families: Vec<bool> = list
        .iter()
        .filter_map(|ip| ip.as_str()?.parse::<std::net::IpAddr>().ok())
        .map(|ip| ip.is_ipv4())
        .collect();
    if families.len() > 1 && families.len() == list.len() && families.iter().all(|one| *one == families[0]) {
        causes.invalid(&list_path, shown(), "may specify no more than one IP for each IP family");
    }
}

fn unique_ports(causes: &mut Causes, ports: &[Value], path: &Path) {
    let mut nodes: BTreeSet<(&str, i64)> = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let Some(node) = int(port, "nodePort").filter(|node| *node != 0) else { continue };
        let key = (text(port, "protocol"), node);
        if !nodes.insert(key) {
            causes.push(Cause::duplicate(&path.index(index).child("nodePort"), node));
        }
    }
    let mut seen: BTreeSet<(&str, Option<i64>)> = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let key = (text(port, "protocol"), int(port, "port"));
        if !seen.insert(key) {
            let value = serde_json::json!({"protocol": key.0, "port": key.1});
            let shown = BadValue::raw(go_struct::line("core.ServicePort", &value));
            causes.push(Cause::duplicate(&path.index(index), shown));
        }
    }
}

fn balancer(causes: &mut Causes, spec: &Value, path: &Path, known: &[Value]) {
    let balanced = text(spec, "type") == "LoadBalancer";
    let ranges = items(spec, "loadBalancerSourceRanges");
    // The real server spells this one path with a capital.
    let ranges_path = path.child("LoadBalancerSourceRanges");
    if !ranges.is_empty() && !balanced {
        causes.forbidden(&ranges_path, "may only be used when `type` is 'LoadBalancer'");
    }
    for (index, range) in ranges.iter().filter_map(Value::as_str).enumerate() {
        let path = ranges_path.index(index);
        match wrong_network(range.trim()) {
            Some(detail) if detail == BAD_CIDR || !known.iter().any(|own| own == range) => {
                causes.invalid(&path, range.trim(), detail);
            }
            _ => {}
        }
    }
    if !at(spec, "allocateLoadBalancerNodePorts").is_null() && !balanced {
        let detail = "may only be used when `type` is 'LoadBalancer'";
        causes.forbidden(&path.child("allocateLoadBalancerNodePorts"), detail);
    }
    if let Some(class) = at(spec, "loadBalancerClass").as_str() {
        if balanced {
            let path = path.child("loadBalancerClass");
            causes.wrong(&path, class, &name::qualified_name(class));
        } else {
            let detail = "may only be used when `type` is 'LoadBalancer'";
            causes.forbidden(&path.child("loadBalancerClass"), detail);
        }
    }
}

fn traffic(causes: &mut Causes, spec: &Value, path: &Path) {
    let kind = text(spec, "type");
    let outside = matches!(kind, "NodePort" | "LoadBalancer")
        || (kind == "ClusterIP" && !items(spec, "externalIPs").is_empty());
    let policy = text(spec, "externalTrafficPolicy");
    let policy_path = path.child("externalTrafficPolicy");
    if !policy.is_empty() {
        if outside {
            causes.one_of(&policy_path, policy, &["Cluster", "Local"]);
        } else {
            let detail = "may only be set for externally-accessible services";
            causes.invalid(&policy_path, policy, detail);
        }
    } else if outside {
        causes.required(&policy_path, "");
    }
    health_port(causes, spec, &path.child("healthCheckNodePort"));
    match at(spec, "internalTrafficPolicy").as_str() {
        Some(policy) => causes.one_of(&path.child("internalTrafficPolicy"), policy, &["Cluster", "Local"]),
        None if matches!(kind, "NodePort" | "LoadBalancer" | "ClusterIP") => {
            causes.required(&path.child("internalTrafficPolicy"), "");
        }
        None => {}
    }
}

fn needs_health_port(spec: &Value) -> bool {
    text(spec, "type") == "LoadBalancer" && text(spec, "externalTrafficPolicy") == "Local"
}

fn health_port(causes: &mut Causes, spec: &Value, path: &Path) {
    let port = int(spec, "healthCheckNodePort").unwrap_or_default();
    match (needs_health_port(spec), port) {
        (true, 0) => causes.required(path, ""),
        (true, port) => causes.wrong_number(path, port, &name::port_number(port)),
        (false, 0) => {}
        (false, port) => {
            let detail =
                "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            causes.invalid(path, port, detail);
        }
    }
}

pub(super) fn service_update(causes: &mut Causes, new: &Value, old: &Value) {
    let external = |service: &Value| text(service, "spec.type") == "ExternalName";
    let (was, is) = (items(old, "spec.clusterIPs"), items(new, "spec.clusterIPs"));
    if !external(new) && !external(old) && !was.is_empty() && was.first() != is.first() {
        let path = Path::new("spec.clusterIPs").index(0);
        let shown = BadValue::raw(at(new, "spec.clusterIPs").to_string());
        causes.invalid(&path, shown, "may not change once set");
    }
    let balanced = |service: &Value| text(service, "spec.type") == "LoadBalancer";
    if balanced(old)
        && balanced(new)
        && at(new, "spec.loadBalancerClass") != at(old, "spec.loadBalancerClass")
    {
        let path = Path::new("spec.loadBalancerClass");
        causes.invalid(&path, at(new, "spec.loadBalancerClass"), "may not change once set");
    }
    let both = needs_health_port(at(old, "spec")) && needs_health_port(at(new, "spec"));
    if both && int(new, "spec.healthCheckNodePort") != int(old, "spec.healthCheckNodePort") {
        causes.forbidden(&Path::new("spec.healthCheckNodePort"), "field is immutable");
    }
    known_service(causes, new, items(old, "spec.loadBalancerSourceRanges"));
}

/// Returns the fault in the text of a network, if it has one.
fn wrong_network(text: &str) -> Option<&'static str> {
    let leading =
        |part: &str| part.len() > 1 && part.starts_with('0') && part.bytes().all(|c| c.is_ascii_digit());
    let (ip, length) = text.split_once('/').unwrap_or((text, ""));
    let shown: Vec<String> = ip
        .split('.')
        .map(|part| part.trim_start_matches('0'))
        .map(|part| if part.is_empty() { "0".to_owned() } else { part.to_owned() })
        .collect();
    let zeros = leading(length) || (!ip.contains(':') && ip.split('.').any(leading));
    if zeros && parse_cidr(&format!("{}/{length}", shown.join("."))).is_some() {
        return Some("must not have leading 0s in IP or prefix length");
    }
    let Some((ip, length)) = parse_cidr(text) else { return Some(BAD_CIDR) };
    let (bits, width) = match ip {
        IpAddr::V4(ip) => (u128::from(u32::from(ip)), 32),
        IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some() => {
            return Some("must not have an IPv4-mapped IPv6 address");
        }
        IpAddr::V6(ip) => (u128::from(ip), 128),
    };
    let host = width - u32::from(length);
    let mask = if host == 128 { u128::MAX } else { (1u128 << host) - 1 };
    (bits & mask != 0).then_some("must not have bits set beyond the prefix length")
}

pub(super) fn service_status(causes: &mut Causes, service: &Value) {
    let path = Path::new("status.loadBalancer.ingress");
    let ingress = items(service, "status.loadBalancer.ingress");
    if text(service, "spec.type") != "LoadBalancer" {
        if !ingress.is_empty() {
            causes.forbidden(&path, "may only be used when `spec.type` is 'LoadBalancer'");
        }
        return;
    }
    for (index, one) in ingress.iter().enumerate() {
        let path = path.index(index);
        let (ip, host) = (text(one, "ip"), text(one, "hostname"));
        if !ip.is_empty() {
            causes.ip(&path.child("ip"), ip);
        }
        let (mode, mode_path) = (text(one, "ipMode"), path.child("ipMode"));
        match (ip.is_empty(), mode) {
            (false, "") => causes.required(&mode_path, "must be specified when `ip` is set"),
            (true, mode) if !mode.is_empty() => {
                causes.forbidden(&mode_path, "may not be specified when `ip` is not set");
            }
            (false, mode) => causes.one_of(&mode_path, mode, &["Proxy", "VIP"]),
            (true, _) => {}
        }
        if !host.is_empty() {
            causes.wrong(&path.child("hostname"), host, &name::dns1123_subdomain(host));
            if host.parse::<std::net::IpAddr>().is_ok() {
                causes.invalid(&path.child("hostname"), host, "must be a DNS name, not an IP address");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_written_in_one_way() {
        let bits = Some("must not have bits set beyond the prefix length");
        for (text, expected) in [
            ("10.0.0.0/8", None),
            ("0.0.0.0/0", None),
            ("2001:db8::/64", None),
            ("10.0.0.1/8", bits),
            ("2001:db8::1/64", bits),
            ("010.0.0.0/8", Some("must not have leading 0s in IP or prefix length")),
            ("::ffff:10.0.0.0/104", Some("must not have an IPv4-mapped IPv6 address")),
            ("bogus", Some(BAD_CIDR)),
            ("10.0.0.0/33", Some(BAD_CIDR)),
        ] {
            assert_eq!(wrong_network(text), expected, "{text}");
        }
    }
}
