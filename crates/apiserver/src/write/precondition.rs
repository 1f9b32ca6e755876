//! Checks whether the sender has seen the newest state of the object, or may write without.

use serde_json::Value;
use setpoint_api::Status;
use setpoint_api::cause::{Cause, Path};
use setpoint_api::kind::GroupKind;

use super::change::{Change, Kind, Live, State, Write};
use crate::decision::Decision;
use crate::error::{ApiError, Result};
use crate::object;

pub(super) fn run(write: &Write<'_>, _: &mut State<'_>, change: &mut Change) -> Decision<()> {
    let Some(live) = &change.live else { return Ok(()) };
    // A patch cannot change the uid, and an apply has compared it.
    if write.kind == Kind::Update {
        check_uid(write, &change.new, live)?;
    }
    check_version(write, &change.sent_version, live)?;
    Ok(())
}

fn check_uid(write: &Write<'_>, sent: &Value, live: &Live) -> Result<()> {
    let (resource, name) = (write.resource(), write.name);
    let (uid, live_uid) = (object::meta_text(sent, "uid"), object::meta_text(&live.object, "uid"));
    if uid.is_empty() || uid == live_uid {
        return Ok(());
    }
    let namespace =
        if resource.namespaced { format!("{}/", write.ctx().info.namespace) } else { String::new() };
    let text = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{}/{namespace}{name}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {live_uid}",
        resource.plural,
    );
    Err(ApiError::conflict(resource, name, &text))
}

fn check_version(write: &Write<'_>, sent: &str, live: &Live) -> Result<()> {
    let resource = write.resource();
    match sent {
        "" | "0" if resource.facts.unconditional_update => Ok(()),
        "" | "0" => {
            let path = Path::new("metadata.resourceVersion");
            let cause = Cause::invalid(&path, 0, "must be specified for an update");
            let kind = GroupKind::new(&*resource.group, &*resource.plural);
            Err(Status::invalid(&kind, write.name, vec![cause]).into())
        }
        version => match version.parse::<u64>() {
            Ok(version) if version == live.entry.mod_revision => Ok(()),
            Ok(_) => Err(ApiError::modified(resource, write.name)),
            Err(_) => {
                let quoted = setpoint_api::go_format::quote(version);
                Err(ApiError::internal_plain(format!("strconv.ParseUint: parsing {quoted}: invalid syntax")))
            }
        },
    }
}
