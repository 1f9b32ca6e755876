//! Server-side apply: typed or partial, sent only when it would change something.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use kube::core::ApiResource;
use serde::Serialize;
use serde_json::{Value, json};

use super::caches::ReadScope;
use super::extract::{Known, extract, extract_cached};
use super::intercept::Verb;
use super::owned;
use super::partial::{retain_set_fields, without_nulls};
use super::write::{APPLY, Write, decode, encode};
use super::{Client, Kind};
use crate::error::ClientError;
use crate::informer::{ManagedFields, Object};
use crate::key::{Key, KeyFor};

/// Parts of `metadata` that name the object and that no field manager owns.
const IDENTITY: [&str; 5] = ["name", "namespace", "uid", "resourceVersion", "managedFields"];

impl Client {
    /// Applies an object of the program's type, whole or in part. A field that is `None` is not touched, nor is a required
    /// text, list or object of a built-in kind that is empty: `..Default::default()` stands for all fields that this
    /// client does not want to own. Numbers and booleans that are no `Option` are always sent.
    ///
    /// Sends nothing if the cache shows that this client owns exactly these fields with exactly these values.
    ///
    /// ```no_run
    /// # use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
    /// # use setpoint::{Client, ClientError, Key};
    /// # async fn example(client: &Client, key: &Key) -> Result<(), ClientError> {
    /// // Owns `spec.replicas` and nothing else.
    /// let spec = DeploymentSpec { replicas: Some(3), ..Default::default() };
    /// client.apply(&Deployment { metadata: key.metadata(), spec, ..Default::default() }).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`Client::apply_partial`] takes JSON, which can also own a `null` or something empty.
    ///
    /// Dropping the future does not take the request back: the server may act on it. Later
    /// reads wait until the cache has listed the kind anew.
    ///
    /// # Errors
    /// An error from the server.
    pub async fn apply<K: Kind>(&self, object: &K) -> Result<Arc<K>, ClientError> {
        let encoded = serde_json::to_value(object);
        let mut config = encoded.map_err(|source| ClientError::Encode { kind: K::kind(&()), source })?;
        retain_set_fields(&K::api_resource(), &mut config);
        self.apply_partial::<K>(&config).await
    }

    /// Applies a partial object: anything that serialises to the fields that this client wants to own, with
    /// `metadata.name` (and `namespace`).
    ///
    /// Dropping the future does not take the request back: the server may act on it. Later
    /// reads wait until the cache has listed the kind anew.
    ///
    /// # Errors
    /// An error from the server.
    pub async fn apply_partial<K: Kind>(&self, config: &impl Serialize) -> Result<Arc<K>, ClientError> {
        self.apply_config::<K>(config, None).await
    }

    /// Applies the status of this very object: another one that has taken its name is left alone. `status` is the status
    /// type of the kind, or another type that serialises to a part of it. A field that is `None` is not touched.
    ///
    /// Dropping the future does not take the request back: the server may act on it. Later
    /// reads wait until the cache has listed the kind anew.
    ///
    /// # Errors
    /// An error from the server.
    pub async fn apply_status<K: Kind>(
        &self,
        object: &K,
        status: &impl Serialize,
    ) -> Result<Arc<K>, ClientError> {
        let encoded = serde_json::to_value(status);
        let mut status = encoded.map_err(|source| ClientError::Encode { kind: K::kind(&()), source })?;
        without_nulls(&mut status);
        let mut config = json!({"metadata": {"name": object.meta().name}, "status": status});
        for (field, value) in [("namespace", &object.meta().namespace), ("uid", &object.meta().uid)] {
            if let Some(value) = value {
                config["metadata"][field] = value.as_str().into();
            }
        }
        self.apply_config::<K>(&config, Some("status")).await
    }

    async fn apply_config<K: Kind>(
        &self,
        config: &impl Serialize,
        subresource: Option<&str>,
    ) -> Result<Arc<K>, ClientError> {
        let resource = K::api_resource();
        let (key, config) = configuration(&resource, config, subresource)?;
        let key = self.key_for::<K>(key)?;
        let write = apply(&resource, &key, subresource);
        self.check_write(&write)?;
        if let Some(object) = self.already_applied(&resource, &key, &config, subresource).await {
            let declared = self.typed_informer_for::<K>(ReadScope::of(key.namespace()))?;
            return Ok(declared.informer.lister::<K>().decode(&object)?);
        }
        decode(&resource.kind, &self.send_apply(write, &config).await?).map(Arc::new)
    }

    pub(super) async fn apply_value(
        &self,
        resource: &ApiResource,
        config: &Value,
        subresource: Option<&str>,
    ) -> Result<Value, ClientError> {
        let (key, config) = configuration(resource, config, subresource)?;
        let write = apply(resource, &key, subresource);
        self.check_write(&write)?;
        if let Some(object) = self.already_applied(resource, &key, &config, subresource).await {
            return decode(&resource.kind, &object.json());
        }
        decode(&resource.kind, &self.send_apply(write, &config).await?)
    }

    async fn send_apply(&self, mut write: Write<'_>, config: &Value) -> Result<Bytes, ClientError> {
        write.body = encode(write.resource, config)?;
        let owner = &self.identity.field_owner;
        self.core.field_owners.add(owner);
        let answer = self.write_unchecked(&write).await?;
        if !self.dry_run {
            let place = ReadScope::of(write.namespace);
            let declared = self.informer_for(write.resource, place, false).ok();
            let epoch = declared.and_then(|declared| declared.epoch(write.namespace)).unwrap_or_default();
            let subresource = write.subresource.unwrap_or_default();
            self.core.applied.learn((owner, subresource), config, &answer, epoch);
        }
        Ok(answer)
    }

    /// The cached object, if applying `config` would change nothing.
    async fn already_applied(
        &self,
        resource: &ApiResource,
        key: &Key,
        config: &Value,
        subresource: Option<&str>,
    ) -> Option<Object> {
        let declared = self.informer_for(resource, ReadScope::of(key.namespace()), false).ok()?;
        let state = self.state_for(&declared, Some(key), None).await.ok()?;
        // Against a state from before an own write nothing can be compared.
        if self.is_behind(&declared, key, &state) {
            return None;
        }
        let object = state.get(key.as_str())?;
        let owned = self.owned_fields(&object, subresource)?;
        let pinned = config["metadata"].get("resourceVersion").is_some();
        if owned.api_version != resource.api_version || object.is_terminating() || pinned {
            return None;
        }
        let fields: Value = serde_json::from_slice(&owned.fields).ok()?;
        let stored: Value = serde_json::from_slice(&object.json()).ok()?;
        let uid_fits = config["metadata"]["uid"].as_str().is_none_or(|uid| stored["metadata"]["uid"] == uid);
        let owner = (self.identity.field_owner.as_str(), subresource.unwrap_or_default());
        let epoch = state.progress(key.namespace()).map_or(0, |progress| progress.epoch);
        let unchanged = uid_fits
            && (owned::unchanged(&fields, &ownable(config), &stored)
                || self.core.applied.was_answered(owner, &object, config, epoch));
        if unchanged {
            self.identity.applies_skipped.inc();
        }
        unchanged.then_some(object)
    }

    /// The fields that this client owns of an object, if they are known.
    fn owned_fields<'a>(
        &self,
        object: &'a Object,
        subresource: Option<&str>,
    ) -> Option<Cow<'a, ManagedFields>> {
        let (owner, subresource) = (&self.identity.field_owner, subresource.unwrap_or_default());
        let cached = object.managed_fields().iter().find(|fields| {
            fields.manager == *owner && fields.operation == "Apply" && fields.subresource == subresource
        });
        let told = || self.core.applied.find((owner, subresource), object);
        cached.map(Cow::Borrowed).or_else(|| told().map(Cow::Owned))
    }

    /// The part of an object that this client applied: what to change and apply again. `None` if it applied nothing
    /// there. From the cache where that knows; the server is asked about objects that were cached before this client's
    /// first apply, or without some of its fields (see [`InformerOptions`](crate::informer::InformerOptions)). Of a map that it
    /// applied empty only that is given, and not what others put into it; about those of kinds that are not built in the
    /// server is asked too.
    ///
    /// Dropping the future ends the read and changes nothing.
    ///
    /// # Errors
    /// When no informer keeps the kind, the object does not decode, or what the server says.
    pub async fn extract<K: Kind>(&self, key: impl KeyFor<K::Scope>) -> Result<Option<Value>, ClientError> {
        self.extract_at::<K>(self.key_for::<K>(key)?, None).await
    }

    /// As [`Client::extract`], of what was applied with [`Client::apply_status`].
    ///
    /// Dropping the future ends the read and changes nothing.
    ///
    /// # Errors
    /// As [`Client::extract`].
    pub async fn extract_status<K: Kind>(
        &self,
        key: impl KeyFor<K::Scope>,
    ) -> Result<Option<Value>, ClientError> {
        self.extract_at::<K>(self.key_for::<K>(key)?, Some("status")).await
    }

    async fn extract_at<K: Kind>(
        &self,
        key: Key,
        subresource: Option<&str>,
    ) -> Result<Option<Value>, ClientError> {
        let resource = K::api_resource();
        if self.reads_server() {
            let config = self.extract_live(&resource, &key, subresource).await?;
            return Ok(config.map(|config| named(config, &resource, &key)));
        }
        self.check_read(Verb::Get, &resource.kind, key.namespace(), Some(key.name()))?;
        let declared = self.typed_informer_for::<K>(ReadScope::of(key.namespace()))?;
        let Some(object) = self.state_for(&declared, Some(&key), None).await?.get(key.as_str()) else {
            return Ok(None);
        };
        let cached = match self.owned_fields(&object, subresource) {
            Some(owned) => {
                Some((decode(&resource.kind, &owned.fields)?, decode(&resource.kind, &object.json())?))
            }
            None => None,
        };
        let cached: Option<(Value, Value)> =
            cached.filter(|(fields, stored)| owned::is_whole(fields, stored));
        let config = match cached.and_then(|(fields, stored)| extract_cached(&fields, &stored, &resource)) {
            Some(config) => Some(config),
            None => self.extract_live(&resource, &key, subresource).await?,
        };
        Ok(config.map(|config| named(config, &resource, &key)))
    }

    /// As the server has it, which knows what everybody owns.
    async fn extract_live(
        &self,
        resource: &ApiResource,
        key: &Key,
        subresource: Option<&str>,
    ) -> Result<Option<Value>, ClientError> {
        let Some(live) = self.live_get::<Value>(resource, key, None).await? else { return Ok(None) };
        let entries = live["metadata"]["managedFields"].as_array();
        let (own, others): (Vec<&Value>, Vec<&Value>) = entries.into_iter().flatten().partition(|entry| {
            entry["manager"] == self.identity.field_owner.as_str()
                && entry["operation"] == "Apply"
                && entry["subresource"].as_str() == subresource
        });
        let Some(own) = own.first() else { return Ok(None) };
        let others = others.into_iter().map(|entry| &entry["fieldsV1"]).collect();
        Ok(extract(&own["fieldsV1"], &live, &Known::of(resource).with_others(others)))
    }
}

/// An extracted configuration with its types and its name, as it can be applied again.
fn named(mut config: Value, resource: &ApiResource, key: &Key) -> Value {
    config["apiVersion"] = resource.api_version.clone().into();
    config["kind"] = resource.kind.clone().into();
    config["metadata"]["name"] = key.name().into();
    if let Some(namespace) = key.namespace() {
        config["metadata"]["namespace"] = namespace.into();
    }
    config
}

/// An apply, still without its body: most are never sent.
fn apply<'a>(resource: &'a ApiResource, key: &'a Key, subresource: Option<&'a str>) -> Write<'a> {
    Write {
        verb: Verb::Apply,
        resource,
        namespace: key.namespace(),
        name: Some(key.name()),
        subresource,
        content_type: APPLY,
        body: Bytes::new(),
        force: true,
    }
}

/// The configuration as it is sent, with its types; for a subresource only that part of it.
fn configuration(
    resource: &ApiResource,
    config: &impl Serialize,
    subresource: Option<&str>,
) -> Result<(Key, Value), ClientError> {
    let encode_error = |source| ClientError::Encode { kind: resource.kind.clone().into(), source };
    let mut config = serde_json::to_value(config).map_err(encode_error)?;
    let missing = |field| ClientError::Incomplete { kind: Cow::Owned(resource.kind.clone()), field };
    let fields = config.as_object_mut().ok_or_else(|| missing("fields"))?;
    fields.insert("apiVersion".to_owned(), resource.api_version.clone().into());
    fields.insert("kind".to_owned(), resource.kind.clone().into());
    let metadata =
        fields.get_mut("metadata").and_then(Value::as_object_mut).ok_or_else(|| missing("metadata"))?;
    for server_side in ["managedFields", "creationTimestamp", "generation", "selfLink"] {
        metadata.remove(server_side);
    }
    let text = |field: &str| metadata.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    let key = Key::new(text("namespace"), text("name").ok_or_else(|| missing("metadata.name"))?);
    if let Some(subresource) = subresource {
        metadata.retain(|name, _| IDENTITY.contains(&name.as_str()));
        fields.retain(|name, _| ["apiVersion", "kind", "metadata", subresource].contains(&name.as_str()));
    } else if fields
        .get("status")
        .is_some_and(|status| status.is_null() || *status == Value::Object(Default::default()))
    {
        fields.remove("status");
    }
    Ok((key, config))
}

/// The configuration without what names the object: what the field manager will own.
fn ownable(config: &Value) -> Value {
    let mut config = config.clone();
    if let Some(fields) = config.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
        if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.retain(|name, _| !IDENTITY.contains(&name.as_str()));
            if metadata.is_empty() {
                fields.remove("metadata");
            }
        }
    }
    config
}
