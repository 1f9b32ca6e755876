//! Partial objects: the types of the program, of which only the fields that were set are applied.
//!
//! `None` says by itself that a field was not set. The types of k8s-openapi also have fields that are no `Option`, since
//! no object is valid without them: a partial object leaves them at their default, and the default must not be sent.
//! The table of the built-in kinds knows these fields.

use kube::core::ApiResource;
use serde_json::Value;
use setpoint_schema::{Schema, Shape, builtin};

/// Leaves out the fields that were not set: nulls, and the required fields of a built-in kind that are empty.
pub(super) fn retain_set_fields(resource: &ApiResource, config: &mut Value) {
    without_nulls(config);
    // Most objects are whole. Only one with something empty is worth a look into the table.
    if !has_empty_field(config) {
        return;
    }
    if let Some(schema) = builtin().schema(&resource.group, &resource.version, &resource.kind) {
        without_empty_required(config, &schema);
    }
}

/// Leaves out the fields that are null. Derived types write `None` like that, and an apply would own it.
pub(super) fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(without_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

/// Whether a value is an empty text, list or object. A zero is not empty: somebody may have set it.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

fn has_empty_field(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.values().any(|value| is_empty(value) || has_empty_field(value)),
        Value::Array(items) => items.iter().any(has_empty_field),
        _ => false,
    }
}

fn without_empty_required(value: &mut Value, schema: &Schema) {
    match (value, &schema.shape) {
        (Value::Object(fields), Shape::Struct(known)) => fields.retain(|name, value| {
            let Some(field) = known.field(name) else { return true };
            without_empty_required(value, &field.ty.resolve());
            !(field.required && is_empty(value))
        }),
        (Value::Object(entries), Shape::Map { value, .. }) => {
            let schema = value.resolve();
            entries.values_mut().for_each(|entry| without_empty_required(entry, &schema));
        }
        (Value::Array(items), Shape::List { item, .. }) => {
            let schema = item.resolve();
            items.iter_mut().for_each(|item| without_empty_required(item, &schema));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
    use k8s_openapi::api::core::v1::{Container, EmptyDirVolumeSource, PodSpec, PodTemplateSpec, Volume};
    use serde_json::json;

    use super::*;
    use crate::client::Kind;

    fn retained(mut config: Value) -> Value {
        retain_set_fields(&Deployment::api_resource(), &mut config);
        config
    }

    #[test]
    fn what_is_none_is_left_out_wherever_it_stands() {
        let config =
            json!({"spec": {"size": null, "ports": [{"name": null, "port": 1}, null]}, "status": null});
        assert_eq!(retained(config), json!({"spec": {"ports": [{"port": 1}, null]}}));
    }

    #[test]
    fn required_fields_that_were_not_set_are_left_out() {
        let partial = Deployment {
            spec: DeploymentSpec { replicas: Some(3), ..DeploymentSpec::default() },
            ..Deployment::default()
        };
        assert_eq!(retained(serde_json::to_value(&partial).unwrap())["spec"], json!({"replicas": 3}));
    }

    #[test]
    fn what_was_set_to_something_empty_stays() {
        let volume = Volume {
            name: "scratch".into(),
            empty_dir: Some(EmptyDirVolumeSource::default()),
            ..Volume::default()
        };
        let container = Container { name: "web".into(), args: Some(Vec::new()), ..Container::default() };
        let pod = PodSpec { containers: vec![container], volumes: Some(vec![volume]), ..PodSpec::default() };
        let template = PodTemplateSpec { spec: Some(pod), ..PodTemplateSpec::default() };
        let partial = Deployment {
            spec: DeploymentSpec { template, ..DeploymentSpec::default() },
            ..Deployment::default()
        };
        let expected = json!({"template": {"spec": {
            "containers": [{"name": "web", "args": []}],
            "volumes": [{"name": "scratch", "emptyDir": {}}],
        }}});
        assert_eq!(retained(serde_json::to_value(&partial).unwrap())["spec"], expected);
    }
}
