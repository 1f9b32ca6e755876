//! `DELETE` of one object.

use http::{Response, StatusCode};
use setpoint_api::status::{Details, Status};

use crate::body::Body;
use crate::context::RequestContext;
use crate::decision::Decision;
use crate::error::{ApiError, Result};
use crate::write::delete_options::DeleteOptions;
use crate::write::transaction::Done;
use crate::write::{Change, Kind, Merge, Outcome, State, Write, answer, transaction};
use crate::write_options::WriteOptions;
use crate::writer::Writer;
use crate::{object, representation, respond};

/// Deletes an object, or begins to.
pub(crate) async fn delete(ctx: &RequestContext, bytes: &[u8]) -> Result<Response<Body>> {
    let options = DeleteOptions::read(ctx, bytes)?;
    let writer = Writer::with(ctx, WriteOptions::of_delete(options.is_dry_run()));
    let done = transaction::commit(&Write::deletion(&writer, Kind::Delete, &Delete, &options)).await?;
    match done.change.outcome {
        Some(Outcome::Deleted) => {
            let warnings = done.change.warnings.clone();
            respond::warned(gone(ctx, done), &warnings)
        }
        _ => answer::object(ctx, done).await,
    }
}

struct Delete;

impl Merge for Delete {
    fn merge(&self, write: &Write<'_>, _: &mut State<'_>, change: &mut Change) -> Decision<()> {
        match change.live {
            Some(_) => Ok(()),
            None => Err(ApiError::not_found(write.resource(), write.name).into()),
        }
    }
}

fn gone(ctx: &RequestContext, done: Done) -> Result<Response<Body>> {
    let mut object = done.change.new;
    if ctx.resource.rules.returns_deleted {
        // The version of a deleted object is that of its deletion.
        if let Some(event) = done.events.iter().find(|event| event.new.is_none()) {
            object::set_meta_text(&mut object, "resourceVersion", &event.revision.to_string());
        }
        return representation::one_value(ctx, StatusCode::OK, object);
    }
    let details = Details {
        name: object::name(&object).to_owned(),
        group: ctx.resource.group.clone(),
        kind: ctx.resource.plural.clone(),
        uid: object::meta_text(&object, "uid").to_owned(),
        ..Details::default()
    };
    respond::value(StatusCode::OK, &ctx.negotiated, &Status::success(details).to_value())
}
