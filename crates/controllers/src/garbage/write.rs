//! The collector's writes, which must work on every kind.

use serde_json::{Value, json};
use setpoint::{Client, ClientError, DeleteOptions, Key, Patch};

use super::{Identity, Object, Policy, Uid};
use crate::discovery::ServerResource;

fn key_of(identity: &Identity) -> Key {
    Key::new(identity.namespace.as_deref(), &identity.name)
}

/// Deletes the object as the collector knows it. If it changed meanwhile but its owners did not, it goes all the same.
pub(super) async fn delete(
    client: &Client,
    resource: &ServerResource,
    object: &Object,
    policy: Policy,
) -> Result<(), ClientError> {
    let options = match policy {
        Policy::Background => DeleteOptions::background(),
        Policy::Foreground => DeleteOptions::foreground(),
        Policy::Orphan => DeleteOptions::orphan(),
    };
    let options = options.uid(&*object.identity.uid);
    let kind = client.dynamic(&resource.resource);
    let locked = options.clone().resource_version(&object.resource_version);
    let conflict = match kind.delete(key_of(&object.identity), &locked).await {
        Err(error) if error.is_conflict() => error,
        done => return done,
    };
    let Some(live) = kind.get_live(key_of(&object.identity)).await? else { return Ok(()) };
    if live["metadata"]["uid"].as_str() != Some(&*object.identity.uid) {
        return Ok(());
    }
    let references = live["metadata"]["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default();
    let same = references.len() == object.owners.len()
        && references
            .iter()
            .zip(&object.owners)
            .all(|(live, known)| live["uid"].as_str() == Some(&*known.uid));
    if same { kind.delete(key_of(&object.identity), &options).await } else { Err(conflict) }
}

/// Removes a finalizer from the object, at the version that the collector knows.
pub(super) async fn remove_finalizer(
    client: &Client,
    resource: &ServerResource,
    object: &Object,
    finalizer: &str,
) -> Result<(), ClientError> {
    let kept: Vec<&String> = object.finalizers.iter().filter(|present| *present != finalizer).collect();
    let patch = json!({ "metadata": { "uid": &*object.identity.uid, "finalizers": kept } });
    let patch = Patch::Merge(patch).locked(&object.resource_version);
    client.dynamic(&resource.resource).patch(key_of(&object.identity), &patch).await.map(drop)
}

/// Removes the references to these owners.
pub(super) async fn drop_references(
    client: &Client,
    resource: &ServerResource,
    identity: &Identity,
    owners: &[Uid],
) -> Result<(), ClientError> {
    let gone: Vec<Value> = owners.iter().map(|uid| json!({ "$patch": "delete", "uid": &**uid })).collect();
    let keep = |reference: &Value| {
        let uid = reference["uid"].as_str().unwrap_or_default();
        (!owners.iter().any(|owner| **owner == *uid)).then(|| reference.clone())
    };
    change_references(client, resource, identity, gone, keep).await
}

/// Sets `blockOwnerDeletion` to false in all references.
pub(super) async fn unblock_references(
    client: &Client,
    resource: &ServerResource,
    object: &Object,
) -> Result<(), ClientError> {
    let blocking = object.owners.iter().filter(|owner| owner.blocks);
    let unblocked =
        blocking.map(|owner| json!({ "uid": &*owner.uid, "blockOwnerDeletion": false })).collect();
    let unblock = |reference: &Value| {
        let mut reference = reference.clone();
        reference["blockOwnerDeletion"] = Value::Bool(false);
        Some(reference)
    };
    change_references(client, resource, &object.identity, unblocked, unblock).await
}

/// A strategic merge patch where the kind knows it; for custom kinds the whole list, read and written back.
async fn change_references(
    client: &Client,
    resource: &ServerResource,
    identity: &Identity,
    strategic: Vec<Value>,
    change: impl Fn(&Value) -> Option<Value>,
) -> Result<(), ClientError> {
    let kind = client.dynamic(&resource.resource);
    let patch = json!({ "metadata": { "uid": &*identity.uid, "ownerReferences": strategic } });
    match kind.patch(key_of(identity), &Patch::Strategic(patch)).await {
        Err(error) if error.code() == Some(415) => {}
        done => return done.map(drop),
    }
    let Some(live) = kind.get_live(key_of(identity)).await? else { return Ok(()) };
    let metadata = &live["metadata"];
    if metadata["uid"].as_str() != Some(&*identity.uid) {
        return Ok(());
    }
    let references: Vec<Value> =
        metadata["ownerReferences"].as_array().into_iter().flatten().filter_map(change).collect();
    let patch = json!({ "metadata": { "uid": &*identity.uid, "ownerReferences": references } });
    let patch = Patch::Merge(patch).locked(metadata["resourceVersion"].as_str().unwrap_or_default());
    kind.patch(key_of(identity), &patch).await.map(drop)
}
