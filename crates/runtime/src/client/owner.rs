//! Owner references.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::Kind;
use crate::error::ClientError;
use crate::key::Key;

/// A reference that makes `owner` one of the owners, not the controller.
///
/// # Errors
/// When `owner` has no name or uid: it was not read from the server.
pub fn owner_reference<K: Kind>(owner: &K) -> Result<OwnerReference, ClientError> {
    let kind = K::kind(&());
    let metadata = owner.meta();
    let missing = |field| ClientError::Incomplete { kind: kind.clone(), field };
    Ok(OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: kind.clone().into_owned(),
        name: metadata.name.clone().ok_or_else(|| missing("metadata.name"))?,
        uid: metadata.uid.clone().ok_or_else(|| missing("metadata.uid"))?,
        controller: None,
        block_owner_deletion: None,
    })
}

/// A reference that makes `owner` the controller and lets a foreground deletion of it wait for the object.
///
/// # Errors
/// When `owner` has no name or uid.
pub fn controller_reference<K: Kind>(owner: &K) -> Result<OwnerReference, ClientError> {
    let reference = owner_reference(owner)?;
    Ok(OwnerReference { controller: Some(true), block_owner_deletion: Some(true), ..reference })
}

/// Whether `owner` is the controller of `object`.
pub fn is_controlled_by<K: kube::Resource, O: kube::Resource>(object: &K, owner: &O) -> bool {
    let references = object.meta().owner_references.as_deref().unwrap_or_default();
    let controller = references.iter().find(|reference| reference.controller == Some(true));
    controller.is_some_and(|reference| owner.meta().uid.as_deref() == Some(&reference.uid))
}

/// Makes `owner` the controller of `object`.
///
/// # Errors
/// [`ClientError::AlreadyOwned`] when another object is; [`ClientError::BadOwner`] when Kubernetes forbids it.
pub fn set_controller_reference<O: Kind, K: Kind>(owner: &O, object: &mut K) -> Result<(), ClientError> {
    check_scope(owner, object)?;
    let reference = controller_reference(owner)?;
    let references = object.meta().owner_references.as_deref().unwrap_or_default();
    let controller =
        references.iter().find(|known| known.controller == Some(true) && known.uid != reference.uid);
    if let Some(known) = controller {
        return Err(ClientError::AlreadyOwned {
            object: key(object),
            owner_kind: known.kind.clone(),
            owner_name: known.name.clone(),
        });
    }
    put(object, reference);
    Ok(())
}

/// Makes `owner` one of the owners of `object`.
///
/// # Errors
/// [`ClientError::BadOwner`] when Kubernetes forbids it.
pub fn set_owner_reference<O: Kind, K: Kind>(owner: &O, object: &mut K) -> Result<(), ClientError> {
    check_scope(owner, object)?;
    let reference = owner_reference(owner)?;
    put(object, reference);
    Ok(())
}

fn key<K: kube::Resource>(object: &K) -> Key {
    Key::new(object.meta().namespace.as_deref(), object.meta().name.as_deref().unwrap_or_default())
}

fn put<K: kube::Resource>(object: &mut K, reference: OwnerReference) {
    let references = object.meta_mut().owner_references.get_or_insert_default();
    match references.iter_mut().find(|known| known.uid == reference.uid || same(known, &reference)) {
        Some(known) => *known = reference,
        None => references.push(reference),
    }
}

/// One owner under another version or uid is still one owner.
fn same(a: &OwnerReference, b: &OwnerReference) -> bool {
    let group = |version: &str| version.split_once('/').map_or(String::new(), |(group, _)| group.to_owned());
    a.kind == b.kind && a.name == b.name && group(&a.api_version) == group(&b.api_version)
}

/// An owner lives in the same namespace, or in none.
fn check_scope<O: kube::Resource, K: kube::Resource>(owner: &O, object: &K) -> Result<(), ClientError> {
    let Some(owner_namespace) = owner.meta().namespace.as_deref() else { return Ok(()) };
    match object.meta().namespace.as_deref() {
        None => Err(ClientError::BadOwner(format!(
            "cluster-scoped resource must not have a namespace-scoped owner, owner's namespace {owner_namespace}"
        ))),
        Some(namespace) if namespace != owner_namespace => Err(ClientError::BadOwner(format!(
            "cross-namespace owner references are disallowed, owner's namespace {owner_namespace}, obj's namespace \
             {namespace}"
        ))),
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
    use kube::api::ObjectMeta;

    fn config_map(namespace: &str, name: &str, uid: &str) -> ConfigMap {
        let metadata = ObjectMeta {
            name: Some(name.into()),
            namespace: Some(namespace.into()),
            uid: Some(uid.into()),
            ..ObjectMeta::default()
        };
        ConfigMap { metadata, ..ConfigMap::default() }
    }

    #[test]
    fn an_object_has_one_controller() {
        let (first, second) = (config_map("a", "one", "1"), config_map("a", "two", "2"));
        let mut child = config_map("a", "child", "3");
        set_controller_reference(&first, &mut child).unwrap();
        set_controller_reference(&first, &mut child).unwrap();
        set_owner_reference(&second, &mut child).unwrap();
        assert_eq!(child.metadata.owner_references.as_ref().unwrap().len(), 2);
        assert!(is_controlled_by(&child, &first) && !is_controlled_by(&child, &second));
        let error = set_controller_reference(&second, &mut child).unwrap_err();
        assert_eq!(error.to_string(), "Object a/child is already owned by another ConfigMap controller one");
    }

    #[test]
    fn owners_live_in_the_same_namespace_or_in_none() {
        let owner = config_map("a", "one", "1");
        let refused = |result: Result<(), ClientError>| result.unwrap_err().to_string();
        let elsewhere = refused(set_owner_reference(&owner, &mut config_map("b", "x", "2")));
        assert!(elsewhere.contains("cross-namespace owner references are disallowed"), "{elsewhere}");
        let nowhere = refused(set_owner_reference(&owner, &mut Namespace::default()));
        assert!(nowhere.contains("must not have a namespace-scoped owner"), "{nowhere}");
        let metadata = ObjectMeta { name: Some("n".into()), uid: Some("9".into()), ..ObjectMeta::default() };
        let namespace = Namespace { metadata, ..Namespace::default() };
        set_owner_reference(&namespace, &mut config_map("b", "x", "2")).unwrap();
    }
}
