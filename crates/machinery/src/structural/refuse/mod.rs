//! Why a CRD's schema is refused, with kube-apiserver's paths and words.

mod completeness;
mod defaults;
mod invariants;
mod openapi;

use super::Structural;
use super::props::{Props, Unsupported};
use crate::Interrupt;
use setpoint_api::cause::{Cause, Path};

/// All refusals of a schema that stands at `path`. `status` says whether the version has the status subresource.
pub(super) fn refusals(
    structural: &Structural,
    path: &Path,
    status: bool,
    interrupt: &Interrupt,
) -> Vec<Cause> {
    let props = structural.props();
    let mut causes = Vec::new();
    if status {
        causes.extend(status_root(structural, path));
    }
    if props.nullable {
        causes.push(Cause::forbidden(&path.child("nullable"), "nullable cannot be true at the root"));
    }
    let unsupported = first_unsupported(props);
    if unsupported.is_none() {
        let mut structural_causes = invariants::check(props, path);
        structural_causes.extend(completeness::check(props, path));
        structural_causes.sort_by_key(ToString::to_string);
        if structural_causes.is_empty() {
            structural_causes = defaults::check(structural, path, interrupt);
        }
        causes.extend(structural_causes);
    }
    causes.extend(openapi::check(props, path));
    if let (true, Some(why)) = (causes.is_empty(), unsupported) {
        causes.push(Cause::invalid(path, "", why));
    }
    causes
}

/// With a status subresource, the root may say nothing that status alone would escape.
fn status_root(structural: &Structural, path: &Path) -> Vec<Cause> {
    const ALLOWED: [&str; 22] = [
        "description",
        "type",
        "format",
        "title",
        "maximum",
        "exclusiveMaximum",
        "minimum",
        "exclusiveMinimum",
        "maxLength",
        "minLength",
        "pattern",
        "maxItems",
        "minItems",
        "uniqueItems",
        "multipleOf",
        "required",
        "items",
        "properties",
        "externalDocs",
        "example",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
    ];
    let kind = &structural.props().kind;
    if !kind.is_empty() && kind != "object" {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        return vec![Cause::invalid(&path.child("type"), kind.as_str(), detail)];
    }
    let raw = structural.raw();
    let is_set = |value: &serde_json::Value| match value {
        serde_json::Value::Null => false,
        serde_json::Value::Bool(set) => *set,
        serde_json::Value::String(text) => !text.is_empty(),
        _ => true,
    };
    let other = raw.as_object().into_iter().flatten();
    let other = other.filter(|(name, value)| is_set(value) && !ALLOWED.contains(&name.as_str())).count();
    if other == 0 {
        return Vec::new();
    }
    let detail = "only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength \
                  MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs \
                  Example XPreserveUnknownFields XValidations] fields are allowed at the root of the schema if the \
                  status subresource is enabled";
    vec![Cause::invalid(path, raw, detail)]
}

/// Returns the first keyword that keeps a schema from being read as structural at all.
fn first_unsupported(props: &Props) -> Option<&'static str> {
    let own = props.unsupported.iter().map(|what| match what {
        Unsupported::Id => "OpenAPIV3Schema 'id' is not supported",
        Unsupported::Schema => "OpenAPIV3Schema 'schema' is not supported",
        Unsupported::Ref => "OpenAPIV3Schema '$ref' is not supported",
        Unsupported::PatternProperties => "OpenAPIV3Schema 'patternProperties' is not supported",
        Unsupported::Dependencies => "OpenAPIV3Schema 'dependencies' is not supported",
        Unsupported::AdditionalItems => "OpenAPIV3Schema 'additionalItems' is not supported",
        Unsupported::Definitions => "OpenAPIV3Schema 'definitions' is not supported",
    });
    if let Some(first) = own.into_iter().next() {
        return Some(first);
    }
    if props.items_list {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array");
    }
    if props.preserve_unknown == Some(false) {
        return Some("internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined");
    }
    children(props).find_map(first_unsupported)
}

/// Every schema directly below.
fn children(props: &Props) -> impl Iterator<Item = &Props> {
    let additional = props.additional.iter().filter_map(|additional| additional.schema.as_deref());
    props
        .properties
        .values()
        .chain(props.items.as_deref())
        .chain(additional)
        .chain(&props.all_of)
        .chain(&props.any_of)
        .chain(&props.one_of)
        .chain(props.not.as_deref())
}
