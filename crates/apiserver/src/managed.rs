//! `metadata.managedFields` of what the server itself changes.

use jiff::Timestamp;
use serde_json::Value;
use setpoint_api::kind::GroupVersionKind;
use setpoint_machinery::apply::{self, ResetFields, WriteContext};
use setpoint_schema::Schema;

/// Under whose name the server itself writes.
const SERVER: &str = "kube-apiserver";

/// A built-in kind that is stored as `v1`.
pub(crate) fn builtin_kind(group: &str, kind: &str) -> GroupVersionKind {
    GroupVersionKind { group: group.to_owned(), version: "v1".to_owned(), kind: kind.to_owned() }
}

/// Notes what the server itself changes, without a request, in objects of this plural name or a part of them.
pub(crate) fn by_server(
    kind: &GroupVersionKind,
    (plural, subresource): (&str, &str),
    now: Timestamp,
    live: Option<&Value>,
    new: &mut Value,
) {
    let schema = setpoint_schema::builtin().schema(&kind.group, &kind.version, &kind.kind);
    let context = WriteContext {
        schema: &schema.unwrap_or_else(Schema::any),
        kind,
        manager: SERVER,
        subresource,
        now,
        reset_fields: &ResetFields::of(&kind.group, plural, subresource, !subresource.is_empty(), false),
        versions: &crate::versions::builtin_views::Views,
    };
    apply::track_update(live, new, &context);
}
