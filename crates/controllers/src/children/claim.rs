//! Which children an owner keeps, adopts or releases: the controller reference decides first, labels second.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};

use crate::object::selector;

/// The owner's side of the question.
#[derive(Debug, Clone, Copy)]
pub struct Claimant<'a> {
    /// The owner's uid: a recreated owner of the same name is another owner.
    pub uid: &'a str,
    /// An owner on its way out neither adopts nor releases.
    pub deleting: bool,
    /// The owner's selector.
    pub selector: &'a LabelSelector,
}

/// The action for one child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// The child is not the owner's.
    Ignore,
    /// The child is the owner's already.
    Keep,
    /// An orphan that matches: add our controller reference.
    Adopt,
    /// The child no longer matches: remove the owner's reference.
    Release,
}

/// The controller reference of an object, if it has one.
pub fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.as_ref()?.iter().find(|reference| reference.controller == Some(true))
}

/// Decides about one child.
pub fn decide(claimant: &Claimant<'_>, child: &ObjectMeta) -> Claim {
    let matching = || selector::matches(claimant.selector, child.labels.as_ref());
    match controller_of(child) {
        Some(reference) if reference.uid != claimant.uid => Claim::Ignore,
        Some(_) if matching() => Claim::Keep,
        Some(_) if claimant.deleting => Claim::Ignore,
        Some(_) => Claim::Release,
        None if claimant.deleting || child.deletion_timestamp.is_some() || !matching() => Claim::Ignore,
        None => Claim::Adopt,
    }
}

/// The reference by which `owner` controls its children.
pub fn controller_reference(api_version: &str, kind: &str, owner: &ObjectMeta) -> OwnerReference {
    OwnerReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: owner.name.clone().unwrap_or_default(),
        uid: owner.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// The strategic merge patch that adopts a child. The uid in it is a precondition: a recreated namesake is refused.
pub fn adoption_patch(reference: &OwnerReference, child_uid: &str) -> serde_json::Value {
    serde_json::json!({ "metadata": { "ownerReferences": [reference], "uid": child_uid } })
}

/// The strategic merge patch that releases a child from the owner with `owner_uid`.
pub fn release_patch(owner_uid: &str, child_uid: &str) -> serde_json::Value {
    serde_json::json!({
        "metadata": { "ownerReferences": [{ "$patch": "delete", "uid": owner_uid }], "uid": child_uid }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    #[test]
    fn the_claim_table() {
        let selector = LabelSelector {
            match_labels: Some(BTreeMap::from([("app".to_owned(), "web".to_owned())])),
            ..Default::default()
        };
        // owner of the child, child matches, child deleting, owner deleting → claim
        for (owner, matching, child_deleting, owner_deleting, expected) in [
            (Some("other"), true, false, false, Claim::Ignore),
            (Some("me"), true, false, false, Claim::Keep),
            (Some("me"), true, true, false, Claim::Keep),
            (Some("me"), true, false, true, Claim::Keep),
            (Some("me"), false, false, false, Claim::Release),
            (Some("me"), false, false, true, Claim::Ignore),
            (None, true, false, false, Claim::Adopt),
            (None, true, true, false, Claim::Ignore),
            (None, true, false, true, Claim::Ignore),
            (None, false, false, false, Claim::Ignore),
        ] {
            let child = ObjectMeta {
                labels: Some(BTreeMap::from([("app".into(), if matching { "web" } else { "db" }.into())])),
                deletion_timestamp: child_deleting.then(|| Time("2026-01-01T00:00:00Z".parse().unwrap())),
                owner_references: owner.map(|uid| {
                    let meta =
                        ObjectMeta { uid: Some(uid.into()), name: Some("x".into()), ..Default::default() };
                    vec![controller_reference("apps/v1", "ReplicaSet", &meta)]
                }),
                ..Default::default()
            };
            let claimant = Claimant { uid: "me", deleting: owner_deleting, selector: &selector };
            assert_eq!(
                decide(&claimant, &child),
                expected,
                "{owner:?} {matching} {child_deleting} {owner_deleting}"
            );
        }
    }

    #[test]
    fn an_owner_that_is_not_the_controller_leaves_an_orphan() {
        let reference = OwnerReference { uid: "me".into(), controller: None, ..Default::default() };
        let child = ObjectMeta { owner_references: Some(vec![reference]), ..Default::default() };
        assert_eq!(controller_of(&child), None);
    }
}
