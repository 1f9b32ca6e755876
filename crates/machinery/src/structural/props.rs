//! A CRD's `openAPIV3Schema`, read.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value};

use super::pattern::Pattern;

/// One node of an OpenAPI v3 schema.
#[derive(Clone, Debug, Default)]
pub struct Props {
    /// `type`; empty where there is none.
    pub kind: String,
    /// `format`.
    pub format: String,
    /// `nullable`.
    pub nullable: bool,
    /// `title` or `description` are set: both say nothing about values.
    pub title: bool,
    /// See `title`.
    pub description: bool,
    /// `default`.
    pub default: Option<Value>,
    /// `enum`; empty where there is none.
    pub enumeration: Vec<Value>,
    /// `maximum`.
    pub maximum: Option<f64>,
    /// `exclusiveMaximum`.
    pub exclusive_maximum: bool,
    /// `minimum`.
    pub minimum: Option<f64>,
    /// `exclusiveMinimum`.
    pub exclusive_minimum: bool,
    /// `multipleOf`.
    pub multiple_of: Option<f64>,
    /// `maxLength`.
    pub max_length: Option<i64>,
    /// `minLength`.
    pub min_length: Option<i64>,
    /// `pattern`; empty where there is none.
    pub pattern: String,
    /// `maxItems`.
    pub max_items: Option<i64>,
    /// `minItems`.
    pub min_items: Option<i64>,
    /// `uniqueItems`.
    pub unique_items: bool,
    /// `maxProperties`.
    pub max_properties: Option<i64>,
    /// `minProperties`.
    pub min_properties: Option<i64>,
    /// `required`.
    pub required: Vec<String>,
    /// `items`.
    pub items: Option<Box<Props>>,
    /// `items` is a list of schemas, which is refused.
    pub items_list: bool,
    /// `properties`.
    pub properties: BTreeMap<String, Props>,
    /// `additionalProperties`.
    pub additional: Option<Additional>,
    /// `allOf`.
    pub all_of: Vec<Props>,
    /// `anyOf`.
    pub any_of: Vec<Props>,
    /// `oneOf`.
    pub one_of: Vec<Props>,
    /// `not`.
    pub not: Option<Box<Props>>,
    /// `x-kubernetes-preserve-unknown-fields`.
    pub preserve_unknown: Option<bool>,
    /// `x-kubernetes-embedded-resource`.
    pub embedded_resource: bool,
    /// `x-kubernetes-int-or-string`.
    pub int_or_string: bool,
    /// `x-kubernetes-list-type`.
    pub list_type: Option<String>,
    /// `x-kubernetes-list-map-keys`.
    pub list_map_keys: Vec<String>,
    /// `x-kubernetes-map-type`.
    pub map_type: Option<String>,
    /// `x-kubernetes-validations`.
    pub validations: Vec<Rule>,
    /// Fields that exist in the type and are never allowed, with whether they hold anything.
    pub unsupported: Vec<Unsupported>,
    pub(super) regex: OnceLock<Arc<Pattern>>,
}

/// `additionalProperties`: a schema or a boolean.
#[derive(Clone, Debug)]
pub struct Additional {
    /// Whether there may be any.
    pub allows: bool,
    /// The schema of each.
    pub schema: Option<Box<Props>>,
}

/// A field of the JSON schema standard that Kubernetes refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// `id`.
    Id,
    /// `$schema`.
    Schema,
    /// `$ref`.
    Ref,
    /// `patternProperties`.
    PatternProperties,
    /// `dependencies`.
    Dependencies,
    /// `additionalItems`.
    AdditionalItems,
    /// `definitions`.
    Definitions,
}

/// One entry of `x-kubernetes-validations`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// The CEL expression.
    pub rule: String,
    /// The message when the rule is false.
    pub message: String,
    /// A CEL expression for what to say.
    pub message_expression: String,
    /// The cause type; FieldValueInvalid where there is none.
    pub reason: Option<String>,
    /// The field that the message names, below the schema's own place.
    pub field_path: String,
    /// `oldSelf` is optional: the rule runs on creation too.
    pub optional_old_self: Option<bool>,
}

fn text(map: &Map<String, Value>, name: &str) -> String {
    map.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn flag(map: &Map<String, Value>, name: &str) -> bool {
    map.get(name).and_then(Value::as_bool).unwrap_or(false)
}

fn texts(map: &Map<String, Value>, name: &str) -> Vec<String> {
    let items = map.get(name).and_then(Value::as_array);
    items.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn list(map: &Map<String, Value>, name: &str) -> Vec<Props> {
    let items = map.get(name).and_then(Value::as_array);
    items.into_iter().flatten().map(Props::parse).collect()
}

impl Props {
    /// Reads a schema. Wrong JSON types were refused when the CRD was decoded; here they count as absent.
    pub fn parse(schema: &Value) -> Props {
        let empty = Map::new();
        let map = schema.as_object().unwrap_or(&empty);
        let number = |name: &str| map.get(name).and_then(Value::as_f64);
        let count = |name: &str| map.get(name).and_then(Value::as_i64);
        let mut props = Props {
            kind: text(map, "type"),
            format: text(map, "format"),
            nullable: flag(map, "nullable"),
            title: !text(map, "title").is_empty(),
            description: !text(map, "description").is_empty(),
            default: map.get("default").filter(|value| !value.is_null()).cloned(),
            enumeration: map.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
            maximum: number("maximum"),
            exclusive_maximum: flag(map, "exclusiveMaximum"),
            minimum: number("minimum"),
            exclusive_minimum: flag(map, "exclusiveMinimum"),
            multiple_of: number("multipleOf"),
            max_length: count("maxLength"),
            min_length: count("minLength"),
            pattern: text(map, "pattern"),
            max_items: count("maxItems"),
            min_items: count("minItems"),
            unique_items: flag(map, "uniqueItems"),
            max_properties: count("maxProperties"),
            min_properties: count("minProperties"),
            required: texts(map, "required"),
            all_of: list(map, "allOf"),
            any_of: list(map, "anyOf"),
            one_of: list(map, "oneOf"),
            ..Props::default()
        };
        props.parse_structure(map);
        props.parse_extensions(map);
        props
    }

    fn parse_structure(&mut self, map: &Map<String, Value>) {
        match map.get("items") {
            Some(items @ Value::Object(_)) => self.items = Some(Box::new(Props::parse(items))),
            Some(Value::Array(_)) => self.items_list = true,
            _ => {}
        }
        if let Some(Value::Object(properties)) = map.get("properties") {
            self.properties =
                properties.iter().map(|(name, props)| (name.clone(), Props::parse(props))).collect();
        }
        self.additional = match map.get("additionalProperties") {
            Some(schema @ Value::Object(_)) => {
                Some(Additional { allows: true, schema: Some(Box::new(Props::parse(schema))) })
            }
            Some(Value::Bool(allows)) => Some(Additional { allows: *allows, schema: None }),
            _ => None,
        };
        if let Some(not @ Value::Object(_)) = map.get("not") {
            self.not = Some(Box::new(Props::parse(not)));
        }
        let filled = |name: &str| match map.get(name) {
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Object(fields)) => !fields.is_empty(),
            Some(Value::Null) | None => false,
            Some(_) => true,
        };
        let present = |name: &str| map.get(name).is_some_and(|value| !value.is_null());
        let found = [
            (Unsupported::Id, filled("id")),
            (Unsupported::Schema, filled("$schema")),
            (Unsupported::Ref, present("$ref")),
            (Unsupported::PatternProperties, filled("patternProperties")),
            (Unsupported::Dependencies, present("dependencies")),
            (Unsupported::AdditionalItems, present("additionalItems")),
            (Unsupported::Definitions, filled("definitions")),
        ];
        self.unsupported = found.into_iter().filter(|(_, found)| *found).map(|(what, _)| what).collect();
    }

    fn parse_extensions(&mut self, map: &Map<String, Value>) {
        self.preserve_unknown = map.get("x-kubernetes-preserve-unknown-fields").and_then(Value::as_bool);
        self.embedded_resource = flag(map, "x-kubernetes-embedded-resource");
        self.int_or_string = flag(map, "x-kubernetes-int-or-string");
        let named = |name: &str| map.get(name).and_then(Value::as_str).map(str::to_owned);
        self.list_type = named("x-kubernetes-list-type");
        self.map_type = named("x-kubernetes-map-type");
        self.list_map_keys = texts(map, "x-kubernetes-list-map-keys");
        let rules = map.get("x-kubernetes-validations").and_then(Value::as_array);
        self.validations = rules
            .into_iter()
            .flatten()
            .filter_map(Value::as_object)
            .map(|rule| Rule {
                rule: text(rule, "rule"),
                message: text(rule, "message"),
                message_expression: text(rule, "messageExpression"),
                reason: rule.get("reason").and_then(Value::as_str).map(str::to_owned),
                field_path: text(rule, "fieldPath"),
                optional_old_self: rule.get("optionalOldSelf").and_then(Value::as_bool),
            })
            .collect();
    }

    /// Whether unknown fields stay.
    pub fn preserves(&self) -> bool {
        self.preserve_unknown == Some(true)
    }

    /// The schema of a field or map entry.
    pub fn child(&self, name: &str) -> Option<&Props> {
        self.properties.get(name).or_else(|| self.additional.as_ref()?.schema.as_deref())
    }

    /// Whether the pattern, compiled when first used, matches.
    pub(super) fn matches(&self, text: &str) -> bool {
        self.regex.get_or_init(|| Arc::new(Pattern::new(&self.pattern))).is_match(text)
    }
}
