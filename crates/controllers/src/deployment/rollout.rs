//! The state that a plan works on: the Deployment, its ReplicaSets as they would be after the writes so far.

use std::borrow::Cow;
use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentSpec, DeploymentStatus, ReplicaSet, ReplicaSetStatus,
};

use super::decision::{Change, Event};
use super::{DESIRED_REPLICAS, MAX_REPLICAS, REVISION, template};
use crate::object::field::{deployment_spec, replica_set_spec};
use crate::object::percent::{Round, scaled};

/// One ReplicaSet, and the plan for it.
#[derive(Debug, Clone)]
pub struct Set<'a> {
    pub observed: Cow<'a, ReplicaSet>,
    pub replicas: i32,
    pub min_ready_seconds: i32,
    pub annotations: BTreeMap<String, String>,
}

impl<'a> Set<'a> {
    pub fn new(observed: Cow<'a, ReplicaSet>) -> Self {
        let spec = replica_set_spec(&observed);
        Set {
            replicas: spec.replicas.unwrap_or(1),
            min_ready_seconds: spec.min_ready_seconds.unwrap_or(0),
            annotations: observed.metadata.annotations.clone().unwrap_or_default(),
            observed,
        }
    }

    pub fn name(&self) -> &str {
        self.observed.metadata.name.as_deref().unwrap_or_default()
    }

    pub fn uid(&self) -> &str {
        self.observed.metadata.uid.as_deref().unwrap_or_default()
    }

    fn status<T>(&self, read: impl FnOnce(&ReplicaSetStatus) -> Option<T>) -> Option<T> {
        self.observed.status.as_ref().and_then(read)
    }

    /// Pods that exist.
    pub fn actual(&self) -> i32 {
        self.status(|status| Some(status.replicas)).unwrap_or(0)
    }

    pub fn ready(&self) -> i32 {
        self.status(|status| status.ready_replicas).unwrap_or(0)
    }

    pub fn available(&self) -> i32 {
        self.status(|status| status.available_replicas).unwrap_or(0)
    }

    pub fn terminating(&self) -> Option<i32> {
        self.status(|status| status.terminating_replicas)
    }

    pub fn observed_generation(&self) -> i64 {
        self.status(|status| status.observed_generation).unwrap_or(0)
    }

    /// Returns the revision: 0 without the annotation, `None` if the annotation is not a number.
    pub fn revision(&self) -> Option<i64> {
        self.annotations.get(REVISION).map_or(Some(0), |text| text.parse().ok())
    }

    /// A count in an annotation, if it is one.
    pub fn count_annotation(&self, key: &str) -> Option<i32> {
        self.annotations.get(key)?.parse().ok().filter(|count| *count >= 0)
    }

    /// Oldest first, then by name.
    pub fn age_key(&self) -> (Option<Timestamp>, &str) {
        (self.observed.metadata.creation_timestamp.as_ref().map(|time| time.0), self.name())
    }

    /// Returns the write that turns the observed ReplicaSet into this one.
    pub fn change(&self) -> Option<Change> {
        let before = Set::new(Cow::Borrowed(&*self.observed));
        let annotations: BTreeMap<_, _> = self
            .annotations
            .iter()
            .filter(|(key, value)| before.annotations.get(*key) != Some(value))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let replicas = (self.replicas != before.replicas).then_some(self.replicas);
        let min_ready_seconds =
            (self.min_ready_seconds != before.min_ready_seconds).then_some(self.min_ready_seconds);
        if annotations.is_empty() && replicas.is_none() && min_ready_seconds.is_none() {
            return None;
        }
        Some(Change {
            name: self.name().to_owned(),
            uid: self.uid().to_owned(),
            resource_version: self.observed.metadata.resource_version.clone().unwrap_or_default(),
            replicas,
            min_ready_seconds,
            annotations,
        })
    }
}

/// The working state of one plan.
#[derive(Debug)]
pub struct Rollout<'a> {
    pub deployment: &'a Deployment,
    pub spec: &'a DeploymentSpec,
    pub now: Timestamp,
    /// All ReplicaSets of the Deployment, oldest first. A new one comes last.
    pub sets: Vec<Set<'a>>,
    /// The one with the Deployment's template.
    pub new: Option<usize>,
    /// Whether `new` does not exist yet.
    pub creating: bool,
    /// The Deployment's status with the conditions set so far.
    pub status: DeploymentStatus,
    /// The revision that the Deployment's annotation must show.
    pub revision: Option<String>,
    pub deleted: Vec<usize>,
    pub events: Vec<Event>,
}

impl<'a> Rollout<'a> {
    pub fn new(deployment: &'a Deployment, sets: &'a [&'a ReplicaSet], now: Timestamp) -> Self {
        let spec = deployment_spec(deployment);
        let mut sets: Vec<_> = sets.iter().map(|set| Set::new(Cow::Borrowed(*set))).collect();
        sets.sort_by(|a, b| a.age_key().cmp(&b.age_key()));
        let new = sets.iter().position(|set| {
            let template = replica_set_spec(&set.observed).template.as_ref();
            template.is_some_and(|template| template::equal_ignoring_hash(template, &spec.template))
        });
        Rollout {
            deployment,
            spec,
            now,
            sets,
            new,
            creating: false,
            status: deployment.status.clone().unwrap_or_default(),
            revision: None,
            deleted: Vec::new(),
            events: Vec::new(),
        }
    }

    pub fn name(&self) -> &'a str {
        self.deployment.metadata.name.as_deref().unwrap_or_default()
    }

    pub fn desired(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    pub fn is_rolling(&self) -> bool {
        self.spec.strategy.as_ref().and_then(|strategy| strategy.type_.as_deref()) != Some("Recreate")
    }

    fn fenceposts(&self) -> (i32, i32) {
        let rolling = self.spec.strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
        let surge = scaled(rolling.and_then(|r| r.max_surge.as_ref()), self.desired(), Round::Up);
        let unavailable =
            scaled(rolling.and_then(|r| r.max_unavailable.as_ref()), self.desired(), Round::Down);
        // Validation forbids two zeros, but percentages can round to them; without this nothing would ever move.
        if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) }
    }

    pub fn max_surge(&self) -> i32 {
        if self.is_rolling() { self.fenceposts().0 } else { 0 }
    }

    pub fn max_unavailable(&self) -> i32 {
        if !self.is_rolling() || self.desired() == 0 {
            return 0;
        }
        self.fenceposts().1.min(self.desired())
    }

    /// Indexes of the ReplicaSets with another template, oldest first.
    pub fn old(&self) -> Vec<usize> {
        (0..self.sets.len()).filter(|index| Some(*index) != self.new).collect()
    }

    /// Indexes of the ReplicaSets that want pods, oldest first.
    pub fn active(&self) -> Vec<usize> {
        (0..self.sets.len()).filter(|index| self.sets[*index].replicas > 0).collect()
    }

    pub fn total_replicas(&self) -> i32 {
        self.sets.iter().map(|set| set.replicas).sum()
    }

    pub fn total_available(&self) -> i32 {
        self.sets.iter().map(Set::available).sum()
    }

    /// Scales one ReplicaSet and notes for which size of the Deployment; says so. Returns whether the size changed.
    pub fn scale_set(&mut self, index: usize, replicas: i32) -> bool {
        let (desired, most) = (self.desired(), self.desired() + self.max_surge());
        let set = &mut self.sets[index];
        set.annotations.insert(DESIRED_REPLICAS.into(), desired.to_string());
        set.annotations.insert(MAX_REPLICAS.into(), most.to_string());
        let before = std::mem::replace(&mut set.replicas, replicas);
        if before == replicas {
            return false;
        }
        let direction = if before < replicas { "up" } else { "down" };
        let message = format!("Scaled {direction} replica set {} from {before} to {replicas}", set.name());
        self.events.push(Event::normal("ScalingReplicaSet", message));
        true
    }

    /// Returns the allowed size of the new ReplicaSet.
    pub fn size_of_new(&self, new: usize) -> i32 {
        let (desired, present) = (self.desired(), self.sets[new].replicas);
        if !self.is_rolling() {
            return desired;
        }
        // A surplus pod takes room until it is deleted. kube-controller-manager counts only wanted pods, and may exceed
        // surge for a moment.
        let taken: i32 = self.sets.iter().map(|set| set.replicas.max(set.actual())).sum();
        let room = desired + self.max_surge() - taken;
        if room <= 0 { present } else { present + room.min(desired - present) }
    }
}
