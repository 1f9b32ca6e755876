//! Subresources: scale, eviction, binding, token and whatever else a kind has.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::intercept::Verb;
use super::patch::Patch;
use super::write::{JSON, Write, decode, encode};
use super::{Client, Kind};
use crate::error::ClientError;
use crate::key::{Key, KeyFor};

impl Client {
    /// Reads a subresource from the server; `None` if the object does not exist.
    ///
    /// Dropping the future ends the read and changes nothing.
    ///
    /// # Errors
    /// An error from the server.
    pub async fn get_subresource<K: Kind, T: DeserializeOwned>(
        &self,
        key: impl KeyFor<K::Scope>,
        subresource: &str,
    ) -> Result<Option<T>, ClientError> {
        self.live_get(&K::api_resource(), &self.key_for::<K>(key)?, Some(subresource)).await
    }

    /// Posts to a subresource: `eviction`, `binding`, `token`.
    ///
    /// Dropping the future does not take the request back: the server may act on it. Later
    /// reads wait until the cache has listed the kind anew.
    ///
    /// # Errors
    /// An error from the server.
    pub async fn create_subresource<K: Kind, T: DeserializeOwned>(
        &self,
        key: impl KeyFor<K::Scope>,
        subresource: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.write_subresource::<K, T>(Verb::Create, &self.key_for::<K>(key)?, subresource, JSON, body).await
    }

    /// Replaces a subresource: `scale`, `approval`.
    ///
    /// Dropping the future does not take the request back: the server may act on it. Later
    /// reads wait until the cache has listed the kind anew.
    ///
    /// # Errors
    /// An error from the server.
    pub async fn update_subresource<K: Kind, T: DeserializeOwned>(
        &self,
        key: impl KeyFor<K::Scope>,
        subresource: &str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        self.write_subresource::<K, T>(Verb::Update, &self.key_for::<K>(key)?, subresource, JSON, body).await
    }

    /// Changes a subresource.
    ///
    /// Dropping the future does not take the request back: the server may act on it. Later
    /// reads wait until the cache has listed the kind anew.
    ///
    /// # Errors
    /// An error from the server.
    pub async fn patch_subresource<K: Kind, T: DeserializeOwned>(
        &self,
        key: impl KeyFor<K::Scope>,
        subresource: &str,
        patch: &Patch,
    ) -> Result<T, ClientError> {
        let content_type = patch.content_type();
        let key = self.key_for::<K>(key)?;
        self.write_subresource::<K, T>(Verb::Patch, &key, subresource, content_type, patch.value()).await
    }

    async fn write_subresource<K: Kind, T: DeserializeOwned>(
        &self,
        verb: Verb,
        key: &Key,
        subresource: &str,
        content_type: &'static str,
        body: &impl Serialize,
    ) -> Result<T, ClientError> {
        let resource = K::api_resource();
        let write = Write {
            verb,
            resource: &resource,
            namespace: key.namespace(),
            name: Some(key.name()),
            subresource: Some(subresource),
            content_type,
            body: encode(&resource, body)?,
            force: false,
        };
        decode(&resource.kind, &self.write(write).await?)
    }
}
