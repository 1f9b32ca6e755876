//! The life of one object, drawn from a seed: who writes what in which way.

use serde_json::{Value, json};
use setpoint_api::Random;

use super::GROUP;
use super::mutate::{damage, doubled, pick, yaml};
use crate::families::objects::{Kind, config_map, deployment, overlay, pod, service};
use crate::families::rich::rich;
use crate::families::{pieces, rich as rich_kind};
use crate::scenario::Step;

struct Life<'r> {
    random: &'r Random,
    /// The same objects at each version that serves them.
    kinds: Vec<Kind>,
    valid: Vec<Value>,
    wrong: Vec<Value>,
    /// The part that `/status` writes.
    status: Vec<Value>,
}

/// A sequence on one object of a random kind.
pub(super) fn sequence(random: &Random, length: u64) -> Vec<Step> {
    let kinds = match random.below(7) {
        0 => vec![deployment()],
        1 => vec![service()],
        2 => vec![pod()],
        3 => vec![config_map()],
        4 | 5 => vec![rich(GROUP, "v1")],
        _ => vec![rich(GROUP, "v1"), rich(GROUP, "v2")],
    };
    let name = kinds[0].kind.clone();
    let (valid, wrong) = if name == "Rich" { with_metadata(rich_kind::parts()) } else { pieces::of(&name) };
    let life = Life { random, kinds, valid, wrong, status: pieces::status(&name) };
    let mut steps = vec![life.first()];
    while u64::try_from(steps.len()).unwrap_or(u64::MAX) < length {
        life.next(&mut steps);
    }
    if name == "Service" {
        life.end(&mut steps);
    }
    steps
}

fn with_metadata((mut valid, mut wrong): (Vec<Value>, Vec<Value>)) -> (Vec<Value>, Vec<Value>) {
    let (more, worse) = pieces::metadata();
    valid.extend(more);
    wrong.extend(worse);
    (valid, wrong)
}

impl Life<'_> {
    fn one_in(&self, times: u64) -> bool {
        self.random.below(times) == 0
    }

    fn kind(&self) -> &Kind {
        pick(self.random, &self.kinds)
    }

    /// Up to three pieces over one another, at times with one that is wrong or damaged.
    fn fields(&self) -> Value {
        let mut all = json!({});
        for _ in 0..=self.random.below(3) {
            all = overlay(&all, pick(self.random, &self.valid));
        }
        if self.one_in(8) {
            all = overlay(&all, pick(self.random, &self.wrong));
        }
        if self.one_in(12) {
            damage(self.random, &mut all);
        }
        if !self.kinds[0].built_in {
            without_empty(&mut all);
        }
        if let Some(bytes) = all.get_mut("binaryData").and_then(Value::as_object_mut) {
            // `docs/differences.md`: the stored form of null differs from the form that is read.
            bytes.retain(|_, value| !value.is_null());
        }
        all
    }

    fn options(&self) -> String {
        let mut query = format!("?fieldManager={}", pick(self.random, &["m1", "m2", "m3"]));
        if self.one_in(10) {
            query += "&dryRun=All";
        }
        if self.one_in(4) {
            query += "&fieldValidation=";
            query += *pick(self.random, &["Strict", "Strict", "Warn", "Ignore"]);
        }
        query
    }

    /// The body as JSON; at times as a text with doubled keys, or as YAML.
    fn with_body(&self, step: Step, body: Value) -> Step {
        let takes_yaml = matches!(step.content_type.as_deref(), None | Some("apply"));
        match self.random.below(16) {
            0 => Step { text: Some(doubled(self.random, &body)), ..step },
            1 if takes_yaml => {
                let (mut text, double) = (String::new(), self.one_in(4));
                yaml(self.random, &body, 0, &mut text, double);
                let content_type = step.content_type.clone().or(Some("yaml".to_owned()));
                Step { text: Some(text), content_type, ..step }
            }
            _ => Step { body: Some(body), ..step },
        }
    }

    fn patch(&self, path: &str, kind: &str, body: Value) -> Step {
        let step = Step { content_type: Some(kind.to_owned()), ..Step::new(format!("PATCH {path}")) };
        self.with_body(step, body)
    }

    /// There are only so many ports and addresses.
    fn end(&self, steps: &mut Vec<Step>) {
        let path = format!("{}/o", self.kinds[0].path);
        steps.push(Step::patch(&path, "merge", json!({"metadata": {"finalizers": null}})));
        steps.push(Step::new(format!("DELETE {path}")));
    }

    fn first(&self) -> Step {
        let kind = self.kind();
        let object = overlay(&kind.least("o"), &self.fields());
        if self.one_in(3) {
            return self.patch(&format!("{}/o{}", kind.path, self.options()), "apply", object);
        }
        self.with_body(Step::new(format!("POST {}{}", kind.path, self.options())), object)
    }

    fn next(&self, steps: &mut Vec<Step>) {
        let kind = self.kind();
        let path = format!("{}/o", kind.path);
        let query = self.options();
        let step = match self.random.below(24) {
            0..=7 => self.apply(kind, &path, &query),
            8..=10 => self.patch(&format!("{path}{query}"), "merge", self.fields()),
            11..=13 if kind.built_in => self.patch(&format!("{path}{query}"), "strategic", self.strategic()),
            11..=13 => self.patch(&format!("{path}{query}"), "merge", nulled(self.fields())),
            14 | 15 => self.patch(&format!("{path}{query}"), "json-patch", self.operations(kind)),
            16 | 17 => {
                let object = overlay(&kind.least("o"), &self.fields());
                self.with_body(Step::new(format!("PUT {path}{query}")), object)
            }
            18 | 19 => {
                let capture = [("live".to_owned(), String::new())].into();
                steps.push(Step { capture, ..Step::new(format!("GET {path}")) });
                let onto = Some("live".to_owned());
                Step { onto, ..Step::with(format!("PUT {path}{query}"), self.fields()) }
            }
            20 | 21 if !self.status.is_empty() => self.status_write(kind, &path, &query),
            22 if self.has_scale(kind) => self.scale(kind, &path, &query),
            _ => self.read(kind, &path),
        };
        steps.push(step);
    }

    fn apply(&self, kind: &Kind, path: &str, query: &str) -> Step {
        let force = if self.one_in(2) { "&force=true" } else { "" };
        let base = if self.one_in(5) { kind.least("o") } else { kind.object("o", &json!({})) };
        self.patch(&format!("{path}{query}{force}"), "apply", overlay(&base, &self.fields()))
    }

    /// Fields to merge, with one of the directives of strategic merge at times.
    fn strategic(&self) -> Value {
        let fields = self.fields();
        let directives = [
            json!({"metadata": {"labels": {"$patch": "replace", "only": "1"}}}),
            json!({"metadata": {"labels": {"a": null}}}),
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["e.com/a"]}}),
            json!({"metadata": {"finalizers": ["e.com/c"], "$setElementOrder/finalizers": ["e.com/c", "e.com/a"]}}),
            json!({"metadata": {"annotations": null}}),
            json!({"spec": {"ports": [{"$patch": "delete", "port": 80}]}}),
            json!({"spec": {"ports": [{"$patch": "replace"}, {"port": 90, "name": "n"}]}}),
            json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "$patch": "delete"}]}}}}),
            json!({"spec": {"template": {"spec": {"containers": [{"name": "side", "$patch": "delete"}]}}}}),
            json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
            json!({"spec": {"template": {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "emptyDir"],
                "emptyDir": {}}]}}}}),
            json!({"spec": {"template": {"spec": {"containers": [{"name": "c",
                "env": [{"name": "A", "$patch": "delete"}]}]}}}}),
        ];
        match self.random.below(4) {
            // Alone: Go takes a list and its directives in any order.
            0 => pick(self.random, &directives).clone(),
            1 => nulled(fields),
            _ => fields,
        }
    }

    fn status_write(&self, kind: &Kind, path: &str, query: &str) -> Step {
        let mut status = pick(self.random, &self.status).clone();
        if self.one_in(8) {
            damage(self.random, &mut status);
        }
        if let Some(fields) = status.as_object_mut().filter(|_| !kind.built_in) {
            // Stored as it is where an apply makes it, like metadata that is null.
            fields.retain(|_, value| !value.is_null());
        }
        let at = format!("{path}/status{query}");
        match self.random.below(4) {
            0 => self.patch(&format!("{at}&force=true"), "apply", kind.object("o", &status)),
            1 => self.patch(&at, "apply", kind.object("o", &status)),
            2 => self.with_body(Step::new(format!("PUT {at}")), overlay(&kind.least("o"), &status)),
            _ => self.patch(&at, "merge", status),
        }
    }

    fn has_scale(&self, kind: &Kind) -> bool {
        matches!(kind.kind.as_str(), "Deployment" | "Rich")
    }

    fn scale(&self, kind: &Kind, path: &str, query: &str) -> Step {
        let replicas =
            pick(self.random, &[json!(2), json!(5), json!(9), json!(11), json!(-1), json!("x")]).clone();
        let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "o"},
            "spec": {"replicas": replicas}});
        let at = format!("{path}/scale{query}");
        match self.random.below(4) {
            0 => Step::new(format!("GET {path}/scale")),
            1 => Step::with(format!("PUT {at}"), scale),
            // kube-apiserver answers 500 where a custom kind's scale is applied: docs/differences.md.
            2 if kind.built_in => {
                let force = if self.one_in(2) { "&force=true" } else { "" };
                self.patch(&format!("{at}{force}"), "apply", scale)
            }
            _ => Step::patch(at, "merge", json!({"spec": {"replicas": replicas}})),
        }
    }

    fn read(&self, kind: &Kind, path: &str) -> Step {
        match self.random.below(12) {
            0 => Step::new(format!("DELETE {path}")),
            1 => Step::new(format!("DELETE {path}?gracePeriodSeconds=0&propagationPolicy=Background")),
            2 => Step::new(format!("DELETE {path}?dryRun=All")),
            3 => {
                let mut object = overlay(&kind.least("o"), &self.fields());
                if let Some(metadata) = object["metadata"].as_object_mut() {
                    metadata.remove("name");
                    metadata.insert("generateName".to_owned(), json!("gen-"));
                    metadata.remove("finalizers");
                }
                self.with_body(Step::new(format!("POST {}{}", kind.path, self.options())), object)
            }
            4 => Step::new(format!("GET {}?labelSelector=a%3D1", kind.path)),
            5 => Step { accept: Some("table".to_owned()), ..Step::new(format!("GET {path}")) },
            _ => Step::new(format!("GET {path}")),
        }
    }

    fn operations(&self, kind: &Kind) -> Value {
        let label = *pick(self.random, &["a", "b", "c"]);
        let root = if kind.kind == "ConfigMap" { "/data" } else { "/spec" };
        let all = [
            json!({"op": "add", "path": "/metadata/labels", "value": {label: "1"}}),
            json!({"op": "add", "path": format!("/metadata/labels/{label}"), "value": "2"}),
            json!({"op": "remove", "path": format!("/metadata/labels/{label}")}),
            json!({"op": "test", "path": "/kind", "value": kind.kind}),
            json!({"op": "test", "path": "/metadata/labels/a", "value": "1"}),
            json!({"op": "add", "path": "/metadata/annotations", "value": {label: label}}),
            json!({"op": "copy", "from": "/metadata/name", "path": format!("/metadata/labels/{label}")}),
            json!({"op": "move", "from": "/metadata/labels/a", "path": "/metadata/labels/moved"}),
            json!({"op": "replace", "path": root, "value": {}}),
            json!({"op": "add", "path": "/spec/tags/-", "value": "z"}),
            json!({"op": "remove", "path": "/spec/ports/0"}),
            json!({"op": "replace", "path": "/spec/replicas", "value": 4}),
            json!({"op": "add", "path": "/spec/template/spec/containers/0/image", "value": "nginx:9"}),
            json!({"op": "add", "path": "/metadata/unknown", "value": 1}),
            json!({"op": "replace", "path": "/metadata/name", "value": "p"}),
            json!({"op": "wrong", "path": "/spec"}),
        ];
        let some: Vec<Value> = (0..=self.random.below(2)).map(|_| pick(self.random, &all).clone()).collect();
        json!(some)
    }
}

/// For a custom object that an apply creates, kube-apiserver stores empty or null labels and lists, shows them to no
/// client, and drops them at any next write. It shows a null label as empty, and the next write makes the label
/// empty.
fn without_empty(fields: &mut Value) {
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|_, value| match value {
            Value::Object(map) => {
                map.retain(|_, value| !value.is_null());
                !map.is_empty()
            }
            Value::Array(list) => !list.is_empty(),
            other => !other.is_null(),
        });
    }
}

/// The same fields, taken away.
fn nulled(fields: Value) -> Value {
    match fields {
        Value::Object(map) => map.into_iter().map(|(name, value)| (name, nulled(value))).collect(),
        _ => Value::Null,
    }
}
