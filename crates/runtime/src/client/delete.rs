//! Deletions.

use bytes::Bytes;
use kube::core::ApiResource;
use serde::Serialize;

use super::intercept::Verb;
use super::own_writes::DeleteTarget;
use super::preconditions::Preconditions;
use super::transport::{Call, Doubt};
use super::write::{JSON, Unanswered, Write, encode, key_of};
use super::{Client, Kind, Query};
use crate::error::ClientError;
use crate::key::{Key, KeyFor};
use crate::request_path::{Parameters, path};

/// The fate of the objects that a deleted object owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Propagation {
    /// They stay, without this owner.
    Orphan,
    /// They go afterwards.
    Background,
    /// They go first.
    Foreground,
}

/// How to delete.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DeleteOptions {
    /// See [`Propagation`]; the kind's default if `None`.
    #[serde(skip_serializing_if = "Option::is_none", rename = "propagationPolicy")]
    pub propagation: Option<Propagation>,
    /// Seconds that the object is given to end; the kind's default if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i64>,
    /// The preconditions: if one is not true of the object, nothing is deleted.
    #[serde(skip_serializing_if = "Preconditions::is_empty")]
    pub preconditions: Preconditions,
}

impl DeleteOptions {
    /// Deletes dependents afterwards.
    pub fn background() -> Self {
        DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() }
    }

    /// Deletes dependents first.
    pub fn foreground() -> Self {
        DeleteOptions { propagation: Some(Propagation::Foreground), ..DeleteOptions::default() }
    }

    /// Leaves dependents alone.
    pub fn orphan() -> Self {
        DeleteOptions { propagation: Some(Propagation::Orphan), ..DeleteOptions::default() }
    }

    /// Only the object with this uid.
    #[must_use]
    pub fn uid(mut self, uid: impl Into<String>) -> Self {
        self.preconditions.uid = Some(uid.into());
        self
    }

    /// Only the object in this state.
    #[must_use]
    pub fn resource_version(mut self, resource_version: impl Into<String>) -> Self {
        self.preconditions.resource_version = Some(resource_version.into());
        self
    }

    /// Another grace period.
    #[must_use]
    pub fn grace_period(mut self, seconds: i64) -> Self {
        self.grace_period_seconds = Some(seconds);
        self
    }
}

/// The body that is sent. Beside a body the server ignores the query, so the body has to say that it is a dry run.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Sent<'a> {
    #[serde(flatten)]
    options: &'a DeleteOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    dry_run: Option<[&'static str; 1]>,
}

impl Client {
    fn encode_options(&self, resource: &ApiResource, options: &DeleteOptions) -> Result<Bytes, ClientError> {
        encode(resource, &Sent { options, dry_run: self.dry_run.then_some(["All"]) })
    }

    /// Deletes an object by its key.
    ///
    /// Dropping the future does not take the request back: the server may act on it. Later
    /// reads wait until the cache has listed the kind anew.
    ///
    /// # Errors
    /// An error from the server; a missing object is [`ClientError::is_not_found`].
    pub async fn delete<K: Kind>(&self, key: impl KeyFor<K::Scope>) -> Result<(), ClientError> {
        self.delete_with::<K>(key, &DeleteOptions::default()).await
    }

    /// Deletes an object by its key.
    ///
    /// Dropping the future does not take the request back: the server may act on it. Later
    /// reads wait until the cache has listed the kind anew.
    ///
    /// # Errors
    /// An error from the server.
    pub async fn delete_with<K: Kind>(
        &self,
        key: impl KeyFor<K::Scope>,
        options: &DeleteOptions,
    ) -> Result<(), ClientError> {
        self.delete_at(&K::api_resource(), &self.key_for::<K>(key)?, options).await
    }

    /// Deletes this very object: another one under its name stays.
    ///
    /// Dropping the future does not take the request back: the server may act on it. Later
    /// reads wait until the cache has listed the kind anew.
    ///
    /// # Errors
    /// An error from the server.
    pub async fn delete_object<K: Kind>(&self, object: &K) -> Result<(), ClientError> {
        let resource = K::api_resource();
        let key = self.key_for::<K>(key_of(object, &resource.kind)?)?;
        let mut options = DeleteOptions::default();
        options.preconditions.uid = object.meta().uid.clone();
        let target = DeleteTarget::required(&key, &options.preconditions);
        let target = if target.uid.is_some() { target.read_as(object.meta()) } else { target };
        self.delete_target(&resource, target, &options).await
    }

    pub(super) async fn delete_at(
        &self,
        resource: &ApiResource,
        key: &Key,
        options: &DeleteOptions,
    ) -> Result<(), ClientError> {
        self.delete_target(resource, DeleteTarget::required(key, &options.preconditions), options).await
    }

    async fn delete_target(
        &self,
        resource: &ApiResource,
        mut target: DeleteTarget,
        options: &DeleteOptions,
    ) -> Result<(), ClientError> {
        let write = Write {
            verb: Verb::Delete,
            resource,
            namespace: target.key.namespace(),
            name: Some(target.key.name()),
            subresource: None,
            content_type: JSON,
            body: self.encode_options(resource, options)?,
            force: false,
        };
        self.check_write(&write)?;
        let writes = &self.core.writes;
        let before = writes.before(resource, Some(&target.key));
        let answer = self.send(&write).await?;
        target.before = before;
        self.note(resource, || writes.deleted(resource, &target, &answer));
        Ok(())
    }

    /// Deletes all objects of one namespace (or of a kind without namespaces) that the query selects by label or
    /// field.
    ///
    /// Dropping the future does not take the request back: the server may act on it. Later
    /// reads wait until the cache has listed the kind anew.
    ///
    /// # Errors
    /// An error from the server; [`ClientError::BadQuery`] for an index, which the server does not know.
    pub async fn delete_collection<K: Kind>(
        &self,
        query: Query,
        options: &DeleteOptions,
    ) -> Result<(), ClientError> {
        self.delete_collection_at(&K::api_resource(), self.query_for::<K>(query), options).await
    }

    pub(super) async fn delete_collection_at(
        &self,
        resource: &ApiResource,
        query: Query,
        options: &DeleteOptions,
    ) -> Result<(), ClientError> {
        query.check_for_server()?;
        let namespace = query.namespace.as_deref();
        self.check_live(Verb::DeleteCollection, resource, namespace, None, None)?;
        let mut parameters = Parameters::default();
        parameters.push_some("labelSelector", query.selector.as_deref());
        parameters.push_some("fieldSelector", query.fields.as_deref());
        let mut target = path(resource, namespace, None, None);
        parameters.append_to(&mut target);
        let call = Call {
            method: http::Method::DELETE,
            path: target,
            content_type: JSON,
            body: self.encode_options(resource, options)?,
            sender: self.sender(),
            doubt: Doubt::default(),
        };
        let unanswered = Unanswered { client: self, resource, write: None, call: &call };
        let answer = self.core.transport.call(self.identity.leader.as_ref(), &call).await?;
        drop(unanswered);
        let at_once = options.grace_period_seconds == Some(0);
        self.note(resource, || self.core.writes.deleted_collection(resource, &answer, at_once));
        Ok(())
    }
}
