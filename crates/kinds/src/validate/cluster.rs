//! Kinds of the cluster with few rules: runtime classes, addresses, migrations, the finalizers of namespaces.

use std::net::IpAddr;

use serde_json::Value;

use super::check::{Causes, parse_cidr};
use super::meta::{self, IMMUTABLE};
use super::pod;
use crate::access::{at, items, text};
use crate::go_struct;
use crate::strategy::semantically_equal;
use setpoint_api::cause::{BadValue, Cause, Path};
use setpoint_api::name::{self, NameRule};

pub(super) fn runtime_class(causes: &mut Causes, object: &Value) {
    let overhead = at(object, "overhead");
    if !overhead.is_null() {
        // The real server judges the overhead as the limits of a container.
        let limits = serde_json::json!({ "limits": at(overhead, "podFixed") });
        pod::requirements(causes, &limits, &Path::new("overhead"));
    }
    let (path, scheduling) = (Path::new("scheduling"), at(object, "scheduling"));
    causes.extend(meta::labels(at(scheduling, "nodeSelector"), &path.child("nodeSelector")));
    let (path, tolerations) = (path.child("tolerations"), items(scheduling, "tolerations"));
    pod::tolerations(causes, tolerations, &path);
    let key = |one: &Value| ["key", "operator", "value", "effect"].map(|field| text(one, field).to_owned());
    for (index, one) in tolerations.iter().enumerate() {
        if tolerations[..index].iter().any(|earlier| key(earlier) == key(one)) {
            let shown = BadValue::raw(go_struct::line("core.Toleration", one));
            causes.push(Cause::duplicate(&path.index(index), shown));
        }
    }
    causes.named(&Path::new("handler"), text(object, "handler"), name::dns1123_label);
}

pub(super) fn runtime_class_update(causes: &mut Causes, new: &Value, old: &Value) {
    runtime_class(causes, new);
    causes.immutable(new, old, "handler", BadValue::raw("null"));
}

/// The name of an IPAddress: an address as Go prints it.
pub(super) fn address_name(name: &str) -> Vec<String> {
    match name.parse::<IpAddr>() {
        Ok(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_some() => vec![super::check::MAPPED_IP.to_owned()],
        Ok(ip) if ip.to_string() != name => vec![format!("must be in canonical form (\"{ip}\")")],
        Ok(_) => Vec::new(),
        Err(_) if has_leading_zeros(name) => vec!["must not have leading 0s".to_owned()],
        Err(_) => vec![super::check::BAD_IP.to_owned()],
    }
}

/// Whether an IPv4 address would be one without the zeros before its numbers.
fn has_leading_zeros(address: &str) -> bool {
    let strip = |part: &str| match part.trim_start_matches('0') {
        "" if !part.is_empty() => "0".to_owned(),
        rest => rest.to_owned(),
    };
    let stripped: Vec<String> = address.split('.').map(strip).collect();
    stripped.join(".").parse::<IpAddr>().is_ok()
}

pub(super) fn address(causes: &mut Causes, object: &Value) {
    let (path, parent) = (Path::new("spec.parentRef"), at(object, "spec.parentRef"));
    if parent.is_null() {
        return causes.required(&path, "");
    }
    let group = text(parent, "group");
    if !group.is_empty() {
        causes.wrong(&path.child("group"), group, &name::dns1123_subdomain(group));
    }
    for field in ["resource", "name", "namespace"] {
        let value = text(parent, field);
        if !value.is_empty() {
            causes.wrong(&path.child(field), value, &NameRule::PathSegment.check(value, false));
        }
    }
    for field in ["resource", "name"] {
        if text(parent, field).is_empty() {
            causes.required(&path.child(field), "");
        }
    }
}

pub(super) fn address_update(causes: &mut Causes, new: &Value, old: &Value) {
    causes.immutable(new, old, "spec.parentRef", BadValue::raw("null"));
}

pub(super) fn service_cidr(causes: &mut Causes, object: &Value) {
    let (path, cidrs) = (Path::new("spec.cidrs"), items(object, "spec.cidrs"));
    if cidrs.is_empty() {
        return causes.required(&path, "at least one CIDR required");
    }
    if cidrs.len() > 2 {
        let shown = BadValue::raw(go_struct::line("networking.ServiceCIDRSpec", at(object, "spec")));
        return causes.invalid(&path, shown, "may only hold up to 2 values");
    }
    for (index, cidr) in cidrs.iter().filter_map(Value::as_str).enumerate() {
        strict_cidr(causes, cidr, &path.index(index));
    }
    let family = |cidr: &Value| sloppy_cidr(cidr.as_str()?).map(|(ip, _)| ip.is_ipv4());
    if let [one, other] = cidrs
        && family(one).is_some()
        && family(one) == family(other)
    {
        let detail =
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        causes.invalid(&path, BadValue::raw(Value::from(cidrs).to_string()), detail);
    }
}

/// A network with zeros before its numbers, which Go's older parser takes.
fn sloppy_cidr(text: &str) -> Option<(IpAddr, u8)> {
    let (ip, length) = text.split_once('/')?;
    let strip = |part: &str| match part.trim_start_matches('0') {
        "" if !part.is_empty() => "0".to_owned(),
        rest => rest.to_owned(),
    };
    let ip =
        if ip.contains(':') { ip.to_owned() } else { ip.split('.').map(strip).collect::<Vec<_>>().join(".") };
    parse_cidr(&format!("{ip}/{}", strip(length)))
}

fn strict_cidr(causes: &mut Causes, text: &str, path: &Path) {
    let Some((ip, length)) = sloppy_cidr(text) else {
        return causes.invalid(path, text, super::check::BAD_CIDR);
    };
    let canonical_length = text.split_once('/').is_some_and(|(_, own)| own == length.to_string());
    if parse_cidr(text).is_none() || !canonical_length {
        return causes.invalid(path, text, "must not have leading 0s in IP or prefix length");
    }
    if matches!(ip, IpAddr::V6(ip) if ip.to_ipv4_mapped().is_some()) {
        return causes.invalid(path, text, "must not have an IPv4-mapped IPv6 address");
    }
    if masked(ip, length) != ip {
        return causes.invalid(path, text, "must not have bits set beyond the prefix length");
    }
    let canonical = format!("{ip}/{length}");
    if canonical != text {
        causes.invalid(path, text, &format!("must be in canonical form (\"{canonical}\")"));
    }
}

fn masked(ip: IpAddr, length: u8) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            IpAddr::V4((u32::from(ip) & mask).into())
        }
        IpAddr::V6(ip) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
            IpAddr::V6((u128::from(ip) & mask).into())
        }
    }
}

pub(super) fn service_cidr_update(causes: &mut Causes, new: &Value, old: &Value) {
    let path = Path::new("spec.cidrs");
    let (was, is) = (items(old, "spec.cidrs"), items(new, "spec.cidrs"));
    let changed = |causes: &mut Causes, index: usize| {
        if is[index] != was[index] {
            causes.invalid(&path.index(index), &is[index], IMMUTABLE);
        }
    };
    match (was.len(), is.len()) {
        (one, other) if one == other => (0..one).for_each(|index| changed(causes, index)),
        // A second family may be added.
        (1, 2) => {
            changed(causes, 0);
            service_cidr(causes, new);
        }
        _ => {
            causes.invalid(&path, BadValue::raw(Value::from(is).to_string()), IMMUTABLE);
        }
    }
}

pub(super) fn migration(causes: &mut Causes, object: &Value) {
    let (path, resource) = (Path::new("spec.resource"), at(object, "spec.resource"));
    let (group, plural) = (text(resource, "group"), text(resource, "resource"));
    let wrong = name::dns1035_label(plural);
    if plural.is_empty() {
        causes.required(&path.child("resource"), "resource is required to be set");
    } else if !wrong.is_empty() {
        causes.invalid(&path.child("resource"), plural, &wrong.join(","));
    }
    let wrong = name::dns1123_subdomain(group);
    if !group.is_empty() && !wrong.is_empty() {
        causes.invalid(&path.child("group"), group, &wrong.join(","));
    }
}

pub(super) fn migration_update(causes: &mut Causes, new: &Value, old: &Value) {
    migration(causes, new);
    if !semantically_equal(at(new, "spec"), at(old, "spec")) {
        let resource = at(new, "spec.resource");
        let shown = format!(
            "{{\"Resource\":{{\"group\":{},\"resource\":{}}}}}",
            Value::from(text(resource, "group")),
            Value::from(text(resource, "resource"))
        );
        causes.invalid(&Path::new("spec"), BadValue::raw(shown), IMMUTABLE);
    }
}

pub(super) fn migration_status(causes: &mut Causes, new: &Value, old: &Value) {
    let path = Path::new("status.resourceVersion");
    let (is, was) = (text(new, "status.resourceVersion"), text(old, "status.resourceVersion"));
    let well_formed = is.bytes().all(|byte| byte.is_ascii_digit()) && (is == "0" || !is.starts_with('0'));
    if !is.is_empty() && !well_formed {
        causes.invalid(&path, is, &format!("resource version is not well formed: {is}"));
    }
    if !was.is_empty() && is != was {
        causes.invalid(&path, is, IMMUTABLE);
    }
    let is_true = |object: &Value, kind: &str| {
        let conditions = items(object, "status.conditions");
        conditions.iter().any(|one| text(one, "type") == kind && text(one, "status") == "True")
    };
    let path = Path::new("status.conditions");
    let shown = || BadValue::raw(at(new, "status.conditions").to_string());
    if is_true(new, "Succeeded") && is_true(new, "Failed") {
        let detail = "Both success and failed conditions cannot be true at the same time";
        causes.invalid(&path, shown(), detail);
    }
    for (kind, word) in [("Succeeded", "Success"), ("Failed", "Failed")] {
        if is_true(old, kind) && !is_true(new, kind) {
            let detail = format!("{word} condition cannot be set to false once it is true");
            causes.invalid(&path, shown(), &detail);
        }
    }
}

/// The finalizers of a namespace, at the path where the request has them.
pub(super) fn namespace_finalizers(causes: &mut Causes, namespace: &Value, indexed: Indexed) {
    for (index, finalizer) in items(namespace, "spec.finalizers").iter().filter_map(Value::as_str).enumerate()
    {
        let path = Path::new("spec.finalizers");
        let path = if indexed == Indexed::Yes { path.index(index) } else { path };
        causes.wrong(&path, finalizer, &name::qualified_name(finalizer));
        let standard = ["kubernetes", "orphan", "foregroundDeletion"];
        if !finalizer.contains('/') && !standard.contains(&finalizer) {
            let detail = "name is neither a standard finalizer name nor is it fully qualified";
            causes.invalid(&path, finalizer, detail);
        }
    }
}

/// Whether a cause names the item of a list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Indexed {
    Yes,
    No,
}
