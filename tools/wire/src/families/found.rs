//! Findings of the fuzzer, so that they stay fixed.

use serde_json::{Value, json};

use super::objects::{Kind, config_map, deployment, install_definition, overlay, pod, service};
use super::rich::{definition, rich};
use crate::scenario::{Scenario, Step};

const GROUP: &str = "found.wire";

pub fn scenarios() -> Vec<Scenario> {
    let mut all = vec![install_definition("riches", definition(GROUP), GROUP)];
    let named = [
        ("misfit-without-managers", misfit_without_managers()),
        ("empty-template-labels", empty_template_labels()),
        ("doubled-finalizers", doubled_finalizers()),
        ("doubled-node-ports", doubled_node_ports()),
        ("delete-by-another-version", delete_by_another_version()),
        ("apply-nothing-by-another-version", apply_nothing_by_another_version()),
        ("apply-what-another-version-lacks", apply_what_another_version_lacks()),
        ("apply-metadata-of-embedded", apply_metadata_of_embedded()),
        ("empty-data-of-what-is-immutable", empty_data_of_what_is_immutable()),
        ("doubled-keys-of-a-scale", doubled_keys_of_a_scale()),
        ("warnings-of-a-refused-patch", warnings_of_a_refused_patch()),
        ("metadata-of-an-embedded-resource", metadata_of_an_embedded_resource()),
        ("addresses-of-a-pod", addresses_of_a_pod()),
    ];
    all.extend(named.into_iter().map(|(name, steps)| Scenario { name: format!("found-{name}"), steps }));
    all
}

fn at(kind: &Kind, rest: &str) -> String {
    format!("{}/o{rest}", kind.path)
}

fn post(kind: &Kind, fields: &Value) -> Step {
    Step::with(format!("POST {}?fieldManager=m1", kind.path), overlay(&kind.least("o"), fields))
}

fn apply(kind: &Kind, fields: &Value) -> Step {
    Step::patch(at(kind, "?fieldManager=m2"), "apply", kind.object("o", fields))
}

/// The existing object does not fit its type, which is reported before any error in the configuration.
fn misfit_without_managers() -> Vec<Step> {
    let kind = rich(GROUP, "v1");
    vec![
        post(&kind, &json!({"spec": {"raw": []}})),
        apply(&kind, &json!({})),
        apply(&kind, &json!({"spec": {"replicas": "x", "nope": 1}})),
        Step::patch(at(&kind, "?fieldManager=m3"), "merge", json!({"spec": {"raw": null}})),
        apply(&kind, &json!({"spec": {"raw": "AQID"}})),
        Step::patch(at(&kind, "?fieldManager=m3"), "merge", json!({"spec": {"raw": []}})),
        apply(&kind, &json!({"spec": {"replicas": 2}})),
    ]
}

/// It is written as Go writes a decoded object: without empty fields.
fn metadata_of_an_embedded_resource() -> Vec<Step> {
    let kind = rich(GROUP, "v1");
    let pod = |metadata: Value| json!({"spec": {"embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}}});
    let empty = json!({"name": "e", "generateName": "", "labels": {}, "annotations": {}, "finalizers": [],
        "ownerReferences": [], "managedFields": [], "generation": 0, "uid": "", "creationTimestamp": null});
    let merge = |fields: Value| Step::patch(at(&kind, "?fieldManager=m3"), "merge", fields);
    vec![
        post(&kind, &pod(empty.clone())),
        merge(pod(json!({"labels": {"a": null}, "annotations": {"a": ""}}))),
        merge(pod(json!({"annotations": {"a": null}, "finalizers": []}))),
        merge(pod(json!(null))),
        merge(pod(json!({}))),
        apply(&kind, &pod(empty)),
        apply(&kind, &pod(json!({"labels": {"a": null, "b": "1"}, "generation": 0}))),
        apply(&kind, &pod(json!(null))),
        merge(pod(
            json!({"creationTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0, "name": "f"}),
        )),
        merge(pod(json!({"labels": [], "name": "f"}))),
    ]
}

/// One address and the list of all are set together, the list with one of each family.
fn addresses_of_a_pod() -> Vec<Step> {
    let kind = pod();
    let status =
        |status: Value| Step::patch(at(&kind, "/status?fieldManager=m3"), "merge", json!({"status": status}));
    vec![
        post(&kind, &json!({})),
        status(json!({"podIPs": [{}]})),
        status(json!({"podIPs": [{"ip": "x"}, {"ip": "1.2.3.4"}]})),
        status(json!({"podIPs": [{"ip": "1.2.3.4"}, {"ip": "5.6.7.8"}, {}]})),
        status(json!({"podIPs": [{"ip": "1.2.3.4"}, {"ip": "1.2.3.4"}]})),
        status(json!({"hostIPs": [{}]})),
        status(json!({"hostIP": "1.2.3.4", "hostIPs": [{"ip": "1.2.3.4"}, {"ip": "1.2.3.5"}, {"ip": "y"}]})),
        status(json!({"podIP": "1.2.3.4", "podIPs": [{}, {}]})),
        status(json!({"podIP": null, "podIPs": [{"ip": "fd00::1"}, {"ip": "1.2.3.4"}]})),
        status(json!({"podIPs": null})),
    ]
}

/// A refusal tells empty labels from none.
fn empty_template_labels() -> Vec<Step> {
    let kind = deployment();
    let labels = |labels: Value| json!({"spec": {"template": {"metadata": {"labels": labels}}}});
    let mut empty = kind.least("o");
    empty["spec"]["template"]["metadata"] = json!({"labels": {}});
    let mut without = kind.least("o");
    without["spec"]["template"]["metadata"] = json!({});
    vec![
        Step::with(format!("POST {}", kind.path), empty.clone()),
        Step::with(format!("POST {}", kind.path), without.clone()),
        Step::patch(at(&kind, "?fieldManager=m2"), "apply", empty.clone()),
        Step::patch(at(&kind, "?fieldManager=m2"), "apply", without),
        post(&kind, &json!({})),
        Step::with(format!("PUT {}", at(&kind, "")), empty),
        Step::patch(at(&kind, ""), "merge", labels(json!({"a": null}))),
        Step::patch(at(&kind, ""), "merge", labels(json!(null))),
        Step::patch(at(&kind, ""), "strategic", labels(json!({"a": null}))),
        Step::patch(at(&kind, ""), "strategic", labels(json!({"$patch": "replace"}))),
        Step::patch(
            at(&kind, ""),
            "json-patch",
            json!([{"op": "remove", "path": "/spec/template/metadata/labels/a"}]),
        ),
    ]
}

/// A text that is added to a list in which another stands twice comes first, as everything that is added.
fn doubled_finalizers() -> Vec<Step> {
    let kind = config_map();
    let add = json!({"metadata": {"finalizers": ["e.com/c"]}});
    vec![
        post(&kind, &json!({"metadata": {"finalizers": ["e.com/b", "e.com/a", "e.com/a"]}})),
        Step::patch(at(&kind, "?dryRun=All"), "strategic", add.clone()),
        Step::patch(at(&kind, ""), "strategic", add),
    ]
}

/// Node ports are kept by name: two ports of one name would get one.
fn doubled_node_ports() -> Vec<Step> {
    let kind = service();
    let ports = |name: &str, port: u16| json!({"spec": {"ports": [{"name": name, "port": port}, {"name": name, "port": port}]}});
    vec![
        post(&kind, &json!({"spec": {"type": "NodePort"}})),
        Step::patch(at(&kind, ""), "merge", ports("web", 80)),
        Step::patch(at(&kind, "?dryRun=All"), "merge", ports("web", 80)),
        Step::patch(at(&kind, "?dryRun=All"), "merge", ports("tls", 443)),
        Step::patch(at(&kind, ""), "merge", ports("tls", 443)),
        Step::patch(
            at(&kind, ""),
            "merge",
            json!({"spec": {"ports": [
                {"name": "web", "port": 80}, {"name": "udp", "port": 80, "protocol": "UDP"}]}}),
        ),
    ]
}

/// An object that waits for its finalizers is written in the version of the deletion.
fn delete_by_another_version() -> Vec<Step> {
    let (first, second) = (rich(GROUP, "v1"), rich(GROUP, "v2"));
    vec![
        post(&first, &json!({"metadata": {"finalizers": ["e.com/a"]}, "spec": {"numbers": [1]}})),
        Step::patch(at(&second, "?fieldManager=m2"), "merge", json!({"metadata": {"labels": {"a": "1"}}})),
        Step::patch(at(&first, "?fieldManager=m1"), "merge", json!({"spec": {"numbers": [1, 2]}})),
        Step::new(format!("DELETE {}", at(&second, ""))),
        Step::new(format!("GET {}", at(&first, ""))),
        Step::patch(
            at(&first, "?fieldManager=m3"),
            "apply",
            first.object("o", &json!({"spec": {"flag": true}})),
        ),
    ]
}

/// A field that the other version lacks is gone after an empty apply.
fn apply_nothing_by_another_version() -> Vec<Step> {
    let (first, second) = (rich(GROUP, "v1"), rich(GROUP, "v2"));
    let bare = json!({"apiVersion": second.api_version, "kind": second.kind, "metadata": {"name": "o"}});
    let apply = |path: &str| Step::patch(at(&second, path), "apply", bare.clone());
    vec![
        post(&first, &json!({"spec": {"numbers": []}})),
        apply("/status?fieldManager=m2"),
        Step::new(format!("GET {}", at(&first, ""))),
        apply("/status?fieldManager=m2"),
        Step::patch(at(&first, ""), "merge", json!({"spec": {"numbers": [1]}})),
        apply("/status?fieldManager=m2"),
        Step::new(format!("GET {}", at(&first, ""))),
        Step::patch(at(&first, ""), "merge", json!({"spec": {"numbers": []}})),
        apply("?fieldManager=m2"),
        Step::new(format!("GET {}", at(&first, ""))),
    ]
}

/// Pruning is the first to notice that a manager of another version cannot see the result, also where there is nothing
/// to prune.
fn apply_what_another_version_lacks() -> Vec<Step> {
    let (first, second) = (rich(GROUP, "v1"), rich(GROUP, "v2"));
    let apply = |manager: &str, spec: Value| {
        let path = at(&first, &format!("?fieldManager={manager}&force=true"));
        Step::patch(path, "apply", first.object("o", &json!({"spec": spec})))
    };
    vec![
        post(&first, &json!({})),
        apply("m2", json!({"either": {"right": "odd"}})),
        Step::patch(at(&second, "?fieldManager=m2"), "merge", json!({"spec": {"flag": true}})),
        apply("m2", json!({"either": {"right": "r"}, "numbers": [2]})),
        apply("m2", json!({"numbers": [2]})),
        apply("m3", json!({"numbers": [2]})),
        apply("m2", json!({"either": {"right": "r"}})),
    ]
}

/// An embedded resource keeps unknown fields, but its metadata does not.
fn apply_metadata_of_embedded() -> Vec<Step> {
    let kind = rich(GROUP, "v1");
    let apply = |metadata: Value| {
        let embedded =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "unknownHere": {"x": 1}});
        let object = kind.object("o", &json!({"spec": {"embedded": embedded}}));
        Step::patch(at(&kind, "?fieldManager=m1"), "apply", object)
    };
    vec![
        post(&kind, &json!({})),
        apply(json!({"name": "e", "unknownHere": "x"})),
        apply(json!({"name": 5})),
        apply(json!({"name": "e", "labels": {"a": 1}})),
        apply(
            json!({"name": "e", "labels": {"a": "1"}, "ownerReferences": [{"uid": "u", "unknownHere": 1}]}),
        ),
        apply(json!({"name": "e", "labels": {"a": "1"}, "finalizers": ["e.com/a", "e.com/b"]})),
        apply(json!({"name": "e", "finalizers": ["e.com/b"]})),
    ]
}

/// A refused scale warns too.
fn doubled_keys_of_a_scale() -> Vec<Step> {
    let kind = deployment();
    let scale = |replicas: i64| {
        let text = format!(
            "apiVersion: autoscaling/v1\nkind: Scale\nmetadata:\n  name: o\nspec:\n  replicas: 2\n  replicas: {replicas}\n"
        );
        Step {
            text: Some(text),
            content_type: Some("apply".to_owned()),
            ..Step::new(format!("PATCH {}", at(&kind, "/scale?fieldManager=m2&force=true")))
        }
    };
    vec![post(&kind, &json!({})), scale(-1), scale(3)]
}

/// A refusal warns in the order in which things were noticed.
fn warnings_of_a_refused_patch() -> Vec<Step> {
    let kind = config_map();
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u1"});
    let patch = json!({"binaryData": {}, "unknownAtTop": 1, "metadata": {"ownerReferences": [owner, owner]}});
    vec![
        post(&kind, &json!({"immutable": true})),
        Step::patch(at(&kind, ""), "merge", patch.clone()),
        Step::patch(
            at(&kind, ""),
            "merge",
            json!({"immutable": null, "unknownAtTop": 1, "metadata": patch["metadata"]}),
        ),
        Step::patch(
            at(&kind, ""),
            "strategic",
            json!({"immutable": null, "unknownAtTop": 1, "metadata": patch["metadata"]}),
        ),
    ]
}

/// A change of an immutable field is reported before the new value's errors.
fn empty_data_of_what_is_immutable() -> Vec<Step> {
    let kind = config_map();
    let put = |part: Value| Step::with(format!("PUT {}", at(&kind, "")), kind.object("o", &part));
    vec![
        post(&kind, &json!({"immutable": true})),
        put(json!({"binaryData": {}, "data": {"bad key!": "1"}})),
        put(json!({"binaryData": {}, "data": {"bad key!": "1"}, "immutable": true})),
        put(json!({"binaryData": {}, "immutable": true, "metadata": {"labels": {"bad key!": "1"}}})),
        put(json!({"data": {}, "immutable": true})),
    ]
}
