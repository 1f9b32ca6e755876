//! Tables: what `kubectl get` shows.

use serde_json::{Value, json};
use setpoint_kinds::table::Printer;

use crate::context::RequestContext;
use crate::object;
use crate::registry::Resource;
use crate::versions::present;

fn printer(resource: &Resource) -> Printer {
    match &resource.custom {
        Some(custom) => custom.printer(&resource.version),
        None => Printer::builtin(&resource.group, &resource.kind),
    }
}

/// Rows of these objects; watches send the columns only once.
pub(crate) fn table(
    ctx: &RequestContext,
    version: &str,
    metadata: Value,
    objects: &[Value],
    columns: bool,
) -> Value {
    printed(ctx, &printer(&ctx.resource), version, metadata, objects, columns)
}

/// A row for the scale of an object.
pub(crate) fn scale(ctx: &RequestContext, version: &str, scale: &Value) -> Value {
    let metadata = json!({"resourceVersion": object::meta_text(scale, "resourceVersion")});
    let printer = Printer::builtin("autoscaling", "Scale");
    printed(ctx, &printer, version, metadata, std::slice::from_ref(scale), true)
}

fn printed(
    ctx: &RequestContext,
    printer: &Printer,
    version: &str,
    metadata: Value,
    objects: &[Value],
    columns: bool,
) -> Value {
    let include = ctx.info.query.get("includeObject").unwrap_or("Metadata");
    let now = ctx.server.options().clock.now();
    let cells = printer.rows(objects, now);
    let rows = objects.iter().zip(cells).map(|(object, cells)| {
        let shown = match include {
            "None" => Value::Null,
            "Object" => object.clone(),
            _ => present::partial(object, version, true),
        };
        let mut row = json!({"cells": cells, "object": shown});
        if let Some(conditions) = printer.conditions(object) {
            row["conditions"] = conditions;
        }
        row
    });
    let rows: Vec<Value> = rows.collect();
    let definitions = if columns {
        Value::Array(printer.columns().iter().map(setpoint_kinds::table::Column::to_value).collect())
    } else {
        Value::Null
    };
    json!({"kind": "Table", "apiVersion": format!("meta.k8s.io/{version}"), "metadata": metadata,
        "columnDefinitions": definitions, "rows": rows})
}
