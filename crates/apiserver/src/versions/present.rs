//! Stored objects in the version that is asked for.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::{Value, json};

use super::builtin_views;
use crate::object;
use crate::registry::Resource;

/// The stored bytes in the version that is asked for.
pub(crate) fn bytes(resource: &Resource, bytes: &Bytes) -> Bytes {
    let as_stored = resource.has_all_that_is_stored();
    if resource.is_stored_form() && as_stored {
        return bytes.clone();
    }
    if resource.custom.is_some() && as_stored {
        let exchanged =
            object::with_api_version(bytes, &resource.storage_api_version, &resource.api_version());
        if let Some(exchanged) = exchanged {
            return exchanged;
        }
    }
    let value: Value = serde_json::from_slice(bytes).unwrap_or_default();
    let mut out = object::ordered(&self::value(resource, value));
    out.push(b'\n');
    out.into()
}

/// A stored value in the version that is asked for.
pub(crate) fn value(resource: &Resource, mut value: Value) -> Value {
    if builtin_views::is_other_view(resource) {
        return builtin_views::from_stored(resource, value);
    }
    if let Some(custom) = &resource.custom {
        value["apiVersion"] = json!(resource.api_version());
        custom.present(&resource.version, &mut value);
    }
    value
}

/// As [`value`], borrowed where the version that is asked for is the stored one.
pub(crate) fn borrowed<'v>(resource: &Resource, value: &'v Value) -> Cow<'v, Value> {
    if resource.custom.is_none() && !builtin_views::is_other_view(resource) {
        return Cow::Borrowed(value);
    }
    Cow::Owned(self::value(resource, value.clone()))
}

/// An object's metadata as an object of its own.
pub(crate) fn partial(value: &Value, version: &str, typed: bool) -> Value {
    let mut partial = json!({"metadata": value.get("metadata").cloned().unwrap_or_else(|| json!({}))});
    if typed {
        partial["kind"] = json!("PartialObjectMetadata");
        partial["apiVersion"] = json!(format!("meta.k8s.io/{version}"));
    }
    partial
}
