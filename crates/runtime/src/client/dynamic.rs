//! Kinds that are known only at run time.

use kube::core::{ApiResource, DynamicResourceScope};
use serde_json::Value;

use super::intercept::Verb;
use super::patch::Patch;
use super::write::{JSON, Write, decode, encode};
use super::{Client, DeleteOptions, Query};
use crate::error::ClientError;
use crate::informer::Object;
use crate::key::KeyFor;

/// A client for one kind that is known only at run time: objects are JSON values, or cached [`Object`]s.
#[derive(Clone, Debug)]
pub struct DynamicClient<'a> {
    client: &'a Client,
    resource: &'a ApiResource,
}

impl Client {
    /// The same client for a kind that is known only at run time.
    pub fn dynamic<'a>(&'a self, resource: &'a ApiResource) -> DynamicClient<'a> {
        DynamicClient { client: self, resource }
    }
}

impl DynamicClient<'_> {
    /// One object from the cache.
    ///
    /// Dropping the future ends the read and changes nothing.
    ///
    /// # Errors
    /// When no informer keeps the kind.
    pub async fn get(&self, key: impl KeyFor<DynamicResourceScope>) -> Result<Option<Object>, ClientError> {
        self.client.get_object(self.resource, key).await
    }

    /// Objects from the cache.
    ///
    /// Dropping the future ends the read and changes nothing.
    ///
    /// # Errors
    /// When no informer keeps the kind.
    pub async fn list(&self, query: Query) -> Result<Vec<Object>, ClientError> {
        self.client.list_objects(self.resource, query).await
    }

    /// One object from the server.
    ///
    /// Dropping the future ends the read and changes nothing.
    ///
    /// # Errors
    /// An error from the server.
    pub async fn get_live(
        &self,
        key: impl KeyFor<DynamicResourceScope>,
    ) -> Result<Option<Value>, ClientError> {
        self.client.live_get(self.resource, &key.into_key(), None).await
    }

    /// Objects from the server.
    ///
    /// Dropping the future ends the read and changes nothing.
    ///
    /// # Errors
    /// An error from the server.
    pub async fn list_live(&self, query: Query) -> Result<Vec<Value>, ClientError> {
        self.client.live_list(self.resource, &self.client.query_within(query)).await
    }

    /// Creates an object.
    ///
    /// Dropping the future does not take the request back: the server may act on it. Later
    /// reads wait until the cache has listed the kind anew.
    ///
    /// # Errors
    /// An error from the server.
    pub async fn create(&self, object: &Value) -> Result<Value, ClientError> {
        self.write(Verb::Create, object, None).await
    }

    /// Replaces an object.
    ///
    /// Dropping the future does not take the request back: the server may act on it. Later
    /// reads wait until the cache has listed the kind anew.
    ///
    /// # Errors
    /// An error from the server.
    pub async fn update(&self, object: &Value) -> Result<Value, ClientError> {
        self.write(Verb::Update, object, None).await
    }

    /// Replaces an object's status or another part that is written on its own.
    ///
    /// Dropping the future does not take the request back: the server may act on it. Later
    /// reads wait until the cache has listed the kind anew.
    ///
    /// # Errors
    /// An error from the server.
    pub async fn update_subresource(&self, object: &Value, subresource: &str) -> Result<Value, ClientError> {
        self.write(Verb::Update, object, Some(subresource)).await
    }

    async fn write(
        &self,
        verb: Verb,
        object: &Value,
        subresource: Option<&str>,
    ) -> Result<Value, ClientError> {
        let metadata = &object["metadata"];
        let name = metadata["name"].as_str().filter(|name| !name.is_empty());
        if verb == Verb::Update && name.is_none() {
            let kind = self.resource.kind.clone().into();
            return Err(ClientError::Incomplete { kind, field: "metadata.name" });
        }
        let write = Write {
            verb,
            resource: self.resource,
            namespace: metadata["namespace"].as_str(),
            name,
            subresource,
            content_type: JSON,
            body: encode(self.resource, object)?,
            force: false,
        };
        decode(&self.resource.kind, &self.client.write(write).await?)
    }

    /// Changes an object.
    ///
    /// Dropping the future does not take the request back: the server may act on it. Later
    /// reads wait until the cache has listed the kind anew.
    ///
    /// # Errors
    /// An error from the server.
    pub async fn patch(
        &self,
        key: impl KeyFor<DynamicResourceScope>,
        patch: &Patch,
    ) -> Result<Value, ClientError> {
        self.client.patch_at(self.resource, &key.into_key(), None, patch).await
    }

    /// Applies a configuration.
    ///
    /// Dropping the future does not take the request back: the server may act on it. Later
    /// reads wait until the cache has listed the kind anew.
    ///
    /// # Errors
    /// An error from the server.
    pub async fn apply(&self, config: &Value) -> Result<Value, ClientError> {
        self.client.apply_value(self.resource, config, None).await
    }

    /// Deletes an object.
    ///
    /// Dropping the future does not take the request back: the server may act on it. Later
    /// reads wait until the cache has listed the kind anew.
    ///
    /// # Errors
    /// An error from the server.
    pub async fn delete(
        &self,
        key: impl KeyFor<DynamicResourceScope>,
        options: &DeleteOptions,
    ) -> Result<(), ClientError> {
        self.client.delete_at(self.resource, &key.into_key(), options).await
    }

    /// Deletes all objects of one namespace (or of a kind without namespaces) that the query selects.
    ///
    /// Dropping the future does not take the request back: the server may act on it. Later
    /// reads wait until the cache has listed the kind anew.
    ///
    /// # Errors
    /// An error from the server.
    pub async fn delete_collection(&self, query: Query, options: &DeleteOptions) -> Result<(), ClientError> {
        self.client.delete_collection_at(self.resource, self.client.query_within(query), options).await
    }
}
