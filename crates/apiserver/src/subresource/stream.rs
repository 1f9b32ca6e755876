//! `pods/log`, `exec`, `attach` and `portforward`: relayed to the pod's node without a change of the bytes.

use std::fmt::Write;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST, UPGRADE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use serde_json::{Value, json};

use super::node;
use crate::auth::access::{self, Access};
use crate::body::{Body, BoxError};
use crate::context::RequestContext;
use crate::error::{ApiError, Result};
use crate::registry;
use crate::request::Verb;
use crate::respond;

/// The longest error that is read from a node.
const MAX_ERROR: usize = 64 * 1024;

/// The node and the path to which a request about a pod is relayed.
struct Target {
    node: String,
    path: String,
}

/// Answers a log, exec, attach or portforward request.
pub(super) async fn route(ctx: &RequestContext, request: Request<Body>) -> Result<Response<Body>> {
    if ctx.info.subresource == "log" {
        return log(ctx, &target(ctx)?).await;
    }
    let warnings = connect(ctx).await?;
    respond::warned(relay(ctx, request).await, &warnings)
}

/// Connects the client with the node of the pod.
async fn relay(ctx: &RequestContext, mut request: Request<Body>) -> Result<Response<Body>> {
    may_create(ctx).await?;
    let target = target(ctx)?;
    let wants_upgrade = request.headers().contains_key(UPGRADE);
    if !wants_upgrade {
        return Err(ApiError::bad_request("Upgrade request required"));
    }
    let client = hyper::upgrade::on(&mut request);
    let mut upstream = Request::new(Empty::<Bytes>::new());
    *upstream.method_mut() = request.method().clone();
    *upstream.uri_mut() = target.path.parse().map_err(ApiError::internal)?;
    *upstream.headers_mut() = request.headers().clone();
    upstream.headers_mut().insert(HOST, host(&target.node));
    super::remove_credentials(upstream.headers_mut());
    let answer = node::send(ctx, &target.node, upstream).await?;
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        return refused(answer).await;
    }
    Ok(super::bridge(ctx, client, answer))
}

/// Requires `create` also of a WebSocket. It begins with a GET, but it does more in the pod than reading, so
/// permission to `get` is not enough. kube-apiserver gives no reason in this refusal either.
async fn may_create(ctx: &RequestContext) -> Result<()> {
    let info = &ctx.info;
    let snapshot = ctx.server.store().snapshot();
    if info.verb == Verb::Create
        || access::allows_verb(Access::of(ctx), &snapshot, &ctx.user, info, "create").await
    {
        return Ok(());
    }
    Err(ApiError::forbidden(&ctx.resource.group_resource(), &info.name, ""))
}

/// Runs admission for a connection to a pod. Returns the warnings.
async fn connect(ctx: &RequestContext) -> Result<Vec<String>> {
    let kind = match ctx.info.subresource.as_str() {
        "exec" => "PodExecOptions",
        "attach" => "PodAttachOptions",
        _ => "PodPortForwardOptions",
    };
    let mut options = json!({});
    for flag in ["stdin", "stdout", "stderr", "tty"] {
        if ctx.info.query.flag(flag) {
            options[flag] = json!(true);
        }
    }
    if let Some(container) = ctx.info.query.get("container") {
        options["container"] = json!(container);
    }
    let command: Vec<&str> = ctx.info.query.all("command").collect();
    if !command.is_empty() {
        options["command"] = json!(command);
    }
    let ports: Vec<u16> = ctx.info.query.all("ports").filter_map(|port| port.parse().ok()).collect();
    if !ports.is_empty() {
        options["ports"] = json!(ports);
    }
    super::connect(ctx, kind, options).await
}

fn host(node: &str) -> http::HeaderValue {
    http::HeaderValue::from_str(node).unwrap_or(http::HeaderValue::from_static("node"))
}

async fn log(ctx: &RequestContext, target: &Target) -> Result<Response<Body>> {
    let mut upstream = Request::new(Empty::<Bytes>::new());
    *upstream.method_mut() = Method::GET;
    *upstream.uri_mut() = target.path.parse().map_err(ApiError::internal)?;
    upstream.headers_mut().insert(HOST, host(&target.node));
    let answer = node::send(ctx, &target.node, upstream).await?;
    if answer.status() != StatusCode::OK {
        return refused(answer).await;
    }
    let body = answer.into_body().map_err(BoxError::from).boxed_unsync();
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static("text/plain"));
    Ok(response)
}

/// A node's refusal as a Status.
async fn refused(answer: Response<hyper::body::Incoming>) -> Result<Response<Body>> {
    let status = answer.status();
    let limited = http_body_util::Limited::new(answer.into_body(), MAX_ERROR);
    let text = limited.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    Err(ApiError::of_node(status, text))
}

fn target(ctx: &RequestContext) -> Result<Target> {
    let key = ctx.resource.key(&ctx.info.namespace, &ctx.info.name);
    let entry = ctx.server.store().snapshot().get(&key);
    let entry = entry.ok_or_else(|| ApiError::not_found(&ctx.resource, &ctx.info.name))?;
    let pod = registry::value(&entry);
    let (namespace, name) = (&ctx.info.namespace, &ctx.info.name);
    let node = pod.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or("").to_owned();
    let path = match ctx.info.subresource.as_str() {
        "portforward" => format!("/portForward/{namespace}/{name}?{}", query(ctx, &[("ports", "ports")])),
        "log" => {
            let container = container(ctx, &pod)?;
            format!("/containerLogs/{namespace}/{name}/{container}?{}", query(ctx, LOG))
        }
        verb => {
            let container = container(ctx, &pod)?;
            format!("/{verb}/{namespace}/{name}/{container}?{}", query(ctx, STREAMS))
        }
    };
    if node.is_empty() {
        return Err(ApiError::bad_request(format!("pod {name} does not have a host assigned")));
    }
    Ok(Target { node, path })
}

/// Parameters of the API, with the kubelet's names for them.
const LOG: &[(&str, &str)] = &[
    ("follow", "follow"),
    ("previous", "previous"),
    ("timestamps", "timestamps"),
    ("sinceSeconds", "sinceSeconds"),
    ("sinceTime", "sinceTime"),
    ("tailLines", "tailLines"),
    ("limitBytes", "limitBytes"),
    ("stream", "stream"),
];
const STREAMS: &[(&str, &str)] =
    &[("stdin", "input"), ("stdout", "output"), ("stderr", "error"), ("tty", "tty"), ("command", "command")];

fn query(ctx: &RequestContext, names: &[(&str, &str)]) -> String {
    let mut out = String::new();
    for (api, kubelet) in names {
        for value in ctx.info.query.all(api) {
            let flag = matches!(*api, "stdin" | "stdout" | "stderr" | "tty");
            let value = match value {
                "false" | "0" if flag => continue,
                _ if flag => "1",
                value => value,
            };
            if !out.is_empty() {
                out.push('&');
            }
            out.push_str(kubelet);
            out.push('=');
            escape(&mut out, value);
        }
    }
    out
}

fn escape(out: &mut String, value: &str) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("writing to memory");
        }
    }
}

/// The requested container, or the only one.
fn container(ctx: &RequestContext, pod: &Value) -> Result<String> {
    let names = |field: &str| -> Vec<String> {
        let list = pod["spec"][field].as_array();
        let names = list.into_iter().flatten().filter_map(|container| container["name"].as_str());
        names.map(str::to_owned).collect()
    };
    let name = &ctx.info.name;
    let (main, init) = (names("containers"), names("initContainers"));
    let ephemeral = names("ephemeralContainers");
    if let Some(wanted) = ctx.info.query.get("container") {
        if main.iter().chain(&init).chain(&ephemeral).any(|own| own == wanted) {
            return Ok(wanted.to_owned());
        }
        return Err(ApiError::bad_request(format!("container {wanted} is not valid for pod {name}")));
    }
    let default = pod
        .pointer("/metadata/annotations")
        .and_then(|all| all.get("kubectl.kubernetes.io/default-container"));
    match (main.as_slice(), default.and_then(Value::as_str)) {
        ([only], _) => Ok(only.clone()),
        (_, Some(default)) if ctx.info.subresource != "log" && main.iter().any(|own| own == default) => {
            Ok(default.to_owned())
        }
        ([], _) => Err(ApiError::bad_request(format!("a container name must be specified for pod {name}"))),
        _ => {
            let mut text = format!(
                "a container name must be specified for pod {name}, choose one of: [{}]",
                main.join(" ")
            );
            if !init.is_empty() {
                text.push_str(&format!(" or one of the init containers: [{}]", init.join(" ")));
            }
            Err(ApiError::bad_request(text))
        }
    }
}
