//! `PUT` of one object.

use http::Response;
use serde_json::Value;

use crate::body::Body;
use crate::context::RequestContext;
use crate::decision::Decision;
use crate::error::{ApiError, Result};
use crate::object;
use crate::write::decode::{self, Decoded};
use crate::write::metadata::{Found, SYSTEM_FIELDS, check_name, place, single_owners};
use crate::write::{Change, Kind, Merge, State, Write, answer, transaction};
use crate::writer::Writer;

/// Replaces an object, or creates it where its kind allows that.
pub(crate) async fn update(ctx: &RequestContext, bytes: &[u8]) -> Result<Response<Body>> {
    let writer = Writer::new(ctx, "UpdateOptions")?;
    let mut sent = decode::body(&writer, bytes)?;
    let placed = place(ctx, &mut sent.object).and_then(|()| check_name(ctx, &sent.object));
    placed.map_err(|error| error.with_warnings(&sent.warnings))?;
    sent.warnings.extend(single_owners(&mut sent.object, Found::InBody));
    let unsent = SYSTEM_FIELDS.into_iter().filter(|field| sent.object["metadata"].get(field).is_none());
    let merge = Update { unsent: unsent.collect(), sent };
    let done = transaction::commit(&Write::new(&writer, Kind::Update, &merge)).await?;
    answer::object(ctx, done).await
}

struct Update {
    sent: Decoded,
    unsent: Vec<&'static str>,
}

impl Merge for Update {
    fn merge(&self, write: &Write<'_>, _: &mut State<'_>, change: &mut Change) -> Decision<()> {
        if change.live.is_none() && !may_create(write.ctx(), &self.sent.object) {
            let missing = ApiError::not_found(write.resource(), write.name);
            return Err(missing.with_warnings(&self.sent.warnings).into());
        }
        change.take(self.sent.clone());
        change.unsent.clone_from(&self.unsent);
        Ok(())
    }
}

/// Whether the client asks for no particular object that was there.
fn may_create(ctx: &RequestContext, sent: &Value) -> bool {
    ctx.resource.facts.create_on_update
        && object::meta_text(sent, "resourceVersion").is_empty()
        && object::meta_text(sent, "uid").is_empty()
}
