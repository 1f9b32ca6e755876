//! `serviceaccounts/token`: TokenRequest.

use std::time::Duration;

use http::{Response, StatusCode};
use serde_json::{Value, json};
use setpoint_api::cause::{Cause, Path};
use setpoint_api::clock;
use setpoint_api::go_format::quote;
use setpoint_api::kind::{GroupKind, GroupResource};
use setpoint_store::Snapshot;

use super::Kind;
use crate::body::Body;
use crate::context::RequestContext;
use crate::error::{ApiError, Result};
use crate::jwt::{Bound, Claims, Ref, sign};
use crate::key;
use crate::object;
use crate::registry;
use crate::respond;
use crate::writer::Writer;

/// How long a token lives unless the request says otherwise.
const DEFAULT_SECONDS: i64 = 3600;
/// The shortest and longest life that may be asked for.
const SHORTEST: i64 = 600;
const LONGEST: i64 = 1 << 32;

/// Answers `POST …/serviceaccounts/NAME/token`.
pub(crate) async fn route(ctx: &RequestContext, bytes: &[u8]) -> Result<Response<Body>> {
    let kind = ("authentication.k8s.io", "v1", "TokenRequest");
    let mut request = super::binding::decode(ctx, bytes, kind.0, kind.1, kind.2)?;
    if request["spec"]["expirationSeconds"].is_null() {
        request["spec"]["expirationSeconds"] = json!(DEFAULT_SECONDS);
    }
    check_place(ctx, &request)?;
    let writer = Writer::new(ctx, "CreateOptions")?;
    let request = super::admit(&writer, request, kind).await?;
    let mut warnings = writer.warnings();
    let issued = issue(&writer, request, kind, &mut warnings);
    respond::warned(issued, &warnings)
}

/// Issues the token that an admitted request asks for.
fn issue(
    writer: &Writer<'_>,
    mut request: Value,
    kind: Kind,
    warnings: &mut Vec<String>,
) -> Result<Response<Body>> {
    let ctx = writer.ctx;
    let options = ctx.server.options();
    let Some(key) = options.service_accounts.signing.clone() else {
        return Ok(crate::respond::not_found());
    };
    let snapshot = ctx.server.store().snapshot();
    let account = snapshot
        .get(&ctx.resource.key(&ctx.info.namespace, &ctx.info.name))
        .ok_or_else(|| ApiError::not_found(&ctx.resource, &ctx.info.name))?;
    let account = registry::value(&account);
    check_account(ctx, &request, &account)?;
    let wanted = lifetime(&request)?;
    let bound = bound(ctx, &snapshot, &request, &account)?;
    let seconds = shortened(wanted, options.max_token_life);
    if seconds < wanted {
        warnings.push(format!("requested expiration of {wanted} seconds shortened to {seconds} seconds"));
        request["spec"]["expirationSeconds"] = json!(seconds);
    }
    let audiences = request.pointer("/spec/audiences").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut audiences: Vec<String> = audiences.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    if audiences.is_empty() {
        audiences.push(options.service_accounts.issuer.clone());
    }
    let now = options.clock.now();
    super::own(writer, kind, &mut request);
    let claims = Claims {
        exp: now.as_second() + seconds,
        iat: now.as_second(),
        nbf: now.as_second(),
        iss: options.service_accounts.issuer.clone(),
        jti: options.random.uid(),
        kubernetes: bound,
        sub: format!("system:serviceaccount:{}:{}", ctx.info.namespace, ctx.info.name),
        aud: audiences.clone(),
    };
    let token = sign(&key, &claims).ok_or_else(|| ApiError::internal("the token could not be signed"))?;
    request["kind"] = json!("TokenRequest");
    request["apiVersion"] = json!("authentication.k8s.io/v1");
    request["spec"]["audiences"] = json!(audiences);
    if request["spec"].get("boundObjectRef").is_none() {
        request["spec"]["boundObjectRef"] = Value::Null;
    }
    let expires = now + jiff::SignedDuration::from_secs(seconds);
    request["status"] = json!({"token": token, "expirationTimestamp": clock::rfc3339_seconds(expires)});
    object::set_meta_text(&mut request, "uid", object::meta_text(&account, "uid"));
    object::set_meta_text(&mut request, "name", &ctx.info.name);
    object::set_meta_text(&mut request, "namespace", &ctx.info.namespace);
    object::set_meta_text(&mut request, "creationTimestamp", &clock::rfc3339_seconds(now));
    respond::value(StatusCode::CREATED, &ctx.negotiated, &request)
}

/// Refuses a request whose body names another account than its path.
fn check_place(ctx: &RequestContext, request: &Value) -> Result<()> {
    let (namespace, name) = (object::meta_text(request, "namespace"), object::meta_text(request, "name"));
    if !namespace.is_empty() && namespace != ctx.info.namespace {
        let text = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(ApiError::bad_request(text));
    }
    if !name.is_empty() && name != ctx.info.name {
        let text = "must match the service account name if specified";
        let cause = Cause::invalid(&Path::new("metadata.name"), name, text);
        return Err(setpoint_api::Status::invalid(&kind(), &ctx.info.name, vec![cause]).into());
    }
    Ok(())
}

/// Refuses a request for an account that was deleted and made again.
fn check_account(ctx: &RequestContext, request: &Value, account: &Value) -> Result<()> {
    let (sent, uid) = (object::meta_text(request, "uid"), object::meta_text(account, "uid"));
    if sent.is_empty() || sent == uid {
        return Ok(());
    }
    let resource = GroupResource::new("authentication.k8s.io", "TokenRequest");
    let text = format!(
        "the UID in the token request ({sent}) does not match the UID of the service account ({uid})"
    );
    Err(setpoint_api::Status::conflict(&resource, &ctx.info.name, &text).into())
}

fn kind() -> GroupKind {
    GroupKind::new("authentication.k8s.io", "TokenRequest")
}

fn lifetime(request: &Value) -> Result<i64> {
    let seconds =
        request.pointer("/spec/expirationSeconds").and_then(Value::as_i64).unwrap_or(DEFAULT_SECONDS);
    let path = Path::new("spec.expirationSeconds");
    let text = match seconds {
        short if short < SHORTEST => "may not specify a duration less than 10 minutes",
        long if long > LONGEST => "may not specify a duration larger than 2^32 seconds",
        fine => return Ok(fine),
    };
    let cause = Cause::invalid(&path, seconds, text);
    Err(setpoint_api::Status::invalid(&kind(), "", vec![cause]).into())
}

/// The life that a token gets: what is asked for, up to the server's longest.
fn shortened(wanted: i64, longest: Option<Duration>) -> i64 {
    let longest = longest.and_then(|longest| i64::try_from(longest.as_secs()).ok());
    longest.map_or(wanted, |longest| wanted.min(longest))
}

fn bound(ctx: &RequestContext, snapshot: &Snapshot, request: &Value, account: &Value) -> Result<Bound> {
    let mut bound = Bound {
        namespace: ctx.info.namespace.clone(),
        serviceaccount: Ref {
            name: ctx.info.name.clone(),
            uid: object::meta_text(account, "uid").to_owned(),
        },
        ..Bound::default()
    };
    let Some(wanted) = request.pointer("/spec/boundObjectRef").filter(|wanted| wanted.is_object()) else {
        return Ok(bound);
    };
    let (kind, name) = (wanted["kind"].as_str().unwrap_or(""), wanted["name"].as_str().unwrap_or(""));
    let (group, version) = group_version(wanted["apiVersion"].as_str().unwrap_or(""));
    let (plural, namespace) = match (group, kind) {
        ("", "Pod") => ("pods", ctx.info.namespace.as_str()),
        ("", "Secret") => ("secrets", ctx.info.namespace.as_str()),
        ("", "Node") => ("nodes", ""),
        _ => {
            let text = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
            return Err(ApiError::bad_request(text));
        }
    };
    let stored = snapshot.get(&key::object("", plural, namespace, name));
    let stored = stored.ok_or_else(|| {
        ApiError::from(setpoint_api::Status::not_found(&GroupResource::new("", plural), name))
    })?;
    let object = registry::value(&stored);
    let uid = object::meta_text(&object, "uid").to_owned();
    let used = object.pointer("/spec/serviceAccountName").and_then(Value::as_str).unwrap_or("");
    if kind == "Pod" && used != ctx.info.name {
        return Err(ApiError::bad_request(format!(
            "cannot bind token for serviceaccount {} to pod running with different serviceaccount name.",
            quote(&ctx.info.name)
        )));
    }
    let sent = wanted["uid"].as_str().unwrap_or("");
    if !sent.is_empty() && sent != uid {
        let text = format!(
            "the UID in the bound object reference ({sent}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        let resource = GroupResource::new("", kind);
        return Err(setpoint_api::Status::conflict(&resource, name, &text).into());
    }
    let reference = Some(Ref { name: name.to_owned(), uid });
    match kind {
        "Pod" => {
            bound.pod = reference;
            bound.node = node_of(snapshot, &object);
        }
        "Secret" => bound.secret = reference,
        _ => bound.node = reference,
    }
    Ok(bound)
}

/// Group and version of an `apiVersion`; one that is none has neither.
fn group_version(text: &str) -> (&str, &str) {
    match text.split_once('/') {
        None => ("", text),
        Some((_, version)) if version.contains('/') => ("", ""),
        Some(parts) => parts,
    }
}

/// The node that a pod is on. A pod may name one that does not exist: it is told without a uid.
fn node_of(snapshot: &Snapshot, pod: &Value) -> Option<Ref> {
    let name = pod.pointer("/spec/nodeName")?.as_str().filter(|name| !name.is_empty())?;
    let node = snapshot.get(&key::object("", "nodes", "", name));
    let uid = node.map(|node| registry::meta(&node).uid.clone()).unwrap_or_default();
    Some(Ref { name: name.to_owned(), uid })
}
