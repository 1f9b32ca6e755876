//! Kinds that are known only at run time, and that come and go.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use setpoint::{DeleteOptions, Patch, Query, Target};
use tokio::time::Instant;

use super::{Place, beside, until};

/// A kind of this test alone: definitions have no namespace.
struct Definition {
    api: Api<CustomResourceDefinition>,
    name: String,
    resource: ApiResource,
    json: Value,
}

impl Definition {
    fn new(place: &Place) -> Self {
        let group = format!("{}.example.org", place.namespace);
        let gvk = GroupVersionKind::gvk(&group, "v1", "Cup");
        let resource = ApiResource::from_gvk_with_plural(&gvk, "cups");
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
            "status": {"type": "object", "properties": {"full": {"type": "boolean"}}}}}});
        let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema,
            "subresources": {"status": {}}});
        let name = format!("cups.{group}");
        let json = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": name}, "spec": {"group": group, "scope": "Namespaced", "versions": [version],
            "names": {"plural": "cups", "singular": "cup", "kind": "Cup", "listKind": "CupList"}}});
        Definition { api: Api::all(place.client.clone()), name, resource, json }
    }

    async fn create(&self) {
        let object = serde_json::from_value(self.json.clone()).unwrap();
        // The one before may still be on its way out.
        until("the definition is taken", async || {
            self.api.create(&PostParams::default(), &object).await.ok()
        })
        .await;
        until("it is established", async || {
            let conditions = self.api.get(&self.name).await.unwrap().status?.conditions?;
            let established =
                conditions.iter().any(|known| known.type_ == "Established" && known.status == "True");
            established.then_some(())
        })
        .await;
    }

    async fn delete(&self) {
        self.api.delete(&self.name, &DeleteParams::default()).await.unwrap();
        until("it is gone", async || self.api.get_opt(&self.name).await.unwrap().is_none().then_some(()))
            .await;
    }
}

fn cup(place: &Place, name: &str, size: u32) -> Value {
    json!({"metadata": {"name": name, "namespace": place.namespace}, "spec": {"size": size}})
}

fn with_type(definition: &Definition, mut object: Value) -> Value {
    object["apiVersion"] = definition.resource.api_version.clone().into();
    object["kind"] = "Cup".into();
    object
}

#[tokio::test]
async fn a_kind_known_only_at_run_time_is_read_and_written() {
    let place = Place::new().await;
    let definition = Definition::new(&place);
    definition.create().await;
    let manager = place.manager();
    manager.informer_of(Target::resource(definition.resource.clone()).in_namespace(&place.namespace));
    let client = manager.client();
    let cups = client.dynamic(&definition.resource);
    beside(&manager, async {
        cups.create(&with_type(&definition, cup(&place, "a", 1))).await.unwrap();
        cups.apply(&cup(&place, "b", 2)).await.unwrap();
        let size = async |name: &str| {
            let object = cups.get(place.key(name)).await.unwrap().unwrap();
            object.decode::<Value>().unwrap()["spec"]["size"].as_u64().unwrap()
        };
        assert_eq!((size("a").await, size("b").await), (1, 2));
        cups.patch(place.key("a"), &Patch::Merge(json!({"spec": {"size": 3}}))).await.unwrap();
        assert_eq!(size("a").await, 3);
        let mut full = cups.get_live(place.key("a")).await.unwrap().unwrap();
        full["status"] = json!({"full": true});
        cups.update_subresource(&full, "status").await.unwrap();
        let read = cups.get(place.key("a")).await.unwrap().unwrap();
        assert_eq!(read.decode::<Value>().unwrap()["status"]["full"], true);
        cups.delete(place.key("b"), &DeleteOptions::default()).await.unwrap();
        assert_eq!(cups.list(Query::namespace(&place.namespace)).await.unwrap().len(), 1);
    })
    .await;
    definition.delete().await;
}

#[tokio::test]
async fn a_kind_that_is_deleted_and_made_anew_is_followed_again() {
    let place = Place::new().await;
    let definition = Definition::new(&place);
    definition.create().await;
    let manager = place.manager();
    let informer =
        manager.informer_of(Target::resource(definition.resource.clone()).in_namespace(&place.namespace));
    let client = manager.client();
    let cups = client.dynamic(&definition.resource);
    beside(&manager, async {
        cups.create(&with_type(&definition, cup(&place, "a", 1))).await.unwrap();
        assert!(cups.get(place.key("a")).await.unwrap().is_some());
        definition.delete().await;
        definition.create().await;
        let made = with_type(&definition, cup(&place, "b", 2));
        until("the new kind takes objects", async || cups.create(&made).await.ok()).await;
        // The informer may be waiting out its back-off: the read must not wait for it longer than its bound of 5 s.
        let began = Instant::now();
        cups.get(place.key("b")).await.unwrap();
        assert!(began.elapsed().as_secs() <= 15, "{:?}", began.elapsed());
        until("the cache shows the new kind's objects alone", async || {
            let names: Vec<String> =
                informer.store().snapshot().iter().map(|cup| cup.name().to_owned()).collect();
            (names == ["b"]).then_some(())
        })
        .await;
        cups.patch(place.key("b"), &Patch::Merge(json!({"spec": {"size": 3}}))).await.unwrap();
        let read = cups.get(place.key("b")).await.unwrap().unwrap();
        assert_eq!(read.decode::<Value>().unwrap()["spec"]["size"], 3);
    })
    .await;
    definition.delete().await;
}
