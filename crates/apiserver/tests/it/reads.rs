//! Get, list, pages, versions, forms.

use serde_json::{Value, json};

use crate::cluster::{MAPS, map, start, version};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PARTIAL: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

#[tokio::test]
async fn pages_show_one_version_whatever_happens_in_between() {
    let cluster = start().await;
    for name in ["a", "b", "c", "d", "e"] {
        cluster.post(MAPS, &map(name, json!({}))).await.expect(201);
    }
    assert_eq!(cluster.get(&format!("{MAPS}?timeoutSeconds=x")).await.code, 400);
    let first = cluster.get(&format!("{MAPS}?limit=2")).await.expect(200);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    cluster.delete(&format!("{MAPS}/c")).await.expect(200);
    cluster.post(MAPS, &map("f", json!({}))).await.expect(201);
    let mut names: Vec<Value> = Vec::new();
    let mut page = first.clone();
    loop {
        names.extend(page["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].clone()));
        assert_eq!(page["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
        let Some(token) = page["metadata"]["continue"].as_str().filter(|token| !token.is_empty()) else {
            break;
        };
        page = cluster.get(&format!("{MAPS}?limit=2&continue={token}")).await.expect(200);
    }
    assert_eq!(names, ["a", "b", "c", "d", "e"].map(Value::from));
}

#[tokio::test]
async fn a_page_token_outlives_its_version_with_a_warning() {
    let cluster = start().await;
    for name in ["a", "b", "c"] {
        cluster.post(MAPS, &map(name, json!({}))).await.expect(201);
    }
    let first = cluster.get(&format!("{MAPS}?limit=1")).await.expect(200);
    let token = first["metadata"]["continue"].as_str().unwrap();
    cluster.post(MAPS, &map("bb", json!({}))).await.expect(201);
    cluster.server.store().compact(cluster.server.store().revision());
    let expired = cluster.get(&format!("{MAPS}?limit=1&continue={token}")).await.expect(410);
    assert_eq!(expired["reason"], "Expired");
    let token = expired["metadata"]["continue"].as_str().unwrap();
    let rest = cluster.get(&format!("{MAPS}?continue={token}")).await.expect(200);
    let names: Vec<&Value> =
        rest["items"].as_array().unwrap().iter().map(|i| &i["metadata"]["name"]).collect();
    assert_eq!(names, ["b", "bb", "c"]);
}

#[tokio::test(start_paused = true)]
async fn versions_are_honoured_or_refused() {
    let cluster = start().await;
    let created = cluster.post(MAPS, &map("a", json!({"x": "1"}))).await.expect(201);
    cluster.put(&format!("{MAPS}/a"), &map("a", json!({"x": "2"}))).await.expect(200);
    let at = version(&created);
    let old =
        cluster.get(&format!("{MAPS}?resourceVersion={at}&resourceVersionMatch=Exact")).await.expect(200);
    assert_eq!(old["items"][0]["data"]["x"], "1");
    let newest = cluster.get(&format!("{MAPS}?resourceVersion={at}")).await.expect(200);
    assert_eq!(newest["items"][0]["data"]["x"], "2");
    let future = cluster.get(&format!("{MAPS}?resourceVersion=99999")).await.expect(504);
    assert_eq!(future["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    assert_eq!(cluster.get(&format!("{MAPS}?resourceVersion=x")).await.code, 400);
    for wrong in [
        "resourceVersionMatch=Exact",
        "resourceVersion=0&resourceVersionMatch=Exact",
        "sendInitialEvents=true",
    ] {
        assert_eq!(cluster.get(&format!("{MAPS}?{wrong}")).await.code, 422, "{wrong}");
    }
    cluster.server.store().compact(cluster.server.store().revision());
    let gone = cluster.get(&format!("{MAPS}?resourceVersion={at}&resourceVersionMatch=Exact")).await;
    assert_eq!(gone.code, 410);
}

#[tokio::test]
async fn selectors_select() {
    let cluster = start().await;
    for (name, labels) in [("a", json!({"app": "x"})), ("b", json!({"app": "y"})), ("c", json!({}))] {
        let mut object = map(name, json!({}));
        object["metadata"]["labels"] = labels;
        cluster.post(MAPS, &object).await.expect(201);
    }
    for (query, expected) in [
        ("labelSelector=app", vec!["a", "b"]),
        ("labelSelector=app%3Dx", vec!["a"]),
        ("labelSelector=app%20notin%20(x)", vec!["b", "c"]),
        ("labelSelector=!app", vec!["c"]),
        ("fieldSelector=metadata.name%3Db", vec!["b"]),
        ("fieldSelector=metadata.name!%3Db", vec!["a", "c"]),
    ] {
        let list = cluster.get(&format!("{MAPS}?{query}")).await.expect(200);
        let names: Vec<&str> = list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|i| i["metadata"]["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, expected, "{query}");
    }
    assert_eq!(cluster.get(&format!("{MAPS}?fieldSelector=data.x%3Db")).await.code, 400);
    assert_eq!(cluster.get(&format!("{MAPS}?labelSelector=%3D%3D")).await.code, 400);
}

#[tokio::test]
async fn answers_take_the_form_that_is_asked_for() {
    let cluster = start().await;
    cluster.post(MAPS, &map("a", json!({"x": "1"}))).await.expect(201);
    let table = cluster.get_as(MAPS, TABLE).await.expect(200);
    assert_eq!((&table["kind"], &table["rows"][0]["cells"][0]), (&json!("Table"), &json!("a")));
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    let partial = cluster.get_as(MAPS, PARTIAL).await.expect(200);
    assert_eq!(partial["kind"], "PartialObjectMetadataList");
    assert!(partial["items"][0].get("data").is_none());
    let yaml = cluster.get_as(&format!("{MAPS}/a"), "application/yaml").await;
    assert!(yaml.bytes.starts_with(b"apiVersion: v1\n"), "{:?}", yaml.bytes);
    let protobuf = cluster.get_as(&format!("{MAPS}/a"), "application/vnd.kubernetes.protobuf").await;
    assert!(protobuf.bytes.starts_with(b"k8s\0"));
    assert_eq!(setpoint_schema::protobuf::decode(&protobuf.bytes).unwrap()["data"]["x"], "1");
    assert_eq!(cluster.get_as(&format!("{MAPS}/a"), "text/html").await.code, 406);
}

#[tokio::test]
async fn discovery_is_tagged_and_complete() {
    let cluster = start().await;
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let answer = cluster.get_as("/apis", accept).await;
    let tag = answer.headers["etag"].clone();
    assert_eq!(answer.headers["vary"], "Accept");
    let groups = answer.expect(200);
    assert!(groups["items"].as_array().unwrap().iter().any(|group| group["metadata"]["name"] == "apps"));
    let again = http::Request::get("/apis").header("accept", accept).header("if-none-match", tag);
    assert_eq!(cluster.send(again.body(crate::cluster::body("")).unwrap()).await.code, 304);
    let legacy = cluster.get("/apis/apps/v1").await.expect(200);
    let scale =
        legacy["resources"].as_array().unwrap().iter().find(|r| r["name"] == "deployments/scale").unwrap();
    assert_eq!((&scale["group"], &scale["kind"]), (&json!("autoscaling"), &json!("Scale")));
}

#[tokio::test]
async fn large_lists_are_whole_with_and_without_compression() {
    let cluster = start().await;
    let filler = "x".repeat(20_000);
    for at in 0..40 {
        cluster.post(MAPS, &map(&format!("m{at:02}"), json!({"filler": filler}))).await.expect(201);
    }
    let plain = cluster.get(MAPS).await;
    assert_eq!(plain.json()["items"].as_array().unwrap().len(), 40);
    let request = http::Request::get(MAPS).header("accept-encoding", "gzip");
    let packed = cluster.send(request.body(crate::cluster::body("")).unwrap()).await;
    assert_eq!(packed.headers["content-encoding"], "gzip");
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(&packed.bytes[..]), &mut text).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), plain.json());
}

#[tokio::test]
async fn whoever_uses_what_is_deprecated_is_told() {
    let cluster = start().await;
    let expected = ["299 - \"v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice\""];
    assert_eq!(cluster.get("/api/v1/endpoints").await.warnings(), expected);
    assert_eq!(cluster.get("/api/v1/namespaces/default/endpoints/nope").await.warnings(), expected);
    assert!(cluster.get("/api/v1/services").await.warnings().is_empty());
}

#[tokio::test]
async fn people_get_indented_answers_and_refusals() {
    let cluster = start().await;
    let get = async |path: &str, agent: &str| {
        let request =
            http::Request::get(path).header("user-agent", agent).body(crate::cluster::body("")).unwrap();
        let answer = cluster.send(request).await;
        (answer.code, String::from_utf8(answer.bytes.to_vec()).unwrap())
    };
    let missing = "/api/v1/namespaces/nope";
    let (code, text) = get(missing, "curl/8").await;
    assert_eq!((code, text.starts_with("{\n  \"kind\": \"Status\""), text.ends_with('}')), (404, true, true));
    assert!(get(missing, "client").await.1.ends_with("}\n"));
    assert!(get("/api/v1/namespaces/nope?pretty=true", "client").await.1.starts_with("{\n"));
    assert!(get("/api/v1/namespaces/nope?pretty=0", "curl/8").await.1.starts_with("{\"kind\""));
    assert!(get("/api/v1/namespaces/default", "Mozilla/5.0").await.1.starts_with("{\n"));
    assert!(get("/api", "Wget/1").await.1.starts_with("{\n"));
}

#[tokio::test]
async fn paths_are_unescaped_before_they_are_read() {
    let cluster = start().await;
    let wrong = cluster.get("/api/v1/namespaces/%zz").await;
    assert_eq!((wrong.code, &wrong.bytes[..]), (400, &b"400 Bad Request"[..]));
    assert_eq!(wrong.headers["connection"], "close");
    let slash = cluster.get("/api/v1/namespaces/default/configmaps/a%2fb").await.expect(404);
    assert_eq!(slash["message"], "the server could not find the requested resource");
    assert_eq!(cluster.get("/%68ealthz").await.code, 200);
    cluster.get("/api/v1/namespaces?labelSelector=%zz").await.expect(200);
}

#[tokio::test]
async fn statusz_tells_since_when_the_server_runs() {
    let cluster = start().await;
    cluster.now.fetch_add(3_725, std::sync::atomic::Ordering::Relaxed);
    let text = cluster.get("/statusz").await;
    let text = String::from_utf8(text.bytes.to_vec()).unwrap();
    assert!(text.contains("\nStarted: Fri Jan 15 08:00:00 UTC 2027\nUp: 1 hr 02 min 05 sec\n"), "{text}");
    let structured = "application/json;v=v1beta1;g=config.k8s.io;as=Statusz";
    assert_eq!(cluster.get_as("/statusz", structured).await.expect(200)["uptimeSeconds"], 3_725);
    cluster.get_as("/statusz", "application/json").await.expect(406);
}

/// As kube-apiserver 1.37 answers: Go writes a nil slice as null.
#[tokio::test]
async fn an_empty_list_of_metadata_has_null_for_its_items() {
    let cluster = start().await;
    assert_eq!(cluster.get_as(MAPS, PARTIAL).await.expect(200).get("items"), Some(&Value::Null));
    assert_eq!(cluster.get(MAPS).await.expect(200)["items"], json!([]));
    cluster.post(MAPS, &map("a", json!({}))).await.expect(201);
    let names = cluster.get_as(MAPS, PARTIAL).await.expect(200);
    assert_eq!(names.pointer("/items/0/metadata/name"), Some(&json!("a")));
}

#[tokio::test]
async fn the_health_checks_are_gauges_too() {
    let cluster = start().await;
    let answer = cluster.get("/metrics/slis").await;
    let text = String::from_utf8(answer.bytes.to_vec()).unwrap();
    assert_eq!(answer.code, 200);
    assert!(text.contains("\nkubernetes_healthcheck{name=\"etcd\",type=\"readyz\"} 1\n"), "{text}");
    assert!(text.contains("\nkubernetes_healthcheck{name=\"informer-sync\",type=\"readyz\"} 1\n"), "{text}");
}

/// As kube-apiserver 1.37 answers, but for parts that share the process.
#[tokio::test]
async fn the_parts_of_the_control_plane_have_a_status() {
    const PATH: &str = "/api/v1/componentstatuses";
    let cluster = crate::cluster::start_with(|options| options.parts.scheduler = true).await;
    let list = cluster.get(PATH).await.expect(200);
    assert_eq!((&list["kind"], &list["metadata"]), (&json!("ComponentStatusList"), &json!({})));
    let states = list["items"].as_array().unwrap().iter().map(|item| {
        (item["metadata"]["name"].as_str().unwrap(), item["conditions"][0]["status"].as_str().unwrap())
    });
    assert_eq!(
        states.collect::<Vec<_>>(),
        [("scheduler", "True"), ("controller-manager", "Unknown"), ("etcd-0", "True")]
    );
    assert_eq!(
        cluster.get(&format!("{PATH}/etcd-0")).await.expect(200),
        json!({"kind": "ComponentStatus", "apiVersion": "v1", "metadata": {"name": "etcd-0"},
            "conditions": [{"type": "Healthy", "status": "True", "message": "ok"}]})
    );
    cluster.get(&format!("{PATH}/nope")).await.expect(404);
    assert_eq!(cluster.get(&format!("{PATH}?labelSelector=a%3Db")).await.expect(200)["items"], json!([]));
    let named = cluster.get(&format!("{PATH}?fieldSelector=metadata.name%3Detcd-0")).await.expect(200);
    assert_eq!(named["items"].as_array().unwrap().len(), 1);
    let table = cluster.get_as(PATH, TABLE).await.expect(200);
    assert_eq!(table["rows"][0]["cells"][0], "scheduler");
    assert_eq!(cluster.get_as(PATH, PARTIAL).await.expect(200)["items"].as_array().unwrap().len(), 3);
    assert_eq!(cluster.get_as(PATH, "application/vnd.kubernetes.protobuf").await.code, 200);
}
