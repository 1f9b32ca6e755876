//! From a path to what answers it.

use http::{HeaderMap, Method, Request, Response, StatusCode};
use hyper::upgrade::OnUpgrade;

use crate::access_review::review;
use crate::body::Body;
use crate::context::RequestContext;
use crate::error::{ApiError, Result};
use crate::heavy::work;
use crate::negotiate::{Format, Offer, Representation, negotiate};
use crate::registry::Resource;
use crate::request::{Query, RequestInfo, Verb};
use crate::request_limits::Work;
use crate::server::Server;
use crate::user::UserInfo;
use crate::{
    body, component_status, discovery, health, openapi, protobuf_fill, respond, statusz, subresource, verb,
    version,
};

/// Answers an authorized request.
pub(crate) async fn route(
    server: &Server,
    user: UserInfo,
    info: RequestInfo,
    request: Request<Body>,
) -> Result<Response<Body>> {
    if !info.is_resource {
        return other_path(server, &info, &request);
    }
    // Authorization reads past the second slash, and nothing is served there.
    if info.path.starts_with("//") {
        return Ok(respond::not_found());
    }
    let Some(resource) = server.0.registry.find(&info.group, &info.version, &info.resource) else {
        // Built-in groups have a handler of their own, which answers with a Status.
        return match server.0.registry.is_builtin_group(&info.group) {
            true => Err(ApiError::no_such_resource()),
            false => Ok(respond::not_found()),
        };
    };
    if resource.rules.ephemeral && !info.name.is_empty() {
        // A review has no name, so that no path leads to one.
        return Err(ApiError::no_such_resource());
    }
    let proxied = info.subresource == "proxy" && info.group.is_empty();
    check_verb(&info, request.method(), proxied)?;
    let offer = Offer { protobuf: resource.custom.is_none(), forms: !resource.rules.ephemeral };
    let negotiated = match proxied {
        // The `Accept` header is for the proxied server.
        true => negotiate(&HeaderMap::new(), &Query::default(), offer)?,
        false => negotiate(request.headers(), &info.query, offer)?,
    };
    if matches!(negotiated.representation, Representation::Table(_)) {
        table_options(&info)?;
    }
    if (negotiated.format, negotiated.representation) == (Format::Protobuf, Representation::Whole)
        && !resource.rules.ephemeral
    {
        protobuf_fill::wanted(server);
    }
    let (parts, request_body) = request.into_parts();
    let socket = verb::watch::socket::is_wanted(&parts.method, &parts.headers)
        .then(|| parts.extensions.get::<OnUpgrade>().cloned())
        .flatten();
    let ctx = RequestContext {
        server: server.clone(),
        info,
        resource,
        user,
        headers: parts.headers.clone(),
        work: Work::of(&parts.extensions),
        negotiated,
        answers: std::sync::Arc::default(),
    };
    check_scope(&ctx)?;
    if ctx.info.subresource.is_empty() {
        main(ctx, request_body, socket).await
    } else {
        subresource::route(ctx, Request::from_parts(parts, request_body)).await
    }
}

/// Refuses methods that nothing on such a path answers. Authorization was asked about the verb of `info` alone, so
/// nothing else may be done.
fn check_verb(info: &RequestInfo, method: &Method, proxied: bool) -> Result<()> {
    let named = !info.name.is_empty();
    if info.verb == Verb::Proxy
        || (info.verb_in_path && !info.subresource.is_empty())
        || (!info.subresource.is_empty() && !named)
        || (!info.rest.is_empty() && !proxied)
    {
        return Err(ApiError::no_such_resource());
    }
    if ((info.verb == Verb::None || *method == Method::HEAD) && !proxied)
        || (*method != Method::GET && info.verb_in_path)
        || (matches!(info.verb, Verb::Update | Verb::Patch) && !named)
        || (info.verb == Verb::Create && named && info.subresource.is_empty())
    {
        return Err(ApiError::method_not_allowed());
    }
    match info.name.as_str() {
        "." | ".." => Err(ApiError::bad_request(format!(
            "Name parameter invalid: \"{name}\": may not be '{name}'",
            name = info.name
        ))),
        _ => Ok(()),
    }
}

async fn main(ctx: RequestContext, request_body: Body, socket: Option<OnUpgrade>) -> Result<Response<Body>> {
    if !ctx.resource.has_verb(ctx.info.verb.as_str()) {
        return Err(ApiError::method_not_allowed());
    }
    let deprecation = deprecation(&ctx);
    respond::warned(dispatch(ctx, request_body, socket).await, &deprecation)
}

fn deprecation(ctx: &RequestContext) -> Vec<String> {
    let custom = ctx.resource.custom.as_ref();
    let warning = match (ctx.resource.group.as_str(), ctx.resource.plural.as_str()) {
        ("", "endpoints") => {
            Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
        }
        ("", "componentstatuses") => Some("v1 ComponentStatus is deprecated in v1.19+"),
        _ => custom.and_then(|custom| custom.deprecation(&ctx.resource.version)),
    };
    warning.map(str::to_owned).into_iter().collect()
}

fn table_options(info: &RequestInfo) -> Result<()> {
    match info.query.get("includeObject") {
        None | Some("Metadata" | "Object" | "None") => Ok(()),
        Some(other) => Err(ApiError::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: \"{other}\": must be \
             'Metadata', 'Object', 'None', or empty"
        ))),
    }
}

async fn dispatch(
    ctx: RequestContext,
    request_body: Body,
    socket: Option<OnUpgrade>,
) -> Result<Response<Body>> {
    if component_status::is_asked(&ctx) {
        return component_status::answer(&ctx);
    }
    match &ctx.info.verb {
        Verb::Get => verb::get::get(&ctx).await,
        Verb::List => work(ctx, 0, |ctx| async move { verb::list::list(&ctx).await }).await,
        Verb::Watch => match socket {
            Some(socket) => verb::watch::socket::watch(&ctx, socket).await,
            None => verb::watch::watch(&ctx).await,
        },
        _ => {
            let bytes = body::read(request_body).await?;
            let sent = bytes.len();
            let write = |ctx: RequestContext| async move {
                match &ctx.info.verb {
                    Verb::Create if ctx.resource.rules.ephemeral => review(&ctx, &bytes).await,
                    Verb::Create => verb::create::create(&ctx, &bytes).await,
                    Verb::Update => verb::update::update(&ctx, &bytes).await,
                    Verb::Patch => verb::patch::patch(&ctx, &bytes).await,
                    Verb::Delete => verb::delete::delete(&ctx, &bytes).await,
                    Verb::DeleteCollection => verb::deletecollection::deletecollection(&ctx, &bytes).await,
                    _ => Err(ApiError::method_not_allowed()),
                }
            };
            work(ctx, sent, write).await
        }
    }
}

/// Writes to namespaced kinds name a namespace; cluster-scoped kinds live in none.
fn check_scope(ctx: &RequestContext) -> Result<()> {
    let Resource { namespaced, group, plural, .. } = &*ctx.resource;
    let is_namespace = group.is_empty() && plural == "namespaces";
    let one = ctx.info.verb_in_path && !ctx.info.name.is_empty();
    let wrong = if *namespaced {
        ctx.info.namespace.is_empty() && (one || !matches!(ctx.info.verb, Verb::List | Verb::Watch))
    } else {
        !ctx.info.namespace.is_empty() && !is_namespace
    };
    if wrong && ctx.info.name.is_empty() && *namespaced {
        return Err(ApiError::method_not_allowed());
    }
    if wrong { Err(ApiError::no_such_resource()) } else { Ok(()) }
}

fn other_path(server: &Server, info: &RequestInfo, request: &Request<Body>) -> Result<Response<Body>> {
    let path = info.path.trim_end_matches('/');
    let slashed = path.len() < info.path.len() && !path.is_empty();
    if slashed && !matches!(path.split('/').nth(1), Some("api" | "apis" | "version" | "openapi")) {
        return Ok(respond::not_found());
    }
    // The list of groups and each group answer whatever the method is.
    let discovery = path.split('/').nth(1) == Some("apis") && path.split('/').count() <= 3;
    if !discovery && !matches!(*request.method(), Method::GET | Method::HEAD) {
        return if path.is_empty() || known_prefix(path) {
            Err(ApiError::method_not_allowed())
        } else {
            Ok(respond::not_found())
        };
    }
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    match segments.as_slice() {
        [] | [""] => Ok(discovery::index(server)),
        ["api"] => discovery::api(server, request.headers()),
        ["apis"] => discovery::apis(server, request.headers()),
        ["api", version] => discovery::group_version(server, "", version, request.headers()),
        ["apis", group] => discovery::group(server, group, request.headers()),
        ["apis", group, version] => discovery::group_version(server, group, version, request.headers()),
        ["statusz"] => statusz::statusz(server, request.headers()),
        ["version"] => Ok(version::version()),
        ["openapi", "v2"] => Ok(openapi::answer_v2(server, request.headers())),
        ["openapi", "v3"] if info.path.ends_with('3') => Ok(openapi::index(server)),
        ["openapi", "v3", "api", version] => {
            Ok(openapi::answer_v3(server, "", version, info, request.headers()))
        }
        ["openapi", "v3", "apis", group, version] => {
            Ok(openapi::answer_v3(server, group, version, info, request.headers()))
        }
        ["metrics"] => Ok(metrics(server)),
        ["metrics", "slis"] => Ok(health::slis(server)),
        ["healthz" | "livez" | "readyz", ..] => Ok(health::health(server, &segments, info)),
        ["openid", "v1", "jwks"] => Ok(crate::auth::openid::keys(server)),
        [".well-known", "openid-configuration"] => Ok(crate::auth::openid::configuration(server)),
        _ => Ok(respond::not_found()),
    }
}

fn known_prefix(path: &str) -> bool {
    matches!(
        path.split('/').nth(1),
        Some("api" | "apis" | "version" | "healthz" | "livez" | "readyz" | "metrics" | "statusz")
    )
}

fn metrics(server: &Server) -> Response<Body> {
    let text = server.0.metrics.text(server.store().revision(), server.0.protobuf_cache.bytes());
    respond::bytes(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text)
}
