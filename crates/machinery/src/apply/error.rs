//! Why an apply is refused, in kube-apiserver's words.

use serde_json::Value;

use super::managers::ManagedFieldsError;
use super::typed::{TypeMismatch, describe};
use super::updater::Conflict;
use super::versions::ConversionError;
use crate::fieldset::display_path;
use setpoint_api::kind::GroupVersionKind;

/// Why an apply is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ApplyError {
    /// The configuration is of another kind or version: 400.
    #[error("invalid object type: {}", kind_text(api_version, kind))]
    WrongKind {
        /// The configuration's version.
        api_version: String,
        /// The configuration's kind.
        kind: String,
    },
    /// The configuration carries managedFields: 400.
    #[error("metadata.managedFields must be nil")]
    ManagedFieldsInConfig,
    /// The configuration or the live object does not fit its type: 500, as kube-apiserver has it.
    #[error("{0}")]
    Untyped(String),
    /// The live object's managedFields do not decode: 500.
    #[error("failed to decode managed fields: {0}")]
    ManagedFields(ManagedFieldsError),
    /// The object does not fit its type in the version that some manager wrote in: 500.
    #[error(transparent)]
    Conversion(ConversionError),
    /// Others own fields that the configuration changes: 409 with reason Conflict.
    #[error("{}", conflict_message(.0))]
    Conflicts(Vec<Conflict>),
}

fn kind_text(api_version: &str, kind: &str) -> String {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    format!("{group}/{version}, Kind={kind}")
}

impl ApplyError {
    pub(super) fn untyped_config(config: &Value, kind: &GroupVersionKind, errors: &[TypeMismatch]) -> Self {
        let whose = object_text(config, kind);
        ApplyError::Untyped(format!("failed to create typed patch object ({whose}): {}", describe(errors)))
    }

    pub(super) fn untyped_live(live: &Value, kind: &GroupVersionKind, errors: &[TypeMismatch]) -> Self {
        let whose = object_text(live, kind);
        ApplyError::Untyped(format!("failed to create typed live object ({whose}): {}", describe(errors)))
    }

    /// Makes the error for the writers before the first apply: they become a manager of the live object before the
    /// configuration is read.
    pub(super) fn untyped_unmanaged(live: &Value, kind: &GroupVersionKind, errors: &[TypeMismatch]) -> Self {
        let whose = object_text(live, kind);
        ApplyError::Untyped(format!(
            "failed to create manager for existing fields: failed to convert new object ({whose}) to smd typed: {}",
            describe(errors)
        ))
    }

    /// The causes of the Status: message and field of each conflict. Their reason is `FieldManagerConflict`.
    pub fn causes(&self) -> Vec<(String, String)> {
        let ApplyError::Conflicts(conflicts) = self else { return Vec::new() };
        conflicts
            .iter()
            .map(|conflict| {
                let message = format!("conflict with {}", conflict.manager.describe());
                (message, display_path(&conflict.path))
            })
            .collect()
    }
}

fn object_text(object: &Value, kind: &GroupVersionKind) -> String {
    let text = |name: &str| {
        object
            .get("metadata")
            .and_then(|metadata| metadata.get(name))
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    format!("{}/{}; {}", text("namespace"), text("name"), kind_text(&kind.api_version(), &kind.kind))
}

fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        let who = only.manager.describe();
        return format!("Apply failed with 1 conflict: conflict with {who}: {}", display_path(&only.path));
    }
    let mut lines: Vec<String> = Vec::new();
    let mut previous = None;
    for conflict in conflicts {
        if previous != Some(&conflict.manager) {
            lines.push(format!("conflicts with {}:", conflict.manager.describe()));
            previous = Some(&conflict.manager);
        }
        lines.push(format!("- {}", display_path(&conflict.path)));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}
