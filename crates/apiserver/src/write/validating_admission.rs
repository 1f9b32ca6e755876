//! Lets the built-in plugins, the policies and the validating webhooks judge what will be stored.

use super::change::{Change, Kind, State, Write};
use super::terminate;
use crate::admission::webhook;
use crate::admission::{Attributes, Operation};
use crate::admission::{plugins, policy};
use crate::auth::access::{self, Access};
use crate::decision::Decision;
use crate::object;

pub(super) fn run(write: &Write<'_>, state: &mut State<'_>, change: &mut Change) -> Decision<()> {
    write.writer.check_converted()?;
    let (ctx, snapshot, reviews) = (write.ctx(), state.snapshot, write.writer.reviews.as_ref());
    if let Some(options) = write.delete {
        if let Some(attributes) = terminate::attributes(write, options, state, change)? {
            webhook::validate(ctx, reviews, || attributes)?;
        }
        return Ok(());
    }
    let Change { new, live, warnings, .. } = change;
    let live = live.as_ref().map(|live| &live.object);
    // An update or an apply that creates an object also needs the right to create.
    if live.is_none() && write.kind != Kind::Create {
        access::authorize_create(Access::of(ctx), snapshot, &ctx.user, &ctx.info)?;
    }
    if let Some(live) = live {
        object::set_meta_text(new, "resourceVersion", object::meta_text(live, "resourceVersion"));
    }
    policy::authorize(ctx, snapshot, new, live)?;
    let (random, generated) = (&write.writer.random(), write.has_generated(object::name(new)));
    warnings.extend(plugins::Write { ctx, random, snapshot, live, generated }.validate(new)?);
    let operation = if live.is_some() { Operation::Update } else { Operation::Create };
    let attributes = || Attributes::of_write(ctx, &write.writer.options, snapshot, operation);
    webhook::validate(ctx, reviews, || attributes().with(new.clone(), live))
}
