//! `meta/v1.DeleteOptions`.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use setpoint_api::cause::{Cause, Path};

use crate::body;
use crate::context::RequestContext;
use crate::error::{ApiError, Result};
use crate::negotiate::{Format, Offer, body_format};
use crate::write_options::dry_run;

/// How an object is deleted.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeleteOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) grace_period_seconds: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) preconditions: Option<Preconditions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) orphan_dependents: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) propagation_policy: Option<String>,
    #[serde(skip_serializing_if = "is_none")]
    dry_run: Option<Vec<String>>,
}

fn is_none(dry_run: &Option<Vec<String>>) -> bool {
    dry_run.as_ref().is_none_or(Vec::is_empty)
}

/// The state that the object must be in.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Preconditions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) uid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) resource_version: Option<String>,
}

impl DeleteOptions {
    /// From the body, or from the query where there is no body: beside a body the query says nothing, not even that
    /// nothing is to happen.
    pub(crate) fn read(ctx: &RequestContext, bytes: &[u8]) -> Result<Self> {
        let options = if bytes.is_empty() { DeleteOptions::from_query(ctx)? } else { from_body(ctx, bytes)? };
        options.check()?;
        Ok(options)
    }

    fn from_query(ctx: &RequestContext) -> Result<Self> {
        let query = &ctx.info.query;
        let text = |name| query.get(name).filter(|text| !text.is_empty()).map(str::to_owned);
        let (uid, resource_version) = (text("uid"), text("resourceVersion"));
        let any = uid.is_some() || resource_version.is_some();
        Ok(DeleteOptions {
            grace_period_seconds: query.number("gracePeriodSeconds")?,
            preconditions: any.then_some(Preconditions { uid, resource_version }),
            orphan_dependents: query.optional_flag("orphanDependents"),
            propagation_policy: query.get("propagationPolicy").map(str::to_owned),
            dry_run: Some(query.all("dryRun").map(str::to_owned).collect()),
        })
    }

    fn check(&self) -> Result<()> {
        let mut causes = Vec::new();
        let path = Path::new("propagationPolicy");
        if self.orphan_dependents.is_some() && self.propagation_policy.is_some() {
            let text = "orphanDependents and deletionPropagation cannot be both set";
            causes.push(Cause::invalid(&path, self.propagation_policy.as_deref().unwrap_or(""), text));
        }
        if let Some(policy) = &self.propagation_policy
            && !["Background", "Foreground", "Orphan"].contains(&policy.as_str())
        {
            causes.push(Cause::not_supported(&path, policy, &["Foreground", "Background", "Orphan", "nil"]));
        }
        dry_run(self.dry_run.iter().flatten().map(String::as_str), &mut causes);
        if causes.is_empty() { Ok(()) } else { Err(ApiError::invalid_options("DeleteOptions", causes)) }
    }

    /// Whether nothing is to happen.
    pub(crate) fn is_dry_run(&self) -> bool {
        self.dry_run.iter().flatten().any(|value| value == "All")
    }

    /// As webhooks see them.
    pub(super) fn to_value(&self) -> Result<Value> {
        let mut options = serde_json::to_value(self).map_err(ApiError::internal)?;
        options["kind"] = json!("DeleteOptions");
        options["apiVersion"] = json!("meta.k8s.io/v1");
        Ok(options)
    }
}

fn from_body(ctx: &RequestContext, bytes: &[u8]) -> Result<DeleteOptions> {
    let format = body_format(&ctx.headers, Offer { protobuf: true, forms: false })?;
    let value: Value = match format {
        Format::Protobuf => crate::protobuf::decode_any(bytes)?,
        Format::Json | Format::Yaml => {
            let text = body::yaml_to_json(bytes)?;
            serde_json::from_slice(&text)
                .map_err(|error| ApiError::bad_request(format!("error decoding the options: {error}")))?
        }
    };
    let kind = value.get("kind").and_then(Value::as_str).unwrap_or("");
    if !kind.is_empty() && kind != "DeleteOptions" {
        let version = value.get("apiVersion").and_then(Value::as_str).unwrap_or("v1");
        return Err(ApiError::bad_request(format!(
            "no kind \"{kind}\" is registered for version \"{version}\" in scheme \"pkg/runtime/scheme.go:111\""
        )));
    }
    serde_json::from_value(value).map_err(|error| ApiError::bad_request(error.to_string()))
}
