//! The patch types of Kubernetes.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::Value;

use crate::error::ClientError;

/// A change to an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    /// RFC 7386: what the patch mentions replaces what was there, `null` removes it.
    Merge(Value),
    /// Kubernetes' merge that knows lists by their keys; built-in kinds only.
    Strategic(Value),
    /// RFC 6902: a list of operations; `test` operations make it conditional.
    Json(Value),
}

impl Patch {
    /// The merge patch that turns `old` into `new`.
    ///
    /// With [`Patch::locked`] it only applies if nobody else wrote since `old` was read.
    ///
    /// # Errors
    /// When one of them does not encode.
    pub fn merge_from<K: Serialize>(old: &K, new: &K) -> Result<Self, ClientError> {
        let encode = |object: &K| {
            serde_json::to_value(object)
                .map_err(|source| ClientError::Encode { kind: Cow::Borrowed("patch"), source })
        };
        Ok(Patch::Merge(
            merge_difference(&encode(old)?, &encode(new)?)
                .unwrap_or_else(|| Value::Object(Default::default())),
        ))
    }

    /// Makes a merge or strategic patch apply only to this resourceVersion.
    #[must_use]
    pub fn locked(mut self, resource_version: &str) -> Self {
        if let Patch::Merge(value) | Patch::Strategic(value) = &mut self {
            value["metadata"]["resourceVersion"] = Value::from(resource_version);
        }
        self
    }

    /// [Locks](Patch::locked) a merge patch that replaces a list to the version that was read.
    ///
    /// A merge patch replaces a list whole, so it would also remove what others have added since
    /// the list was read, for example a condition. A strategic patch merges most lists by key.
    #[must_use]
    pub fn locked_for_lists(self, read: &ObjectMeta) -> Self {
        fn holds_list(value: &Value) -> bool {
            match value {
                Value::Array(_) => true,
                Value::Object(fields) => fields.values().any(holds_list),
                _ => false,
            }
        }
        match (&self, &read.resource_version) {
            (Patch::Merge(value), Some(version)) if holds_list(value) => self.locked(version),
            _ => self,
        }
    }

    /// Whether a merge patch would change nothing.
    pub fn is_empty(&self) -> bool {
        match self {
            Patch::Merge(value) | Patch::Strategic(value) => {
                value.as_object().is_some_and(|map| map.is_empty())
            }
            Patch::Json(value) => value.as_array().is_some_and(|list| list.is_empty()),
        }
    }

    pub(crate) fn content_type(&self) -> &'static str {
        match self {
            Patch::Merge(_) => "application/merge-patch+json",
            Patch::Strategic(_) => "application/strategic-merge-patch+json",
            Patch::Json(_) => "application/json-patch+json",
        }
    }

    pub(crate) fn value(&self) -> &Value {
        match self {
            Patch::Merge(value) | Patch::Strategic(value) | Patch::Json(value) => value,
        }
    }
}

/// The merge patch from `old` to `new`; `None` when they are equal.
pub(crate) fn merge_difference(old: &Value, new: &Value) -> Option<Value> {
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        return (old != new).then(|| new.clone());
    };
    let mut patch = serde_json::Map::new();
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, value) in after {
        let change = match before.get(name) {
            Some(was) => merge_difference(was, value),
            None => Some(value.clone()),
        };
        if let Some(change) = change {
            patch.insert(name.clone(), change);
        }
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_difference_is_the_smallest_merge_patch() {
        let old = json!({"a": 1, "b": {"c": [1], "d": 2}, "e": 3});
        let new = json!({"a": 1, "b": {"c": [2], "d": 2}, "f": {}});
        assert_eq!(merge_difference(&old, &new), Some(json!({"b": {"c": [2]}, "e": null, "f": {}})));
        assert_eq!(merge_difference(&old, &old), None);
        assert!(Patch::merge_from(&old, &old).unwrap().is_empty());
        let locked = Patch::merge_from(&old, &new).unwrap().locked("7");
        assert_eq!(locked.value()["metadata"]["resourceVersion"], "7");
    }
}
