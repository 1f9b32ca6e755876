//! ResourceQuotas: what objects use, which quotas count it, and whether a write still fits.
//!
//! The API server charges by these rules ([`charge`]), the controller measures by them ([`measure`]).

mod charge;
mod scope;
mod claim;
mod pod;
mod service;

use jiff::Timestamp;
use serde_json::Value;

pub use charge::{QuotaError, Write, charge};

use crate::access::entries;
use crate::resources::{Amounts, add};
use setpoint_api::kind::GroupResource;
use setpoint_api::quantity::Quantity;

/// A resource whose objects quotas count.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tracked {
    /// By what they ask for, as long as they live.
    Pods,
    /// By their node ports and load balancers too.
    Services,
    /// PersistentVolumeClaims, by storage and by class.
    Claims,
    /// By their number alone.
    Objects(GroupResource),
}

/// Events come and go, and are nobody's use.
const IGNORED: [(&str, &str); 2] = [("", "events"), ("events.k8s.io", "events")];

/// Kinds that were counted by their bare name before others could be.
const BARE: [&str; 4] = ["configmaps", "replicationcontrollers", "resourcequotas", "secrets"];

impl Tracked {
    /// The resource as quotas see it; none if they do not.
    pub fn of(group: &str, plural: &str) -> Option<Tracked> {
        match (group, plural) {
            ignored if IGNORED.contains(&ignored) => None,
            ("", "pods") => Some(Tracked::Pods),
            ("", "services") => Some(Tracked::Services),
            ("", "persistentvolumeclaims") => Some(Tracked::Claims),
            _ => Some(Tracked::Objects(GroupResource::new(group, plural))),
        }
    }

    /// Returns the resource whose objects a quota counts under `name`, or `None` for an unknown name.
    pub fn named(name: &str) -> Option<Tracked> {
        let known = [Tracked::Pods, Tracked::Services, Tracked::Claims];
        if let Some(tracked) = known.into_iter().find(|tracked| tracked.counts(name)) {
            return Some(tracked);
        }
        if BARE.contains(&name) {
            return Tracked::of("", name);
        }
        let counted = name.strip_prefix("count/")?;
        let (plural, group) = counted.split_once('.').unwrap_or((counted, ""));
        Tracked::of(group, plural)
    }

    /// Group and plural name.
    pub fn group_resource(&self) -> GroupResource {
        match self {
            Tracked::Pods => GroupResource::new("", "pods"),
            Tracked::Services => GroupResource::new("", "services"),
            Tracked::Claims => GroupResource::new("", "persistentvolumeclaims"),
            Tracked::Objects(resource) => resource.clone(),
        }
    }

    /// Whether objects of this resource use what has that name.
    pub fn counts(&self, name: &str) -> bool {
        match self {
            Tracked::Pods => pod::counts(name),
            Tracked::Services => service::counts(name),
            Tracked::Claims => claim::counts(name),
            Tracked::Objects(resource) => names(resource).iter().any(|own| own == name),
        }
    }

    /// Returns the amounts that one object uses.
    pub fn usage(&self, object: &Value, now: Timestamp) -> Amounts {
        match self {
            Tracked::Pods => pod::usage(object, now),
            Tracked::Services => service::usage(object),
            Tracked::Claims => claim::usage(object),
            Tracked::Objects(resource) => names(resource).into_iter().map(|name| (name, one())).collect(),
        }
    }

    /// Whether a change of an object may free what it used, so that it has to be measured again. One that is gone
    /// always does.
    pub fn frees(&self, old: &Value, new: &Value, now: Timestamp) -> bool {
        match self {
            Tracked::Pods => pod::frees(old, new, now),
            Tracked::Services => service::class(old) != service::class(new),
            Tracked::Claims => true,
            Tracked::Objects(_) => false,
        }
    }
}

fn one() -> Quantity {
    Quantity::whole(1)
}

/// Under which names a number of objects is counted.
fn names(resource: &GroupResource) -> Vec<String> {
    let mut names = vec![count_name(resource)];
    if resource.group.is_empty() && BARE.contains(&resource.resource.as_str()) {
        names.push(resource.resource.clone());
    }
    names
}

fn count_name(resource: &GroupResource) -> String {
    if resource.group.is_empty() {
        return format!("count/{}", resource.resource);
    }
    format!("count/{}.{}", resource.resource, resource.group)
}

/// Returns the resources whose objects a quota counts. Names that stand for none are left out.
pub fn tracked(quota: &Value) -> Vec<Tracked> {
    let mut all: Vec<Tracked> =
        entries(quota, "spec.hard").filter_map(|(name, _)| Tracked::named(name)).collect();
    all.sort();
    all.dedup();
    all
}

/// Returns the use by these objects, which are all of the quota's namespace, of the amounts that the quota's spec
/// names.
pub fn measure<'o>(
    quota: &Value,
    tracked: &Tracked,
    objects: impl Iterator<Item = &'o Value>,
    now: Timestamp,
) -> Amounts {
    let mut used: Amounts = entries(quota, "spec.hard")
        .filter(|(name, _)| tracked.counts(name))
        .map(|(name, _)| (name.clone(), Quantity::whole(0)))
        .collect();
    for object in objects.filter(|object| scope::covers(quota, tracked, object)) {
        let mut usage = tracked.usage(object, now);
        usage.retain(|name, _| used.contains_key(name));
        add(&mut used, &usage);
    }
    used
}

#[cfg(test)]
mod tests;
