//! `POST` to a collection.

use http::Response;
use serde_json::Value;

use crate::body::Body;
use crate::context::RequestContext;
use crate::decision::Decision;
use crate::error::{ApiError, Result};
use crate::object;
use crate::write::decode::{self, Decoded};
use crate::write::metadata::{Found, place, single_owners};
use crate::write::{Change, Kind, Merge, State, Write, answer, strategy, transaction};
use crate::writer::Writer;

/// Creates an object.
pub(crate) async fn create(ctx: &RequestContext, bytes: &[u8]) -> Result<Response<Body>> {
    if let Some(text) = strategy::of(&ctx.resource).refuses_creates() {
        let name = serde_json::from_slice::<Value>(bytes).unwrap_or_default();
        return Err(ApiError::forbidden(&ctx.resource.group_resource(), object::name(&name), text));
    }
    let writer = Writer::new(ctx, "CreateOptions")?;
    let mut sent = decode::body(&writer, bytes)?;
    place(ctx, &mut sent.object).map_err(|error| error.with_warnings(&sent.warnings))?;
    sent.warnings.extend(single_owners(&mut sent.object, Found::InBody));
    let merge = Create { sent };
    let mut done = transaction::commit(&Write::new(&writer, Kind::Create, &merge)).await?;
    if ctx.resource.rules.inert {
        done.change.warnings.push(format!(
            "{} are stored and served by this server; nothing acts on them",
            ctx.resource.group_resource()
        ));
    }
    answer::object(ctx, done).await
}

struct Create {
    sent: Decoded,
}

impl Merge for Create {
    fn merge(&self, _: &Write<'_>, _: &mut State<'_>, change: &mut Change) -> Decision<()> {
        change.take(self.sent.clone());
        Ok(())
    }
}
