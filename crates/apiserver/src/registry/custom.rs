//! A compiled CustomResourceDefinition.

use serde_json::{Value, json};
use setpoint_api::cause::{Cause, Path};
use setpoint_cel as cel;
use setpoint_kinds::table::Printer;
use setpoint_machinery::Interrupt;
use setpoint_machinery::apply::Versions;
use setpoint_machinery::structural::Structural;
use setpoint_schema::{Fault, Read, ReadError, Schema, Strict, builtin, read_json, read_value};

use super::conversion::Conversion;
use super::scale::{self, ScalePaths};
use super::version::version_order;

/// A schema of more bytes may judge each value of an object many times.
const LONG_SCHEMA: usize = 64 * 1024;

/// The reason why a value is no object of its kind.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DecodeError {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("{0}")]
    Malformed(Cause),
    /// The error of Go's conversion of unstructured objects.
    #[error("{0}")]
    Unconvertible(String),
}

/// An object that is validated.
#[derive(Clone, Copy)]
pub(crate) struct Candidate<'a> {
    pub(crate) subresource: &'a str,
    pub(crate) new: &'a Value,
    /// The stored object; none if the write creates the object.
    pub(crate) old: Option<&'a Value>,
    /// The result is void once the interrupt is raised.
    pub(crate) interrupt: &'a Interrupt,
}

impl Candidate<'_> {
    /// Whether the write changes the status alone.
    pub(crate) fn is_status(&self) -> bool {
        self.old.is_some() && self.subresource == "status"
    }
}

/// The parts of a definition that its versions share.
#[derive(Debug)]
pub struct Custom {
    pub(super) group: String,
    pub(super) versions: Vec<Version>,
    /// The conversion webhook, or `None` if versions differ in name only.
    pub(super) conversion: Option<Conversion>,
    /// `metadata.generation` of the definition.
    generation: i64,
    /// Whether the definition is being deleted: no new objects are created.
    pub(crate) terminating: bool,
}

/// One version of a custom resource.
#[derive(Debug)]
pub(super) struct Version {
    pub(super) name: String,
    pub(super) served: bool,
    pub(super) storage: bool,
    structural: Structural,
    /// `x-kubernetes-validations`.
    rules: cel::Rules,
    /// Whether the schema has rules or is long.
    validates_long: bool,
    /// Whether all objects were stored by this very schema. Reads then need not prune or default them.
    as_stored: bool,
    columns: Value,
    selectable: Vec<String>,
    pub(super) status: bool,
    pub(super) scale: Option<ScalePaths>,
    deprecation: Option<String>,
}

impl Custom {
    pub(super) fn parse(definition: &Value) -> Option<Custom> {
        let spec = definition.get("spec")?;
        let group = spec.get("group")?.as_str()?.to_owned();
        let kind = spec.pointer("/names/kind")?.as_str()?;
        let versions = spec.get("versions")?.as_array()?;
        let mut versions: Vec<Version> =
            versions.iter().map(|version| Version::parse(&group, kind, version)).collect();
        recommend(&group, kind, &mut versions);
        // A definition that never changed stored everything by its present schema.
        let generation = definition.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0);
        let first = generation == 1;
        let conversion = Conversion::read(spec);
        let stored =
            versions.iter().find(|version| version.storage).map(|version| version.structural.raw().clone());
        for version in &mut versions {
            let same = stored.as_ref() == Some(version.structural.raw());
            version.as_stored = first && same && conversion.is_none();
        }
        let terminating = crate::object::is_terminating(definition);
        Some(Custom { group, versions, conversion, generation, terminating })
    }

    fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name)
    }

    /// The type of the objects in that version.
    pub fn schema(&self, version: &str) -> Schema {
        self.version(version).map_or_else(Schema::any, |version| version.structural.schema().clone())
    }

    /// Fields that selectors may name, without the leading dot.
    pub(crate) fn selectable(&self, version: &str) -> &[String] {
        self.version(version).map_or(&[], |version| &version.selectable)
    }

    /// The printer of the objects' table rows.
    pub(crate) fn printer(&self, version: &str) -> Printer {
        Printer::custom(self.version(version).map_or(&Value::Null, |version| &version.columns))
    }

    /// The paths of the scale subresource's values.
    pub(crate) fn scale(&self, version: &str) -> Option<&ScalePaths> {
        self.version(version).and_then(|version| version.scale.as_ref())
    }

    /// The paths of the scale subresource's values, by version.
    pub(crate) fn scales(&self) -> impl Iterator<Item = (&str, &ScalePaths)> {
        self.versions.iter().filter_map(|version| Some((version.name.as_str(), version.scale.as_ref()?)))
    }

    /// The deprecation warning of a version.
    pub(crate) fn deprecation(&self, version: &str) -> Option<&str> {
        self.version(version).and_then(|version| version.deprecation.as_deref())
    }

    /// Whether a version has `x-kubernetes-validations`.
    pub(crate) fn has_rules(&self, version: &str) -> bool {
        self.version(version).is_some_and(|version| !version.rules.is_empty())
    }

    /// Whether validation of a short object may take long: the schema has rules, or is long itself.
    pub(crate) fn validates_long(&self, version: &str) -> bool {
        self.version(version).is_some_and(|version| version.validates_long)
    }

    /// Whether stored objects need no change for that version: it has the schema by which they were stored.
    pub(crate) fn is_as_stored(&self, version: &str) -> bool {
        self.version(version).is_some_and(|version| version.as_stored)
    }

    /// Prunes and defaults a stored object by the schema of that version. An object that a webhook converts has been
    /// through both.
    pub(crate) fn present(&self, version: &str, object: &mut Value) {
        if self.conversion.is_some() {
            return;
        }
        if let Some(version) = self.version(version).filter(|version| !version.as_stored) {
            version.structural.prune(object);
            version.structural.default(object);
        }
    }

    /// Prunes an object of that version by the schema of the stored version.
    pub(crate) fn to_storage(&self, version: &str, object: &mut Value) {
        let stored = self.versions.iter().find(|own| own.storage && own.name != version);
        let stored = stored.filter(|_| self.conversion.is_none());
        if let Some(stored) = stored.filter(|stored| {
            self.version(version).is_some_and(|own| own.structural.raw() != stored.structural.raw())
        }) {
            stored.structural.prune(object);
        }
    }

    /// The conversion webhook.
    pub(crate) fn conversion(&self) -> Option<&Conversion> {
        self.conversion.as_ref()
    }

    /// `metadata.generation` of the definition.
    pub(crate) fn generation(&self) -> i64 {
        self.generation
    }

    /// `apiVersion` of objects that are written now. Objects from before a change of the definition may have another.
    pub(crate) fn storage_api_version(&self) -> String {
        let stored = self.versions.iter().find(|version| version.storage);
        format!("{}/{}", self.group, stored.map_or("", |version| &version.name))
    }

    /// `apiVersion` of the objects in that version.
    pub(crate) fn api_version(&self, version: &str) -> String {
        format!("{}/{version}", self.group)
    }

    fn at(&self, api_version: &str) -> Option<&Version> {
        self.version(api_version.strip_prefix(&*self.group)?.strip_prefix('/')?)
    }

    /// Whether the definition has that version, served or not.
    pub(crate) fn has_version(&self, api_version: &str) -> bool {
        self.at(api_version).is_some()
    }

    /// The type of the objects in that version.
    pub(crate) fn schema_of(&self, api_version: &str) -> Option<Schema> {
        self.at(api_version).map(|version| version.structural.schema().clone())
    }

    /// A stored object by the present schema of the version in which it was stored.
    pub(crate) fn decoded(&self, mut object: Value) -> Value {
        let own = object["apiVersion"].as_str().and_then(|version| self.at(version));
        if let Some(own) = own.filter(|own| !own.as_stored) {
            own.structural.prune(&mut object);
            own.structural.default(&mut object);
        }
        object
    }

    /// Drops the fields that the schema of a version does not know.
    pub(crate) fn prune(&self, version: &str, object: &mut Value) {
        if let Some(version) = self.version(version) {
            version.structural.prune(object);
        }
    }

    /// An object that a webhook converted to the stored version, without the fields that its schema does not know.
    pub(crate) fn pruned_for_storage(&self, mut object: Value) -> Value {
        if let Some(stored) = self.versions.iter().find(|version| version.storage) {
            stored.structural.prune(&mut object);
        }
        object
    }

    /// The errors of an object outside `metadata`, and the violations that are tolerated because the values did not
    /// change.
    pub(crate) fn validate(
        &self,
        version: &str,
        candidate: &Candidate<'_>,
        metadata: &[Cause],
    ) -> (Vec<Cause>, Vec<Cause>) {
        let Candidate { new: object, old, interrupt, .. } = *candidate;
        let status = candidate.is_status();
        let Some(version) = self.version(version) else { return Default::default() };
        let structural = &version.structural;
        let mut causes = if status {
            structural.validate_status(object, old, interrupt)
        } else {
            structural.validate_values(object, old, interrupt)
        };
        if let Some(scale) = &version.scale {
            causes.extend(scale::check(scale, object, status));
        }
        if !status {
            causes.extend(structural.validate_embedded(object));
        }
        causes.extend(structural.validate_lists(object, old));
        if version.rules.is_empty() {
            return (causes, Vec::new());
        }
        let blocked =
            Structural::rules_not_checked(&causes).or_else(|| Structural::rules_not_checked(metadata));
        if let Some(cause) = blocked {
            causes.push(cause);
            return (causes, Vec::new());
        }
        let (refused, tolerated) = version.rules.validate(object, old, interrupt);
        causes.extend(refused);
        (causes, tolerated)
    }

    /// JSON text as an object of that version.
    pub(crate) fn read(&self, version: &str, bytes: &[u8]) -> Result<Read, DecodeError> {
        let read = read_json(bytes, &Schema::any())?;
        self.shaped(version, read, Structural::default)
    }

    /// A value as an object of that version.
    pub(crate) fn read_value(&self, version: &str, value: Value) -> Result<Read, DecodeError> {
        self.shaped(version, Read { value, strict: Vec::new() }, Structural::default)
    }

    /// The result of an apply as an object of that version.
    pub(crate) fn read_applied(&self, version: &str, value: Value) -> Result<Read, DecodeError> {
        self.shaped(version, Read { value, strict: Vec::new() }, Structural::default_applied)
    }

    /// Drops unknown fields and fills in defaults. `metadata` has the built-in type whatever the definition says.
    fn shaped(
        &self,
        version: &str,
        mut read: Read,
        default: fn(&Structural, &mut Value),
    ) -> Result<Read, DecodeError> {
        let typed = typed_metadata(&mut read.value)?;
        read.strict.extend(typed);
        let Some(version) = self.version(version) else { return Ok(read) };
        let unknown = version.structural.prune(&mut read.value);
        read.strict.extend(unknown.into_iter().map(|path| Strict { fault: Fault::Unknown, path }));
        if let Some(cause) = version.structural.malformed(&read.value) {
            return Err(DecodeError::Malformed(cause));
        }
        default(&version.structural, &mut read.value);
        Ok(read)
    }
}

fn typed_metadata(value: &mut Value) -> Result<Vec<Strict>, ReadError> {
    let schema = builtin().schema("", "v1", "ConfigMap").and_then(|schema| schema.child("metadata"));
    let (Some(metadata), Some(schema)) = (value.get_mut("metadata"), schema) else { return Ok(Vec::new()) };
    let typed = read_value(metadata.take(), &schema)?;
    *metadata = typed.value;
    let prefixed = typed.strict.into_iter().map(|strict| {
        let path = format!("metadata.{}", strict.path);
        Strict { path, ..strict }
    });
    Ok(prefixed.collect())
}

/// Gives a deprecated version without a warning of its own one that names the best version to use instead.
fn recommend(group: &str, kind: &str, versions: &mut [Version]) {
    let order = |name: &str| version_order(name);
    let best = versions
        .iter()
        .filter(|version| version.served && version.deprecation.is_none())
        .max_by_key(|version| order(&version.name))
        .map(|version| version.name.clone());
    let Some(best) = best else { return };
    for version in versions.iter_mut().filter(|version| order(&version.name) < order(&best)) {
        if let Some(text) = version.deprecation.as_mut().filter(|text| text.ends_with("is deprecated")) {
            text.push_str(&format!("; use {group}/{best} {kind}"));
        }
    }
}

impl Versions for Custom {
    /// Changes only `apiVersion`: without a conversion webhook versions differ in name only.
    fn convert(&self, object: &Value, api_version: &str) -> Option<(Value, Schema)> {
        let version = self.at(api_version)?;
        let mut converted = object.clone();
        converted["apiVersion"] = json!(api_version);
        Some((converted, version.structural.schema().clone()))
    }
}

impl Version {
    fn parse(group: &str, kind: &str, version: &Value) -> Version {
        let text = |pointer: &str| version.pointer(pointer).and_then(Value::as_str).unwrap_or("").to_owned();
        let flag = |pointer: &str| version.pointer(pointer).and_then(Value::as_bool).unwrap_or(false);
        let name = text("/name");
        let schema = version.pointer("/schema/openAPIV3Schema").cloned().unwrap_or_else(|| json!({}));
        let selectable = version.get("selectableFields").and_then(Value::as_array);
        let selectable = selectable.into_iter().flatten().filter_map(|field| field.get("jsonPath")?.as_str());
        let deprecation = flag("/deprecated").then(|| match text("/deprecationWarning") {
            own if !own.is_empty() => own,
            _ => format!("{group}/{name} {kind} is deprecated"),
        });
        let structural = Structural::read(&schema);
        // Rules that do not compile were refused when the definition was written.
        let rules = cel::Rules::compile(&structural, &Path::default());
        let rules = rules.unwrap_or_default();
        Version {
            served: flag("/served"),
            storage: flag("/storage"),
            as_stored: false,
            validates_long: !rules.is_empty() || schema.to_string().len() > LONG_SCHEMA,
            rules,
            structural,
            columns: version.get("additionalPrinterColumns").cloned().unwrap_or(Value::Null),
            selectable: selectable.map(|path| path.trim_start_matches('.').to_owned()).collect(),
            status: version.pointer("/subresources/status").is_some_and(Value::is_object),
            scale: version.pointer("/subresources/scale").filter(|scale| scale.is_object()).map(|_| {
                ScalePaths {
                    spec_replicas: text("/subresources/scale/specReplicasPath"),
                    status_replicas: text("/subresources/scale/statusReplicasPath"),
                    label_selector: text("/subresources/scale/labelSelectorPath"),
                }
            }),
            deprecation,
            name,
        }
    }
}
