//! Models: the types of the schema table and the types that they refer to, as OpenAPI 2 or 3.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use setpoint_schema::{Codec, Field, ListKind, Scalar, Schema, Shape, Struct, builtin};

use super::Prose;

/// The version of OpenAPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flavor {
    V2,
    V3,
}

/// The models of one document.
pub(super) struct Models {
    pub(super) flavor: Flavor,
    pub(super) done: BTreeMap<String, Value>,
    /// Group, version and kind by model, for models that are kinds.
    kinds: BTreeMap<&'static str, Vec<[&'static str; 3]>>,
    /// The models of custom kinds.
    pub(super) custom: Vec<String>,
    /// Fields that are not atomic although their type is: model, field, type.
    granular: Vec<[String; 3]>,
}

/// Fields whose descriptions are the same for every kind.
const OF_OBJECTS: [&str; 3] = ["apiVersion", "kind", "metadata"];
/// A kind that has these fields.
const OBJECT: &str = "io.k8s.api.core.v1.ConfigMap";

const MAP_TYPE: &str = "x-kubernetes-map-type";

/// The model of a type of `meta/v1`.
pub(super) fn meta(kind: &str) -> String {
    format!("io.k8s.apimachinery.pkg.apis.meta.v1.{kind}")
}

impl Models {
    pub(super) fn new(flavor: Flavor) -> Models {
        let mut kinds: BTreeMap<&str, Vec<[&str; 3]>> = BTreeMap::new();
        for (group, version, kind) in builtin().kinds() {
            let name = builtin().kind(group, version, kind).and_then(|schema| schema.name.as_deref());
            if let Some(name) = name {
                kinds.entry(name).or_default().push([group, version, kind]);
            }
        }
        Models { flavor, done: BTreeMap::new(), kinds, custom: Vec::new(), granular: Vec::new() }
    }

    /// Registers the type as a kind of every served group-version.
    pub(super) fn in_each(&mut self, kind: &'static str, served: impl Fn(&str, &str) -> bool) {
        let name = builtin().kind("", "v1", kind).and_then(|schema| schema.name.as_deref());
        let Some(kinds) = name.and_then(|name| self.kinds.get_mut(name)) else { return };
        for (group, version, _) in builtin().kinds() {
            let own = [group, version, kind];
            if served(group, version) && !kinds.contains(&own) {
                kinds.push(own);
            }
        }
    }

    /// Adds the known descriptions to the models and their fields.
    pub(super) fn describe(&mut self, prose: Prose) {
        let mut of_objects: Vec<(String, String)> = Vec::new();
        prose(&mut |model, field, text| {
            if model == OBJECT && OF_OBJECTS.contains(&field) {
                of_objects.push((field.to_owned(), text.to_owned()));
            }
            let Some(model) = self.done.get_mut(model) else { return };
            let place = if field.is_empty() {
                Some(model)
            } else {
                model.pointer_mut(&format!("/properties/{field}"))
            };
            if let Some(Value::Object(place)) = place {
                place.insert("description".to_owned(), Value::from(text));
            }
        });
        for name in &self.custom {
            for (field, text) in &of_objects {
                let model = self.done.get_mut(name);
                // The metadata of a list is another type with its own description.
                let model =
                    model.filter(|model| field != "metadata" || model["properties"].get("items").is_none());
                if let Some(Value::Object(property)) =
                    model.and_then(|model| model["properties"].get_mut(field))
                {
                    property.entry("description").or_insert_with(|| Value::from(text.as_str()));
                }
            }
        }
    }

    /// A reference to a model by its name. Custom models are added by their definitions.
    pub(super) fn reference(&self, name: &str) -> Value {
        let folder = match self.flavor {
            Flavor::V2 => "#/definitions/",
            Flavor::V3 => "#/components/schemas/",
        };
        json!({"$ref": format!("{folder}{name}")})
    }

    /// A reference to a type of the table, which becomes a model of the document.
    pub(super) fn add(&mut self, ty: &Schema) -> Value {
        let Some(name) = ty.name.as_deref() else { return self.inline(ty) };
        if let Some(model) = self.done.get_mut(name) {
            if model.is_object() && matches!(ty.shape, Shape::Struct(Struct { atomic: true, .. })) {
                model[MAP_TYPE] = json!("atomic");
            }
        } else {
            // Types contain themselves: the name is taken before the model is made.
            self.done.insert(name.to_owned(), Value::Null);
            let model = self.model(name, ty);
            self.done.insert(name.to_owned(), model);
        }
        self.reference(name)
    }

    /// A reference to the model of a kind of the table.
    pub(super) fn kind(&mut self, group: &str, version: &str, kind: &str) -> Option<Value> {
        builtin().kind(group, version, kind).map(|schema| self.add(schema))
    }

    /// The model of a patch, which has no type in the table.
    pub(super) fn patch(&mut self) -> Value {
        self.done.insert(meta("Patch"), json!({"type": "object"}));
        self.reference(&meta("Patch"))
    }

    fn model(&mut self, name: &str, ty: &Schema) -> Value {
        let mut model = match &ty.shape {
            Shape::Struct(fields) => self.structure(name, fields),
            Shape::Scalar(scalar) => leaf(*scalar, self.flavor),
            Shape::Any if matches!(ty.codec, Codec::RawExtension | Codec::FieldsV1) => {
                json!({"type": "object"})
            }
            _ => json!({}),
        };
        if let Some(kinds) = self.kinds.get(name) {
            let kinds: Vec<Value> = kinds
                .iter()
                .map(|[group, version, kind]| json!({"group": group, "version": version, "kind": kind}))
                .collect();
            model["x-kubernetes-group-version-kind"] = Value::Array(kinds);
        }
        model
    }

    fn structure(&mut self, owner: &str, fields: &Struct) -> Value {
        let mut properties = Map::new();
        for field in &fields.fields {
            let property = self.property(owner, field);
            properties.insert(field.name.to_string(), property);
        }
        let mut model = json!({"type": "object"});
        if !properties.is_empty() {
            model["properties"] = Value::Object(properties);
        }
        let required: Vec<&str> =
            fields.fields.iter().filter(|field| field.required).map(|field| &*field.name).collect();
        if !required.is_empty() {
            model["required"] = json!(required);
        }
        if fields.atomic {
            model[MAP_TYPE] = json!("atomic");
        }
        model
    }

    /// The finished models. A field that merges by key although its type is atomic is marked `granular`.
    pub(super) fn finish(mut self) -> Map<String, Value> {
        for [owner, field, target] in std::mem::take(&mut self.granular) {
            let atomic = self.done.get(&target).is_some_and(|model| model.get(MAP_TYPE).is_some());
            if let Some(owner) = self.done.get_mut(&owner).filter(|_| atomic) {
                owner["properties"][field][MAP_TYPE] = json!("granular");
            }
        }
        self.done.into_iter().collect()
    }

    fn property(&mut self, owner: &str, field: &Field) -> Value {
        let ty = field.ty.get();
        let mut property = self.add(ty);
        if let (Shape::Struct(Struct { atomic: false, .. }), Some(name)) = (&ty.shape, &ty.name) {
            self.granular.push([owner.to_owned(), field.name.to_string(), name.to_string()]);
        }
        if self.flavor == Flavor::V3 {
            if property.get("$ref").is_some() && !undescribed(owner, &field.name) {
                property = json!({"allOf": [property]});
            }
            if let Some(default) = &field.default {
                property["default"] = default.clone();
            }
        }
        let patch = &field.patch;
        let strategy =
            [(patch.merge, "merge"), (patch.replace, "replace"), (patch.retain_keys, "retainKeys")];
        let strategy: Vec<&str> = strategy.into_iter().filter(|(on, _)| *on).map(|(_, name)| name).collect();
        if !strategy.is_empty() {
            property["x-kubernetes-patch-strategy"] = json!(strategy.join(","));
        }
        if let Some(key) = &patch.merge_key {
            property["x-kubernetes-patch-merge-key"] = json!(&**key);
        }
        // The items of a list kind have no list type: no client merges them.
        if owner.ends_with("List")
            && &*field.name == "items"
            && property.get("x-kubernetes-list-type") == Some(&json!("atomic"))
        {
            property.as_object_mut().expect("a property is an object").remove("x-kubernetes-list-type");
        }
        property
    }

    fn inline(&mut self, ty: &Schema) -> Value {
        match &ty.shape {
            Shape::Any => json!({}),
            Shape::Scalar(scalar) => {
                let mut leaf = leaf(*scalar, self.flavor);
                if !ty.values.is_empty() {
                    let values: Vec<&str> = ty.values.iter().map(|value| &**value).collect();
                    leaf["enum"] = json!(values);
                }
                leaf
            }
            Shape::Struct(fields) => self.structure("", fields),
            Shape::Map { value, atomic } => {
                let mut map = json!({"type": "object", "additionalProperties": self.add(value.get())});
                if *atomic {
                    map[MAP_TYPE] = json!("atomic");
                }
                map
            }
            Shape::List { item, kind } => {
                let mut list = json!({"type": "array", "items": self.add(item.get())});
                let (name, keys) = match kind {
                    ListKind::Atomic => ("atomic", None),
                    ListKind::Set => ("set", None),
                    ListKind::Map(keys) => ("map", Some(keys)),
                };
                if ty.codec != Codec::WrappedList {
                    list["x-kubernetes-list-type"] = json!(name);
                }
                if let Some(keys) = keys {
                    let keys: Vec<&str> = keys.iter().map(|key| &**key).collect();
                    list["x-kubernetes-list-map-keys"] = json!(keys);
                }
                list
            }
        }
    }
}

/// Whether a field with a reference has no description beside the reference, so that the reference stands alone.
fn undescribed(owner: &str, field: &str) -> bool {
    owner.ends_with(".JSONSchemaProps") && field != "default"
}

fn leaf(scalar: Scalar, flavor: Flavor) -> Value {
    match scalar {
        Scalar::String | Scalar::Duration => json!({"type": "string"}),
        Scalar::Int32 => json!({"type": "integer", "format": "int32"}),
        Scalar::Int64 => json!({"type": "integer", "format": "int64"}),
        Scalar::Double => json!({"type": "number", "format": "double"}),
        Scalar::Bool => json!({"type": "boolean"}),
        Scalar::Bytes => json!({"type": "string", "format": "byte"}),
        Scalar::Time | Scalar::MicroTime => json!({"type": "string", "format": "date-time"}),
        Scalar::IntOrString if flavor == Flavor::V2 => json!({"type": "string", "format": "int-or-string"}),
        Scalar::Quantity if flavor == Flavor::V2 => json!({"type": "string"}),
        Scalar::IntOrString => {
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
        }
        Scalar::Quantity => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
    }
}
