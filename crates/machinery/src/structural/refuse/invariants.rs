//! The invariants of a structural schema: structure stands outside of `allOf`, `anyOf`, `oneOf` and `not`, every
//! node has a type, metadata is left alone.

use crate::structural::pattern;
use crate::structural::props::Props;
use setpoint_api::cause::{Cause, Path};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Returns the causes that break the invariants.
pub(super) fn check(props: &Props, path: &Path) -> Vec<Cause> {
    let mut causes = Vec::new();
    node(props, Level::Root, path, &mut causes);
    causes
}

fn node(props: &Props, level: Level, path: &Path, causes: &mut Vec<Cause>) {
    if props.kind == "array" && props.items.is_none() {
        causes.push(Cause::required(&path.child("items"), "must be specified"));
    }
    if let Some(items) = &props.items {
        node(items, Level::Item, &path.child("items"), causes);
    }
    for (name, property) in &props.properties {
        node(property, Level::Field, &path.child("properties").key(name), causes);
    }
    if let Some(additional) = &props.additional {
        let path = path.child("additionalProperties");
        if level == Level::Root {
            causes.push(Cause::forbidden(&path, "must not be used at the root"));
        }
        if let Some(schema) = &additional.schema {
            node(schema, Level::Field, &path, causes);
        }
    }
    extensions(props, path, causes);
    let skip_any_of = is_int_or_string(&props.any_of);
    let skip_first = props.all_of.first().is_some_and(|first| is_int_or_string(&first.any_of));
    value_validation(props, skip_any_of, skip_first, path, causes);
    types(props, level, path, causes);
    metadata(props, level, path, causes);
    if props.embedded_resource && !props.preserves() && props.properties.is_empty() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        causes.push(Cause::required(&path.child("properties"), detail));
    }
}

fn extensions(props: &Props, path: &Path, causes: &mut Vec<Cause>) {
    let detail = "must be false if x-kubernetes-int-or-string is true";
    if props.int_or_string && props.preserves() {
        causes.push(Cause::invalid(&path.child("x-kubernetes-preserve-unknown-fields"), true, detail));
    }
    if props.int_or_string && props.embedded_resource {
        causes.push(Cause::invalid(&path.child("x-kubernetes-embedded-resource"), true, detail));
    }
}

fn types(props: &Props, level: Level, path: &Path, causes: &mut Vec<Cause>) {
    let type_path = path.child("type");
    if props.embedded_resource && props.kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        causes.push(if props.kind.is_empty() {
            Cause::required(&type_path, detail)
        } else {
            Cause::invalid(&type_path, props.kind.as_str(), detail)
        });
    } else if props.kind.is_empty() && !props.int_or_string && !props.preserves() {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        causes.push(Cause::required(&type_path, detail));
    }
    if props.embedded_resource && props.additional.is_some() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        causes.push(Cause::forbidden(&path.child("additionalProperties"), detail));
    }
    if level == Level::Root && !props.kind.is_empty() && props.kind != "object" {
        causes.push(Cause::invalid(&type_path, props.kind.as_str(), "must be object at the root"));
    }
}

/// Metadata is implied: its schema may restrict the name at most.
fn metadata(props: &Props, level: Level, path: &Path, causes: &mut Vec<Cause>) {
    let is_resource = level == Level::Root || props.embedded_resource;
    let properties = path.child("properties");
    for name in ["kind", "apiVersion"] {
        if let (true, Some(property)) = (is_resource, props.properties.get(name))
            && property.kind != "string"
        {
            let path = properties.key(name).child("type");
            causes.push(Cause::invalid(&path, property.kind.as_str(), "must be string"));
        }
    }
    let Some(metadata) = props.properties.get("metadata") else { return };
    let path = properties.key("metadata");
    if is_resource && metadata.kind != "object" {
        causes.push(Cause::invalid(&path.child("type"), metadata.kind.as_str(), "must be object"));
    }
    if level == Level::Root && !says_only_names(metadata) {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        causes.push(Cause::forbidden(&path, detail));
    }
}

fn says_only_names(metadata: &Props) -> bool {
    let names_only = metadata.properties.keys().all(|name| name == "name" || name == "generateName");
    names_only
        && !metadata.title
        && !metadata.description
        && !metadata.nullable
        && metadata.items.is_none()
        && metadata.additional.is_none()
        && metadata.preserve_unknown.is_none()
        && !metadata.embedded_resource
        && !metadata.int_or_string
        && metadata.list_type.is_none()
        && metadata.map_type.is_none()
        && metadata.list_map_keys.is_empty()
        && metadata.validations.is_empty()
        && has_no_validation(metadata)
}

fn has_no_validation(props: &Props) -> bool {
    props.format.is_empty()
        && props.enumeration.is_empty()
        && props.pattern.is_empty()
        && props.required.is_empty()
        && props.all_of.is_empty()
        && props.any_of.is_empty()
        && props.one_of.is_empty()
        && props.not.is_none()
        && props.maximum.is_none()
        && props.minimum.is_none()
        && props.multiple_of.is_none()
        && props.max_length.is_none()
        && props.min_length.is_none()
        && props.max_items.is_none()
        && props.min_items.is_none()
        && props.max_properties.is_none()
        && props.min_properties.is_none()
        && !props.unique_items
}

/// The one `anyOf` that may name types: integer or string.
fn is_int_or_string(any_of: &[Props]) -> bool {
    let only = |props: &Props, kind: &str| {
        props.kind == kind
            && !props.title
            && !props.description
            && props.default.is_none()
            && props.properties.is_empty()
            && props.items.is_none()
            && props.additional.is_none()
            && has_no_validation(props)
    };
    matches!(any_of, [first, second] if only(first, "integer") && only(second, "string"))
}

fn value_validation(
    props: &Props,
    skip_any_of: bool,
    skip_first: bool,
    path: &Path,
    causes: &mut Vec<Cause>,
) {
    if !skip_any_of {
        for (at, props) in props.any_of.iter().enumerate() {
            nested(props, false, &path.child("anyOf").index(at), causes);
        }
    }
    for (at, props) in props.all_of.iter().enumerate() {
        nested(props, skip_first && at == 0, &path.child("allOf").index(at), causes);
    }
    for (at, props) in props.one_of.iter().enumerate() {
        nested(props, false, &path.child("oneOf").index(at), causes);
    }
    if let Some(not) = &props.not {
        nested(not, false, &path.child("not"), causes);
    }
    if !props.pattern.is_empty()
        && let Err(error) = pattern::compile(&props.pattern)
    {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        causes.push(Cause::invalid(&path.child("pattern"), props.pattern.as_str(), &detail));
    }
}

/// Below a junctor there may be validation only.
fn nested(props: &Props, skip_any_of: bool, path: &Path, causes: &mut Vec<Cause>) {
    value_validation(props, skip_any_of, false, path, causes);
    if let Some(items) = &props.items {
        nested(items, false, &path.child("items"), causes);
    }
    for (name, property) in &props.properties {
        nested(property, false, &path.child("properties").key(name), causes);
    }
    let allows_more = props.additional.as_ref().is_some_and(|more| more.schema.is_some() || more.allows);
    let forbidden = [
        ("type", !props.kind.is_empty(), "must be empty to be structural"),
        ("additionalProperties", allows_more, "must be undefined to be structural"),
        ("default", props.default.is_some(), "must be undefined to be structural"),
        ("title", props.title, "must be empty to be structural"),
        ("description", props.description, "must be empty to be structural"),
        ("nullable", props.nullable, "must be false to be structural"),
        ("x-kubernetes-preserve-unknown-fields", props.preserves(), "must be false to be structural"),
        ("x-kubernetes-embedded-resource", props.embedded_resource, "must be false to be structural"),
        ("x-kubernetes-int-or-string", props.int_or_string, "must be false to be structural"),
        ("x-kubernetes-list-map-keys", !props.list_map_keys.is_empty(), "must be empty to be structural"),
        ("x-kubernetes-list-type", props.list_type.is_some(), "must be undefined to be structural"),
        ("x-kubernetes-map-type", props.map_type.is_some(), "must be undefined to be structural"),
        ("x-kubernetes-validations", !props.validations.is_empty(), "must be empty to be structural"),
    ];
    for (name, found, detail) in forbidden {
        if found {
            causes.push(Cause::forbidden(&path.child(name), detail));
        }
    }
    if props.properties.contains_key("metadata") {
        let path = path.child("properties").key("metadata");
        causes.push(Cause::forbidden(&path, "must not be specified in a nested context"));
    }
}
