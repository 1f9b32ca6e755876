//! Revisions of a template, kept as ControllerRevisions.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use serde_json::{Value, json};
use setpoint::{Client, ClientError, DeleteOptions, Key, Kind, NotFoundExt, Patch};
use setpoint_api::go_format::escape_json;
use setpoint_api::random::SUFFIX_ALPHABET;

use crate::children::adopt::{self, Owner, children_and_orphans};
use crate::children::claim::controller_of;
use crate::object::field::Field;
use crate::object::selector;

/// The label by which a revision is known.
pub const HASH_LABEL: &str = "controller.kubernetes.io/hash";

const FNV_OFFSET: u32 = 0x811c_9dc5;
const FNV_PRIME: u32 = 0x0100_0193;
/// Leaves room for the hash in a name of 253 bytes.
const PREFIX_BYTES: usize = 223;

/// A revision's number.
pub fn number(revision: &ControllerRevision) -> i64 {
    Field::<i64>::value(&revision.revision).copied().unwrap_or(0)
}

/// A revision's name.
pub fn name(revision: &ControllerRevision) -> &str {
    revision.metadata.name.as_deref().unwrap_or_default()
}

/// Returns the template that a revision keeps.
pub fn data(revision: &ControllerRevision) -> Option<&Value> {
    Field::<RawExtension>::value(&revision.data).map(|data| &data.0)
}

/// The oldest first.
pub fn sort(revisions: &mut [Arc<ControllerRevision>]) {
    revisions.sort_by(|a, b| {
        let created =
            |revision: &ControllerRevision| revision.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let by_age = number(a).cmp(&number(b)).then_with(|| created(a).cmp(&created(b)));
        by_age.then_with(|| name(a).cmp(name(b)))
    });
}

/// The number of a revision that follows these, which are sorted.
pub fn next_number(revisions: &[Arc<ControllerRevision>]) -> i64 {
    revisions.last().map_or(1, |last| number(last) + 1)
}

/// Returns the short hash of a revision's data. It equals kube-controller-manager's if both read the same JSON.
pub fn hash(data: &Value, collision_count: Option<i32>) -> String {
    let mut hash = escape_json(&data.to_string()).bytes().fold(FNV_OFFSET, step);
    if let Some(count) = collision_count {
        hash = count.to_string().bytes().fold(hash, step);
    }
    encode(hash)
}

fn step(hash: u32, byte: u8) -> u32 {
    hash.wrapping_mul(FNV_PRIME) ^ u32::from(byte)
}

/// A hash in the alphabet of name suffixes.
fn encode(hash: u32) -> String {
    let digits = hash.to_string();
    digits.bytes().map(|digit| SUFFIX_ALPHABET[usize::from(digit) % SUFFIX_ALPHABET.len()] as char).collect()
}

/// The name of the revision of an owner.
pub fn revision_name(owner: &str, hash: &str) -> String {
    let prefix = owner.get(..PREFIX_BYTES).unwrap_or(owner);
    format!("{prefix}-{hash}")
}

/// Returns a revision that is not created yet.
pub fn candidate(
    owner: &ObjectMeta,
    reference: &OwnerReference,
    template_labels: Option<&selector::Labels>,
    data: Value,
    number: i64,
    hash: &str,
) -> ControllerRevision {
    let mut labels = template_labels.cloned().unwrap_or_default();
    labels.insert(HASH_LABEL.to_owned(), hash.to_owned());
    ControllerRevision {
        metadata: ObjectMeta {
            name: Some(revision_name(owner.name.as_deref().unwrap_or_default(), hash)),
            namespace: owner.namespace.clone(),
            labels: Some(labels),
            annotations: owner.annotations.clone(),
            owner_references: Some(vec![reference.clone()]),
            ..Default::default()
        },
        data: Field::with(RawExtension(data)),
        revision: Field::with(number),
    }
}

/// The revisions of an owner, sorted; orphans that match its selector are adopted.
pub async fn revisions<O: Kind>(
    client: &Client,
    owner: &Owner<'_>,
    selector: &LabelSelector,
) -> Result<Vec<Arc<ControllerRevision>>, ClientError> {
    let namespace = owner.key.namespace().unwrap_or_default();
    let mut found = children_and_orphans::<ControllerRevision>(client, namespace, owner.claimant.uid).await?;
    // One that matches no longer stays its owner's: it is history all the same, and is not released.
    found.retain(|revision| {
        controller_of(&revision.metadata).is_some()
            || selector::matches(selector, revision.metadata.labels.as_ref())
    });
    let (owned, orphans) =
        found.into_iter().partition(|revision| controller_of(&revision.metadata).is_some());
    let mut revisions: Vec<Arc<ControllerRevision>> = owned;
    revisions.extend(adopt::claim::<O, ControllerRevision>(client, owner, orphans).await?);
    sort(&mut revisions);
    Ok(revisions)
}

/// Creates a revision. A name that another revision has is tried again with a higher collision count, which the answer
/// gives.
pub async fn create(
    client: &Client,
    owner: &str,
    mut revision: ControllerRevision,
    mut collision_count: i32,
    hash: impl Fn(i32) -> String,
) -> Result<(Arc<ControllerRevision>, i32), ClientError> {
    loop {
        // The label keeps the hash of the first try, as kube-controller-manager leaves it.
        revision.metadata.name = Some(revision_name(owner, &hash(collision_count)));
        match client.create(&revision).await {
            Ok(created) => return Ok((Arc::new(created), collision_count)),
            Err(error) if error.is_already_exists() => {
                let key = Key::new(revision.metadata.namespace.as_deref(), name(&revision));
                let existing = client.live().get::<ControllerRevision>(key).await?;
                match existing {
                    Some(existing) if data(&existing) == data(&revision) => {
                        return Ok((Arc::new(existing), collision_count));
                    }
                    Some(_) => collision_count += 1,
                    None => {}
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// Gives a revision the highest number again.
pub async fn renumber(
    client: &Client,
    revision: &ControllerRevision,
    number: i64,
) -> Result<Arc<ControllerRevision>, ClientError> {
    let key = Key::new(revision.metadata.namespace.as_deref(), name(revision));
    let patch = Patch::Merge(json!({ "metadata": { "uid": revision.metadata.uid }, "revision": number }));
    client.patch::<ControllerRevision>(key, &patch).await.map(Arc::new)
}

/// Returns the revisions beyond the limit, oldest first. Revisions in `live` do not count.
pub fn surplus(
    revisions: &[Arc<ControllerRevision>],
    live: impl Fn(&str) -> bool,
    limit: i32,
) -> Vec<&ControllerRevision> {
    let Ok(limit) = usize::try_from(limit) else { return Vec::new() };
    let history: Vec<&ControllerRevision> =
        revisions.iter().map(|revision| &**revision).filter(|revision| !live(name(revision))).collect();
    let count = history.len().saturating_sub(limit);
    history.into_iter().take(count).collect()
}

/// Deletes unused revisions.
pub async fn delete(client: &Client, revisions: &[&ControllerRevision]) -> Result<(), ClientError> {
    for revision in revisions {
        let options = DeleteOptions::default().uid(revision.metadata.uid.clone().unwrap_or_default());
        let key = Key::new(revision.metadata.namespace.as_deref(), name(revision));
        client.delete_with::<ControllerRevision>(key, &options).await.ignore_not_found()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision(name: &str, number: i64) -> Arc<ControllerRevision> {
        let metadata = ObjectMeta { name: Some(name.into()), ..Default::default() };
        Arc::new(ControllerRevision {
            metadata,
            data: Field::with(RawExtension(json!({}))),
            revision: Field::with(number),
        })
    }

    #[test]
    fn revisions_are_numbered_sorted_and_bounded() {
        let mut revisions = [revision("c", 3), revision("b", 1), revision("a", 1), revision("d", 7)];
        sort(&mut revisions);
        let names: Vec<&str> = revisions.iter().map(|revision| name(revision)).collect();
        assert_eq!((names, next_number(&revisions)), (vec!["a", "b", "c", "d"], 8));
        assert_eq!(next_number(&[]), 1);
        for (limit, expected) in [(0, vec!["a", "c"]), (1, vec!["a"]), (2, vec![]), (-1, vec![])] {
            let surplus = surplus(&revisions, |name| ["b", "d"].contains(&name), limit);
            assert_eq!(surplus.iter().map(|one| name(one)).collect::<Vec<_>>(), expected, "{limit}");
        }
    }

    #[test]
    fn the_hash_is_gos() {
        // FNV-1 of "a" is 0x050c5d7e = 84696446, whose digits are letters of the suffix alphabet.
        assert_eq!(step(FNV_OFFSET, b'a'), 0x050c_5d7e);
        assert_eq!(encode(84_696_446).len(), 8);
        assert_ne!(hash(&json!({ "a": 1 }), None), hash(&json!({ "a": 1 }), Some(0)));
        assert_eq!(revision_name(&"x".repeat(300), "h").len(), PREFIX_BYTES + 2);
    }
}
