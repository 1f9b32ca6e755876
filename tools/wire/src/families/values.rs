//! Custom objects against their schema: each keyword, each list type, each rule, with its exact causes; and the three
//! ways to treat fields that are unknown or stand twice.

use serde_json::{Value, json};

use super::objects::{Kind, config_map, deployment, install_definition, overlay, service};
use super::rich;
use crate::scenario::{Scenario, Step};

const GROUP: &str = "values.wire";

pub fn scenarios() -> Vec<Scenario> {
    let kind = rich::rich(GROUP, "v1");
    let (valid, wrong) = rich::parts();
    let mut all = vec![install_definition("riches", rich::definition(GROUP), GROUP)];
    let named = |name: &str, steps: Vec<Step>| Scenario { name: format!("values-{name}"), steps };
    let post =
        |part: &Value| Step::with(format!("POST {}?dryRun=All", kind.path), overlay(&kind.least("o"), part));
    all.push(named("good", valid.iter().map(post).collect()));
    all.push(named("wrong", wrong.iter().map(post).collect()));
    let made = || Step::with(format!("POST {}", kind.path), kind.least("o"));
    let each = |how: &str, parts: &[Value]| -> Vec<Step> {
        let step = |part: &Value| match how {
            "apply" => Step::apply(format!("{}/o", kind.path), "m", true, overlay(&kind.least("o"), part)),
            "put" => Step::with(format!("PUT {}/o", kind.path), overlay(&kind.least("o"), part)),
            _ => Step::patch(format!("{}/o?dryRun=All", kind.path), "merge", part.clone()),
        };
        std::iter::once(made()).chain(parts.iter().map(step)).collect()
    };
    all.push(named("merged", each("merge", &wrong)));
    all.push(named("applied", each("apply", &wrong)));
    all.push(named("applied-good", each("apply", &valid)));
    all.push(named("put", each("put", &wrong)));
    all.push(named("missing", missing(&kind)));
    all.push(named("transitions", transitions(&kind)));
    all.push(named("versions", versions()));
    for (name, kind) in [
        ("configmap", config_map()),
        ("deployment", deployment()),
        ("service", service()),
        ("rich", kind.clone()),
    ] {
        for mode in ["Ignore", "Warn", "Strict"] {
            let steps = fields(&kind, mode);
            all.push(Scenario { name: format!("fields-{name}-{}", mode.to_lowercase()), steps });
        }
    }
    all
}

/// Missing fields. (Go reports several wrong fields in any order, which cannot be recorded.)
fn missing(kind: &Kind) -> Vec<Step> {
    vec![
        Step::with(format!("POST {}", kind.path), kind.object("o", &json!({}))),
        Step::with(format!("POST {}", kind.path), kind.object("o", &json!({"spec": {}}))),
        Step::with(format!("POST {}", kind.path), kind.object("Bad_Name", &json!({"spec": {"must": "x"}}))),
    ]
}

/// Rules that compare with the old value.
fn transitions(kind: &Kind) -> Vec<Step> {
    let patch = |spec: Value| Step::patch(format!("{}/o", kind.path), "merge", json!({"spec": spec}));
    vec![
        Step::with(
            format!("POST {}", kind.path),
            overlay(&kind.least("o"), &json!({"spec": {"fixed": "one"}})),
        ),
        patch(json!({"fixed": "two"})),
        patch(json!({"fixed": null})),
        patch(json!({"fixed": "two"})),
        patch(json!({"mode": "C"})),
        patch(json!({"mode": "A"})),
        patch(json!({"replicas": 9})),
        Step::patch(format!("{}/o/scale", kind.path), "merge", json!({"spec": {"replicas": 9}})),
        Step::patch(format!("{}/o/scale", kind.path), "merge", json!({"spec": {"replicas": 11}})),
        Step::patch(
            format!("{}/o/status", kind.path),
            "merge",
            json!({"status": {"phase": "Sold"}, "spec": {"mode": "A"}}),
        ),
        Step::patch(format!("{}/o/status", kind.path), "merge", json!({"status": {"phase": 5}})),
    ]
}

/// A list that is atomic in one version and a set in the other; fields that one of them lacks.
fn versions() -> Vec<Step> {
    let (one, two) = (rich::rich(GROUP, "v1"), rich::rich(GROUP, "v2"));
    let apply = |kind: &Kind, manager: &str, spec: Value| {
        let object = overlay(&kind.least("o"), &json!({"spec": spec}));
        Step::apply(format!("{}/o", kind.path), manager, true, object)
    };
    vec![
        apply(&one, "m1", json!({"args": ["x", "y"], "numbers": [1, 2], "tags": ["a"]})),
        apply(&two, "m2", json!({"args": ["y", "z"], "onlyNew": "n", "tags": ["b"]})),
        Step::new(format!("GET {}/o", one.path)),
        Step::new(format!("GET {}/o", two.path)),
        apply(&one, "m1", json!({"args": ["w"], "onlyNew": "n"})),
        apply(&two, "m1", json!({"args": ["q"], "numbers": [3]})),
        Step::patch(format!("{}/o", two.path), "merge", json!({"spec": {"onlyNew": "p", "numbers": [9]}})),
        Step::patch(format!("{}/o", one.path), "merge", json!({"spec": {"onlyNew": "p", "numbers": [9]}})),
        apply(&two, "m2", json!({})),
        Step::new(format!("GET {}/o", one.path)),
    ]
}

/// Unknown and doubled fields at every depth, in every kind of write.
fn fields(kind: &Kind, mode: &str) -> Vec<Step> {
    let least = kind.least("o");
    let query = format!("?fieldManager=m&fieldValidation={mode}");
    let unknown = json!({"nowhere": 1, "metadata": {"nothing": "x"}});
    let text = |request: String, content: Option<&str>, text: String| Step {
        content_type: content.map(str::to_owned),
        text: Some(text),
        ..Step::new(request)
    };
    let at = |rest: &str| format!("{}/o{rest}{query}", kind.path);
    let merged = overlay(&unknown, &deep(&kind.kind));
    let doubled = format!(
        r#"{{"metadata":{{"labels":{{"a":"1","a":"2"}},"labels":{{"b":"1"}}}},{}}}"#,
        twice(&kind.kind)
    );
    let body = least.to_string();
    let inner = body.trim_start_matches('{').trim_end_matches('}');
    let whole = format!(
        r#"{{"zzz":1,"zzz":2,"metadata":{{"name":"o","name":"o"}},{},{inner}}}}}"#,
        twice(&kind.kind)
    );
    let whole = if serde_json::from_str::<Value>(&whole).is_ok() {
        whole
    } else {
        whole.trim_end_matches('}').to_owned()
    };
    let head = format!("apiVersion: {}\nkind: {}\nmetadata:\n", kind.api_version, kind.kind);
    let yaml =
        format!("{head}  name: o\n  name: o\n  nothing: x\nnowhere: 1\nnowhere: 2\n{}", yaml_rest(kind));
    let applied =
        format!("{head}  name: o\n  labels:\n    a: \"1\"\n    a: \"2\"\n  labels: {{b: \"1\", b: \"2\"}}\n");
    vec![
        Step::with(format!("POST {}{query}", kind.path), overlay(&least, &merged)),
        text(format!("POST {}{query}", kind.path), None, whole),
        text(format!("POST {}{query}", kind.path), Some("yaml"), yaml),
        Step::with(format!("POST {}", kind.path), least.clone()),
        Step::with(format!("PUT {}", at("")), overlay(&least, &merged)),
        Step::patch(at(""), "merge", merged.clone()),
        text(format!("PATCH {}", at("")), Some("merge"), doubled.clone()),
        Step::patch(at(""), "strategic", merged),
        text(format!("PATCH {}", at("")), Some("strategic"), doubled),
        Step::patch(at(""), "json-patch", json!([{"op": "add", "path": "/nowhere", "value": 1}])),
        text(
            format!("PATCH {}", at("")),
            Some("json-patch"),
            r#"[{"op":"add","op":"add","path":"/metadata/labels","value":{"a":"1","a":"2"},"extra":1}]"#
                .to_owned(),
        ),
        Step::patch(at(""), "apply", overlay(&kind.object("o", &json!({})), &json!({"nowhere": 1}))),
        text(format!("PATCH {}", at("")), Some("apply"), applied),
        Step::new(format!("GET {}/o", kind.path)),
    ]
}

/// An unknown field far below.
fn deep(kind: &str) -> Value {
    match kind {
        "Deployment" => json!({"spec": {"wrong": 1, "template": {"spec": {"containers": [
            {"name": "c", "image": "nginx:1", "far": 1, "env": [{"name": "A", "vlaue": "x"}]}]}}}}),
        "Service" => json!({"spec": {"ports": [{"name": "web", "port": 80, "porty": 1}]}}),
        "Rich" => {
            json!({"spec": {"nested": {"a": {"z": 1}}, "ports": [{"port": 1, "z": 1}], "free": {"z": 1}}})
        }
        _ => json!({"extra": {"a": 1}}),
    }
}

/// A field twice.
fn twice(kind: &str) -> &'static str {
    match kind {
        "Deployment" => {
            r#""spec":{"replicas":1,"replicas":2,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"nginx:1","image":"nginx:2"}]}}}"#
        }
        "Service" => r#""spec":{"ports":[{"name":"web","port":80,"port":81}]}"#,
        "Rich" => r#""spec":{"must":"x","nested":{"a":{"b":"x","b":"y"}}}"#,
        _ => r#""data":{"a":"1","a":"2"}"#,
    }
}

fn yaml_rest(kind: &Kind) -> String {
    match kind.kind.as_str() {
        "Deployment" => "spec:\n  replicas: 1\n  replicas: 2\n  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n    spec:\n      containers:\n      - name: c\n        image: nginx:1\n        far: 1\n".to_owned(),
        "Service" => "spec:\n  ports:\n  - port: 80\n    name: web\n    name: web\n    porty: 1\n".to_owned(),
        "Rich" => "spec:\n  must: x\n  nested: {a: {b: x, z: 1}}\n  mode: A\n  mode: B\n".to_owned(),
        _ => "data:\n  a: \"1\"\n  a: \"2\"\n".to_owned(),
    }
}
