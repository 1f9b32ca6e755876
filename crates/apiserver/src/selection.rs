//! The objects and the version that a list, a watch or a deletion of a collection asks for.

use setpoint_api::selector::{FieldSelector, LabelSelector};
use setpoint_store::{Entry, KeyRange};

use crate::error::{ApiError, Result};
use crate::registry::{Resource, fields, meta};
use crate::request::RequestInfo;

/// The objects that a list or watch selects.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
}

impl Selection {
    /// Reads and checks the selectors of a request. The name that was authorized bounds them.
    pub(crate) fn parse(resource: &Resource, info: &RequestInfo) -> Result<Self> {
        let RequestInfo { query, name, .. } = info;
        let labels = match query.get("labelSelector") {
            None => LabelSelector::everything(),
            Some(text) => {
                LabelSelector::parse(text).map_err(|error| ApiError::bad_request(error.to_string()))?
            }
        };
        let mut selected = match query.get("fieldSelector") {
            None => FieldSelector::everything(),
            Some(text) => {
                FieldSelector::parse(text).map_err(|error| ApiError::bad_request(error.to_string()))?
            }
        };
        fields::check(resource, &selected)?;
        if !name.is_empty() {
            if selected.is_everything() {
                selected = FieldSelector::equal("metadata.name", name);
            } else if selected.exact("metadata.name") != Some(name) {
                let text = "fieldSelector metadata.name doesn't match requested name";
                return Err(ApiError::bad_request(text));
            }
        }
        Ok(Selection { labels, fields: selected })
    }

    /// Whether every object is selected.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// Whether a stored object is selected.
    pub(crate) fn matches(&self, resource: &Resource, entry: &Entry) -> bool {
        if !self.labels.is_everything() {
            let labels = &meta(entry).labels;
            if !self.labels.matches_by(|key| labels.get(key).map(String::as_str)) {
                return false;
            }
        }
        self.fields.is_everything() || fields::matches(resource, &self.fields, entry)
    }
}

/// A `resourceVersion` that is no number, in Go's words.
#[derive(Debug, thiserror::Error)]
#[error("resourceVersion: Invalid value: {0}: strconv.ParseUint: parsing {0}: invalid syntax")]
pub(crate) struct VersionError(String);

/// Reads the version that a client sent.
pub(crate) fn parse_version(text: &str) -> Result<u64, VersionError> {
    text.parse().map_err(|_| VersionError(setpoint_api::go_format::quote(text)))
}

/// The keys that can match: a selected name is one key.
pub(crate) fn scope(resource: &Resource, info: &RequestInfo, selection: &Selection) -> KeyRange {
    let namespace = match selection.fields.exact("metadata.namespace") {
        Some(namespace) if resource.namespaced && info.namespace.is_empty() => namespace,
        _ => &info.namespace,
    };
    match selection.fields.exact("metadata.name") {
        Some(name) if !name.is_empty() && (!resource.namespaced || !namespace.is_empty()) => {
            KeyRange::key(resource.key(namespace, name))
        }
        _ => KeyRange::prefix(resource.range(namespace)),
    }
}
