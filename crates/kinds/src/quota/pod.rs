//! Pods: what they ask for as long as they live, and their number.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::one;
use crate::access::{at, int, items, text};
use crate::resources::{
    Amounts, Side, add, has_own_resources, is_extended, is_huge_pages, is_native, of_pod,
};

/// All pods that there are.
const COUNT: &str = "count/pods";
/// Those that live.
const PODS: &str = "pods";
const REQUESTS: &str = "requests.";
const LIMITS: &str = "limits.";
/// Resources whose requests a quota also counts under the bare name.
const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// Amounts that every container must state as soon as a quota counts them.
const REQUIRED: [&str; 6] =
    ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];
const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

pub(super) fn counts(name: &str) -> bool {
    let bare = name.strip_prefix(REQUESTS).or_else(|| name.strip_prefix(LIMITS)).unwrap_or(name);
    let requested = name.strip_prefix(REQUESTS);
    matches!(name, COUNT | PODS)
        || COMPUTE.contains(&bare)
        || is_huge_pages(requested.unwrap_or(name))
        || requested.is_some_and(|bare| !is_native(name) || bare.starts_with(DEVICE_CLASS))
}

pub(super) fn usage(pod: &Value, now: Timestamp) -> Amounts {
    let mut used = Amounts::from([(COUNT.to_owned(), one())]);
    if lives(pod, now) {
        add(&mut used, &compute(&of_pod(pod, Side::Requests), &of_pod(pod, Side::Limits)));
    }
    used
}

/// Requests and limits under the names that quotas have for them.
fn compute(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut used = Amounts::from([(PODS.to_owned(), one())]);
    for (name, amount) in requests {
        if COMPUTE.contains(&name.as_str()) || is_huge_pages(name) {
            used.insert(name.clone(), *amount);
            used.insert(format!("{REQUESTS}{name}"), *amount);
        } else if is_extended(name) || name.starts_with(DEVICE_CLASS) {
            used.insert(format!("{REQUESTS}{name}"), *amount);
        }
    }
    for (name, amount) in limits.iter().filter(|(name, _)| COMPUTE.contains(&name.as_str())) {
        used.insert(format!("{LIMITS}{name}"), *amount);
    }
    used
}

/// Whether the pod still takes anything: it has not ended, and is not overdue to go, as on a node that is lost.
fn lives(pod: &Value, now: Timestamp) -> bool {
    if matches!(text(pod, "status.phase"), "Failed" | "Succeeded") {
        return false;
    }
    let deadline = text(pod, "metadata.deletionTimestamp").parse::<Timestamp>().ok();
    let grace = int(pod, "metadata.deletionGracePeriodSeconds");
    let overdue = deadline.zip(grace).is_some_and(|(deadline, grace)| {
        deadline.checked_add(SignedDuration::from_secs(grace)).is_ok_and(|end| now > end)
    });
    !overdue
}

/// Whether the pod ends by itself.
pub(super) fn terminates(pod: &Value) -> bool {
    int(pod, "spec.activeDeadlineSeconds").is_some_and(|seconds| seconds >= 0)
}

pub(super) fn frees(old: &Value, new: &Value, now: Timestamp) -> bool {
    let resized = || {
        ["status.containerStatuses", "status.initContainerStatuses"].iter().any(|list| {
            items(old, list).iter().any(|before| {
                let after = items(new, list).iter().find(|after| after["name"] == before["name"]);
                after.is_some_and(|after| at(after, "resources") != at(before, "resources"))
            })
        })
    };
    (lives(old, now) && !lives(new, now)) || terminates(old) != terminates(new) || resized()
}

/// Returns the counted amounts that containers leave out, as text.
pub(super) fn missing(pod: &Value, counted: &[&str]) -> Option<String> {
    if has_own_resources(pod) {
        return None;
    }
    let mut lacking: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for container in ["spec.containers", "spec.initContainers"].iter().flat_map(|list| items(pod, list)) {
        let resources = at(container, "resources");
        let present = compute(&Side::Requests.of(resources), &Side::Limits.of(resources));
        for name in counted.iter().filter(|name| REQUIRED.contains(name) && !present.contains_key(**name)) {
            lacking.entry(name).or_default().insert(text(container, "name"));
        }
    }
    if lacking.is_empty() {
        return None;
    }
    let told = lacking.into_iter().map(|(name, containers)| {
        let containers: Vec<&str> = containers.into_iter().collect();
        format!("{name} for: {}", containers.join(","))
    });
    Some(format!("must specify {}", told.collect::<Vec<_>>().join("; ")))
}
