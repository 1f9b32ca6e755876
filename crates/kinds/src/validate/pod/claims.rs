//! Claims of devices, and who uses them.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::access::{at, items, text};
use crate::go_struct;
use crate::validate::check::Causes;
use setpoint_api::cause::{BadValue, Cause, Path};
use setpoint_api::name;

/// The claims of a pod. Returns their names.
pub(super) fn of_pod<'a>(causes: &mut Causes, spec: &'a Value, path: &Path) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    for (index, claim) in items(spec, "resourceClaims").iter().enumerate() {
        let path = path.child("resourceClaims").index(index);
        let name = text(claim, "name");
        if name.is_empty() {
            causes.required(&path.child("name"), "");
        } else if !names.insert(name) {
            causes.push(Cause::duplicate(&path.child("name"), name));
        } else {
            causes.wrong(&path.child("name"), name, &name::dns1123_label(name));
        }
        let (own, template) = (at(claim, "resourceClaimName"), at(claim, "resourceClaimTemplateName"));
        let detail = match (own.is_null(), template.is_null()) {
            (false, false) => {
                Some("at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified")
            }
            (true, true) => Some("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
            _ => None,
        };
        if let Some(detail) = detail {
            let shown = BadValue::raw(go_struct::line("core.PodResourceClaim", claim));
            causes.invalid(&path, shown, detail);
        }
        for (field, value) in [("resourceClaimName", own), ("resourceClaimTemplateName", template)] {
            if let Some(value) = value.as_str() {
                causes.wrong(&path.child(field), value, &name::dns1123_subdomain(value));
            }
        }
    }
    names
}

/// The claims that a container uses: all of a claim, or requests of it.
pub(super) fn used(causes: &mut Causes, claims: &[Value], known: &BTreeSet<&str>, path: &Path) {
    let mut used: BTreeSet<String> = BTreeSet::new();
    for (index, claim) in claims.iter().enumerate() {
        let path = path.index(index);
        let (name, request) = (text(claim, "name"), text(claim, "request"));
        if name.is_empty() {
            causes.required(&path, "");
            continue;
        }
        if used.contains(name) {
            causes.push(Cause::duplicate(&path, name));
        } else {
            let mut key = name.to_owned();
            if !request.is_empty() {
                causes.wrong(&path.child("request"), request, &name::dns1123_label(request));
                key = format!("{name}/{request}");
            }
            if used.contains(&key) {
                causes.push(Cause::duplicate(&path, &key));
            } else if request.is_empty() {
                let of_claim = |key: &&String| key.split_once('/').is_some_and(|(claim, _)| claim == name);
                for _ in used.iter().filter(of_claim) {
                    causes.push(Cause::duplicate(&path, name));
                }
            }
            used.insert(key);
        }
        if !known.contains(name) {
            let mut cause = Cause::not_found(&path, name);
            cause.message += ": must be one of the names in pod.spec.resourceClaims";
            if known.is_empty() {
                cause.message += " which is empty";
            } else {
                let list: Vec<&str> = known.iter().copied().collect();
                cause.message += &format!(": {}", list.join(", "));
            }
            causes.push(cause);
        }
    }
}
