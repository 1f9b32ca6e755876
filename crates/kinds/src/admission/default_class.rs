//! The default of several classes, for claims and Ingresses.

use serde_json::Value;

use super::request::Cluster;
use crate::access::{at, set, text};

/// A kind of classes, and how an object names its class.
pub(super) struct Class {
    pub(super) group: &'static str,
    pub(super) resource: &'static str,
    pub(super) field: &'static str,
    pub(super) old_annotation: &'static str,
    pub(super) default_annotations: &'static [&'static str],
}

/// Names the newest default class; of equally old ones the first by name.
pub(super) fn fill(object: &mut Value, cluster: &dyn Cluster, class: &Class) {
    let annotated =
        !at(object, "metadata.annotations").get(class.old_annotation).unwrap_or(&Value::Null).is_null();
    if annotated || !at(object, class.field).is_null() {
        return;
    }
    let classes = cluster.list(class.group, class.resource, "");
    let marked = classes.iter().filter(|one| {
        let annotations = at(one, "metadata.annotations");
        let is_marked = |name: &&str| annotations.get(*name).and_then(Value::as_str) == Some("true");
        class.default_annotations.iter().any(is_marked)
    });
    let newest = marked.min_by(|a, b| {
        let time = |one: &Value| text(one, "metadata.creationTimestamp").to_owned();
        time(b).cmp(&time(a)).then_with(|| text(a, "metadata.name").cmp(text(b, "metadata.name")))
    });
    if let Some(newest) = newest {
        set(object, class.field, text(newest, "metadata.name").into());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::default_storage_class::CLASS;
    use super::super::testing::Objects;
    use super::*;

    #[test]
    fn a_claim_without_a_class_gets_the_newest_default() {
        let class = |name: &str, annotation: &str, created: &str| json!({ "metadata": { "name": name, "creationTimestamp": created, "annotations": { annotation: "true" } } });
        let [marked, marked_before] = CLASS.default_annotations else { panic!("two annotations") };
        let (old, new) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
        for (classes, claim, expected) in [
            (vec![class("a", "other", new)], json!({}), Value::Null),
            (vec![class("a", marked, old), class("b", marked_before, new)], json!({}), json!("b")),
            (vec![class("b", marked, new), class("a", marked, new)], json!({}), json!("a")),
            (vec![class("a", marked, new)], json!({ "spec": { "storageClassName": "" } }), json!("")),
            (
                vec![class("a", marked, new)],
                json!({ "metadata": { "annotations": { CLASS.old_annotation: "x" } } }),
                Value::Null,
            ),
        ] {
            let mut claim = claim;
            fill(&mut claim, &Objects::new("storageclasses", classes), &CLASS);
            assert_eq!(claim["spec"]["storageClassName"], expected, "{claim}");
        }
    }
}
