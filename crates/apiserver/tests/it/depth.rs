//! Bodies that nest deeply.

use http::Request;
use serde_json::json;

use crate::cluster::{APPLY, Answer, Cluster, MERGE, body, start};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DEEPS: &str = "/apis/deep.io/v1/namespaces/default/deeps";
/// Levels inside `spec` of the deepest object that is taken.
const DEEPEST: usize = 124;

async fn cluster() -> Cluster {
    let cluster = start().await;
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({"metadata": {"name": "deeps.deep.io"}, "spec": {"group": "deep.io",
        "scope": "Namespaced", "names": {"plural": "deeps", "kind": "Deep"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    cluster.post(DEFINITIONS, &definition).await.expect(201);
    cluster
}

fn nested(levels: usize) -> String {
    format!("{}1{}", "{\"a\": ".repeat(levels), "}".repeat(levels))
}

async fn send(cluster: &Cluster, request: http::request::Builder, kind: &str, text: String) -> Answer {
    cluster.send(request.header("content-type", kind).body(body(text)).unwrap()).await
}

#[tokio::test]
async fn deep_bodies_are_read_to_a_limit_and_never_end_the_process() {
    let cluster = cluster().await;
    let json = |name: &str, levels: usize| {
        format!(
            r#"{{"kind": "Deep", "apiVersion": "deep.io/v1", "metadata": {{"name": "{name}"}}, "spec": {}}}"#,
            nested(levels)
        )
    };
    let yaml = |name: &str, levels: usize| {
        format!("kind: Deep\napiVersion: deep.io/v1\nmetadata: {{name: {name}}}\nspec: {}\n", nested(levels))
    };
    let block = |name: &str, levels: usize| {
        let lines: String = (1..=levels).map(|level| format!("{}a:\n", " ".repeat(level))).collect();
        let last = format!("{}a: 1\n", " ".repeat(levels + 1));
        format!("kind: Deep\napiVersion: deep.io/v1\nmetadata: {{name: {name}}}\nspec:\n{lines}{last}")
    };
    // `managedFields` nest one level deeper than the object itself.
    let deep = DEEPEST - 8;
    let post = || Request::post(DEEPS);
    assert_eq!(send(&cluster, post(), "application/json", json("json", deep)).await.code, 201);
    assert_eq!(send(&cluster, post(), "application/yaml", yaml("flow", deep)).await.code, 201);
    assert_eq!(send(&cluster, post(), "application/yaml", block("block", deep)).await.code, 201);
    for name in ["json", "flow", "block"] {
        let path = format!("{DEEPS}/{name}");
        cluster.patch(&path, MERGE, &json!({"spec": {"b": 1}})).await.expect(200);
        let applied = Request::patch(format!("{path}?fieldManager=m&force=true"));
        assert_eq!(send(&cluster, applied, APPLY, yaml(name, deep)).await.code, 200);
        cluster.get(&path).await.expect(200);
    }
    cluster.get_as(DEEPS, "application/json;as=Table;v=v1;g=meta.k8s.io").await.expect(200);
    for levels in [DEEPEST + 1, 200, 5_000, 200_000] {
        let refused = send(&cluster, post(), "application/json", json("x", levels)).await.expect(400);
        assert_eq!(refused["reason"], "BadRequest");
        assert_eq!(send(&cluster, post(), "application/yaml", yaml("x", levels)).await.code, 400);
        let applied = Request::patch(format!("{DEEPS}/x?fieldManager=m"));
        assert_eq!(send(&cluster, applied, APPLY, yaml("x", levels)).await.code, 400);
    }
    assert_eq!(send(&cluster, post(), "application/yaml", block("x", 1_000)).await.code, 400);
}

#[tokio::test]
async fn what_was_taken_can_be_read_and_changed() {
    let cluster = cluster().await;
    for levels in DEEPEST - 12..=DEEPEST {
        let name = format!("d{levels}");
        let text = format!(
            r#"{{"kind": "Deep", "apiVersion": "deep.io/v1", "metadata": {{"name": "{name}"}}, "spec": {}}}"#,
            nested(levels)
        );
        let created = send(&cluster, Request::post(DEEPS), "application/json", text).await;
        assert_eq!(created.code, 201, "{levels}");
        let path = format!("{DEEPS}/{name}");
        let patched = cluster.patch(&path, MERGE, &json!({"spec": {"b": 1}})).await;
        assert_eq!(patched.code, 200, "{levels}: {:?}", patched.bytes);
        assert_eq!(cluster.get(&path).await.code, 200);
    }
    cluster
        .get_as(DEEPS, "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
        .await
        .expect(200);
}

#[tokio::test]
async fn a_patch_does_not_make_what_nobody_reads() {
    let cluster = cluster().await;
    let text = format!(
        r#"{{"kind": "Deep", "apiVersion": "deep.io/v1", "metadata": {{"name": "d"}}, "spec": {}}}"#,
        nested(100)
    );
    assert_eq!(send(&cluster, Request::post(DEEPS), "application/json", text).await.code, 201);
    let patch = format!(r#"[{{"op": "add", "path": "/spec{}", "value": {}}}]"#, "/a".repeat(99), nested(60));
    let patch =
        send(&cluster, Request::patch(format!("{DEEPS}/d")), "application/json-patch+json", patch).await;
    assert_eq!(patch.expect(400)["message"], "the object nests deeper than 125 levels");
    cluster.get(&format!("{DEEPS}/d")).await.expect(200);
}

/// Each copy puts the object into its own innermost part.
#[tokio::test]
async fn copies_of_a_patch_do_not_nest_an_object_without_end() {
    let cluster = cluster().await;
    let text =
        r#"{"kind": "Deep", "apiVersion": "deep.io/v1", "metadata": {"name": "d"}, "spec": {"a": {}}}"#;
    assert_eq!(send(&cluster, Request::post(DEEPS), "application/json", text.to_owned()).await.code, 201);
    let (mut operations, mut levels) = (Vec::new(), 1);
    while levels < 100_000 {
        let path = format!("/spec{}", "/a".repeat(levels + 1));
        operations.push(json!({"op": "copy", "from": "/spec/a", "path": path}));
        levels *= 2;
    }
    let patch = serde_json::Value::from(operations).to_string();
    let patched =
        send(&cluster, Request::patch(format!("{DEEPS}/d")), "application/json-patch+json", patch).await;
    assert_eq!(patched.expect(400)["message"], "the object nests deeper than 125 levels");
    cluster.get(&format!("{DEEPS}/d")).await.expect(200);
}

/// A message of protobuf, written from its end to its beginning.
#[derive(Default)]
struct Backwards(Vec<u8>);

impl Backwards {
    /// Puts what there is so far into a field of a message.
    fn wrap(&mut self, field: u8) {
        let (mut length, mut digits) = (self.0.len(), Vec::new());
        while length > 0x7f {
            digits.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
            length >>= 7;
        }
        digits.push(u8::try_from(length).unwrap());
        self.0.extend(digits.iter().rev());
        let tag = u32::from(field) << 3 | 2;
        let high = u8::try_from(tag >> 7).unwrap();
        if high > 0 {
            self.0.extend([high, u8::try_from(tag & 0x7f).unwrap() | 0x80]);
        } else {
            self.0.push(u8::try_from(tag).unwrap());
        }
    }
}

/// A schema (`not` within `not`) that nests so deep.
fn definition(levels: usize) -> Vec<u8> {
    let mut message = Backwards::default();
    for _ in 0..levels {
        message.wrap(28);
    }
    // openAPIV3Schema, schema, versions, spec, raw.
    for field in [1, 4, 7, 2, 2] {
        message.wrap(field);
    }
    message.0.reverse();
    let kind = b"\x0a\x17apiextensions.k8s.io/v1\x12\x18CustomResourceDefinition";
    let mut bytes = b"k8s\0\x0a".to_vec();
    bytes.push(u8::try_from(kind.len()).unwrap());
    bytes.extend_from_slice(kind);
    bytes.extend(message.0);
    bytes
}

#[tokio::test]
async fn deep_protobuf_is_read_to_a_limit_and_never_ends_the_process() {
    let cluster = start().await;
    let mut codes = Vec::new();
    for levels in [10, 1_000, 100_000, 400_000] {
        let request =
            Request::post(DEFINITIONS).header("content-type", "application/vnd.kubernetes.protobuf");
        let answer = cluster.send(request.body(body(definition(levels))).unwrap()).await;
        codes.push(answer.code);
    }
    // The first one is read, and is no definition.
    assert_eq!(codes, [422, 400, 400, 400]);
}

#[tokio::test]
async fn filters_in_the_columns_of_a_table_nest_to_a_limit() {
    let cluster = start().await;
    let filters = |levels: usize| format!(".spec{}1{}", "[?(@.a".repeat(levels), ")]".repeat(levels));
    let column = |name: &str, path: String| json!({"name": name, "type": "string", "jsonPath": path});
    let version = json!({"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        "additionalPrinterColumns": [column("Deep", filters(100_000)), column("Wide", "..a".repeat(60))]});
    let definition = json!({"metadata": {"name": "deeps.deep.io"}, "spec": {"group": "deep.io",
        "scope": "Namespaced", "names": {"plural": "deeps", "kind": "Deep"}, "versions": [version]}});
    cluster.post(DEFINITIONS, &definition).await.expect(201);
    let text = format!(
        r#"{{"kind": "Deep", "apiVersion": "deep.io/v1", "metadata": {{"name": "d"}}, "spec": {}}}"#,
        nested(100)
    );
    assert_eq!(send(&cluster, Request::post(DEEPS), "application/json", text).await.code, 201);
    let table = cluster.get_as(DEEPS, "application/json;as=Table;v=v1;g=meta.k8s.io").await.expect(200);
    assert_eq!(table["rows"].as_array().map(Vec::len), Some(1));
}
