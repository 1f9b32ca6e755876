//! State of another cluster, as `kubectl get -o yaml` or `-o json` prints it, brought into the cluster of a test.

use std::collections::BTreeMap;

use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, ResourceExt, discovery};
use serde_json::{Value, json};

use crate::world::World;

/// Fields of the metadata that the server of the test gives anew.
const OF_THE_SERVER: [&str; 6] =
    ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink"];

impl World {
    /// Makes the objects of a text, owners before what they own, each with its status. An owner reference gets the uid
    /// that its owner has here; one to an owner that is not in the text keeps the foreign uid, and the garbage collector
    /// will treat it so. Objects that the text shows during their deletion are made as if it had not begun: a client cannot
    /// create such a thing.
    pub async fn restore(&self, captured: &str) {
        let mut left = objects(captured);
        let mut uids = BTreeMap::new();
        while !left.is_empty() {
            let known: Vec<_> = left.iter().map(|object| object["metadata"]["uid"].clone()).collect();
            let (ready, waiting): (Vec<_>, Vec<_>) = left.into_iter().partition(|object| {
                owners(object).iter().all(|owner| owner["uid"].is_null() || !known.contains(&owner["uid"]))
            });
            assert!(!ready.is_empty(), "the captured objects own each other in a circle");
            for object in ready {
                let uid = self.restore_one(&object, &uids).await;
                uids.insert(object["metadata"]["uid"].as_str().unwrap_or_default().to_owned(), uid);
            }
            left = waiting;
        }
    }

    /// Returns its uid here.
    async fn restore_one(&self, captured: &Value, uids: &BTreeMap<String, String>) -> String {
        let mut object = captured.clone();
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata
            .retain(|field, _| !OF_THE_SERVER.contains(&field.as_str()) && !field.starts_with("deletion"));
        for owner in metadata.get_mut("ownerReferences").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(uid) = owner["uid"].as_str().and_then(|uid| uids.get(uid)) {
                owner["uid"] = json!(uid);
            }
        }
        let status = object.as_object_mut().unwrap().remove("status");
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let api = self.api_of(&object).await;
        let name = object.name_any();
        let made = match api.create(&PostParams::default(), &object).await {
            // The namespace `default`, say.
            Err(kube::Error::Api(refused)) if refused.code == 409 => api.get(&name).await.unwrap(),
            made => made.unwrap(),
        };
        if let Some(status) = status {
            let patch = Patch::Merge(json!({"status": status}));
            match api.patch_status(&name, &PatchParams::default(), &patch).await {
                // A kind without a status subresource took it with the rest, or has none.
                Err(kube::Error::Api(refused)) if refused.code == 404 => {}
                written => drop(written.unwrap()),
            }
        }
        made.uid().unwrap()
    }

    /// The API of an object's kind, in its namespace.
    pub(crate) async fn api_of(&self, object: &DynamicObject) -> Api<DynamicObject> {
        let kind = GroupVersionKind::try_from(object.types.as_ref().unwrap()).unwrap();
        let client = self.cluster.client();
        let (resource, capabilities) = discovery::pinned_kind(&client, &kind).await.unwrap();
        match capabilities.scope {
            discovery::Scope::Namespaced => {
                let namespace = object.namespace().unwrap_or_else(|| "default".into());
                Api::namespaced_with(client, &namespace, &resource)
            }
            discovery::Scope::Cluster => Api::all_with(client, &resource),
        }
    }
}

/// The objects of all documents, those of lists one by one. Namespaces and definitions come first.
fn objects(captured: &str) -> Vec<Value> {
    let documents = captured.split("\n---").map(|document| document.trim_start_matches("---").trim());
    let mut objects = Vec::new();
    for document in documents.filter(|document| !document.is_empty()) {
        let mut value: Value = serde_saphyr::from_str(document).unwrap();
        match value["items"].as_array_mut() {
            Some(items) => objects.append(items),
            None => objects.push(value),
        }
    }
    objects.sort_by_key(|object| match object["kind"].as_str() {
        Some("Namespace") => 0,
        Some("CustomResourceDefinition") => 1,
        _ => 2,
    });
    objects
}

fn owners(object: &Value) -> Vec<Value> {
    object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default()
}
