//! Reviews: who am I, may I, may they, is this token good. Answered, never stored.

use http::{Response, StatusCode};
use serde_json::{Map, Value, json};

use crate::auth::access::{Access, Verdict};
use crate::auth::authz::{self, Attributes, Rule};
use crate::auth::{authn, legacy};
use crate::body::Body;
use crate::context::RequestContext;
use crate::error::{ApiError, Result};
use crate::object;
use crate::options::Authorization;
use crate::respond;
use crate::user::UserInfo;
use crate::write::decode;
use crate::writer::Writer;

/// Answers a review.
pub(crate) async fn review(ctx: &RequestContext, bytes: &[u8]) -> Result<Response<Body>> {
    let writer = Writer::new(ctx, "CreateOptions")?;
    let decoded = decode::body(&writer, bytes)?;
    let mut review = decoded.object;
    review["apiVersion"] = json!(ctx.resource.api_version());
    let status = match ctx.resource.kind.as_str() {
        "SelfSubjectReview" => json!({"userInfo": ctx.user.to_value()}),
        "TokenReview" => token(ctx, &review).await?,
        "SelfSubjectAccessReview" => access(ctx, &ctx.user, &review).await?,
        "SubjectAccessReview" | "LocalSubjectAccessReview" => access(ctx, &subject(&review), &review).await?,
        "SelfSubjectRulesReview" => rules(ctx, &review)?,
        "Binding" => return crate::subresource::binding::create(ctx, review).await,
        _ => return Err(ApiError::method_not_supported(&ctx.resource, "create")),
    };
    if !matches!(ctx.resource.kind.as_str(), "SelfSubjectReview" | "SelfSubjectRulesReview") {
        crate::tracking::created(&writer, &mut review);
    }
    review["status"] = status;
    if ctx.resource.kind == "SelfSubjectRulesReview" {
        review["spec"] = json!({});
    }
    let mut created = json!(null);
    if ctx.resource.kind == "SelfSubjectReview" {
        created = json!(setpoint_api::clock::rfc3339_seconds(writer.now));
    }
    let is_new = matches!(ctx.resource.kind.as_str(), "SelfSubjectReview" | "SelfSubjectRulesReview");
    let metadata = object::metadata_mut(&mut review);
    if is_new {
        // The answer is an object of its own, not the client's.
        metadata.clear();
    }
    metadata.insert("creationTimestamp".into(), created);
    if metadata["creationTimestamp"].is_null() {
        metadata.remove("creationTimestamp");
    }
    let mut response = respond::value(StatusCode::CREATED, &ctx.negotiated, &review)?;
    respond::warn(response.headers_mut(), &decoded.warnings);
    Ok(response)
}

async fn token(ctx: &RequestContext, review: &Value) -> Result<Value> {
    let token = review.pointer("/spec/token").and_then(Value::as_str).unwrap_or("");
    if token.is_empty() {
        return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
    }
    let audiences = review.pointer("/spec/audiences").and_then(Value::as_array);
    let audiences: Vec<String> =
        audiences.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
    let snapshot = ctx.server.store().snapshot();
    let verified = match authn::bearer(ctx.server.options(), &snapshot, token, &audiences).await {
        Ok(verified) => verified,
        Err(error) => {
            // The real server answers with the status that the client sent, beside the error.
            let mut status = review["status"].as_object().cloned().unwrap_or_default();
            status.remove("authenticated");
            status.entry("user").or_insert_with(|| json!({}));
            status.insert("error".to_owned(), json!(error.to_string()));
            return Ok(status.into());
        }
    };
    if let Some(secret) = &verified.secret {
        legacy::note_use(&ctx.server, secret).await;
    }
    Ok(json!({"authenticated": true, "user": verified.user.to_value(), "audiences": verified.audiences}))
}

fn subject(review: &Value) -> UserInfo {
    let spec = &review["spec"];
    let name = spec["user"].as_str().unwrap_or("").to_owned();
    let groups = spec["groups"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let groups: Vec<String> = groups.map(str::to_owned).collect();
    let uid = spec["uid"].as_str().unwrap_or("").to_owned();
    UserInfo { name, uid, groups, ..UserInfo::default() }
}

/// Refuses a review that cannot be answered. Refusals do not name its kind.
fn refuse(ctx: &RequestContext, review: &Value) -> Result<()> {
    let mut reviewed = review.clone();
    if !ctx.info.namespace.is_empty() {
        object::metadata_mut(&mut reviewed).insert("namespace".into(), json!(ctx.info.namespace));
    }
    let causes = setpoint_kinds::validate::access_review(&ctx.resource.kind, &reviewed);
    if causes.is_empty() {
        return Ok(());
    }
    let kind = setpoint_api::kind::GroupKind::new("authorization.k8s.io", "");
    Err(setpoint_api::Status::invalid(&kind, "", causes).into())
}

async fn access(ctx: &RequestContext, user: &UserInfo, review: &Value) -> Result<Value> {
    refuse(ctx, review)?;
    let text = |pointer: &str| review.pointer(pointer).and_then(Value::as_str).unwrap_or("");
    let resource = review.pointer("/spec/resourceAttributes");
    let wanted = match resource {
        Some(_) => Attributes {
            verb: text("/spec/resourceAttributes/verb"),
            is_resource: true,
            group: text("/spec/resourceAttributes/group"),
            version: text("/spec/resourceAttributes/version"),
            resource: text("/spec/resourceAttributes/resource"),
            subresource: text("/spec/resourceAttributes/subresource"),
            namespace: text("/spec/resourceAttributes/namespace"),
            name: text("/spec/resourceAttributes/name"),
            path: "",
        },
        None => Attributes {
            verb: text("/spec/nonResourceAttributes/verb"),
            path: text("/spec/nonResourceAttributes/path"),
            ..Attributes::default()
        },
    };
    let snapshot = ctx.server.store().snapshot();
    let verdict = loop {
        let verdict = Access::of(ctx).decide(&snapshot, user, &wanted);
        if !Access::of(ctx).fetch().await {
            break verdict;
        }
    };
    let (allowed, reason, error) = match verdict {
        Verdict::Allowed(reason) => (true, reason, None),
        Verdict::Refused { reason, error } => (false, reason, error),
    };
    let mut status = json!({"allowed": allowed});
    if !reason.is_empty() {
        status["reason"] = json!(reason);
    }
    if let Some(error) = error {
        status["evaluationError"] = json!(error);
    }
    Ok(status)
}

fn rules(ctx: &RequestContext, review: &Value) -> Result<Value> {
    let namespace = review.pointer("/spec/namespace").and_then(Value::as_str).unwrap_or("");
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let (mut resources, mut paths) = (Vec::new(), Vec::new());
    let mut add = |rule: &Rule, _: &dyn Fn() -> String| {
        let mut row = Map::new();
        row.insert("verbs".into(), json!(rule.verbs));
        if !rule.resources.is_empty() {
            row.insert("apiGroups".into(), json!(rule.api_groups));
            row.insert("resources".into(), json!(rule.resources));
            if !rule.resource_names.is_empty() {
                row.insert("resourceNames".into(), json!(rule.resource_names));
            }
            resources.push(Value::Object(row));
        } else if !rule.non_resource_urls.is_empty() {
            row.insert("nonResourceURLs".into(), json!(rule.non_resource_urls));
            paths.push(Value::Object(row));
        }
        true
    };
    let authorizers = &ctx.server.options().authorization;
    if authorizers.contains(&Authorization::AlwaysAllow) {
        let all = || vec!["*".to_owned()];
        let none: &dyn Fn() -> String = &String::new;
        add(&Rule { verbs: all(), api_groups: all(), resources: all(), ..Rule::default() }, none);
        add(&Rule { verbs: all(), non_resource_urls: all(), ..Rule::default() }, none);
    }
    if authorizers.contains(&Authorization::Rbac) {
        authz::visit_rules(&ctx.server.store().snapshot(), &ctx.user, namespace, add);
    }
    // A webhook cannot list its rules.
    let incomplete = authorizers.contains(&Authorization::Webhook);
    Ok(json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": incomplete}))
}
