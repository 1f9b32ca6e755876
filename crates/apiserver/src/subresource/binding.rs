//! `pods/binding`: a scheduler puts a pod on a node.

use http::{Response, StatusCode};
use serde_json::{Value, json};
use setpoint_api::{cause, clock};
use setpoint_kinds::validate;

use crate::admission::plugins;
use crate::body::Body;
use crate::context::RequestContext;
use crate::decision::Decision;
use crate::error::{ApiError, Result};
use crate::respond;
use crate::write::{Change, Kind, Merge, State, Write, transaction};
use crate::writer::Writer;
use crate::{negotiate, object};

/// Answers `POST …/pods/NAME/binding`.
pub(crate) async fn route(ctx: &RequestContext, bytes: &[u8]) -> Result<Response<Body>> {
    let binding = decode(ctx, bytes, "", "v1", "Binding")?;
    super::same_object(ctx, &binding, "Binding")?;
    let writer = Writer::new(ctx, "CreateOptions")?;
    let (snapshot, mut binding) = (ctx.server.store().snapshot(), binding);
    let admitting =
        plugins::Write { ctx, random: &writer.random(), snapshot: &snapshot, live: None, generated: false };
    admitting.mutate(&mut binding)?;
    let binding = super::admit(&writer, binding, ("", "v1", "Binding")).await?;
    bind(&writer, &ctx.info.name, binding).await
}

/// Answers the older `POST …/bindings`.
pub(crate) async fn create(ctx: &RequestContext, binding: Value) -> Result<Response<Body>> {
    let name = object::name(&binding).to_owned();
    let writer = Writer::new(ctx, "CreateOptions")?;
    let binding = super::admit(&writer, binding, ("", "v1", "Binding")).await?;
    let warnings = writer.warnings();
    let pods = ctx.server.0.registry.find("", "v1", "pods").ok_or_else(ApiError::no_such_resource)?;
    let ctx = RequestContext { resource: pods, ..ctx.clone() };
    let bound = bind(&Writer::new(&ctx, "CreateOptions")?, &name, binding).await;
    respond::warned(bound, &warnings)
}

/// A body of another kind than the resource's.
pub(crate) fn decode(
    ctx: &RequestContext,
    bytes: &[u8],
    group: &str,
    version: &str,
    kind: &str,
) -> Result<Value> {
    let offer = negotiate::Offer { protobuf: true, forms: false };
    let unhandled = |error: &dyn std::fmt::Display| {
        ApiError::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: {error}"
        ))
    };
    let schema = setpoint_schema::builtin().schema(group, version, kind);
    let schema = schema.unwrap_or_else(setpoint_schema::Schema::any);
    match negotiate::body_format(&ctx.headers, offer)? {
        negotiate::Format::Protobuf => crate::protobuf::decode_any(bytes),
        _ => {
            let json = crate::body::yaml_to_json(bytes).map_err(|error| unhandled(&error))?;
            let read = setpoint_schema::read_json(&json, &schema);
            read.map(|read| read.value).map_err(|error| unhandled(&error))
        }
    }
}

async fn bind(writer: &Writer<'_>, name: &str, binding: Value) -> Result<Response<Body>> {
    let ctx = writer.ctx;
    let causes = validate::binding(&binding);
    if !causes.is_empty() {
        // kube-apiserver returns the bare list of faults, which becomes a 500.
        let refused = ApiError::internal_plain(cause::aggregate(&causes));
        return Err(refused.with_warnings(&writer.warnings()));
    }
    let node = binding.pointer("/target/name").and_then(Value::as_str).unwrap_or("");
    let merge = Bind { binding: &binding, node };
    let done = transaction::commit(&Write::new(writer, Kind::Bind, &merge).of(name)).await?;
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    let answered = respond::value(StatusCode::CREATED, &ctx.negotiated, &status);
    respond::warned(answered, &done.change.warnings)
}

struct Bind<'a> {
    binding: &'a Value,
    node: &'a str,
}

impl Merge for Bind<'_> {
    fn merge(&self, write: &Write<'_>, _: &mut State<'_>, change: &mut Change) -> Decision<()> {
        let Some(live) = change.live_object() else {
            return Err(ApiError::not_found(write.resource(), write.name).into());
        };
        check(self.binding, live, write.name)?;
        let mut new = live.clone();
        new["spec"]["nodeName"] = json!(self.node);
        for field in ["annotations", "labels"] {
            let given = self.binding["metadata"][field].as_object();
            for (key, value) in given.into_iter().flatten() {
                new["metadata"][field][key] = value.clone();
            }
        }
        scheduled(&mut new, &clock::rfc3339_seconds(write.writer.now));
        change.new = new;
        Ok(())
    }
}

/// Refuses a pod that is another one, or on its way out, or bound already.
fn check(binding: &Value, live: &Value, name: &str) -> Result<()> {
    let bindings = setpoint_api::GroupResource::new("", "pods/binding");
    let refused = |text: String| Err(setpoint_api::Status::conflict(&bindings, name, &text).into());
    let (uid, live_uid) = (object::meta_text(binding, "uid"), object::meta_text(live, "uid"));
    if !uid.is_empty() && uid != live_uid {
        return refused(format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {live_uid}"
        ));
    }
    if object::is_terminating(live) {
        return refused(format!("pod {name} is being deleted, cannot be assigned to a host"));
    }
    let bound = live.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or("");
    if !bound.is_empty() {
        return refused(format!("pod {name} is already assigned to node \"{bound}\""));
    }
    Ok(())
}

fn scheduled(pod: &mut Value, now: &str) {
    let condition = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null,
        "lastTransitionTime": now});
    if !pod["status"]["conditions"].is_array() {
        pod["status"]["conditions"] = json!([]);
    }
    let conditions = pod["status"]["conditions"].as_array_mut().expect("made a list just now");
    match conditions.iter_mut().find(|own| own["type"] == "PodScheduled") {
        Some(own) if own["status"] == "True" => {}
        Some(own) => *own = condition,
        None => conditions.push(condition),
    }
}
