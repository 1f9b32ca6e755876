//! The part of an answer that says what a write did.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The part of an answer that says which state was written.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Written {
    #[serde(default)]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) metadata: WrittenMeta,
    #[serde(default)]
    pub(super) details: WrittenDetails,
    /// A namespace that finalizers of its own hold back.
    #[serde(skip)]
    namespace_held: bool,
}

/// The finalizers that only a namespace has, beside those of every object.
#[derive(Deserialize)]
struct WrittenNamespace {
    spec: NamespaceFinalizers,
}

#[derive(Deserialize)]
struct NamespaceFinalizers {
    finalizers: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WrittenMeta {
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) namespace: Option<String>,
    #[serde(default)]
    pub(super) uid: String,
    #[serde(default)]
    pub(super) resource_version: String,
    #[serde(default)]
    pub(super) labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    finalizers: Option<Vec<String>>,
    #[serde(default)]
    pub(super) deletion_timestamp: Option<String>,
    #[serde(default)]
    deletion_grace_period_seconds: Option<i64>,
}

/// The objects that a deletion of several found.
#[derive(Debug, Default, Deserialize)]
pub(super) struct WrittenList {
    #[serde(default)]
    pub(super) items: Vec<Written>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct WrittenDetails {
    #[serde(default)]
    pub(super) uid: String,
}

impl Written {
    pub(super) fn read(answer: &[u8]) -> Option<Written> {
        let mut written: Written = serde_json::from_slice(answer).ok()?;
        if written.kind == "Namespace" {
            let namespace = serde_json::from_slice::<WrittenNamespace>(answer);
            written.namespace_held = namespace.is_ok_and(|namespace| !namespace.spec.finalizers.is_empty());
        }
        Some(written)
    }

    /// Whether a deletion left the object there: it waits for finalizers or a grace period.
    pub(super) fn remains(&self) -> bool {
        let metadata = &self.metadata;
        metadata.deletion_timestamp.is_some()
            && (self.namespace_held
                || metadata.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty())
                || metadata.deletion_grace_period_seconds.is_some_and(|seconds| seconds > 0))
    }

    /// Whether the write took away the last thing that the object's deletion waited for. The server answers with the
    /// state before, at its old revision: only the object's end shows that the write was seen.
    pub(super) fn was_last(&self) -> bool {
        self.metadata.deletion_timestamp.is_some() && !self.remains()
    }
}
