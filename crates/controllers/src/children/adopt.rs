//! Carrying out claims: adopting and releasing children on the server.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use setpoint::informer::{Index, SharedInformer};
use setpoint::{Client, ClientError, Key, Kind, Manager, Patch, Query};

use crate::children::claim::{Claim, Claimant, adoption_patch, controller_of, decide, release_patch};

/// The index that finds children by the uid of their controller, and orphans by their namespace.
pub const CHILDREN: &str = "children";

/// The informer of a kind of children, with the index that finds them.
pub fn children_informer<K: Kind>(manager: &Manager) -> SharedInformer {
    let informer = manager.informer::<K>();
    let index = Index::new(CHILDREN, |object| {
        vec![match object.controller_owner() {
            Some(owner) => owner.uid.clone(),
            None => orphans_of(object.namespace().unwrap_or_default()),
        }]
    });
    // Two controllers share the index; the second finds it there.
    let _ = informer.add_index(index);
    informer
}

/// Index value under which the orphans of a namespace are found. It cannot collide, because no uid has a slash.
fn orphans_of(namespace: &str) -> String {
    format!("{namespace}/")
}

/// The children of an owner and the orphans that it might adopt.
pub async fn children_and_orphans<K: Kind>(
    client: &Client,
    namespace: &str,
    owner_uid: &str,
) -> Result<Vec<Arc<K>>, ClientError> {
    let mut found = children::<K>(client, namespace, owner_uid).await?;
    found.extend(client.list::<K>(Query::namespace(namespace).index(CHILDREN, orphans_of(namespace))).await?);
    Ok(found)
}

/// The children of an owner.
pub async fn children<K: Kind>(
    client: &Client,
    namespace: &str,
    owner_uid: &str,
) -> Result<Vec<Arc<K>>, ClientError> {
    client.list::<K>(Query::namespace(namespace).index(CHILDREN, owner_uid)).await
}

/// An owner that claims children.
pub struct Owner<'a> {
    pub key: Key,
    pub claimant: Claimant<'a>,
    pub reference: OwnerReference,
}

/// Decides about every child and writes what follows; gives the children that are the owner's now.
///
/// # Errors
/// The first failure, after every child was tried.
pub async fn claim<O: Kind, K: Kind>(
    client: &Client,
    owner: &Owner<'_>,
    candidates: Vec<Arc<K>>,
) -> Result<Vec<Arc<K>>, ClientError> {
    claim_with::<O, K>(client, owner, candidates, None).await
}

/// Like [`claim`], but an adopted child gets a finalizer in the same write. The release removes the finalizer.
pub async fn claim_tracked<O: Kind, K: Kind>(
    client: &Client,
    owner: &Owner<'_>,
    candidates: Vec<Arc<K>>,
    finalizer: &str,
) -> Result<Vec<Arc<K>>, ClientError> {
    claim_with::<O, K>(client, owner, candidates, Some(finalizer)).await
}

async fn claim_with<O: Kind, K: Kind>(
    client: &Client,
    owner: &Owner<'_>,
    candidates: Vec<Arc<K>>,
    finalizer: Option<&str>,
) -> Result<Vec<Arc<K>>, ClientError> {
    let mut claimed = Vec::with_capacity(candidates.len());
    let mut may_adopt = None;
    let mut failure = None;
    for child in candidates {
        let adopted = match decide(&owner.claimant, child.meta()) {
            Claim::Ignore => Ok(None),
            Claim::Keep => Ok(Some(child)),
            Claim::Release => release(client, owner, &*child, finalizer).await.map(|()| None),
            Claim::Adopt => {
                // The cache may not know yet that the owner is gone or going: asked once, of the server.
                if may_adopt.is_none() {
                    may_adopt = Some(is_alive::<O>(client, owner).await?);
                }
                if may_adopt == Some(true) {
                    adopt(client, owner, &*child, finalizer).await
                } else {
                    Ok(None)
                }
            }
        };
        match adopted {
            Ok(child) => claimed.extend(child),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    failure.map_or(Ok(claimed), Err)
}

async fn is_alive<O: Kind>(client: &Client, owner: &Owner<'_>) -> Result<bool, ClientError> {
    let fresh = client.live().get::<O>(owner.key.clone()).await?;
    Ok(fresh.is_some_and(|fresh| {
        let meta = fresh.meta();
        meta.uid.as_deref() == Some(owner.claimant.uid) && meta.deletion_timestamp.is_none()
    }))
}

fn key_of<K: Kind>(child: &K) -> Key {
    Key::new(child.meta().namespace.as_deref(), child.meta().name.as_deref().unwrap_or_default())
}

async fn adopt<K: Kind>(
    client: &Client,
    owner: &Owner<'_>,
    child: &K,
    finalizer: Option<&str>,
) -> Result<Option<Arc<K>>, ClientError> {
    let uid = child.meta().uid.as_deref().unwrap_or_default();
    let mut patch = adoption_patch(&owner.reference, uid);
    if let Some(finalizer) = finalizer {
        patch["metadata"]["finalizers"] = [finalizer].into();
    }
    match client.patch::<K>(key_of(child), &Patch::Strategic(patch)).await {
        Ok(adopted) => Ok(Some(Arc::new(adopted))),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

async fn release<K: Kind>(
    client: &Client,
    owner: &Owner<'_>,
    child: &K,
    finalizer: Option<&str>,
) -> Result<(), ClientError> {
    debug_assert!(controller_of(child.meta()).is_some_and(|found| found.uid == owner.claimant.uid));
    let uid = child.meta().uid.as_deref().unwrap_or_default();
    let mut patch = release_patch(owner.claimant.uid, uid);
    if let Some(finalizer) = finalizer {
        patch["metadata"]["$deleteFromPrimitiveList/finalizers"] = [finalizer].into();
    }
    match client.patch::<K>(key_of(child), &Patch::Strategic(patch)).await {
        Ok(_) => Ok(()),
        // Gone, or no longer with our reference: released either way.
        Err(error) if error.is_not_found() || error.is_invalid() => Ok(()),
        Err(error) => Err(error),
    }
}
