//! Owners of the claims of a StatefulSet's pods, by the retention policy.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::identity::{name_of, ordinal, ordinals};
use crate::children::claim::controller_reference;
use crate::object::field::stateful_set_spec;

/// A claim beside its possible owners.
pub struct Ownership<'a> {
    pub set: &'a StatefulSet,
    pub pod: &'a Pod,
    pub claim: &'a PersistentVolumeClaim,
}

struct Policy {
    delete_when_scaled: bool,
    delete_when_deleted: bool,
}

fn policy(set: &StatefulSet) -> Policy {
    let policy = stateful_set_spec(set).persistent_volume_claim_retention_policy.as_ref();
    let is_delete = |value: Option<&String>| value.is_some_and(|value| value == "Delete");
    Policy {
        delete_when_scaled: is_delete(policy.and_then(|policy| policy.when_scaled.as_ref())),
        delete_when_deleted: is_delete(policy.and_then(|policy| policy.when_deleted.as_ref())),
    }
}

/// Whether a claim of an earlier pod of this name is about to go with it: a new pod must not take it over.
pub fn is_stale(set: &StatefulSet, pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    policy(set).delete_when_scaled && names_another(claim, "v1", "Pod", &pod.metadata)
}

fn references(claim: &PersistentVolumeClaim) -> &[OwnerReference] {
    claim.metadata.owner_references.as_deref().unwrap_or_default()
}

fn names(reference: &OwnerReference, api_version: &str, kind: &str, owner: &ObjectMeta) -> bool {
    reference.api_version == api_version && reference.kind == kind && reference.name == name_of(owner)
}

/// Whether the claim names an owner that had this name before.
fn names_another(claim: &PersistentVolumeClaim, api_version: &str, kind: &str, owner: &ObjectMeta) -> bool {
    let named = references(claim).iter().find(|reference| names(reference, api_version, kind, owner));
    named.is_some_and(|reference| Some(&reference.uid) != owner.uid.as_ref())
}

impl Ownership<'_> {
    fn is_scaled_away(&self) -> bool {
        ordinal(self.pod).is_none_or(|ordinal| !ordinals(self.set).contains(&ordinal))
    }

    /// Whether the StatefulSet and whether the pod should own the claim.
    fn wanted(&self) -> (bool, bool) {
        let Policy { delete_when_scaled, delete_when_deleted } = policy(self.set);
        match (delete_when_scaled, delete_when_deleted) {
            (false, delete_when_deleted) => (delete_when_deleted, false),
            (true, false) => (false, self.is_scaled_away()),
            (true, true) => (!self.is_scaled_away(), self.is_scaled_away()),
        }
    }

    fn is_owned_by(&self, owner: &ObjectMeta) -> bool {
        references(self.claim).iter().any(|reference| Some(&reference.uid) == owner.uid.as_ref())
    }

    /// Whether another controller owns the claim although the policy says to delete it.
    pub fn is_contested(&self) -> bool {
        let Policy { delete_when_scaled, delete_when_deleted } = policy(self.set);
        (delete_when_scaled || delete_when_deleted)
            && references(self.claim).iter().any(|reference| {
                let (set, pod) = (&self.set.metadata, &self.pod.metadata);
                if names(reference, "apps/v1", "StatefulSet", set) {
                    return Some(&reference.uid) != set.uid.as_ref();
                }
                if names(reference, "v1", "Pod", pod) {
                    return Some(&reference.uid) != pod.uid.as_ref();
                }
                reference.controller == Some(true)
            })
    }

    /// Whether the claim's owners are as the policy wants them. What an earlier StatefulSet or pod of the same name owns
    /// is not touched.
    pub fn is_settled(&self) -> bool {
        let (set, pod) = (&self.set.metadata, &self.pod.metadata);
        if names_another(self.claim, "apps/v1", "StatefulSet", set)
            || names_another(self.claim, "v1", "Pod", pod)
        {
            return true;
        }
        let owned = (self.is_owned_by(set), self.is_owned_by(pod));
        if self.is_contested() {
            return owned == (false, false);
        }
        let mere_owner = references(self.claim).iter().any(|reference| {
            let ours = Some(&reference.uid) == set.uid.as_ref() || Some(&reference.uid) == pod.uid.as_ref();
            ours && reference.controller != Some(true)
        });
        !mere_owner && owned == self.wanted()
    }

    /// The claim's owners as they should be.
    pub fn owners(&self) -> Vec<OwnerReference> {
        let (set, pod) = (&self.set.metadata, &self.pod.metadata);
        let others = references(self.claim).iter().filter(|reference| {
            !names(reference, "apps/v1", "StatefulSet", set) && !names(reference, "v1", "Pod", pod)
        });
        let mut owners: Vec<OwnerReference> = others.cloned().collect();
        if !self.is_contested() {
            let (of_set, of_pod) = self.wanted();
            owners.extend(of_set.then(|| controller_reference("apps/v1", "StatefulSet", set)));
            owners.extend(of_pod.then(|| controller_reference("v1", "Pod", pod)));
        }
        owners
    }
}
