//! `PATCH` of one object: JSON patch, merge patch, strategic merge, server-side apply.

use http::Response;
use serde_json::Value;
use setpoint_machinery::apply;

use crate::body::Body;
use crate::context::RequestContext;
use crate::decision::Decision;
use crate::error::{ApiError, Result};
use crate::versions::present;
use crate::write::decode::{self, Decoded};
use crate::write::decoder::{self, DecodeHints};
use crate::write::metadata::{Found, check_name, place, single_owners};
use crate::write::patch::{
    Configuration, Patch, apply_refused, check_media_type, check_options, is_apply, report_doubled,
};
use crate::write::{Change, Kind, Merge, Outcome, State, Write, answer, transaction, validate};
use crate::writer::Writer;
use crate::{body, object, tracking};

/// Changes an object, or creates what is applied.
pub(crate) async fn patch(ctx: &RequestContext, bytes: &[u8]) -> Result<Response<Body>> {
    check_media_type(ctx)?;
    if is_apply(ctx) {
        return apply(ctx, bytes).await;
    }
    let patch = Patch::read(ctx, bytes)?;
    let writer = Writer::new(ctx, "PatchOptions")?;
    check_options(ctx)?;
    let merge = Patched { hints: patch.decode_hints(bytes), patch };
    let done = transaction::commit(&Write::new(&writer, Kind::Patch, &merge)).await?;
    answer::object(ctx, done).await
}

async fn apply(ctx: &RequestContext, bytes: &[u8]) -> Result<Response<Body>> {
    let Configuration { value: config, may_be_doubled } = Configuration::read(bytes)?;
    let writer = Writer::new(ctx, "PatchOptions")?;
    check_options(ctx)?;
    let doubled = if may_be_doubled { body::doubled_keys(bytes) } else { Vec::new() };
    let namespace = object::meta_text(&config, "namespace").to_owned();
    let hints = DecodeHints { applied: true, namespace, ..DecodeHints::default() };
    let merge = Applied { force: ctx.info.query.flag("force"), config, doubled, hints };
    let done = transaction::commit(&Write::new(&writer, Kind::Apply, &merge)).await?;
    answer::object(ctx, done).await
}

struct Patched {
    patch: Patch,
    hints: DecodeHints,
}

impl Merge for Patched {
    fn merge(&self, write: &Write<'_>, _: &mut State<'_>, change: &mut Change) -> Decision<()> {
        let (ctx, resource) = (write.ctx(), write.resource());
        let Some(live) = change.live_object() else {
            return Err(ApiError::not_found(resource, write.name).into());
        };
        let shown = present::value(resource, live.clone());
        let patched = self.patch.apply(shown, &resource.schema(), &ctx.work.interrupt)?;
        if !matches!(self.patch, Patch::Strategic(_)) {
            decoder::of(resource).check_patched_kind(resource, &patched)?;
        }
        let decoded = decode::patched(write.writer, &self.hints, patched)?;
        change.take(decoded);
        check_name(ctx, &change.new)?;
        place(ctx, &mut change.new)?;
        Ok(())
    }
}

struct Applied {
    config: Value,
    force: bool,
    /// Keys that stand twice in the configuration.
    doubled: Vec<String>,
    hints: DecodeHints,
}

impl Merge for Applied {
    /// Merges the configuration into the stored object, and notes who owns what on the way.
    fn merge(&self, write: &Write<'_>, _: &mut State<'_>, change: &mut Change) -> Decision<()> {
        let (ctx, resource) = (write.ctx(), write.resource());
        check_configuration(ctx, &self.config)?;
        if change.live.is_none() && !ctx.info.subresource.is_empty() && !resource.facts.create_on_update {
            return Err(ApiError::not_found(resource, write.name).into());
        }
        let shown = change.live_object().map(|live| present::borrowed(resource, live));
        let knowledge = tracking::Knowledge::new(resource, &ctx.info.subresource);
        let context = knowledge.context(write.writer);
        let applied = apply::server_side_apply(shown.as_deref(), &self.config, self.force, &context);
        let applied = applied.map_err(apply_refused)?;
        // Another version may not have all that is stored: then even what changes nothing is written; and webhooks are
        // asked about it.
        let is_needed =
            applied.changed || !resource.has_all_that_is_stored() || write.writer.reviews.is_some();
        let merged = is_needed.then(|| applied.object.into_owned());
        drop(shown);
        match (merged, change.live_object().is_some()) {
            (None, true) => self.unchanged(write, change)?,
            (merged, false) => self.create(write, merged.unwrap_or_default(), change)?,
            (Some(merged), true) => self.change(write, merged, change)?,
        }
        Ok(())
    }
}

impl Applied {
    fn unchanged(&self, write: &Write<'_>, change: &mut Change) -> Result<()> {
        change.warnings.extend(report_doubled(write.writer, &self.doubled)?);
        let warnings = change.live_object().map(|live| validate::warnings_of_unchanged(write, live));
        change.warnings.extend(warnings.unwrap_or_default());
        change.outcome = Some(Outcome::Unchanged);
        Ok(())
    }

    fn create(&self, write: &Write<'_>, merged: Value, change: &mut Change) -> Result<()> {
        let uid = object::meta_text(&self.config, "uid");
        if !uid.is_empty() {
            let text = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(ApiError::conflict(write.resource(), write.name, &text));
        }
        self.take(write, merged, change)?;
        place(write.ctx(), &mut change.new)?;
        change.warnings.extend(single_owners(&mut change.new, Found::AfterMutation));
        // A version in the configuration of what is created counts for nothing.
        change.sent_version.clear();
        Ok(())
    }

    fn change(&self, write: &Write<'_>, merged: Value, change: &mut Change) -> Result<()> {
        self.take(write, merged, change)?;
        check_name(write.ctx(), &change.new)?;
        place(write.ctx(), &mut change.new)?;
        change.warnings.extend(single_owners(&mut change.new, Found::AfterMutation));
        // An apply is conditional only if its configuration names a version.
        let version = object::meta_text(&self.config, "resourceVersion");
        if !version.is_empty() {
            version.clone_into(&mut change.sent_version);
        }
        Ok(())
    }

    fn take(&self, write: &Write<'_>, mut merged: Value, change: &mut Change) -> Result<()> {
        object::set_meta_text(&mut merged, "name", write.name);
        let mut decoded: Decoded = decode::patched(write.writer, &self.hints, merged)?;
        decoded.warnings.extend(report_doubled(write.writer, &self.doubled)?);
        change.take(decoded);
        Ok(())
    }
}

/// A configuration is an object, and of the object that the path names.
fn check_configuration(ctx: &RequestContext, config: &Value) -> Result<()> {
    if !config.is_object() {
        return Err(ApiError::bad_request("error decoding YAML: the configuration is not an object"));
    }
    if object::name(config).is_empty() { Ok(()) } else { check_name(ctx, config) }
}
