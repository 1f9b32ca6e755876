//! Gives a new object its name, uid and time of creation; a changed object keeps what its client cannot change.

use serde_json::{Value, json};
use setpoint_api::cause::{Cause, Path};
use setpoint_api::{clock, name};

use super::change::{Change, State, Write};
use super::metadata::{ABSENT_AT_FIRST, keep_system_fields};
use crate::decision::Decision;
use crate::error::{ApiError, Result};
use crate::object;

pub(super) fn run(write: &Write<'_>, state: &mut State<'_>, change: &mut Change) -> Decision<()> {
    match &change.live {
        Some(live) => keep_system_fields(&mut change.new, &live.object),
        None => {
            name_it(write, state, &mut change.new)?;
            let metadata = object::metadata_mut(&mut change.new);
            for field in ABSENT_AT_FIRST {
                metadata.remove(field);
            }
            metadata.insert("uid".into(), json!(write.uid()));
            metadata.insert("creationTimestamp".into(), json!(clock::rfc3339_seconds(write.writer.now)));
        }
    }
    Ok(())
}

/// Draws a name where only its beginning is given.
fn name_it(write: &Write<'_>, state: &State<'_>, new: &mut Value) -> Result<()> {
    let (ctx, resource) = (write.ctx(), write.resource());
    if !object::name(new).is_empty() {
        return Ok(());
    }
    let base = object::meta_text(new, "generateName").to_owned();
    if base.is_empty() {
        let cause = Cause::required(&Path::new("metadata.name"), "name or generateName is required");
        return Err(ApiError::invalid(resource, "", vec![cause]));
    }
    let namespace = object::meta_text(new, "namespace").to_owned();
    let generate = || name::generate(&base, &ctx.server.options().random);
    let is_free = |name: &str| state.snapshot.get(&resource.key(&namespace, name)).is_none();
    let name = write.generate_name(generate, is_free);
    let name = name.map_err(|taken| ApiError::generate_name_conflict(resource, &taken.0))?;
    object::set_meta_text(new, "name", &name);
    Ok(())
}
