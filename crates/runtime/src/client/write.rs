//! Writes: each goes to the server, and is noted so that later reads see it.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use kube::core::ApiResource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use setpoint_api::go_format::escape_json;

use super::intercept::{Intercepted, Verb};
use super::own_writes::{Before, Written};
use super::patch::Patch;
use super::transport::{Call, Doubt};
use super::{Author, Client, Kind, Pending, Reconciled};
use crate::error::ClientError;
use crate::key::{Key, KeyFor};
use crate::redact::why_undecodable;
use crate::request_path::{Parameters, path};
use crate::revision::parse_revision;

pub(crate) const JSON: &str = "application/json";
pub(super) const APPLY: &str = "application/apply-patch+yaml";

/// One write, whatever the kind.
pub(super) struct Write<'a> {
    pub(super) verb: Verb,
    pub(super) resource: &'a ApiResource,
    pub(super) namespace: Option<&'a str>,
    pub(super) name: Option<&'a str>,
    pub(super) subresource: Option<&'a str>,
    pub(super) content_type: &'static str,
    pub(super) body: Bytes,
    pub(super) force: bool,
}

impl Write<'_> {
    /// A create names the object in its body alone, and there the server judges the name.
    fn name_in_path(&self) -> Option<&str> {
        self.name.filter(|_| self.verb != Verb::Create || self.subresource.is_some())
    }

    /// `None` if the server generates the name.
    fn key(&self) -> Option<Key> {
        self.name.map(|name| Key::new(self.namespace, name))
    }

    fn method(&self) -> Method {
        match self.verb {
            Verb::Create => Method::POST,
            Verb::Update => Method::PUT,
            Verb::Patch | Verb::Apply => Method::PATCH,
            Verb::Delete | Verb::DeleteCollection => Method::DELETE,
            Verb::Get | Verb::List => Method::GET,
        }
    }
}

/// A write on its way. If it is dropped while the outcome is in doubt, later reads wait until the cache has listed the kind
/// anew.
pub(super) struct Unanswered<'a> {
    pub(super) client: &'a Client,
    pub(super) resource: &'a ApiResource,
    /// `None` for a write to a collection.
    pub(super) write: Option<&'a Write<'a>>,
    pub(super) call: &'a Call,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if self.call.doubt.remains() {
            let key = self.write.and_then(Write::key);
            self.client
                .note(self.resource, || self.client.core.writes.unanswered(self.resource, key.as_ref()));
        }
    }
}

pub(crate) fn encode(resource: &ApiResource, object: &impl Serialize) -> Result<Bytes, ClientError> {
    // kube-apiserver keeps the bytes of a ControllerRevision's `data`. With every patch it writes them as Go does, and
    // refuses the patch if they differ: a revision that was created in another spelling could never be patched.
    let json = serde_json::to_string(object)
        .map_err(|source| ClientError::Encode { kind: resource.kind.clone().into(), source })?;
    match escape_json(&json) {
        Cow::Owned(spelled) => Ok(spelled.into()),
        Cow::Borrowed(_) => Ok(json.into()),
    }
}

pub(crate) fn decode<T: DeserializeOwned>(kind: &str, json: &[u8]) -> Result<T, ClientError> {
    serde_json::from_slice(json).map_err(|error| ClientError::Decode {
        kind: kind.to_owned().into(),
        reason: why_undecodable::<T>(json, &error),
    })
}

/// The key of an object that is about to be written.
pub(super) fn key_of<K: kube::Resource>(object: &K, kind: &str) -> Result<Key, ClientError> {
    let metadata = object.meta();
    let missing = || ClientError::Incomplete { kind: kind.to_owned().into(), field: "metadata.name" };
    let name = metadata.name.as_deref().filter(|name| !name.is_empty()).ok_or_else(missing)?;
    Ok(Key::new(metadata.namespace.as_deref(), name))
}

impl Client {
    /// Sends a write, after everyone who may refuse it was asked, and notes what it did.
    pub(super) async fn write(&self, write: Write<'_>) -> Result<Bytes, ClientError> {
        self.check_write(&write)?;
        self.write_unchecked(&write).await
    }

    pub(super) async fn write_unchecked(&self, write: &Write<'_>) -> Result<Bytes, ClientError> {
        self.check_owner(write)?;
        let before = self.core.writes.before(write.resource, write.key().as_ref());
        let answer = self.send(write).await?;
        self.note_author(write, &before, &answer);
        self.note(write.resource, || self.core.writes.wrote(write.resource, &before, &answer));
        Ok(answer)
    }

    /// Notes which reconcile made the new version, and whether it is one of the reconcile's own object.
    fn note_author(&self, write: &Write<'_>, before: &[Before], answer: &[u8]) {
        let Some(pins) = self.pins.as_ref().filter(|_| !self.dry_run) else { return };
        let written = Written::read(answer);
        let revision = written.and_then(|written| parse_revision(&written.metadata.resource_version));
        let mut cached = before.iter().filter_map(|before| before.object.as_ref());
        // A write that changed nothing is answered with the version that was there.
        let Some(revision) = revision.filter(|version| cached.all(|(_, known)| known != version)) else {
            return;
        };
        let field_owner = self.identity.field_owner.as_str().into();
        let reconcile_id = Arc::clone(&pins.sender().reconcile_id);
        self.core.authors.note(revision, Author { field_owner, reconcile_id });
        let is_own = |of: &Reconciled| of.kind.is(write.resource) && write.key().as_ref() == Some(&of.key);
        if pins.reconciled().is_some_and(is_own) {
            pins.note_own_change();
        }
    }

    /// Notes what a write did, so that later reads see it; a dry run did nothing.
    pub(super) fn note(&self, resource: &ApiResource, unseen: impl FnOnce() -> Vec<Pending>) {
        if self.dry_run {
            return;
        }
        let unseen = unseen();
        let awaited = if self.identity.consistent { &unseen[..] } else { &[] };
        if let Some(pins) = &self.pins {
            let of_kind = self.core.caches.of_kind(resource);
            pins.wrote(of_kind.iter().map(|declared| declared.number), awaited);
        }
    }

    /// Asks everyone who may refuse a write.
    pub(super) fn check_write(&self, write: &Write<'_>) -> Result<(), ClientError> {
        self.check_place(write.resource, write.namespace, write.name_in_path())?;
        self.interceptors.check(&Intercepted {
            verb: write.verb,
            kind: &write.resource.kind,
            namespace: write.namespace,
            name: write.name,
            subresource: write.subresource,
            live: true,
        })
    }

    pub(super) async fn send(&self, write: &Write<'_>) -> Result<Bytes, ClientError> {
        let mut parameters = Parameters::default();
        // A deletion says it in its body.
        if self.dry_run && write.verb != Verb::Delete {
            parameters.push("dryRun", "All");
        }
        if matches!(write.verb, Verb::Create | Verb::Update | Verb::Patch | Verb::Apply) {
            parameters.push("fieldManager", &self.identity.field_owner);
        }
        if write.verb == Verb::Apply && write.force {
            parameters.push("force", "true");
        }
        let mut target = path(write.resource, write.namespace, write.name_in_path(), write.subresource);
        parameters.append_to(&mut target);
        let call = Call {
            method: write.method(),
            path: target,
            content_type: write.content_type,
            body: write.body.clone(),
            sender: self.sender(),
            doubt: Doubt::default(),
        };
        let _unanswered =
            Unanswered { client: self, resource: write.resource, write: Some(write), call: &call };
        // Boxed, because every future that writes would hold the space for it.
        Box::pin(self.core.transport.call(self.identity.leader.as_ref(), &call)).await
    }

    /// Creates an object and gives it as the server made it.
    ///
    /// Dropping the future does not take the request back: the server may act on it. Later
    /// reads wait until the cache has listed the kind anew.
    ///
    /// # Errors
    /// An error from the server.
    pub async fn create<K: Kind>(&self, object: &K) -> Result<K, ClientError> {
        let resource = K::api_resource();
        let own = self.namespace.as_deref().filter(|_| K::namespaced());
        let answer = self
            .write(Write {
                verb: Verb::Create,
                resource: &resource,
                namespace: object.meta().namespace.as_deref().or(own),
                name: object.meta().name.as_deref().filter(|name| !name.is_empty()),
                subresource: None,
                content_type: JSON,
                body: encode(&resource, object)?,
                force: false,
            })
            .await?;
        decode(&resource.kind, &answer)
    }

    /// Replaces an object. With its resourceVersion it fails if somebody else wrote meanwhile.
    ///
    /// Dropping the future does not take the request back: the server may act on it. Later
    /// reads wait until the cache has listed the kind anew.
    ///
    /// # Errors
    /// An error from the server.
    pub async fn update<K: Kind>(&self, object: &K) -> Result<K, ClientError> {
        self.replace(object, None).await
    }

    /// Replaces an object's status.
    ///
    /// Dropping the future does not take the request back: the server may act on it. Later
    /// reads wait until the cache has listed the kind anew.
    ///
    /// # Errors
    /// An error from the server.
    pub async fn update_status<K: Kind>(&self, object: &K) -> Result<K, ClientError> {
        self.replace(object, Some("status")).await
    }

    async fn replace<K: Kind>(&self, object: &K, subresource: Option<&str>) -> Result<K, ClientError> {
        let resource = K::api_resource();
        let key = self.key_for::<K>(key_of(object, &resource.kind)?)?;
        let answer = self
            .write(Write {
                verb: Verb::Update,
                resource: &resource,
                namespace: key.namespace(),
                name: Some(key.name()),
                subresource,
                content_type: JSON,
                body: encode(&resource, object)?,
                force: false,
            })
            .await?;
        decode(&resource.kind, &answer)
    }

    /// Changes an object.
    ///
    /// Dropping the future does not take the request back: the server may act on it. Later
    /// reads wait until the cache has listed the kind anew.
    ///
    /// # Errors
    /// An error from the server.
    pub async fn patch<K: Kind>(&self, key: impl KeyFor<K::Scope>, patch: &Patch) -> Result<K, ClientError> {
        self.patch_at(&K::api_resource(), &self.key_for::<K>(key)?, None, patch).await
    }

    /// Changes an object's status.
    ///
    /// Dropping the future does not take the request back: the server may act on it. Later
    /// reads wait until the cache has listed the kind anew.
    ///
    /// # Errors
    /// An error from the server.
    pub async fn patch_status<K: Kind>(
        &self,
        key: impl KeyFor<K::Scope>,
        patch: &Patch,
    ) -> Result<K, ClientError> {
        self.patch_at(&K::api_resource(), &self.key_for::<K>(key)?, Some("status"), patch).await
    }

    /// Changes an object from `old` to `new` with the smallest merge patch; sends nothing if they are equal.
    ///
    /// If a list differs, the patch is locked to the version of `old`: it would replace the whole list.
    ///
    /// Dropping the future does not take the request back: the server may act on it. Later
    /// reads wait until the cache has listed the kind anew.
    ///
    /// # Errors
    /// An error from the server.
    pub async fn patch_from<K: Kind>(&self, old: &K, new: &K) -> Result<Option<K>, ClientError> {
        let key = key_of(old, &K::kind(&()))?;
        let patch = Patch::merge_from(old, new)?;
        if patch.is_empty() {
            return Ok(None);
        }
        self.patch(key, &patch.locked_for_lists(old.meta())).await.map(Some)
    }

    /// Changes an object's status from `old` to `new`; sends nothing if they are equal.
    ///
    /// If a list differs, such as the conditions, the patch is locked to the version of `old`: it would replace
    /// the whole list.
    ///
    /// Dropping the future does not take the request back: the server may act on it. Later
    /// reads wait until the cache has listed the kind anew.
    ///
    /// # Errors
    /// An error from the server.
    pub async fn patch_status_from<K: Kind>(&self, old: &K, new: &K) -> Result<Option<K>, ClientError> {
        let key = key_of(old, &K::kind(&()))?;
        let Patch::Merge(Value::Object(mut patch)) = Patch::merge_from(old, new)? else { return Ok(None) };
        patch.retain(|name, _| name == "status");
        if patch.is_empty() {
            return Ok(None);
        }
        let patch = Patch::Merge(Value::Object(patch)).locked_for_lists(old.meta());
        self.patch_status(key, &patch).await.map(Some)
    }

    pub(super) async fn patch_at<T: DeserializeOwned>(
        &self,
        resource: &ApiResource,
        key: &Key,
        subresource: Option<&str>,
        patch: &Patch,
    ) -> Result<T, ClientError> {
        let answer = self
            .write(Write {
                verb: Verb::Patch,
                resource,
                namespace: key.namespace(),
                name: Some(key.name()),
                subresource,
                content_type: patch.content_type(),
                body: encode(resource, patch.value())?,
                force: false,
            })
            .await?;
        decode(&resource.kind, &answer)
    }
}
