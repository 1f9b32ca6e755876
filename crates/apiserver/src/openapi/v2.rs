//! The document of OpenAPI 2, one for everything.

use serde_json::{Map, Value, json};

use super::model::{Models, meta};
use super::parameter;
use super::paths::{Answer, Body, Operation, PathItem};

const JSON: [&str; 2] = ["application/json", "application/yaml"];
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The whole document. The models of everything that the paths name must be there.
pub(super) fn document(paths: &[PathItem], mut models: Models) -> Value {
    let mut all = Map::new();
    let mut named: Vec<&str> = Vec::new();
    for item in paths {
        let mut rendered = Map::new();
        for operation in &item.operations {
            named.extend(&operation.parameters);
            rendered.insert(operation.method.to_owned(), self::operation(operation, &mut models));
        }
        named.extend(&item.parameters);
        if !item.parameters.is_empty() {
            rendered.insert("parameters".to_owned(), references(&item.parameters));
        }
        all.insert(item.path.clone(), Value::Object(rendered));
    }
    let parameters: Map<String, Value> =
        named.into_iter().map(|name| (name.to_owned(), self::parameter(name))).collect();
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": super::VERSION},
        "paths": all,
        "definitions": models.finish(),
        "parameters": parameters,
        "securityDefinitions": {"BearerToken": {"type": "apiKey", "name": "authorization", "in": "header",
            "description": "Bearer Token authentication"}},
        "security": [{"BearerToken": []}],
    })
}

fn parameter(name: &str) -> Value {
    let (place, ty) = parameter::of(name);
    let mut out = json!({"name": parameter::sent(name), "in": place, "type": ty, "uniqueItems": true});
    if place == "path" {
        out["required"] = json!(true);
    }
    out
}

fn references(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"$ref": format!("#/parameters/{name}")})).collect()
}

fn operation(operation: &Operation, models: &mut Models) -> Value {
    let mut produces: Vec<&str> = JSON.to_vec();
    if operation.builtin {
        produces.push(PROTOBUF);
    }
    let consumes: Vec<&str> = match (&operation.body, operation.builtin) {
        (Body::Patch, true) => {
            vec![
                "application/json-patch+json",
                "application/merge-patch+json",
                "application/strategic-merge-patch+json",
                "application/apply-patch+yaml",
            ]
        }
        (Body::Patch, false) => {
            vec![
                "application/json-patch+json",
                "application/merge-patch+json",
                "application/apply-patch+yaml",
            ]
        }
        // The discovery request of a group-version is sent in the types in which it is answered.
        (_, true) if operation.kind.is_none() => produces.clone(),
        (_, true) => vec!["*/*"],
        (_, false) => JSON.to_vec(),
    };
    let schema = match &operation.answer {
        Answer::Model(name) => models.reference(name),
        Answer::List(name) => {
            if operation.builtin {
                produces.extend([
                    "application/json;stream=watch",
                    "application/vnd.kubernetes.protobuf;stream=watch",
                ]);
            }
            models.reference(name)
        }
        Answer::Events => {
            produces.extend([
                "application/json;stream=watch",
                "application/vnd.kubernetes.protobuf;stream=watch",
            ]);
            models.reference(&meta("WatchEvent"))
        }
        Answer::Status => models.reference(&meta("Status")),
        Answer::Text => {
            produces = vec!["*/*"];
            json!({"type": "string"})
        }
        Answer::Log => {
            produces.insert(0, "text/plain");
            json!({"type": "string"})
        }
    };
    let mut out = json!({
        "consumes": consumes,
        "produces": produces,
        "schemes": ["https"],
        "tags": [operation.tag],
        "operationId": operation.id,
        "responses": responses(operation, &schema),
    });
    let mut parameters = match references(&operation.parameters) {
        Value::Array(parameters) => parameters,
        _ => Vec::new(),
    };
    parameters.extend(body(operation, models));
    if !parameters.is_empty() {
        out["parameters"] = Value::Array(parameters);
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
    let (schema, required) = match &operation.body {
        Body::None => return None,
        Body::Model(name) => (models.reference(name), true),
        Body::Options => (models.reference(&meta("DeleteOptions")), false),
        Body::Patch => (models.patch(), true),
    };
    let mut body = json!({"name": "body", "in": "body", "schema": schema});
    if required {
        body["required"] = json!(true);
    }
    Some(body)
}

fn responses(operation: &Operation, schema: &Value) -> Value {
    let mut out: Map<String, Value> = Map::new();
    for code in operation.answers {
        let text = match code {
            200 => "OK",
            201 => "Created",
            _ => "Accepted",
        };
        out.insert(code.to_string(), json!({"description": text, "schema": schema}));
    }
    out.insert("401".to_owned(), json!({"description": "Unauthorized"}));
    Value::Object(out)
}
