//! Preconditions of deletions.

use serde::Serialize;

/// The preconditions of a delete: `uid` and `resourceVersion`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Preconditions {
    /// It is this very object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// It is in this very state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

impl Preconditions {
    pub(super) fn is_empty(&self) -> bool {
        *self == Preconditions::default()
    }
}
