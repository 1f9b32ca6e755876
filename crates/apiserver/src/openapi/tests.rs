use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::registry::Registry;

/// No definitions and nothing said about types.
const BARE: Sources<'static> = Sources { published: &|_| None, prose: None };

fn resources(group: &str, version: &str) -> Vec<Arc<Resource>> {
    let all = Registry::default().all();
    all.into_iter().filter(|resource| resource.group == group && resource.version == version).collect()
}

fn document(group: &str, version: &str) -> Value {
    let resources = resources(group, version);
    v3(&resources.iter().map(|resource| &**resource).collect::<Vec<_>>(), BARE)
}

/// Every reference leads to a model of the same document.
fn references_lead_somewhere(document: &Value) -> usize {
    fn walk(value: &Value, document: &Value, count: &mut usize) {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(reference)) = map.get("$ref") {
                    let pointer = reference.trim_start_matches('#');
                    assert!(document.pointer(pointer).is_some_and(Value::is_object), "{reference}");
                    *count += 1;
                }
                map.values().for_each(|value| walk(value, document, count));
            }
            Value::Array(items) => items.iter().for_each(|value| walk(value, document, count)),
            _ => {}
        }
    }
    let mut count = 0;
    walk(document, document, &mut count);
    count
}

#[test]
fn kubectl_finds_what_it_looks_for() {
    let document = document("apps", "v1");
    assert!(references_lead_somewhere(&document) > 500);
    let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    assert_eq!(
        patch["x-kubernetes-group-version-kind"],
        json!({"group": "apps", "version": "v1", "kind": "Deployment"})
    );
    let parameters = patch["parameters"].as_array().unwrap();
    assert!(parameters.iter().any(|parameter| parameter["name"] == "fieldValidation"));
    assert!(patch["requestBody"]["content"]["application/strategic-merge-patch+json"].is_object());
    let schemas = &document["components"]["schemas"];
    let strategy = &schemas["io.k8s.api.apps.v1.DeploymentSpec"]["properties"]["strategy"];
    assert_eq!(
        *strategy,
        json!({
            "allOf": [{"$ref": "#/components/schemas/io.k8s.api.apps.v1.DeploymentStrategy"}],
            "default": {},
            "x-kubernetes-patch-strategy": "retainKeys"
        })
    );
    let ports = &schemas["io.k8s.api.core.v1.Container"]["properties"]["ports"];
    assert_eq!(ports["x-kubernetes-patch-merge-key"], "containerPort");
    assert_eq!(ports["x-kubernetes-list-map-keys"], json!(["containerPort", "protocol"]));
    let protocol = &schemas["io.k8s.api.core.v1.ContainerPort"]["properties"]["protocol"];
    assert_eq!(protocol["enum"], json!(["SCTP", "TCP", "UDP"]));
}

#[test]
fn a_field_that_merges_otherwise_than_its_type_says_so() {
    let document = document("", "v1");
    let schemas = &document["components"]["schemas"];
    assert_eq!(schemas["io.k8s.api.core.v1.ObjectReference"]["x-kubernetes-map-type"], "atomic");
    let claim = &schemas["io.k8s.api.core.v1.PersistentVolumeSpec"]["properties"]["claimRef"];
    assert_eq!(claim["x-kubernetes-map-type"], "granular");
}

#[test]
fn subresources_have_their_own_kinds() {
    let document = document("", "v1");
    let eviction = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}/eviction"]["post"];
    assert_eq!(eviction["operationId"], "createCoreV1NamespacedPodEviction");
    assert_eq!(eviction["x-kubernetes-group-version-kind"]["group"], "policy");
    let exec = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}/exec"]["get"];
    assert_eq!(exec["operationId"], "connectCoreV1GetNamespacedPodExec");
}

#[test]
fn the_second_version_has_everything_and_is_protobuf_too() {
    let all = Registry::default().all();
    let document = v2(&all.iter().map(|resource| &**resource).collect::<Vec<_>>(), BARE);
    assert!(references_lead_somewhere(&document) > 3000);
    let definitions = document["definitions"].as_object().unwrap();
    assert!(definitions.len() > 550, "{}", definitions.len());
    assert_eq!(definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"], json!({"type": "string"}));
    let bytes = v2_protobuf(&document);
    // swagger = "2.0", then info with its title.
    assert_eq!(bytes[..7], [0x0a, 3, b'2', b'.', b'0', 0x12, 18]);
    assert!(bytes.windows(10).any(|window| window == b"Deployment"));
}

#[test]
fn proxies_take_every_method_and_any_path() {
    let document = document("", "v1");
    let proxy = &document["paths"]["/api/v1/nodes/{name}/proxy/{path}"];
    assert_eq!(proxy["head"]["operationId"], "connectCoreV1HeadNodeProxyWithPath");
    assert_eq!(
        document["paths"]["/api/v1/nodes/{name}/proxy"]["options"]["operationId"],
        "connectCoreV1OptionsNodeProxy"
    );
    let places: Vec<_> =
        proxy["parameters"].as_array().unwrap().iter().map(|one| (&one["name"], &one["in"])).collect();
    assert_eq!(json!(places), json!([["name", "path"], ["path", "query"], ["path", "path"]]));
    let log = &document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}/log"]["get"];
    assert!(log["responses"]["200"]["content"]["text/plain"].is_object());
}

#[test]
fn what_all_operations_take_stands_at_the_path() {
    let document = document("", "v1");
    let finalize = &document["paths"]["/api/v1/namespaces/{name}/finalize"];
    assert_eq!(finalize["put"]["parameters"], Value::Null);
    let names: Vec<_> = finalize["parameters"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(json!(names), json!(["dryRun", "fieldManager", "fieldValidation", "name", "pretty"]));
}

#[test]
fn only_what_a_version_uses_is_in_its_document() {
    let reviews = document("authentication.k8s.io", "v1");
    let schemas = reviews["components"]["schemas"].as_object().unwrap();
    assert!(!schemas.keys().any(|name| name.ends_with(".DeleteOptions") || name.ends_with(".WatchEvent")));
    let apps = document("apps", "v1");
    let kinds = &apps["components"]["schemas"]["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"]["x-kubernetes-group-version-kind"];
    let own = |group: &str| json!({"group": group, "version": "v1", "kind": "DeleteOptions"});
    assert_eq!(*kinds, json!([own(""), own("apps")]));
}

#[test]
fn what_is_said_about_types_stands_at_them() {
    fn prose(tell: &mut dyn FnMut(&str, &str, &str)) {
        tell("io.k8s.api.apps.v1.Deployment", "", "Of the kind.");
        tell("io.k8s.api.apps.v1.Deployment", "spec", "Of a field.");
        tell("io.k8s.api.apps.v1.Deployment", "nowhere", "Of nothing.");
        tell("io.k8s.api.apps.v9.Nobody", "", "Of nothing.");
    }
    let all = resources("apps", "v1");
    let all: Vec<&Resource> = all.iter().map(|resource| &**resource).collect();
    let sources = Sources { prose: Some(prose), ..BARE };
    let third = v3(&all, sources);
    let model = &third["components"]["schemas"]["io.k8s.api.apps.v1.Deployment"];
    assert_eq!(model["description"], "Of the kind.");
    assert_eq!(model["properties"]["spec"]["description"], "Of a field.");
    assert!(model["properties"]["spec"]["allOf"].is_array());
    assert_eq!(model["properties"].get("nowhere"), None);
    let second = v2(&all, sources);
    let model = &second["definitions"]["io.k8s.api.apps.v1.Deployment"];
    assert_eq!(model["properties"]["spec"]["description"], "Of a field.");
    assert!(model["properties"]["spec"]["$ref"].is_string());
}

mod served {
    use http::{Method, Request, StatusCode};
    use http_body_util::BodyExt;
    use setpoint_api::{Clock, Random};
    use setpoint_store::Store;

    use super::*;
    use crate::{Caller, Options, Server, UserInfo};

    async fn server() -> Server {
        let clock = Clock::new(|| "2026-11-15T10:00:00Z".parse().unwrap());
        let store = Store::memory(setpoint_store::Options::default());
        Server::start(Options::new(store, clock, Random::from_seed(1))).await.unwrap()
    }

    async fn ask(server: &Server, method: Method, path: &str, body: &str) -> (StatusCode, Value) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .body(crate::respond::full(body.to_owned()))
            .unwrap();
        let response = server.handle(Caller::Trusted(UserInfo::admin("admin")), request).await;
        let status = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    const DEFINITION: &str = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
        "metadata":{"name":"foos.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
        "names":{"plural":"foos","singular":"foo","kind":"Foo","listKind":"FooList"},
        "versions":[{"name":"v1","served":true,"storage":true,"selectableFields":[{"jsonPath":".spec.text"}],"schema":{"openAPIV3Schema":{"type":"object",
        "properties":{"spec":{"type":"object","description":"What is wanted.","properties":{
        "port":{"x-kubernetes-int-or-string":true},"text":{"type":"string","default":"x"}}}}}}}]}}"#;

    fn url(index: &Value, name: &str) -> Option<String> {
        index["paths"][name]["serverRelativeURL"].as_str().map(str::to_owned)
    }

    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

    /// The tag of the document, or that it is still the one of that tag.
    async fn tag(server: &Server, path: &str, known: &str) -> Option<String> {
        let request = Request::builder().uri(path).header("if-none-match", known);
        let request = request.body(crate::respond::full(String::new())).unwrap();
        let response = server.handle(Caller::Trusted(UserInfo::admin("admin")), request).await;
        let tag = response.headers()["etag"].to_str().unwrap().to_owned();
        (response.status() != StatusCode::NOT_MODIFIED).then_some(tag)
    }

    /// A definition is in both documents with the answer to its creation, and out of them with that to its removal.
    #[tokio::test]
    async fn custom_resources_come_and_go() {
        let server = server().await;
        let (_, before) = ask(&server, Method::GET, "/openapi/v3", "").await;
        assert!(url(&before, "apis/apps/v1").is_some() && url(&before, "apis/example.com/v1").is_none());
        let first = tag(&server, "/openapi/v2", "").await.unwrap();
        assert_eq!(tag(&server, "/openapi/v2", &first).await, None);
        let (status, answer) = ask(&server, Method::POST, DEFINITIONS, DEFINITION).await;
        assert_eq!(status, StatusCode::CREATED, "{answer}");
        let (_, index) = ask(&server, Method::GET, "/openapi/v3", "").await;
        assert_eq!(url(&index, "apis/apps/v1"), url(&before, "apis/apps/v1"));
        let here = url(&index, "apis/example.com/v1").unwrap();
        let (status, document) = ask(&server, Method::GET, &here, "").await;
        assert_eq!(status, StatusCode::OK);
        references_lead_somewhere(&document);
        assert_eq!(document["info"]["title"], "Kubernetes CRD Swagger");
        for model in ["Foo", "FooList"] {
            let model = &document["components"]["schemas"][format!("com.example.v1.{model}")];
            assert_eq!(model["x-kubernetes-selectable-fields"], json!([{"fieldPath": "spec.text"}]));
        }
        let spec = &document["components"]["schemas"]["com.example.v1.Foo"]["properties"]["spec"];
        assert_eq!(spec["description"], "What is wanted.");
        assert_eq!(spec["properties"]["port"]["anyOf"], json!([{"type": "integer"}, {"type": "string"}]));
        let (_, second) = ask(&server, Method::GET, "/openapi/v2", "").await;
        let spec = &second["definitions"]["com.example.v1.Foo"]["properties"]["spec"];
        assert_eq!(spec["properties"]["text"], json!({"type": "string"}));
        assert!(!v2_protobuf(&second).is_empty());
        assert!(tag(&server, "/openapi/v2", &first).await.is_some());
        let one = format!("{DEFINITIONS}/foos.example.com");
        assert_eq!(ask(&server, Method::DELETE, &one, "").await.0, StatusCode::OK);
        let (_, after) = ask(&server, Method::GET, "/openapi/v3", "").await;
        assert_eq!(after, before);
        assert_eq!(ask(&server, Method::GET, "/openapi/v3/apis/example.com/v1", "").await.0.as_u16(), 404);
        let (_, second) = ask(&server, Method::GET, "/openapi/v2", "").await;
        assert!(second["definitions"].get("com.example.v1.Foo").is_none());
        assert_eq!(tag(&server, "/openapi/v2", &first).await, None);
    }

    /// kubectl reads OpenAPI 2 and refuses every field that a model with properties does not name.
    #[tokio::test]
    async fn a_kind_that_takes_every_field_has_no_properties_in_openapi_2() {
        let server = server().await;
        let definition = DEFINITION.replacen(
            r#""openAPIV3Schema":{"#,
            r#""openAPIV3Schema":{"x-kubernetes-preserve-unknown-fields":true,"#,
            1,
        );
        let (status, answer) = ask(&server, Method::POST, DEFINITIONS, &definition).await;
        assert_eq!(status, StatusCode::CREATED, "{answer}");
        let (_, second) = ask(&server, Method::GET, "/openapi/v2", "").await;
        let model = &second["definitions"]["com.example.v1.Foo"];
        assert_eq!((&model["type"], &model["properties"]), (&json!("object"), &Value::Null));
        let (_, third) = ask(&server, Method::GET, "/openapi/v3/apis/example.com/v1", "").await;
        let model = &third["components"]["schemas"]["com.example.v1.Foo"];
        assert_eq!(model["x-kubernetes-preserve-unknown-fields"], json!(true));
        assert!(model["properties"]["metadata"].is_object());
    }

    #[tokio::test]
    async fn a_changed_definition_has_another_hash() {
        let server = server().await;
        ask(&server, Method::POST, DEFINITIONS, DEFINITION).await;
        let (_, index) = ask(&server, Method::GET, "/openapi/v3", "").await;
        let (old, path) =
            (url(&index, "apis/example.com/v1").unwrap(), format!("{DEFINITIONS}/foos.example.com"));
        let (_, mut definition) = ask(&server, Method::GET, &path, "").await;
        let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
        definition.pointer_mut(schema).unwrap()["description"] = json!("Something else.");
        let (status, answer) = ask(&server, Method::PUT, &path, &definition.to_string()).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        let (_, index) = ask(&server, Method::GET, "/openapi/v3", "").await;
        let new = url(&index, "apis/example.com/v1").unwrap();
        assert_ne!(new, old);
        assert_eq!(ask(&server, Method::GET, &old, "").await.0, StatusCode::MOVED_PERMANENTLY);
        let (_, document) = ask(&server, Method::GET, &new, "").await;
        let spec = &document["components"]["schemas"]["com.example.v1.Foo"]["properties"]["spec"];
        assert_eq!(spec["description"], "Something else.");
    }

    #[tokio::test]
    async fn an_outdated_hash_leads_to_the_current_document() {
        let server = server().await;
        let (status, _) = ask(&server, Method::GET, "/openapi/v3/apis/apps/v1?hash=OLD", "").await;
        assert_eq!(status, StatusCode::MOVED_PERMANENTLY);
        let (status, _) = ask(&server, Method::GET, "/openapi/v3/apis/nobody/v1", "").await;
        assert_eq!(status.as_u16(), 404);
    }
}
