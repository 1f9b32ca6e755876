//! A document of OpenAPI 3.

use serde_json::{Map, Value, json};

use super::model::{Models, meta};
use super::parameter;
use super::paths::{Answer, Body, Operation, PathItem};

const JSON: [&str; 2] = ["application/json", "application/yaml"];
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const PATCHES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

/// The whole document. The models of everything that the paths name must be there.
pub(super) fn document(paths: &[PathItem], mut models: Models) -> Value {
    let mut all = Map::new();
    for item in paths {
        let mut rendered = Map::new();
        for operation in &item.operations {
            rendered.insert(operation.method.to_owned(), self::operation(operation, &mut models));
        }
        if !item.parameters.is_empty() {
            rendered.insert("parameters".to_owned(), parameters(&item.parameters));
        }
        all.insert(item.path.clone(), Value::Object(rendered));
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": super::VERSION},
        "paths": all,
        "components": {
            "schemas": models.finish(),
            "securitySchemes": {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header",
                "description": "Bearer Token authentication"}},
        },
    })
}

fn parameters(names: &[&str]) -> Value {
    names
        .iter()
        .map(|name| {
            let (place, ty) = parameter::of(name);
            let mut parameter =
                json!({"name": parameter::sent(name), "in": place, "schema": {"type": ty, "uniqueItems": true}});
            if place == "path" {
                parameter["required"] = json!(true);
            }
            parameter
        })
        .collect()
}

fn content<'a>(types: impl IntoIterator<Item = &'a str>, schema: &Value) -> Value {
    types.into_iter().map(|ty| (ty.to_owned(), json!({"schema": schema}))).collect()
}

fn operation(operation: &Operation, models: &mut Models) -> Value {
    let mut out = json!({
        "tags": [operation.tag],
        "operationId": operation.id,
        "responses": responses(operation, models),
    });
    if !operation.parameters.is_empty() {
        out["parameters"] = parameters(&operation.parameters);
    }
    if let Some(body) = body(operation, models) {
        out["requestBody"] = body;
    }
    if let Some(action) = operation.action {
        out["x-kubernetes-action"] = json!(action);
    }
    if let Some([group, version, kind]) = &operation.kind {
        out["x-kubernetes-group-version-kind"] = json!({"group": group, "version": version, "kind": kind});
    }
    out
}

fn body(operation: &Operation, models: &mut Models) -> Option<Value> {
    let types: &[&str] = if operation.builtin { &["*/*"] } else { &JSON };
    Some(match &operation.body {
        Body::None => return None,
        Body::Model(name) => {
            json!({"content": content(types.iter().copied(), &models.reference(name)), "required": true})
        }
        Body::Options => {
            json!({"content": content(types.iter().copied(), &models.reference(&meta("DeleteOptions")))})
        }
        Body::Patch => {
            // Custom kinds have no strategic merge.
            let types = if operation.builtin { &PATCHES[..] } else { &PATCHES[..3] };
            json!({"content": content(types.iter().copied(), &models.patch()), "required": true})
        }
    })
}

fn responses(operation: &Operation, models: &Models) -> Value {
    let mut types: Vec<&str> = JSON.to_vec();
    if operation.builtin {
        types.push(PROTOBUF);
    }
    let schema = match &operation.answer {
        Answer::Model(name) => models.reference(name),
        Answer::List(name) => {
            if operation.builtin {
                types.extend([
                    "application/json;stream=watch",
                    "application/vnd.kubernetes.protobuf;stream=watch",
                ]);
            }
            models.reference(name)
        }
        Answer::Events => {
            types.extend([
                "application/json;stream=watch",
                "application/vnd.kubernetes.protobuf;stream=watch",
            ]);
            models.reference(&meta("WatchEvent"))
        }
        Answer::Status => models.reference(&meta("Status")),
        Answer::Text => {
            types = vec!["*/*"];
            json!({"type": "string"})
        }
        Answer::Log => {
            types.push("text/plain");
            json!({"type": "string"})
        }
    };
    let mut out: Map<String, Value> = Map::new();
    for code in operation.answers {
        let text = match code {
            200 => "OK",
            201 => "Created",
            _ => "Accepted",
        };
        let answer = json!({"description": text, "content": content(types.iter().copied(), &schema)});
        out.insert(code.to_string(), answer);
    }
    out.insert("401".to_owned(), json!({"description": "Unauthorized"}));
    Value::Object(out)
}
