//! Conversion between the versions of a kind: a hub, and spokes that are converted to and from it.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use kube::core::ApiResource;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::wire::{self, ConversionRequest};
use crate::client::Kind;
use crate::redact::redact;

type Convert = Arc<dyn Fn(Value) -> Result<Value, String> + Send + Sync>;

/// The two ways between a version and the hub.
#[derive(Clone)]
struct Spoke {
    to_hub: Convert,
    from_hub: Convert,
    /// Writes an object of this version as its type does.
    normal: Convert,
}

/// The versions of a kind, and how one becomes another: each spoke is converted to the hub and back, and from spoke to
/// spoke over the hub.
///
/// A function gets the whole object. The metadata of its result is that of the object that came, but for labels and
/// annotations, because the API server refuses other changes. Keep in an annotation what a version cannot express.
///
/// ```
/// use setpoint::webhook::Conversion;
///
/// mod v1 {
///     # use kube::CustomResource;
///     # use schemars::JsonSchema;
///     # use serde::{Deserialize, Serialize};
///     #[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
///     #[kube(group = "example.org", version = "v1", kind = "Cafe", namespaced)]
///     pub struct CafeSpec {
///         pub tables: u32,
///     }
/// }
/// mod v1beta1 {
///     # use kube::CustomResource;
///     # use schemars::JsonSchema;
///     # use serde::{Deserialize, Serialize};
///     #[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
///     #[kube(group = "example.org", version = "v1beta1", kind = "Cafe", namespaced)]
///     pub struct CafeSpec {
///         pub table_count: u32,
///     }
/// }
///
/// fn up(old: v1beta1::Cafe) -> Result<v1::Cafe, String> {
///     let spec = v1::CafeSpec { tables: old.spec.table_count };
///     Ok(v1::Cafe { metadata: old.metadata, spec })
/// }
/// fn down(new: v1::Cafe) -> Result<v1beta1::Cafe, String> {
///     let spec = v1beta1::CafeSpec { table_count: new.spec.tables };
///     Ok(v1beta1::Cafe { metadata: new.metadata, spec })
/// }
///
/// let conversion = Conversion::<v1::Cafe>::of_hub().spoke(up, down);
/// // In a test: objects that the schema allows survive the way there and back.
/// use kube::CustomResourceExt;
/// conversion.check_round_trips(&v1beta1::Cafe::crd(), 1, 100).unwrap();
/// ```
pub struct Conversion<H> {
    pub(super) versions: Versions,
    hub: PhantomData<fn() -> H>,
}

impl<H> Clone for Conversion<H> {
    fn clone(&self) -> Self {
        Conversion { versions: self.versions.clone(), hub: PhantomData }
    }
}

impl<H> fmt::Debug for Conversion<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spokes: Vec<_> = self.versions.spokes.keys().collect();
        f.debug_struct("Conversion")
            .field("hub", &self.versions.resource.api_version)
            .field("spokes", &spokes)
            .finish()
    }
}

impl<H: Kind> Conversion<H> {
    /// Returns a conversion with only a hub.
    pub fn of_hub() -> Self {
        let versions = Versions {
            resource: H::api_resource(),
            normal: erased(Ok::<H, String>),
            spokes: BTreeMap::new(),
        };
        Conversion { versions, hub: PhantomData }
    }

    /// Adds a version, with the function to the hub and the one back. An error refuses the conversion with its text.
    #[must_use]
    pub fn spoke<S, E>(
        mut self,
        to_hub: impl Fn(S) -> Result<H, E> + Send + Sync + 'static,
        from_hub: impl Fn(H) -> Result<S, E> + Send + Sync + 'static,
    ) -> Self
    where
        S: Kind,
        E: fmt::Display,
    {
        let normal = erased(Ok::<S, String>);
        let spoke = Spoke { to_hub: erased(to_hub), from_hub: erased(from_hub), normal };
        self.versions.spokes.insert(S::api_resource().api_version, spoke);
        self
    }
}

/// The versions of a kind behind JSON.
#[derive(Clone)]
pub(super) struct Versions {
    resource: ApiResource,
    /// Writes an object of the hub as its type does.
    normal: Convert,
    spokes: BTreeMap<String, Spoke>,
}

impl Versions {
    /// The name of the definition whose versions are converted.
    pub(super) fn definition(&self) -> String {
        format!("{}.{}", self.resource.plural, self.resource.group)
    }

    /// The hub, for the path and the metrics.
    pub(super) fn resource(&self) -> &ApiResource {
        &self.resource
    }

    /// Answers a review. All objects are converted, or none.
    pub(super) async fn answer(&self, request: ConversionRequest) -> Value {
        let to = &request.desired_api_version;
        let mut converted = Vec::with_capacity(request.objects.len());
        for object in request.objects {
            // A list may be long: the time limit and other requests get their turn between objects.
            tokio::task::consume_budget().await;
            let named = named(&object);
            match self.convert(object, to) {
                Ok(object) => converted.push(object),
                Err(why) => {
                    tracing::warn!(object = named, to, error = why, "could not convert an object");
                    return wire::not_converted(&request.uid, &format!("{named}: {why}"));
                }
            }
        }
        wire::converted(&request.uid, converted)
    }

    /// One object in another version.
    pub(super) fn convert(&self, object: Value, to: &str) -> Result<Value, String> {
        let from = object["apiVersion"].as_str().unwrap_or_default().to_owned();
        if object["kind"] != self.resource.kind {
            return Err(format!("the webhook converts {}, not {}", self.resource.kind, object["kind"]));
        }
        if from == to {
            return Ok(object);
        }
        let (hub, metadata) = (&self.resource.api_version, object["metadata"].clone());
        let at_hub = if from == *hub { object } else { (self.spoke(&from)?.to_hub)(object)? };
        let mut converted = if to == hub { at_hub } else { (self.spoke(to)?.from_hub)(at_hub)? };
        let given = std::mem::replace(&mut converted["metadata"], metadata);
        for field in ["labels", "annotations"] {
            keep(&mut converted["metadata"], &given, field);
        }
        converted["apiVersion"] = to.into();
        Ok(converted)
    }

    /// Every version, the hub first.
    pub(super) fn all(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.resource.api_version).chain(self.spokes.keys().map(String::as_str))
    }

    /// An object as its type writes it.
    pub(super) fn normal(&self, object: Value) -> Result<Value, String> {
        let version = object["apiVersion"].as_str().unwrap_or_default();
        let normal =
            if version == self.resource.api_version { &self.normal } else { &self.spoke(version)?.normal };
        normal(object)
    }

    fn spoke(&self, version: &str) -> Result<&Spoke, String> {
        self.spokes.get(version).ok_or_else(|| format!("the webhook knows no version {version}"))
    }
}

fn erased<A: Kind, B: Kind, E: fmt::Display>(
    function: impl Fn(A) -> Result<B, E> + Send + Sync + 'static,
) -> Convert {
    Arc::new(move |object| {
        let typed: A = decoded(object)?;
        let converted = function(typed).map_err(|error| error.to_string())?;
        serde_json::to_value(converted).map_err(|error| error.to_string())
    })
}

fn decoded<K: Kind + DeserializeOwned>(object: Value) -> Result<K, String> {
    serde_json::from_value(object).map_err(|error| {
        let (version, reason) = (K::api_resource().api_version, redact(&error.to_string()));
        format!("the object does not decode as {version}: {reason}")
    })
}

/// Takes a field of the metadata from what the function gave.
fn keep(metadata: &mut Value, given: &Value, field: &str) {
    let Some(metadata) = metadata.as_object_mut() else { return };
    match given.get(field).filter(|value| !value.is_null()) {
        Some(value) => drop(metadata.insert(field.to_owned(), value.clone())),
        None => drop(metadata.remove(field)),
    }
}

/// The object, for errors and logs.
pub(super) fn named(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (kind, name) = (text("/kind"), text("/metadata/name"));
    match text("/metadata/namespace") {
        "" => format!("{kind} {name}"),
        namespace => format!("{kind} {namespace}/{name}"),
    }
}

#[cfg(test)]
#[path = "conversion_tests.rs"]
mod tests;
