//! ComponentStatus: the health of the parts of the control plane. It is asked for at each request, never stored.

use http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::body::Body;
use crate::context::RequestContext;
use crate::error::{ApiError, Result};
use crate::negotiate::Representation;
use crate::object;
use crate::request::Verb;
use crate::selection::Selection;
use crate::server::Server;
use crate::versions::present;
use crate::{representation, respond, table};

/// Whether requests of the resource are answered here.
pub(crate) fn is_asked(ctx: &RequestContext) -> bool {
    ctx.resource.is("", "componentstatuses") && matches!(ctx.info.verb, Verb::Get | Verb::List)
}

/// Answers with one status or all of them.
pub(crate) fn answer(ctx: &RequestContext) -> Result<Response<Body>> {
    let selection = Selection::parse(&ctx.resource, &ctx.info)?;
    let mut found = statuses(&ctx.server);
    if ctx.info.verb == Verb::Get {
        let one = found.into_iter().find(|status| object::name(status) == ctx.info.name);
        let one = one.ok_or_else(|| ApiError::not_found(&ctx.resource, &ctx.info.name))?;
        return representation::one_value(ctx, StatusCode::OK, one);
    }
    found.retain(|status| {
        let field = |name: &str| match name {
            "metadata.name" => object::name(status).to_owned(),
            _ => String::new(),
        };
        selection.labels.matches_object(status) && selection.fields.matches(field)
    });
    let list = match ctx.negotiated.representation {
        Representation::Table(version) => table::table(ctx, version, json!({}), &found, true),
        Representation::MetadataList(version) => {
            let items = found.iter().map(|status| present::partial(status, version, true));
            json!({"kind": "PartialObjectMetadataList", "apiVersion": format!("meta.k8s.io/{version}"),
                "metadata": {}, "items": items.collect::<Vec<Value>>()})
        }
        Representation::Metadata(_) => {
            return Err(ApiError::wrong_representation("PartialObjectMetadata", true, &ctx.resource));
        }
        Representation::Whole => {
            // Items of a typed list do not repeat their kind.
            for fields in found.iter_mut().filter_map(Value::as_object_mut) {
                fields.retain(|name, _| name != "kind" && name != "apiVersion");
            }
            json!({"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": found})
        }
    };
    respond::value(StatusCode::OK, &ctx.negotiated, &list)
}

/// The names are kube-apiserver's. The store stands in for etcd. The controllers and the scheduler are healthy where
/// they share the process with the server; the server knows nothing of other processes.
fn statuses(server: &Server) -> Vec<Value> {
    let status = |name: &str, healthy: Option<bool>, message: &str| {
        let healthy = healthy.map_or("Unknown", |healthy| if healthy { "True" } else { "False" });
        json!({"kind": "ComponentStatus", "apiVersion": "v1", "metadata": {"name": name},
            "conditions": [{"type": "Healthy", "status": healthy, "message": message}]})
    };
    let part = |name: &str, is_here: bool| match is_here {
        true => status(name, Some(true), "ok"),
        false => status(name, None, "runs in no process that the server knows"),
    };
    let parts = server.options().parts;
    let store = match server.is_writable() {
        true => status("etcd-0", Some(true), "ok"),
        false => status("etcd-0", Some(false), "the store takes no writes"),
    };
    vec![part("scheduler", parts.scheduler), part("controller-manager", parts.controllers), store]
}
