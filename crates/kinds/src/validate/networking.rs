//! Ingresses, network policies, endpoints.

use std::collections::BTreeSet;

use serde_json::Value;

use super::check::{Causes, parse_cidr, special_ip};
use super::meta::{self, IMMUTABLE};
use crate::access::{at, int, items, text};
use setpoint_api::cause::{BadValue, Cause, Path};
use setpoint_api::name::{self, NameRule};

pub(super) fn ingress(causes: &mut Causes, object: &Value) {
    let (path, spec) = (Path::new("spec"), at(object, "spec"));
    let rules = items(spec, "rules");
    let default = at(spec, "defaultBackend");
    if rules.is_empty() && default.is_null() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        causes.invalid(&path, BadValue::raw("null"), detail);
    }
    if !default.is_null() {
        backend(causes, default, &path.child("defaultBackend"));
    }
    for (index, rule) in rules.iter().enumerate() {
        ingress_rule(causes, rule, &path.child("rules").index(index));
    }
    for (index, tls) in items(spec, "tls").iter().enumerate() {
        let path = path.child("tls").index(index);
        for (at, host) in items(tls, "hosts").iter().filter_map(Value::as_str).enumerate() {
            dns_host(causes, host, &path.child("hosts").index(at));
        }
        let secret = text(tls, "secretName");
        if !secret.is_empty() {
            causes.wrong(&path.child("secretName"), secret, &name::dns1123_subdomain(secret));
        }
    }
    if let Some(class) = at(spec, "ingressClassName").as_str() {
        causes.wrong(&path.child("ingressClassName"), class, &name::dns1123_subdomain(class));
    }
}

fn dns_host(causes: &mut Causes, host: &str, path: &Path) {
    let rule = if host.contains('*') { name::wildcard_dns1123_subdomain } else { name::dns1123_subdomain };
    causes.wrong(path, host, &rule(host));
}

fn ingress_rule(causes: &mut Causes, rule: &Value, path: &Path) {
    let host = text(rule, "host");
    if !host.is_empty() {
        if host.parse::<std::net::IpAddr>().is_ok() {
            causes.invalid(&path.child("host"), host, "must be a DNS name, not an IP address");
        }
        dns_host(causes, host, &path.child("host"));
    }
    let http = at(rule, "http");
    if http.is_null() {
        return;
    }
    let path = path.child("http.paths");
    let paths = items(http, "paths");
    if paths.is_empty() {
        causes.required(&path, "");
    }
    for (index, one) in paths.iter().enumerate() {
        ingress_path(causes, one, &path.index(index));
    }
}

fn ingress_path(causes: &mut Causes, one: &Value, path: &Path) {
    let target = text(one, "path");
    let target_path = path.child("path");
    match at(one, "pathType").as_str() {
        None => return causes.required(&path.child("pathType"), "pathType must be specified"),
        Some("Exact" | "Prefix") => {
            if !target.starts_with('/') {
                causes.invalid(&target_path, target, "must be an absolute path");
            }
            for bad in ["//", "/./", "/../", "%2f", "%2F"] {
                if target.contains(bad) {
                    causes.invalid(&target_path, target, &format!("must not contain '{bad}'"));
                }
            }
            for bad in ["/..", "/."] {
                if target.ends_with(bad) {
                    causes.invalid(&target_path, target, &format!("cannot end with '{bad}'"));
                }
            }
        }
        Some("ImplementationSpecific") => {
            if !target.is_empty() && !target.starts_with('/') {
                causes.invalid(&target_path, target, "must be an absolute path");
            }
        }
        Some(other) => {
            let known = ["Exact", "ImplementationSpecific", "Prefix"];
            causes.one_of(&path.child("pathType"), other, &known);
        }
    }
    backend(causes, at(one, "backend"), &path.child("backend"));
}

fn backend(causes: &mut Causes, backend: &Value, path: &Path) {
    let (resource, service) = (at(backend, "resource"), at(backend, "service"));
    match (resource.is_null(), service.is_null()) {
        (false, false) => causes.invalid(path, "", "cannot set both resource and service backends"),
        (true, true) => causes.invalid(path, "", "resource or service backend is required"),
        (false, true) => {
            for field in ["kind", "name"] {
                if text(resource, field).is_empty() {
                    causes.required(&path.child("resource").child(field), "");
                }
            }
        }
        (true, false) => {
            causes.named(&path.child("service.name"), text(service, "name"), name::dns1123_label);
            let (name, number) =
                (text(service, "port.name"), int(service, "port.number").unwrap_or_default());
            match (name, number) {
                ("", 0) => causes.required(path, "port name or number is required"),
                ("", number) => {
                    let path = path.child("service.port.number");
                    causes.wrong_number(&path, number, &name::port_number(number));
                }
                (name, 0) => causes.wrong(&path.child("service.port.name"), name, &name::port_name(name)),
                _ => causes.invalid(path, "", "cannot set both port name & port number"),
            }
        }
    }
}

pub(super) fn ingress_class(causes: &mut Causes, object: &Value) {
    let controller = text(object, "spec.controller");
    let path = Path::new("spec.controller");
    if controller.len() > 250 {
        causes.push(Cause::too_long(&path, 250));
    }
    domain_prefixed_path(causes, controller, &path);
    let parameters = at(object, "spec.parameters");
    if !parameters.is_null() {
        class_parameters(causes, parameters, &Path::new("spec.parameters"));
    }
}

/// The object that has the parameters of a class.
fn class_parameters(causes: &mut Causes, parameters: &Value, path: &Path) {
    if let Some(group) = at(parameters, "apiGroup").as_str() {
        causes.wrong(&path.child("apiGroup"), group, &name::dns1123_subdomain(group));
    }
    let mut declared = Causes::default();
    for field in ["kind", "name"] {
        let value = text(parameters, field);
        if value.is_empty() {
            declared.required(&path.child(field), "");
        } else {
            causes.wrong(&path.child(field), value, &NameRule::PathSegment.check(value, false));
        }
    }
    let (at_namespace, namespace) = (path.child("namespace"), at(parameters, "namespace").as_str());
    match (at(parameters, "scope").as_str(), namespace) {
        (None, _) => causes.required(&path.child("scope"), ""),
        (Some("Namespace"), None) => {
            causes.required(&at_namespace, "`parameters.scope` is set to 'Namespace'");
        }
        (Some("Namespace"), Some(namespace)) => {
            causes.wrong(&at_namespace, namespace, &name::dns1123_label(namespace));
        }
        (Some("Cluster"), Some(_)) => {
            causes.forbidden(&at_namespace, "`parameters.scope` is set to 'Cluster'");
        }
        (Some("Cluster"), None) => {}
        (Some(scope), _) => causes.one_of(&path.child("scope"), scope, &["Cluster", "Namespace"]),
    }
    causes.extend(declared.0);
}

pub(super) fn domain_prefixed_path(causes: &mut Causes, value: &str, path: &Path) {
    if value.is_empty() {
        return causes.required(path, "");
    }
    let Some((host, rest)) =
        value.split_once('/').filter(|(host, rest)| !host.is_empty() && !rest.is_empty())
    else {
        return causes.invalid(path, value, "must be a domain-prefixed path (such as \"acme.io/foo\")");
    };
    causes.wrong(path, host, &name::dns1123_subdomain(host));
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b);
    if !rest.bytes().all(allowed) {
        let detail = name::regex_error("Invalid path", r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", &[]);
        causes.invalid(path, rest, &detail);
    }
}

pub(super) fn ingress_class_update(causes: &mut Causes, new: &Value, old: &Value) {
    causes.immutable(new, old, "spec.controller", text(new, "spec.controller"));
    ingress_class(causes, new);
}

pub(super) fn network_policy(causes: &mut Causes, object: &Value) {
    let (path, spec) = (Path::new("spec"), at(object, "spec"));
    causes.extend(meta::label_selector(at(spec, "podSelector"), &path.child("podSelector")));
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (index, rule) in items(spec, direction).iter().enumerate() {
            let path = path.child(direction).index(index);
            for (at, port) in items(rule, "ports").iter().enumerate() {
                policy_port(causes, port, &path.child("ports").index(at));
            }
            for (at, peer) in items(rule, peers).iter().enumerate() {
                policy_peer(causes, peer, &path.child(peers).index(at));
            }
        }
    }
    let types = items(spec, "policyTypes");
    if types.len() > 2 {
        let detail = "may not specify more than two policyTypes";
        causes.invalid(
            &path.child("policyTypes"),
            BadValue::raw(at(spec, "policyTypes").to_string()),
            detail,
        );
        return;
    }
    for (index, kind) in types.iter().filter_map(Value::as_str).enumerate() {
        causes.one_of(&path.child("policyTypes").index(index), kind, &["Ingress", "Egress"]);
    }
}

fn policy_port(causes: &mut Causes, port: &Value, path: &Path) {
    if let Some(protocol) = at(port, "protocol").as_str() {
        causes.one_of(&path.child("protocol"), protocol, &["TCP", "UDP", "SCTP"]);
    }
    let number = at(port, "port");
    let (at_port, at_end) = (path.child("port"), path.child("endPort"));
    let Some(end) = int(port, "endPort") else {
        if !number.is_null() {
            causes.port_or_name(&at_port, number);
        }
        return;
    };
    match number {
        Value::Null => causes.invalid(&at_end, end, "may not be specified when `port` is not specified"),
        Value::String(_) => {
            causes.invalid(&at_end, end, "may not be specified when `port` is non-numeric");
            causes.port_or_name(&at_port, number);
        }
        start => {
            causes.port_or_name(&at_port, start);
            if start.as_i64().is_some_and(|start| end < start) {
                causes.invalid(&at_end, end, "must be greater than or equal to `port`");
            }
            causes.wrong_number(&at_end, end, &name::port_number(end));
        }
    }
}

fn policy_peer(causes: &mut Causes, peer: &Value, path: &Path) {
    let mut count = 0;
    for field in ["podSelector", "namespaceSelector"] {
        if !at(peer, field).is_null() {
            count += 1;
            causes.extend(meta::label_selector(at(peer, field), &path.child(field)));
        }
    }
    let block = at(peer, "ipBlock");
    if !block.is_null() {
        ip_block(causes, block, &path.child("ipBlock"));
    }
    match (count, block.is_null()) {
        (0, true) => causes.required(path, "must specify a peer"),
        (1.., false) => causes.forbidden(path, "may not specify both ipBlock and another peer"),
        _ => {}
    }
}

fn ip_block(causes: &mut Causes, block: &Value, path: &Path) {
    let cidr = text(block, "cidr");
    if cidr.is_empty() {
        return causes.required(&path.child("cidr"), "");
    }
    causes.cidr(&path.child("cidr"), cidr);
    let Some(outer) = parse_cidr(cidr) else { return };
    for (index, except) in items(block, "except").iter().filter_map(Value::as_str).enumerate() {
        let path = path.child("except").index(index);
        match parse_cidr(except) {
            None => causes.cidr(&path, except),
            Some(inner) if !strictly_inside(inner, outer) => {
                causes.invalid(&path, except, "must be a strict subset of `cidr`");
            }
            Some(_) => {}
        }
    }
}

fn strictly_inside(inner: (std::net::IpAddr, u8), outer: (std::net::IpAddr, u8)) -> bool {
    let bits = |ip: std::net::IpAddr| match ip {
        std::net::IpAddr::V4(ip) => (u128::from(u32::from(ip)) << 96, 4),
        std::net::IpAddr::V6(ip) => (u128::from(ip), 6),
    };
    let ((a, family_a), (b, family_b)) = (bits(inner.0), bits(outer.0));
    let mask = if outer.1 == 0 { 0 } else { u128::MAX << (128 - u32::from(outer.1)) };
    family_a == family_b && a & mask == b & mask && inner.1 > outer.1
}

pub(super) fn endpoints(causes: &mut Causes, object: &Value) {
    for (index, subset) in items(object, "subsets").iter().enumerate() {
        let path = Path::new("subsets").index(index);
        let lists = ["addresses", "notReadyAddresses"];
        if lists.iter().all(|list| items(subset, list).is_empty()) {
            causes.required(&path, "must specify `addresses` or `notReadyAddresses`");
        }
        for list in lists {
            for (at, address) in items(subset, list).iter().enumerate() {
                endpoint_address(causes, address, &path.child(list).index(at));
            }
        }
        let ports = items(subset, "ports");
        for (at, port) in ports.iter().enumerate() {
            let path = path.child("ports").index(at);
            let name = text(port, "name");
            if name.is_empty() && ports.len() > 1 {
                causes.required(&path.child("name"), "");
            } else if !name.is_empty() {
                causes.wrong(&path.child("name"), name, &name::dns1123_label(name));
            }
            let number = int(port, "port").unwrap_or_default();
            causes.wrong_number(&path.child("port"), number, &name::port_number(number));
            let protocol = text(port, "protocol");
            causes.required_one_of(&path.child("protocol"), protocol, &["SCTP", "TCP", "UDP"]);
        }
    }
}

fn endpoint_address(causes: &mut Causes, address: &Value, path: &Path) {
    let ip = text(address, "ip");
    causes.ip(&path.child("ip"), ip);
    let host = text(address, "hostname");
    if !host.is_empty() {
        causes.wrong(&path.child("hostname"), host, &name::dns1123_label(host));
    }
    if let Some(node) = at(address, "nodeName").as_str() {
        causes.wrong(&path.child("nodeName"), node, &name::dns1123_subdomain(node));
    }
    match ip.parse() {
        Ok(parsed) => {
            if let Some(detail) = special_ip(parsed) {
                causes.invalid(&path.child("ip"), ip, detail);
            }
        }
        Err(_) => causes.invalid(&path.child("ip"), ip, "must be a valid IP address"),
    }
}

pub(super) fn endpoint_slice(causes: &mut Causes, object: &Value) {
    // kube-apiserver reports the results of declarative validation last.
    let mut declared = Causes::default();
    let kind = text(object, "addressType");
    declared.required_one_of(&Path::new("addressType"), kind, &["FQDN", "IPv4", "IPv6"]);
    slice_ports(causes, items(object, "ports"));
    for (index, endpoint) in items(object, "endpoints").iter().enumerate() {
        let path = Path::new("endpoints").index(index);
        let addresses = items(endpoint, "addresses");
        if addresses.is_empty() {
            declared.required(&path.child("addresses"), "");
        }
        for (at, address) in addresses.iter().filter_map(Value::as_str).enumerate() {
            slice_address(causes, kind, address, &path.child("addresses"), at);
        }
        if let Some(node) = at(endpoint, "nodeName").as_str() {
            causes.wrong(&path.child("nodeName"), node, &name::dns1123_subdomain(node));
        }
        if let Some(host) = at(endpoint, "hostname").as_str() {
            causes.wrong(&path.child("hostname"), host, &name::dns1123_label(host));
        }
        for (list, rule) in [
            ("forZones", name::label_value as fn(&str) -> Vec<String>),
            ("forNodes", name::dns1123_subdomain),
        ] {
            hints(causes, items(at(endpoint, "hints"), list), rule, &path.child("hints").child(list));
        }
    }
    causes.extend(declared.0);
}

/// The zones or nodes that should use an endpoint.
fn hints(causes: &mut Causes, hints: &[Value], rule: fn(&str) -> Vec<String>, path: &Path) {
    const MOST: usize = 8;
    if hints.len() > MOST {
        return causes.push(Cause::too_many(path, hints.len(), MOST));
    }
    for (index, hint) in hints.iter().enumerate() {
        let (path, name) = (path.index(index).child("name"), text(hint, "name"));
        if hints[..index].iter().any(|earlier| text(earlier, "name") == name) {
            causes.push(Cause::duplicate(&path, name));
        }
        causes.wrong(&path, name, &rule(name));
    }
}

fn slice_ports(causes: &mut Causes, ports: &[Value]) {
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let path = Path::new("ports").index(index);
        let name = text(port, "name");
        if !name.is_empty() {
            causes.wrong(&path.child("name"), name, &name::dns1123_label(name));
        }
        if !names.insert(name) {
            causes.push(Cause::duplicate(&path.child("name"), name));
        }
        causes.one_of(&path.child("protocol"), text(port, "protocol"), &["SCTP", "TCP", "UDP"]);
        if let Some(protocol) = at(port, "appProtocol").as_str() {
            causes.wrong(&path.child("appProtocol"), protocol, &name::qualified_name(protocol));
        }
    }
}

fn slice_address(causes: &mut Causes, kind: &str, address: &str, list: &Path, index: usize) {
    let path = list.index(index);
    match (kind, address.parse::<std::net::IpAddr>()) {
        ("IPv4" | "IPv6", Err(_)) => causes.ip(&path, address),
        ("IPv4" | "IPv6", Ok(ip)) => {
            if ip.is_ipv4() != (kind == "IPv4") {
                causes.invalid(list, address, &format!("must be an {kind} address"));
            }
            if let Some(detail) = special_ip(ip) {
                causes.invalid(&path, address, detail);
            }
        }
        ("FQDN", _) => causes.wrong(&path, address, &name::dns1123_subdomain(address)),
        _ => {}
    }
}

pub(super) fn endpoint_slice_update(causes: &mut Causes, new: &Value, old: &Value) {
    endpoint_slice(causes, new);
    if text(new, "addressType") != text(old, "addressType") {
        causes.invalid(&Path::new("addressType"), BadValue::raw("null"), IMMUTABLE);
    }
}
