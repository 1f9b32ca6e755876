//! When two pod templates are the same template.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde_json::Value;
use setpoint_api::quantity::Quantity;

use super::POD_TEMPLATE_HASH;

/// Whether the templates are equal in meaning, whatever their `pod-template-hash` label.
///
/// Absent and empty lists and maps are the same, and quantities compare by value.
pub fn equal_ignoring_hash(a: &PodTemplateSpec, b: &PodTemplateSpec) -> bool {
    if a.spec == b.spec && a.metadata == b.metadata {
        return true;
    }
    canonical(a) == canonical(b)
}

/// The template without the hash label, as every server would store it.
pub fn canonical(template: &PodTemplateSpec) -> Value {
    let mut template = Cow::Borrowed(template);
    if let Some(labels) = template.metadata.as_ref().and_then(|meta| meta.labels.as_ref())
        && labels.contains_key(POD_TEMPLATE_HASH)
    {
        let labels = template.to_mut().metadata.as_mut().and_then(|meta| meta.labels.as_mut());
        labels.expect("the label was just found").remove(POD_TEMPLATE_HASH);
    }
    let mut value = serde_json::to_value(&*template).expect("a template is made of JSON values");
    drop_empty(&mut value);
    value
}

/// Maps whose emptiness means absence. Other empty objects mean something (`emptyDir: {}`).
const MAPS: &[&str] = &[
    "annotations",
    "labels",
    "limits",
    "matchLabels",
    "metadata",
    "nodeSelector",
    "overhead",
    "requests",
    "resources",
    "securityContext",
    "strategy",
    "volumeAttributes",
];
const QUANTITIES: &[&str] = &["limits", "requests", "overhead"];

fn drop_empty(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, child) in map.iter_mut() {
                if QUANTITIES.contains(&key.as_str()) {
                    canonical_quantities(child);
                }
                drop_empty(child);
            }
            map.retain(|key, child| match child {
                Value::Null => false,
                Value::Array(items) => !items.is_empty(),
                Value::Object(fields) => !(fields.is_empty() && MAPS.contains(&key.as_str())),
                _ => true,
            });
        }
        Value::Array(items) => items.iter_mut().for_each(drop_empty),
        _ => {}
    }
}

fn canonical_quantities(value: &mut Value) {
    for quantity in value.as_object_mut().into_iter().flat_map(|map| map.values_mut()) {
        if let Ok(amount) = Quantity::from_json(quantity) {
            *quantity = Value::String(amount.nano_value().to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, Volume};

    use super::super::tests::template_of;
    use super::*;

    #[test]
    fn the_hash_label_and_empty_lists_do_not_count() {
        let plain = template_of("web:1");
        let mut hashed = plain.clone();
        let labels = hashed.metadata.as_mut().unwrap().labels.as_mut().unwrap();
        labels.insert(POD_TEMPLATE_HASH.into(), "abc".into());
        assert!(equal_ignoring_hash(&plain, &hashed));
        let mut empty = plain.clone();
        empty.spec.as_mut().unwrap().tolerations = Some(vec![]);
        empty.metadata.as_mut().unwrap().annotations = Some(BTreeMap::new());
        assert!(equal_ignoring_hash(&plain, &empty));
        assert!(!equal_ignoring_hash(&plain, &template_of("web:2")));
    }

    #[test]
    fn an_empty_dir_is_not_the_absence_of_a_volume_source() {
        let mut with = template_of("web:1");
        let volume = Volume {
            name: "v".into(),
            empty_dir: Some(EmptyDirVolumeSource::default()),
            ..Default::default()
        };
        with.spec.as_mut().unwrap().volumes = Some(vec![volume.clone()]);
        let mut without = with.clone();
        without.spec.as_mut().unwrap().volumes = Some(vec![Volume { empty_dir: None, ..volume }]);
        assert!(!equal_ignoring_hash(&with, &without));
    }
}
