//! Changes that somebody else makes to objects: a concurrent write, a finalizer, an edit by hand.

use http::{Method, Request};
use kube::client::Body;
use serde_json::{Value, json};

use crate::state::{BYSTANDER, CONDITION};
use crate::traffic::Call;

/// The finalizer that delays a deletion.
const KEEPER: &str = "prove.setpoint.dev/keeper";

/// A change that somebody else made to an object of the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The path of the object in the API.
    pub path: String,
    /// Whether the mark is a condition of the status. Otherwise it is an annotation.
    pub condition: bool,
}

impl Mark {
    /// Marks the object of a write: by a condition if the write is to a status with conditions, or by an annotation.
    /// Returns `None` if the object is not there.
    pub async fn put(client: &kube::Client, call: &Call) -> Option<Mark> {
        if call.object.name.is_empty() || call.verb == "POST" {
            return None;
        }
        let mark = Mark { path: call.path.clone(), condition: call.subresource == "status" };
        if mark.condition && mark.again(client).await {
            return Some(mark);
        }
        let mark = Mark { condition: false, ..mark };
        mark.again(client).await.then_some(mark)
    }

    /// Puts the mark on the object again. Returns whether the server keeps it.
    pub async fn again(&self, client: &kube::Client) -> bool {
        let Some(object) = read(client, &self.path).await else { return false };
        let (path, patch) = if self.condition {
            let Some(conditions) = object.pointer("/status/conditions").and_then(Value::as_array) else {
                return false;
            };
            let condition = json!({
                "type": CONDITION, "status": "True", "reason": "Prove", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            });
            let mut conditions: Vec<Value> = conditions.clone();
            conditions.retain(|known| known["type"] != CONDITION);
            conditions.push(condition);
            (format!("{}/status", self.path), json!({"status": {"conditions": conditions}}))
        } else {
            (self.path.clone(), json!({"metadata": {"annotations": {BYSTANDER: "1"}}}))
        };
        merge(client, &path, &patch).await && !self.is_gone(client).await
    }

    /// Returns whether the object is there without the mark.
    pub async fn is_gone(&self, client: &kube::Client) -> bool {
        let Some(object) = read(client, &self.path).await else { return false };
        if self.condition {
            let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
            !conditions.into_iter().flatten().any(|condition| condition["type"] == CONDITION)
        } else {
            object["metadata"]["annotations"][BYSTANDER].is_null()
        }
    }

    /// Returns the marked object and the kind of the mark.
    pub fn describe(&self) -> (String, &'static str) {
        let object = crate::resource::of_path(&self.path).map(|(object, _)| object.to_string());
        let kind = if self.condition { "condition" } else { "annotation" };
        (object.unwrap_or_else(|| self.path.clone()), kind)
    }
}

/// Adds a finalizer to an object that is not being deleted yet. Returns whether the server took it.
pub async fn keep(client: &kube::Client, path: &str) -> bool {
    let Some(object) = read(client, path).await else { return false };
    let mut finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    finalizers.push(KEEPER.into());
    let free = object["metadata"]["deletionTimestamp"].is_null();
    free && merge(client, path, &json!({"metadata": {"finalizers": finalizers}})).await
}

/// Removes the finalizer.
pub async fn let_go(client: &kube::Client, path: &str) {
    let Some(object) = read(client, path).await else { return };
    let mut finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    finalizers.retain(|finalizer| finalizer != KEEPER);
    merge(client, path, &json!({"metadata": {"finalizers": finalizers}})).await;
}

/// Deletes an object. Returns whether it was there.
pub async fn delete(client: &kube::Client, path: &str) -> bool {
    send(client, Method::DELETE, path, None).await.is_some()
}

/// Changes one value of an object that a single field manager wrote. Returns whether there was such a value.
pub async fn edit(client: &kube::Client, path: &str) -> bool {
    let Some(object) = read(client, path).await else { return false };
    let managers: Vec<&Value> = object["metadata"]["managedFields"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|entry| entry["subresource"].is_null())
        .map(|entry| &entry["manager"])
        .collect();
    if managers.windows(2).any(|pair| pair[0] != pair[1]) {
        return false;
    }
    let first = |value: &Value| Some(value.as_object()?.keys().next()?.clone());
    let patch = if let Some(key) = first(&object["data"]) {
        // Valid as text and as base64.
        json!({"data": {key: "RWRpdGVk"}})
    } else if let Some(key) = first(&object["metadata"]["labels"]) {
        json!({"metadata": {"labels": {key: "edited"}}})
    } else if let Some(replicas) = object["spec"]["replicas"].as_i64() {
        json!({"spec": {"replicas": replicas + 1}})
    } else {
        return false;
    };
    merge(client, path, &patch).await
}

/// Makes a namespace.
pub async fn make_namespace(client: &kube::Client, name: &str) {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    send(client, Method::POST, "/api/v1/namespaces", Some(&namespace)).await;
}

async fn read(client: &kube::Client, path: &str) -> Option<Value> {
    send(client, Method::GET, path, None).await
}

async fn merge(client: &kube::Client, path: &str, patch: &Value) -> bool {
    send(client, Method::PATCH, path, Some(patch)).await.is_some()
}

/// Sends a request in the name of somebody else. An object that is gone or refuses the change is left as it is: the
/// fault then changes nothing.
async fn send(client: &kube::Client, method: Method, path: &str, body: Option<&Value>) -> Option<Value> {
    let uri =
        if method == Method::PATCH { format!("{path}?fieldManager=bystander") } else { path.to_owned() };
    let bytes = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
    let mut request = Request::builder().method(method).uri(uri);
    if body.is_some() {
        let form = if request.method_ref() == Some(&Method::PATCH) { "merge-patch+json" } else { "json" };
        request = request.header(http::header::CONTENT_TYPE, format!("application/{form}"));
    }
    let response = client.send(request.body(Body::from(bytes)).ok()?).await.ok()?;
    if !response.status().is_success() {
        return None;
    }
    let bytes = http_body_util::BodyExt::collect(response.into_body()).await.ok()?.to_bytes();
    serde_json::from_slice(&bytes).ok()
}
