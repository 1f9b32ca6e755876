//! Custom resources whose versions a webhook converts.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use setpoint_apiserver::{Caller, UserInfo};

use crate::cluster::{APPLY, Cluster, MERGE, body, start};
use crate::webhook::Webhook;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const V1: &str = "/apis/conv.io/v1/namespaces/default/things";
pub const V2: &str = "/apis/conv.io/v2/namespaces/default/things";

fn definition(storage: &str, client_config: &Value) -> Value {
    let version = |name: &str, spec: Value| {
        json!({"name": name, "served": true, "storage": name == storage,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": spec},
                "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas"}}})
    };
    let v1 = json!({"host": {"type": "string", "maxLength": 8}, "replicas": {"type": "integer"},
        "one": {"type": "string", "default": "d1"}});
    let v2 = json!({"replicas": {"type": "integer"}, "two": {"type": "string", "default": "d2"},
        "address": {"type": "object", "properties": {"host": {"type": "string"}, "port": {"type": "integer"}}}});
    let mut v2 = version("v2", v2);
    v2["selectableFields"] = json!([{"jsonPath": ".spec.address.host"}]);
    json!({"metadata": {"name": "things.conv.io"}, "spec": {"group": "conv.io", "scope": "Namespaced",
        "names": {"plural": "things", "kind": "Thing"}, "versions": [version("v1", v1), v2],
        "conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v7", "v1", "v1beta1"],
            "clientConfig": client_config}}}})
}

pub async fn with_webhook() -> (Cluster, Webhook) {
    let (cluster, webhook) = (start().await, Webhook::start().await);
    cluster.post(DEFINITIONS, &definition("v1", &webhook.client_config())).await.expect(201);
    (cluster, webhook)
}

fn one(name: &str, host: &str) -> Value {
    json!({"apiVersion": "conv.io/v1", "kind": "Thing", "metadata": {"name": name}, "spec": {"host": host}})
}

pub fn two(name: &str, host: &str) -> Value {
    json!({"apiVersion": "conv.io/v2", "kind": "Thing", "metadata": {"name": name},
        "spec": {"address": {"host": host}}})
}

fn stored(cluster: &Cluster, name: &str) -> Value {
    let key = format!("/registry/conv.io/things/default/{name}");
    let entry = cluster.server.store().snapshot().get(key.as_bytes()).unwrap();
    serde_json::from_slice(&entry.value).unwrap()
}

fn asks(version: &str, names: &[&str]) -> (String, Vec<String>) {
    (format!("conv.io/{version}"), names.iter().map(|&name| name.to_owned()).collect())
}

#[tokio::test]
async fn each_version_is_read_and_written_as_its_own() {
    let (cluster, webhook) = with_webhook().await;
    let created = cluster.post(V2, &two("b", "far")).await.expect(201);
    // The defaults of v2 were filled in and did not survive the stored version.
    assert_eq!(
        (&created["apiVersion"], &created["spec"]),
        (&json!("conv.io/v2"), &json!({"address": {"host": "far"}}))
    );
    assert_eq!(created["metadata"]["annotations"], json!({"from": "conv.io/v1"}));
    let owned = &created["metadata"]["managedFields"][0];
    assert_eq!(owned["apiVersion"], "conv.io/v2");
    assert!(owned["fieldsV1"]["f:spec"].get("f:two").is_some(), "{owned}");
    assert_eq!(webhook.asked(), [asks("v1", &["b"]), asks("v2", &["b"])]);
    let bytes = stored(&cluster, "b");
    assert_eq!((&bytes["apiVersion"], &bytes["spec"]), (&json!("conv.io/v1"), &json!({"host": "far"})));
    let read = cluster.get(&format!("{V1}/b")).await.expect(200);
    assert_eq!(read["spec"], json!({"host": "far", "one": "d1"}), "as the stored version has it");
    assert_eq!(read["metadata"]["uid"], created["metadata"]["uid"]);
    assert!(webhook.asked().is_empty(), "the stored version needs no conversion");
    cluster.post(V1, &one("a", "near")).await.expect(201);
    assert!(webhook.asked().is_empty());
    let listed = cluster.get(V2).await.expect(200);
    let hosts: Vec<&Value> =
        listed["items"].as_array().unwrap().iter().map(|item| &item["spec"]["address"]["host"]).collect();
    assert_eq!(hosts, [&json!("near"), &json!("far")]);
    assert_eq!(webhook.asked(), [asks("v2", &["a"])], "what was converted before is kept");
    cluster.get(V2).await.expect(200);
    assert!(webhook.asked().is_empty(), "each object is converted once a version for lists and watches");
    let selected = cluster.get(&format!("{V2}?fieldSelector=spec.address.host%3Dfar")).await.expect(200);
    assert_eq!(selected["items"].as_array().unwrap().len(), 1);
    let page = cluster.get(&format!("{V2}?limit=1")).await.expect(200);
    assert_eq!(
        (&page["metadata"]["remainingItemCount"], &page["items"][0]["apiVersion"]),
        (&json!(1), &json!("conv.io/v2"))
    );
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let table = cluster.get_as(V2, table).await.expect(200);
    assert_eq!(table["rows"][0]["object"]["metadata"]["name"], "a");
}

#[tokio::test]
async fn a_list_is_one_question() {
    let (cluster, webhook) = with_webhook().await;
    for name in ["a", "b", "c"] {
        cluster.post(V1, &one(name, "h")).await.expect(201);
    }
    cluster.get(V2).await.expect(200);
    let reviews = webhook.reviews();
    assert_eq!(reviews.len(), 1);
    let (review, objects) = (&reviews[0], &reviews[0]["request"]["objects"]);
    assert_eq!(
        (&review["apiVersion"], &review["kind"]),
        (&json!("apiextensions.k8s.io/v1"), &json!("ConversionReview"))
    );
    assert_eq!((objects.as_array().unwrap().len(), &objects[0]["apiVersion"]), (3, &json!("conv.io/v1")));
    assert!(!review["request"]["uid"].as_str().unwrap().is_empty());
    cluster.delete(V2).await.expect(200);
    assert_eq!(cluster.get(V1).await.expect(200)["items"], json!([]));
}

#[tokio::test]
async fn patches_applies_status_and_scale_go_through_the_stored_version() {
    let (cluster, webhook) = with_webhook().await;
    cluster.post(V1, &one("a", "near")).await.expect(201);
    let patched =
        cluster.patch(&format!("{V2}/a"), MERGE, &json!({"spec": {"replicas": 3}})).await.expect(200);
    assert_eq!(patched["spec"], json!({"address": {"host": "near"}, "replicas": 3}));
    assert_eq!(patched["metadata"]["generation"], 2);
    let managers = patched["metadata"]["managedFields"].as_array().unwrap();
    let versions: Vec<&Value> = managers.iter().map(|entry| &entry["apiVersion"]).collect();
    assert_eq!(versions, [&json!("conv.io/v1"), &json!("conv.io/v2")]);
    let applied = json!({"apiVersion": "conv.io/v2", "kind": "Thing", "spec": {"address": {"host": "mid"}}});
    let conflict = cluster.patch(&format!("{V2}/a?fieldManager=m"), APPLY, &applied).await;
    assert_eq!(conflict.code, 409, "spec.host of v1 is spec.address.host of v2 to its owner");
    let path = format!("{V2}/a?fieldManager=m&force=true");
    let applied = cluster.patch(&path, APPLY, &applied).await.expect(200);
    assert_eq!(applied["spec"]["address"], json!({"host": "mid"}));
    assert_eq!(stored(&cluster, "a")["spec"], json!({"host": "mid", "replicas": 3}));
    let status = json!({"status": {"replicas": 2}, "spec": {"replicas": 9}});
    let status = cluster.patch(&format!("{V2}/a/status"), MERGE, &status).await.expect(200);
    assert_eq!((&status["spec"]["replicas"], &status["status"]["replicas"]), (&json!(3), &json!(2)));
    cluster.post(V2, &two("bare", "h")).await.expect(201);
    let bare = cluster.get(&format!("{V2}/bare/scale")).await.expect(500);
    let message = "Internal error occurred: the spec replicas field \".spec.replicas\" does not exist";
    assert_eq!(bare["message"], message);
    let scale =
        cluster.patch(&format!("{V2}/a/scale"), MERGE, &json!({"spec": {"replicas": 5}})).await.expect(200);
    assert_eq!((&scale["spec"]["replicas"], &scale["status"]["replicas"]), (&json!(5), &json!(2)));
    let replaced = cluster.get(&format!("{V1}/a")).await.expect(200);
    let replaced = cluster.put(&format!("{V1}/a"), &replaced).await.expect(200);
    let unchanged = cluster.put(&format!("{V1}/a"), &replaced).await.expect(200);
    assert_eq!(unchanged["metadata"]["resourceVersion"], replaced["metadata"]["resourceVersion"]);
    let dry = cluster.post(&format!("{V2}?dryRun=All"), &two("dry", "x")).await.expect(201);
    assert_eq!(dry["spec"], json!({"address": {"host": "x"}}), "shown as it would be read back");
    webhook.asked();
    let generated = json!({"apiVersion": "conv.io/v2", "kind": "Thing", "metadata": {"generateName": "g-"}});
    let generated = cluster.post(V2, &generated).await.expect(201);
    let name = generated["metadata"]["name"].as_str().unwrap();
    assert_eq!(webhook.asked(), [asks("v1", &[name]), asks("v2", &[name])], "drawn once");
}

#[tokio::test]
async fn validation_is_that_of_the_requests_version() {
    let (cluster, _webhook) = with_webhook().await;
    let long = "a-rather-long-host";
    cluster.post(V1, &one("a", long)).await.expect(422);
    // kube-apiserver does not hold what was converted against the schema of the stored version either.
    cluster.post(V2, &two("a", long)).await.expect(201);
    let wrong = json!({"apiVersion": "conv.io/v2", "kind": "Thing", "metadata": {"name": "w"},
        "spec": {"host": "x", "replicas": "many"}});
    let wrong = cluster.post(V2, &wrong).await;
    assert_eq!(wrong.warnings(), ["299 - \"unknown field \\\"spec.host\\\"\""]);
    assert_eq!(wrong.expect(422)["details"]["causes"][0]["field"], "spec.replicas");
}

#[tokio::test]
async fn what_is_stored_follows_the_definition_when_it_is_written() {
    let (cluster, webhook) = with_webhook().await;
    cluster.post(V1, &one("old", "h")).await.expect(201);
    let path = format!("{DEFINITIONS}/things.conv.io");
    let mut definition = cluster.get(&path).await.expect(200);
    for version in definition["spec"]["versions"].as_array_mut().unwrap() {
        version["storage"] = json!(version["name"] == "v2");
    }
    let changed = cluster.put(&path, &definition).await.expect(200);
    assert_eq!(changed["status"]["storedVersions"], json!(["v1", "v2"]));
    assert_eq!(
        cluster.get(&format!("{V1}/old")).await.expect(200)["spec"],
        json!({"host": "h", "one": "d1"})
    );
    assert!(webhook.asked().is_empty());
    let read = cluster.get(&format!("{V2}/old")).await.expect(200);
    assert_eq!(read["spec"], json!({"address": {"host": "h"}}));
    // A write that changes nothing brings the object to the version that is stored now, and the next one does not.
    let moved = cluster.patch(&format!("{V1}/old"), MERGE, &json!({"spec": {"host": "h"}})).await.expect(200);
    assert_ne!(moved["metadata"]["resourceVersion"], read["metadata"]["resourceVersion"]);
    assert_eq!((&moved["metadata"]["generation"], &moved["spec"]), (&json!(1), &json!({"host": "h"})));
    assert_eq!(stored(&cluster, "old")["apiVersion"], "conv.io/v2");
    let same = json!({"spec": {"two": "d2"}});
    let filled = cluster.patch(&format!("{V2}/old"), MERGE, &same).await.expect(200);
    assert_eq!(stored(&cluster, "old")["spec"]["two"], "d2");
    let again = cluster.patch(&format!("{V2}/old"), MERGE, &same).await.expect(200);
    assert_eq!(again["metadata"]["resourceVersion"], filled["metadata"]["resourceVersion"]);
}

/// The error of a get while the webhook answers wrongly.
async fn refused(
    cluster: &Cluster,
    webhook: &Webhook,
    spoil: impl Fn(&mut Value) + Send + 'static,
) -> String {
    webhook.spoil(spoil);
    let status = cluster.get(&format!("{V2}/a")).await.expect(500);
    assert_eq!(status["reason"], "InternalError");
    let revision = stored(cluster, "a")["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let before = format!(
        "Internal error occurred: StorageError: corrupt object, Code: 7, Key: /conv.io/things/default/a, \
         ResourceVersion: 0, AdditionalErrorMsg: object not decodable revision={revision}: conversion webhook for \
         conv.io/v1, Kind=Thing "
    );
    let message = status["message"].as_str().unwrap();
    message.strip_prefix(&before).unwrap_or_else(|| panic!("{message}")).to_owned()
}

#[tokio::test]
async fn an_answer_that_will_not_do_is_refused_in_the_words_of_kube_apiserver() {
    let (cluster, webhook) = with_webhook().await;
    cluster.post(V1, &one("a", "h")).await.expect(201);
    let check = async |spoil: Box<dyn Fn(&mut Value) + Send>, expected: &str| {
        assert_eq!(refused(&cluster, &webhook, spoil).await, expected);
    };
    let put = |path: &'static str, value: Value| -> Box<dyn Fn(&mut Value) + Send> {
        Box::new(move |answer| *answer.pointer_mut(path).unwrap() = value.clone())
    };
    check(
        put("/response/convertedObjects/0/metadata/name", json!("x")),
        "returned invalid object: must have the same name: a != x",
    )
    .await;
    check(
        put("/response/convertedObjects/0/kind", json!("Other")),
        "returned invalid object at index 0: invalid kind (expected Thing, received Other)",
    )
    .await;
    check(
        put("/response/convertedObjects/0/apiVersion", json!("conv.io/v9")),
        "returned invalid object at index 0: invalid groupVersion (expected conv.io/v2, received conv.io/v9)",
    )
    .await;
    check(
        put("/response/convertedObjects/0/metadata/annotations", json!({"n": 1})),
        "returned invalid metadata: metadata.annotations[n] must be a string, but is int64 in converted object",
    )
    .await;
    check(put("/response/convertedObjects", json!([])), "returned 0 objects, expected 1").await;
    check(put("/response/result", json!({"status": "Failure", "message": "no luck"})), "failed: no luck")
        .await;
    check(
        put("/response/result", json!({"status": "Failure"})),
        "failed: response.result.status was 'Failure', not 'Success'",
    )
    .await;
    check(put("/response", Value::Null), "failed: no response provided").await;
    check(
        put("/kind", json!("")),
        "failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got \
         apiextensions.k8s.io/v1, Kind=",
    )
    .await;
    webhook
        .spoil(|answer| answer["response"]["convertedObjects"][0]["metadata"]["finalizers"] = json!(["x/y"]));
    let read = cluster.get(&format!("{V2}/a")).await.expect(200);
    assert_eq!(read["metadata"].get("finalizers"), None, "only labels and annotations may change");
}

#[tokio::test]
async fn a_webhook_that_fails_fails_the_request_and_nothing_is_written() {
    let (cluster, webhook) = with_webhook().await;
    cluster.post(V1, &one("a", "h")).await.expect(201);
    cluster.post(V1, &one("b", "h")).await.expect(201);
    webhook.spoil(|answer| answer["response"]["result"] = json!({"status": "Failure", "message": "no luck"}));
    let failed = cluster.post(V2, &two("c", "h")).await.expect(500);
    assert_eq!(failed["message"], "conversion webhook for conv.io/v2, Kind=Thing failed: no luck");
    assert_eq!(failed.get("reason"), None);
    assert_eq!(cluster.get(&format!("{V1}/c")).await.code, 404);
    let listed = cluster.get(V2).await.expect(500);
    assert_eq!(listed["reason"], "StorageReadError");
    assert_eq!(listed["details"]["causes"][1]["field"], "/registry/conv.io/things/default/b");
    assert!(listed["message"].as_str().unwrap().ends_with("failed: no luck (and 1 more)"), "{listed}");
    assert_eq!(cluster.delete(&format!("{V2}/a")).await.code, 500);
    assert_eq!(cluster.patch(&format!("{V2}/a"), MERGE, &json!({"spec": {"replicas": 1}})).await.code, 500);
    cluster.delete(&format!("{V1}/a")).await.expect(200);
    webhook.mend();
    cluster.patch(&format!("{V2}/b"), MERGE, &json!({"spec": {"replicas": 1}})).await.expect(200);
    webhook.spoil(|answer| answer["response"]["result"] = json!({"status": "Failure", "message": "no luck"}));
    // The field owners cannot be determined, but that alone stops no update.
    let path = format!("{V1}/b");
    let before = cluster.get(&path).await.expect(200);
    let after = cluster.patch(&path, MERGE, &json!({"spec": {"replicas": 2}})).await.expect(200);
    assert_eq!(after["metadata"]["managedFields"], before["metadata"]["managedFields"]);
    let config = json!({"apiVersion": "conv.io/v1", "kind": "Thing", "spec": {"replicas": 2}});
    let refused = cluster.patch(&format!("{path}?fieldManager=m"), APPLY, &config).await.expect(500);
    assert_eq!(refused["message"], "conversion webhook for conv.io/v1, Kind=Thing failed: no luck");
    webhook.mend();
    cluster.delete(&format!("{V2}/b")).await.expect(200);
}

#[tokio::test]
async fn a_webhook_is_reached_through_its_service() {
    let (cluster, webhook) = (start().await, Webhook::start().await);
    let config = json!({"service": {"namespace": "default", "name": "hook", "path": "/convert", "port": 8443},
        "caBundle": webhook.ca_bundle});
    cluster.post(DEFINITIONS, &definition("v1", &config)).await.expect(201);
    let missing = cluster.post(V2, &two("a", "h")).await.expect(500);
    assert_eq!(
        missing["message"],
        "conversion webhook for conv.io/v2, Kind=Thing failed: Post \
         \"https://hook.default.svc:8443/convert?timeout=30s\": service \"hook\" not found"
    );
    let service = json!({"metadata": {"name": "hook"}, "spec": {"ports": [{"port": 8443}]}});
    cluster.post("/api/v1/namespaces/default/services", &service).await.expect(201);
    let none = cluster.post(V2, &two("a", "h")).await.expect(500);
    assert!(
        none["message"].as_str().unwrap().ends_with("no endpoints available for service \"hook\""),
        "{none}"
    );
    // An address of 127.0.0.0/8 is refused in Endpoints; ExternalName is the way to this host.
    let external = json!({"spec": {"type": "ExternalName", "externalName": "localhost", "clusterIP": null,
        "clusterIPs": null}});
    cluster.patch("/api/v1/namespaces/default/services/hook", MERGE, &external).await.expect(200);
    let refused = cluster.post(V2, &two("a", "h")).await.expect(500);
    assert!(refused["message"].as_str().unwrap().contains("dial tcp localhost:8443: "), "{refused}");
}

#[tokio::test]
async fn writers_who_meet_at_a_converted_object_all_get_their_turn() {
    let (cluster, _webhook) = with_webhook().await;
    cluster.post(V1, &one("a", "h")).await.expect(201);
    let cluster = Arc::new(cluster);
    let writes = (0..6).map(|number| {
        let cluster = cluster.clone();
        async move {
            let patch = json!({"metadata": {"labels": {format!("l{number}"): "x"}}});
            cluster.patch(&format!("{V2}/a"), MERGE, &patch).await.expect(200);
        }
    });
    futures::future::join_all(writes).await;
    assert_eq!(stored(&cluster, "a")["metadata"]["labels"].as_object().unwrap().len(), 6);
}

struct Watching(http_body_util::combinators::UnsyncBoxBody<bytes::Bytes, setpoint_apiserver::BoxError>);

impl Watching {
    async fn begin(cluster: &Cluster, path: &str) -> Watching {
        let caller = Caller::Trusted(UserInfo::admin("admin"));
        let response = cluster.server.handle(caller, Request::get(path).body(body("")).unwrap()).await;
        assert_eq!(response.status(), 200);
        Watching(response.into_body())
    }

    async fn next(&mut self) -> Value {
        let frame = tokio::time::timeout(Duration::from_secs(30), self.0.frame()).await;
        let frame = frame.expect("an event comes in time").unwrap().unwrap().into_data().unwrap();
        serde_json::from_slice(&frame).unwrap()
    }
}

#[tokio::test]
async fn a_watch_shows_its_version_and_waits_for_a_webhook_that_fails() {
    let (cluster, webhook) = with_webhook().await;
    cluster.post(V1, &one("a", "h")).await.expect(201);
    let mut watch = Watching::begin(&cluster, &format!("{V2}?watch=true")).await;
    let added = watch.next().await;
    assert_eq!(
        (&added["type"], &added["object"]["spec"]),
        (&json!("ADDED"), &json!({"address": {"host": "h"}}))
    );
    cluster.patch(&format!("{V1}/a"), MERGE, &json!({"spec": {"replicas": 2}})).await.expect(200);
    let modified = watch.next().await;
    assert_eq!((&modified["type"], &modified["object"]["spec"]["replicas"]), (&json!("MODIFIED"), &json!(2)));
    webhook.spoil(|answer| answer["response"]["result"] = json!({"status": "Failure", "message": "no luck"}));
    cluster.delete(&format!("{V1}/a")).await.expect(200);
    let deleted = watch.next().await;
    assert_eq!(
        (&deleted["type"], &deleted["object"]["apiVersion"]),
        (&json!("DELETED"), &json!("conv.io/v2"))
    );
    webhook.asked();
    cluster.post(V1, &one("b", "h")).await.expect(201);
    let asked_twice = async {
        let mut asked = 0;
        while asked < 2 {
            asked += webhook.asked().len();
            tokio::task::yield_now().await;
        }
        webhook.mend();
    };
    let (added, ()) = tokio::join!(watch.next(), asked_twice);
    assert_eq!((&added["type"], &added["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("b")));
    webhook.spoil(|answer| answer["response"]["result"] = json!({"status": "Failure", "message": "no luck"}));
    cluster.post(V1, &one("c", "h")).await.expect(201);
    let mut failing = Watching::begin(&cluster, &format!("{V2}?watch=true")).await;
    let error = failing.next().await;
    assert_eq!((&error["type"], &error["object"]["reason"]), (&json!("ERROR"), &json!("StorageReadError")));
}
