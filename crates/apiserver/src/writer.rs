//! The writer of a request: user, time, options, and the answers of webhooks so far.

use jiff::Timestamp;
use serde_json::Value;
use setpoint_api::Random;
use setpoint_kinds::strategy::Context;

use crate::admission::webhook::Reviews;
use crate::context::RequestContext;
use crate::decision::{Decision, Stop};
use crate::error::Result;
use crate::header::first;
use crate::versions::conversion::Conversions;
use crate::write_options::{FieldValidation, MAX_MANAGER, WriteOptions};

/// A writer: user, time and options. It stays the same however often the write is decided.
pub(crate) struct Writer<'a> {
    pub(crate) ctx: &'a RequestContext,
    pub(crate) options: WriteOptions,
    pub(crate) now: Timestamp,
    /// The field manager.
    pub(crate) manager: String,
    /// The conversions that webhooks made for this write; none where versions differ in name only.
    pub(crate) conversions: Option<Conversions>,
    /// The answers of admission webhooks to this write; none where there is no webhook.
    pub(crate) reviews: Option<Reviews>,
    user: Value,
}

impl<'a> Writer<'a> {
    /// Reads the options of a request; `kind` is their kind in the error.
    pub(crate) fn new(ctx: &'a RequestContext, kind: &str) -> Result<Self> {
        Ok(Writer::with(ctx, WriteOptions::read(ctx, kind)?))
    }

    /// A writer with these options.
    pub(crate) fn with(ctx: &'a RequestContext, options: WriteOptions) -> Self {
        Writer {
            ctx,
            now: ctx.server.options().clock.now(),
            manager: options.field_manager.clone().unwrap_or_else(|| client_name(ctx)),
            options,
            conversions: Conversions::begin(&ctx.resource),
            reviews: Reviews::begin(ctx),
            user: ctx.user.to_value(),
        }
    }

    /// Whether nothing is to happen.
    pub(crate) fn is_dry_run(&self) -> bool {
        self.options.is_dry_run()
    }

    /// How unknown and doubled fields are treated.
    pub(crate) fn field_validation(&self) -> FieldValidation {
        self.options.field_validation.unwrap_or(FieldValidation::Warn)
    }

    /// Returns what the strategy of a kind needs of the writer.
    pub(crate) fn context(&self) -> Context<'_> {
        Context { now: self.now, user: &self.user }
    }

    /// The source of what a decision draws: the same numbers each time, where a webhook may see them.
    pub(crate) fn random(&self) -> Random {
        let random = || self.ctx.server.options().random.clone();
        self.reviews.as_ref().map_or_else(random, Reviews::random)
    }

    /// Stops a decision that lacks a conversion: no webhook need review what it came to.
    pub(crate) fn check_converted(&self) -> Decision<()> {
        match &self.conversions {
            Some(conversions) if conversions.is_missing() => Err(Stop::NeedsConversion),
            _ => Ok(()),
        }
    }

    /// The warnings of the webhooks that were asked.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.reviews.as_ref().map(Reviews::warnings).unwrap_or_default()
    }
}

/// Without a field manager the client's own name stands in: what precedes the slash in its user agent.
fn client_name(ctx: &RequestContext) -> String {
    let agent = first(&ctx.headers, http::header::USER_AGENT);
    let name = agent.split('/').next().unwrap_or("");
    let printable: String = name.chars().filter(|c| !c.is_control()).take(MAX_MANAGER).collect();
    if printable.is_empty() { "unknown".to_owned() } else { printable }
}
