//! Apply beyond merging: refusals, subresources, versions, adoption of client-side apply.

use serde_json::{Value, json};

use super::objects::{Kind, config_map, deployment, install, overlay, widget};
use crate::scenario::{Scenario, Step};

const GROUP: &str = "special.wire";

pub fn scenarios() -> Vec<Scenario> {
    let mut all = vec![install(GROUP)];
    let named = [
        ("refusals", refusals()),
        ("bodies", bodies()),
        ("before-first", before_first()),
        ("client-side", client_side()),
        ("status", status()),
        ("widget-status", widget_status()),
        ("scale", scale()),
        ("widget-scale", widget_scale()),
        ("versions", versions()),
        ("many-editors", many_editors()),
        ("managed-fields", managed_fields()),
        ("delete-recreate", delete_recreate()),
        ("defaults", defaults()),
        ("widget-refusals", widget_refusals()),
        ("namespace", namespace_scenario()),
        ("immutable", immutable()),
        ("nulls", nulls()),
        ("deleting", deleting()),
    ];
    all.extend(named.into_iter().map(|(name, steps)| Scenario { name: format!("special-{name}"), steps }));
    all
}

fn apply(kind: &Kind, manager: &str, force: bool, fields: Value) -> Step {
    Step::apply(format!("{}/o", kind.path), manager, force, kind.object("o", &fields))
}

fn at(kind: &Kind, rest: &str) -> String {
    format!("{}/o{rest}", kind.path)
}

fn post(kind: &Kind) -> Step {
    Step::with(format!("POST {}", kind.path), kind.least("o"))
}

fn refusals() -> Vec<Step> {
    let kind = config_map();
    let object = kind.least("o");
    let with = |fields: Value| overlay(&object, &fields);
    let path = at(&kind, "?fieldManager=m");
    vec![
        Step::patch(at(&kind, ""), "apply", object.clone()),
        Step::patch(at(&kind, "?fieldManager="), "apply", object.clone()),
        Step::patch(at(&kind, "?fieldManager=m&force=maybe"), "apply", object.clone()),
        Step::patch(at(&kind, "?fieldManager=m&force=true"), "merge", object.clone()),
        Step::patch(at(&kind, &format!("?fieldManager={}", "x".repeat(129))), "apply", object.clone()),
        Step::patch(&path, "apply", with(json!({"metadata": {"managedFields": []}}))),
        Step::patch(&path, "apply", with(json!({"metadata": {"managedFields": [{"manager": "x"}]}}))),
        Step::patch(&path, "apply", with(json!({"metadata": {"name": "other"}}))),
        Step::patch(&path, "apply", with(json!({"metadata": {"namespace": "other"}}))),
        Step::patch(&path, "apply", with(json!({"metadata": {"resourceVersion": "1"}}))),
        Step::patch(
            &path,
            "apply",
            with(json!({"metadata": {"uid": "00000000-0000-4000-8000-000000000000"}})),
        ),
        Step::patch(&path, "apply", with(json!({"kind": "Secret"}))),
        Step::patch(&path, "apply", with(json!({"apiVersion": "v2"}))),
        Step::patch(&path, "apply", json!({"data": {"a": "b"}})),
        Step::patch(&path, "apply", with(json!({"data": {"a": 1}}))),
        Step::patch(&path, "apply", with(json!({"data": ["a"]}))),
        Step::patch(at(&kind, "?fieldManager=m&dryRun=All"), "apply", object.clone()),
        Step::new(format!("GET {}", at(&kind, ""))),
        Step::patch(format!("{}?fieldManager=m", kind.path), "apply", object.clone()),
        Step { user: Some("alice".into()), ..Step::patch(&path, "apply", object) },
    ]
}

fn bodies() -> Vec<Step> {
    let kind = config_map();
    let text = |text: &str| Step {
        content_type: Some("apply".into()),
        text: Some(text.into()),
        ..Step::new(format!("PATCH {}", at(&kind, "?fieldManager=m")))
    };
    vec![
        text("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: o\ndata:\n  a: \"1\"\n"),
        text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: o}\ndata: {a: \"1\", a: \"2\"}\n"),
        text("apiVersion: v1\nkind: ConfigMap\nmetadata: [\n"),
        text("{\"apiVersion\": \"v1\""),
        text("[]"),
        text("\"text\""),
        text("{}"),
        Step::patch(
            "/api/v1/namespaces/nowhere/configmaps/o?fieldManager=m",
            "apply",
            kind.object("o", &json!({})),
        ),
        Step::patch(
            "/apis/nonsense.example.com/v1/namespaces/default/things/o?fieldManager=m",
            "apply",
            kind.object("o", &json!({})),
        ),
    ]
}

/// An object that was made before anybody applied: its managers are kept, or it gets `before-first-apply`.
fn before_first() -> Vec<Step> {
    let kind = config_map();
    let strip = json!([{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}]);
    vec![
        post(&kind),
        Step::patch(at(&kind, ""), "json-patch", strip),
        apply(&kind, "m", false, json!({"data": {"base": "2"}})),
        apply(&kind, "m", true, json!({"data": {"base": "2", "more": "1"}})),
        apply(&kind, "m", false, json!({"data": {"more": "1"}})),
    ]
}

/// kubectl's annotation of client-side apply moves to the applier named kubectl.
fn client_side() -> Vec<Step> {
    let kind = config_map();
    let last = kind.object("o", &json!({"data": {"a": "1", "b": "1"}})).to_string();
    let object = kind.object(
        "o",
        &json!({"data": {"a": "1", "b": "1"}, "metadata": {"annotations":
            {"kubectl.kubernetes.io/last-applied-configuration": last}}}),
    );
    vec![
        Step::with(format!("POST {}?fieldManager=kubectl-client-side-apply", kind.path), object),
        apply(&kind, "kubectl", false, json!({"data": {"a": "2"}})),
        apply(&kind, "other", false, json!({"data": {"a": "3"}})),
    ]
}

fn status() -> Vec<Step> {
    let kind = deployment();
    let status = |manager: &str, force: bool, fields: Value| {
        Step::apply(at(&kind, "/status"), manager, force, kind.object("o", &json!({"status": fields})))
    };
    let available = |reason: &str| {
        json!({"conditions": [{"type": "Available", "status": "True", "reason": reason,
            "lastUpdateTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}]})
    };
    vec![
        post(&kind),
        status("s1", false, available("A")),
        status("s2", false, available("B")),
        status("s2", true, available("B")),
        status("s1", false, json!({"replicas": 3})),
        apply(&kind, "m", false, json!({"status": {"replicas": 9}, "spec": {"replicas": 4}})),
        Step::apply(at(&kind, "/status"), "s1", false, kind.object("o", &json!({"spec": {"replicas": 9}}))),
        Step::new(format!("GET {}", at(&kind, ""))),
    ]
}

fn widget_status() -> Vec<Step> {
    let kind = widget(GROUP);
    let status = |manager: &str, fields: Value| {
        Step::apply(at(&kind, "/status"), manager, false, kind.object("o", &json!({"status": fields})))
    };
    vec![
        post(&kind),
        status("s1", json!({"phase": "Ready", "conditions": [{"type": "A", "status": "True"}]})),
        status("s2", json!({"conditions": [{"type": "B", "status": "True"}]})),
        status("s2", json!({"conditions": [{"type": "A", "status": "False"}]})),
        apply(&kind, "m", false, json!({"spec": {"mode": "A"}, "status": {"phase": "Lost"}})),
        Step::patch(
            at(&kind, "/status"),
            "merge",
            json!({"status": {"phase": "Gone"}, "spec": {"mode": "C"}}),
        ),
        Step::patch(at(&kind, ""), "merge", json!({"status": {"phase": "No"}, "spec": {"mode": "B"}})),
        Step::patch(at(&kind, "/status"), "merge", json!({"status": {"phase": 5}})),
        Step::new(format!("GET {}", at(&kind, "/status"))),
    ]
}

fn scale_object(replicas: i64) -> Value {
    json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "o"},
        "spec": {"replicas": replicas}})
}

fn scale() -> Vec<Step> {
    let kind = deployment();
    let scale = |manager: &str, force, replicas| {
        Step::apply(at(&kind, "/scale"), manager, force, scale_object(replicas))
    };
    vec![
        post(&kind),
        apply(&kind, "m", true, json!({"spec": {"replicas": 2}})),
        scale("hpa", false, 3),
        scale("hpa", true, 3),
        apply(&kind, "m", false, json!({"spec": {"replicas": 2}})),
        apply(&kind, "m", false, json!({})),
        Step::patch(at(&kind, "/scale?fieldManager=hand"), "merge", json!({"spec": {"replicas": 4}})),
        Step::new(format!("GET {}", at(&kind, ""))),
    ]
}

fn widget_scale() -> Vec<Step> {
    let kind = widget(GROUP);
    vec![
        post(&kind),
        Step::new(format!("GET {}", at(&kind, "/scale"))),
        Step::with(format!("PUT {}", at(&kind, "/scale")), scale_object(4)),
        Step::apply(at(&kind, "/scale"), "hpa", false, scale_object(5)),
        Step::apply(at(&kind, "/scale"), "hpa", true, scale_object(5)),
        Step::patch(at(&kind, "/scale"), "merge", json!({"spec": {"replicas": 50}})),
        apply(&kind, "m", false, json!({"spec": {"replicas": 2}})),
        Step::new(format!("GET {}", at(&kind, ""))),
    ]
}

/// The same object through two versions of its kind.
fn versions() -> Vec<Step> {
    let one = widget(GROUP);
    let two = Kind {
        api_version: format!("{GROUP}.example.com/v2"),
        path: one.path.replace("/v1/", "/v2/"),
        ..one.clone()
    };
    vec![
        apply(&one, "m1", false, json!({"spec": {"tags": ["a"], "mode": "B"}})),
        apply(&two, "m2", false, json!({"spec": {"tags": ["b"]}})),
        apply(&two, "m2", false, json!({"spec": {"mode": "C"}})),
        apply(&two, "m1", false, json!({"spec": {"tags": ["c"]}})),
        Step::new(format!("GET {}", at(&two, ""))),
        Step::new(format!("GET {}", at(&one, ""))),
        apply(&one, "m1", false, json!({"spec": {}})),
        Step::patch(at(&two, ""), "merge", json!({"spec": {"mode": "A"}})),
    ]
}

/// More than ten editors: the oldest are joined.
fn many_editors() -> Vec<Step> {
    let kind = config_map();
    let edit = |number: usize| {
        let path = at(&kind, &format!("?fieldManager=e{number:02}"));
        Step::patch(path, "merge", json!({"data": {format!("k{number:02}"): "1"}}))
    };
    let mut steps = vec![post(&kind)];
    steps.extend((1..=12).map(edit));
    steps
}

fn managed_fields() -> Vec<Step> {
    let kind = config_map();
    let set =
        |value: Value| Step::patch(at(&kind, ""), "merge", json!({"metadata": {"managedFields": value}}));
    vec![
        post(&kind),
        apply(&kind, "m", false, json!({"data": {"a": "1"}})),
        set(json!([])),
        apply(&kind, "m", false, json!({"data": {"a": "2"}})),
        set(json!([{}])),
        Step::patch(at(&kind, ""), "merge", json!({"data": {"b": "1"}})),
        set(
            json!([{"manager": "x", "operation": "Nonsense", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}}]),
        ),
        set(
            json!([{"manager": "x", "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {".": {}, "f:a": {}}}}]),
        ),
        apply(&kind, "m", false, json!({"data": {"a": "9"}})),
    ]
}

fn delete_recreate() -> Vec<Step> {
    let kind = config_map();
    vec![
        apply(&kind, "m", false, json!({"data": {"a": "1"}})),
        Step::new(format!("DELETE {}", at(&kind, ""))),
        apply(&kind, "m2", false, json!({"data": {"b": "1"}})),
    ]
}

fn defaults() -> Vec<Step> {
    let kind = widget(GROUP);
    vec![
        Step::with(format!("POST {}", kind.path), kind.object("o", &json!({"spec": {}}))),
        Step::with(
            format!("POST {}", kind.path),
            kind.object("p", &json!({"spec": {"nested": {"a": {}}, "ports": [{"port": 1}], "unknown": 1}})),
        ),
        Step::with(format!("POST {}", kind.path), kind.object("q", &json!({}))),
        apply(&kind, "m", false, json!({"spec": {"replicas": null}})),
        Step::patch(at(&kind, ""), "merge", json!({"spec": {"replicas": null, "mode": null}})),
        Step { accept: Some("table".into()), ..Step::new(format!("GET {}", kind.path)) },
        Step::patch(at(&kind, ""), "strategic", json!({"spec": {"replicas": 2}})),
        Step::patch(
            at(&kind, ""),
            "json-patch",
            json!([{"op": "add", "path": "/spec/tags", "value": ["a", "a"]}]),
        ),
    ]
}

fn widget_refusals() -> Vec<Step> {
    let kind = widget(GROUP);
    let wrong =
        |spec: Value| Step::with(format!("POST {}", kind.path), kind.object("o", &json!({"spec": spec})));
    let strict = |spec: Value| {
        Step::with(
            format!("POST {}?fieldValidation=Strict", kind.path),
            kind.object("s", &json!({"spec": spec})),
        )
    };
    vec![
        wrong(json!({"replicas": 11})),
        wrong(json!({"replicas": -1})),
        wrong(json!({"replicas": "1"})),
        wrong(json!({"replicas": 1.5})),
        wrong(json!({"mode": "Z"})),
        wrong(json!({"tags": ["a", "a"]})),
        wrong(json!({"ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}]})),
        wrong(json!({"ports": [{"name": "x"}]})),
        wrong(json!({"nested": {"a": {"b": "toolong"}}})),
        wrong(json!({"nested": {"a": {"b": "UP"}}})),
        wrong(json!({"size": true})),
        wrong(json!({"when": "yesterday"})),
        wrong(json!({"maybe": null, "mode": null})),
        wrong(json!([])),
        wrong(json!("text")),
        strict(json!({"unknown": 1, "nested": {"a": {"z": 1}}})),
        Step::with(
            format!("POST {}?fieldValidation=Warn", kind.path),
            kind.object("s", &json!({"spec": {"unknown": 1, "free": {"z": 1}}})),
        ),
        Step::with(
            format!("POST {}", kind.path),
            json!({"apiVersion": "v1", "kind": "Widget", "metadata": {"name": "x"}}),
        ),
        Step { accept: Some("protobuf".into()), ..Step::new(format!("GET {}", kind.path)) },
        apply(&kind, "m", false, json!({"spec": {"tags": ["a", "a"]}})),
        apply(&kind, "m", false, json!({"spec": {"ports": [{"name": "x"}]}})),
        apply(&kind, "m", false, json!({"spec": {"replicas": "x"}})),
    ]
}

fn namespace_scenario() -> Vec<Step> {
    let object = |labels: Value| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "wire-applied", "labels": labels}});
    let path = "/api/v1/namespaces/wire-applied";
    vec![
        Step::apply(path, "m", false, object(json!({"a": "1"}))),
        Step::apply(path, "n", false, object(json!({"a": "2"}))),
        Step::apply(path, "m", false, object(json!({}))),
    ]
}

fn immutable() -> Vec<Step> {
    let kind = config_map();
    vec![
        apply(&kind, "m", false, json!({"data": {"a": "1"}, "immutable": true})),
        apply(&kind, "m", false, json!({"data": {"a": "2"}, "immutable": true})),
        apply(&kind, "m", false, json!({"data": {"a": "1"}})),
        apply(
            &kind,
            "m",
            false,
            json!({"data": {"a": "1"}, "immutable": true, "metadata": {"labels": {"x": "1"}}}),
        ),
    ]
}

fn nulls() -> Vec<Step> {
    let kind = deployment();
    vec![
        post(&kind),
        apply(&kind, "m", false, json!({"metadata": {"labels": null}, "spec": {"paused": null}})),
        apply(&kind, "m", false, json!({"metadata": {"labels": {"a": null}}})),
        apply(&kind, "m", true, json!({"spec": {"strategy": {}}})),
        apply(&kind, "m", true, json!({"spec": {"template": {"spec": {"volumes": []}}}})),
        apply(&kind, "m", true, json!({"spec": {"template": {"metadata": {"annotations": {}}}}})),
        apply(&kind, "m", true, json!({"spec": {"selector": {"matchLabels": {"z": "z"}}}})),
        apply(&kind, "m", true, json!({"spec": {"template": {"spec": {"containers": [{"name": "new"}]}}}})),
    ]
}

fn deleting() -> Vec<Step> {
    let kind = config_map();
    vec![
        apply(&kind, "m", false, json!({"metadata": {"finalizers": ["e.com/a"]}})),
        Step::new(format!("DELETE {}", at(&kind, ""))),
        apply(&kind, "m", false, json!({"metadata": {"finalizers": ["e.com/a", "e.com/b"]}})),
        apply(&kind, "n", false, json!({"data": {"late": "1"}})),
        apply(&kind, "m", false, json!({})),
        Step::new(format!("GET {}", at(&kind, ""))),
    ]
}
