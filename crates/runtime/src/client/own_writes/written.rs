//! The part of an answer that says what a write did.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The part of an answer that says which state was written.
#[derive(Debug, Default, Deserialize)]
pub(in crate::client) struct Written {
    #[serde(default)]
    pub(in crate::client) kind: String,
    #[serde(default)]
    pub(in crate::client) metadata: WrittenMeta,
    /// The details of a Status alone: another kind may have anything under this name.
    #[serde(skip)]
    pub(in crate::client) details: WrittenDetails,
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
pub(in crate::client) struct WrittenMeta {
    #[serde(default)]
    pub(in crate::client) name: String,
    #[serde(default)]
    pub(in crate::client) namespace: Option<String>,
    #[serde(default)]
    pub(in crate::client) uid: String,
    #[serde(default)]
    pub(in crate::client) resource_version: String,
    #[serde(default)]
    pub(in crate::client) labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    finalizers: Option<Vec<String>>,
    #[serde(default)]
    pub(in crate::client) deletion_timestamp: Option<String>,
    #[serde(default)]
    deletion_grace_period_seconds: Option<i64>,
}

/// The objects that a deletion of several found.
#[derive(Debug, Default, Deserialize)]
pub(in crate::client) struct WrittenList {
    #[serde(default)]
    pub(in crate::client) items: Vec<Written>,
}

#[derive(Deserialize)]
struct WrittenStatus {
    #[serde(default)]
    details: WrittenDetails,
}

#[derive(Debug, Default, Deserialize)]
pub(in crate::client) struct WrittenDetails {
    #[serde(default)]
    pub(in crate::client) uid: String,
}

impl WrittenMeta {
    pub(in crate::client) fn has_finalizers(&self) -> bool {
        self.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty())
    }
}

impl Written {
    pub(in crate::client) fn read(answer: &[u8]) -> Option<Written> {
        let mut written: Written = serde_json::from_slice(answer).ok()?;
        if written.kind == "Status" {
            let status = serde_json::from_slice::<WrittenStatus>(answer);
            written.details = status.map(|status| status.details).unwrap_or_default();
        }
        if written.kind == "Namespace" {
            let namespace = serde_json::from_slice::<WrittenNamespace>(answer);
            written.namespace_held = namespace.is_ok_and(|namespace| !namespace.spec.finalizers.is_empty());
        }
        Some(written)
    }

    /// Whether a deletion left the object there: it waits for finalizers or a grace period.
    pub(in crate::client) fn remains(&self) -> bool {
        let metadata = &self.metadata;
        metadata.deletion_timestamp.is_some()
            && (self.namespace_held
                || metadata.has_finalizers()
                || metadata.deletion_grace_period_seconds.is_some_and(|seconds| seconds > 0))
    }

    /// Whether the write took away the last thing that the object's deletion waited for. The server answers with the
    /// state before, at its old revision: only the object's end shows that the write was seen.
    pub(in crate::client) fn was_last(&self) -> bool {
        self.metadata.deletion_timestamp.is_some() && !self.remains()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_are_those_of_a_status_and_of_no_other_kind() {
        let status = br#"{"kind":"Status","details":{"uid":"u"}}"#;
        assert_eq!(Written::read(status).unwrap().details.uid, "u");
        for details in [r#""any text""#, r#"{"uid":7}"#, r#"{"uid":"not mine"}"#] {
            let object = format!(r#"{{"kind":"Order","metadata":{{"name":"o"}},"details":{details}}}"#);
            let written = Written::read(object.as_bytes()).unwrap();
            assert_eq!((written.metadata.name.as_str(), written.details.uid.as_str()), ("o", ""));
        }
    }
}
