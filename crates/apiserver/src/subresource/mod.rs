//! Paths below an object.

pub(crate) mod binding;
mod eviction;
pub mod node;
mod scale;
mod stream;
mod token;

use http::{Request, Response};

use crate::body;
use crate::error::{ApiError, Result};
use crate::server::{Ask, Body};
use crate::verb;

/// Answers a request for a subresource.
pub(crate) async fn route(ask: Ask, request: Request<Body>) -> Result<Response<Body>> {
    let Some(sub) = ask.resource.subresource(&ask.info.subresource) else {
        return Err(match ask.resource.custom {
            Some(_) => ApiError::not_found(&ask.resource, &ask.info.name),
            None => ApiError::no_such_resource(),
        });
    };
    if !sub.verbs.contains(&ask.info.verb) {
        return Err(ApiError::method_not_allowed());
    }
    match ask.info.subresource.as_str() {
        "status" | "finalize" | "approval" | "ephemeralcontainers" | "resize" => whole(&ask, request).await,
        "scale" => scale::route(&ask, &body::read(request.into_body()).await?).await,
        "binding" => binding::route(&ask, &body::read(request.into_body()).await?).await,
        "eviction" => eviction::route(&ask, &body::read(request.into_body()).await?).await,
        "token" => token::route(&ask, &body::read(request.into_body()).await?).await,
        "log" | "exec" | "attach" | "portforward" => stream::route(&ask, request).await,
        other => Err(ApiError::unavailable(format!("the subresource {other} has no backend"))),
    }
}

/// Subresources that take and give the whole object.
async fn whole(ask: &Ask, request: Request<Body>) -> Result<Response<Body>> {
    if ask.info.verb == "get" {
        return verb::get::get(ask).await;
    }
    let bytes = body::read(request.into_body()).await?;
    match ask.info.verb.as_str() {
        "update" => verb::update::update(ask, &bytes).await,
        "patch" => verb::patch::patch(ask, &bytes).await,
        _ => Err(ApiError::method_not_allowed()),
    }
}
