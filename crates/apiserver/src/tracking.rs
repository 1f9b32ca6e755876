//! `metadata.managedFields` of a client's write: records which field manager owns which fields.

use serde_json::Value;
use setpoint_api::kind::GroupVersionKind;
use setpoint_machinery::apply::{self, ResetFields, Versions, WriteContext};
use setpoint_schema::Schema;

use crate::registry::Resource;
use crate::versions::builtin_views::is_other_view;
use crate::versions::present;
use crate::writer::Writer;

/// The facts about a kind that field tracking needs, owned for the time of a write.
pub(crate) struct Knowledge {
    schema: Schema,
    kind: GroupVersionKind,
    reset: ResetFields,
    subresource: String,
}

impl Knowledge {
    pub(crate) fn new(resource: &Resource, subresource: &str) -> Self {
        let own = resource.custom.is_some() || is_other_view(resource);
        let kind = if own {
            GroupVersionKind {
                group: resource.group.clone(),
                version: resource.version.clone(),
                kind: resource.kind.clone(),
            }
        } else {
            resource.stored_kind()
        };
        let schema = if own { resource.schema() } else { resource.stored_schema() };
        Knowledge {
            schema,
            kind,
            reset: ResetFields::of(
                &resource.group,
                &resource.plural,
                subresource,
                resource.facts.status,
                resource.custom.is_some(),
            ),
            subresource: subresource.to_owned(),
        }
    }

    pub(crate) fn context<'c>(&'c self, writer: &'c Writer<'_>) -> WriteContext<'c> {
        let versions: &dyn Versions = match &writer.ctx.resource.custom {
            Some(custom) => match &writer.conversions {
                Some(conversions) => conversions,
                None => &**custom,
            },
            None => &crate::versions::builtin_views::Views,
        };
        WriteContext {
            schema: &self.schema,
            kind: &self.kind,
            manager: &writer.manager,
            subresource: &self.subresource,
            now: writer.now,
            reset_fields: &self.reset,
            versions,
        }
    }
}

/// Tracks a create.
pub(crate) fn created(writer: &Writer<'_>, object: &mut Value) {
    let resource = &writer.ctx.resource;
    // Some kinds can be created by a write to their status.
    let knowledge = Knowledge::new(resource, &writer.ctx.info.subresource);
    in_own_version(resource, object, |object| apply::track_update(None, object, &knowledge.context(writer)));
}

/// Tracks an update or a patch.
pub(crate) fn updated(writer: &Writer<'_>, live: &Value, new: &mut Value) {
    let resource = &writer.ctx.resource;
    let knowledge = Knowledge::new(resource, &writer.ctx.info.subresource);
    if resource.is_stored_form() {
        return apply::track_update(Some(live), new, &knowledge.context(writer));
    }
    let shown = present::value(resource, live.clone());
    in_own_version(resource, new, |new| apply::track_update(Some(&shown), new, &knowledge.context(writer)));
}

/// Tracks owners in the version of the request, which is not the stored one.
fn in_own_version(resource: &Resource, object: &mut Value, note: impl FnOnce(&mut Value)) {
    if resource.is_stored_form() {
        return note(object);
    }
    if is_other_view(resource) {
        let mut shown = crate::versions::builtin_views::from_stored(resource, object.take());
        note(&mut shown);
        *object = crate::versions::builtin_views::to_stored(resource, shown);
        return;
    }
    object["apiVersion"] = Value::String(resource.api_version());
    note(object);
    object["apiVersion"] = Value::String(resource.storage_api_version.clone());
}
