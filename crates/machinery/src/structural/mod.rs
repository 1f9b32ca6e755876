//! A CRD's schema: refused or compiled, and then what it does to objects: pruning, defaulting, validation.

mod default;
mod form;
mod refuse;
pub mod field_path;
mod metadata;
mod prune;
mod validate;
mod props;
pub mod pattern;
#[cfg(test)]
mod tests;

pub use props::{Additional, Props, Rule, Unsupported};
pub use validate::OldItems;

use std::sync::Arc;

use serde_json::Value;

use setpoint_api::cause::{Cause, CauseType, Path};
use setpoint_schema::Schema;

use crate::Interrupt;

/// One reason why a schema is refused.
pub type Refusal = Cause;

/// A compiled schema. Clones share it.
#[derive(Clone, Debug)]
pub struct Structural(Arc<Compiled>);

#[derive(Debug)]
struct Compiled {
    props: Props,
    raw: Value,
    schema: Schema,
}

impl Structural {
    /// Compiles a schema that stands where a CRD with one schema has it in messages.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn compile(schema: &Value) -> Result<Structural, Vec<Refusal>> {
        let path = Path::new("spec.validation.openAPIV3Schema");
        Structural::compile_at(schema, &path, false, &Interrupt::default())
    }

    /// Compiles a schema that stands at `path`; `status` says whether its version has the status subresource. The result
    /// is void once the interrupt is raised.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn compile_at(
        schema: &Value,
        path: &Path,
        status: bool,
        interrupt: &Interrupt,
    ) -> Result<Structural, Vec<Refusal>> {
        let structural = Structural::read(schema);
        let refusals = refuse::refusals(&structural, path, status, interrupt);
        if refusals.is_empty() { Ok(structural) } else { Err(refusals) }
    }

    /// Reads a schema that was accepted before, without checking it again.
    pub fn read(schema: &Value) -> Structural {
        let props = Props::parse(schema);
        let form = form::kind(&props);
        Structural(Arc::new(Compiled { props, raw: schema.clone(), schema: form }))
    }

    /// The schema as it was read.
    pub fn props(&self) -> &Props {
        &self.0.props
    }

    /// The schema as JSON.
    pub fn raw(&self) -> &Value {
        &self.0.raw
    }

    /// The kind's type in the common form.
    pub fn schema(&self) -> &Schema {
        &self.0.schema
    }

    /// Drops what the schema does not know and returns the paths: the unknown fields of field validation. The
    /// object's own metadata is left to whoever decodes it.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut dropped = prune::prune(object, self.props(), true);
        metadata::coerce(object, self.props(), "", &mut dropped);
        dropped.sort();
        dropped
    }

    /// The first meta field of an embedded resource that does not decode: such an object is a bad request.
    pub fn malformed(&self, object: &Value) -> Option<Cause> {
        metadata::malformed(object, self.props(), &Path::default(), false)
    }

    /// Fills in defaults; nulls that may not be are dropped or replaced first.
    pub fn default(&self, object: &mut Value) {
        default::default(object, self.props());
    }

    /// Fills in defaults of what an apply made: nulls that pruning left stay, as kube-apiserver leaves them.
    pub fn default_applied(&self, object: &mut Value) {
        default::fill(object, self.props());
    }

    /// Everything that is wrong with an object, `x-kubernetes-validations` aside. On an update, `old` is the stored
    /// object: what did not change is not held against the new one.
    pub fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = self.validate_values(object, old, &Interrupt::default());
        causes.extend(self.validate_embedded(object));
        causes.extend(self.validate_lists(object, old));
        causes
    }

    /// Returns the faults in the values of an object. They are void once the interrupt is raised.
    pub fn validate_values(&self, object: &Value, old: Option<&Value>, interrupt: &Interrupt) -> Vec<Cause> {
        validate::values(object, old, self.props(), &Path::default(), interrupt)
    }

    /// Returns the faults of the status alone. A write to the status answers for nothing else. They are void once the
    /// interrupt is raised.
    pub fn validate_status(&self, object: &Value, old: Option<&Value>, interrupt: &Interrupt) -> Vec<Cause> {
        let (Some(status), Some(props)) = (object.get("status"), self.props().properties.get("status"))
        else {
            return Vec::new();
        };
        // A status that was not there and one that is null are the same.
        let old = old.map(|old| old.get("status").unwrap_or(&Value::Null));
        validate::values(status, old, props, &Path::new("status"), interrupt)
    }

    /// Returns the faults of resources within the object.
    pub fn validate_embedded(&self, object: &Value) -> Vec<Cause> {
        metadata::check(object, self.props(), &Path::default(), false)
    }

    /// Items that stand twice in sets and keyed lists, unless they did before.
    pub fn validate_lists(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let root = Path::default();
        let were_wrong = old.is_some_and(|old| !validate::lists(old, self.props(), &root).is_empty());
        if were_wrong { Vec::new() } else { validate::lists(object, self.props(), &root) }
    }

    /// Whether any node has `x-kubernetes-validations`.
    pub fn has_rules(&self) -> bool {
        fn any(props: &Props) -> bool {
            !props.validations.is_empty()
                || props.properties.values().any(any)
                || props.items.as_deref().is_some_and(any)
                || props.additional.as_ref().and_then(|more| more.schema.as_deref()).is_some_and(any)
        }
        any(self.props())
    }

    /// The cause that stands for unchecked rules where others make checking them pointless.
    pub fn rules_not_checked(causes: &[Cause]) -> Option<Cause> {
        let blocking = |cause: &Cause| {
            matches!(
                cause.reason,
                CauseType::FieldValueNotSupported
                    | CauseType::FieldValueRequired
                    | CauseType::FieldValueTooLong
                    | CauseType::FieldValueTooMany
                    | CauseType::FieldValueTypeInvalid
            )
        };
        let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
        causes.iter().any(blocking).then(|| Cause::invalid(&Path::default(), &Value::Null, detail))
    }

    /// The formats in the schema that nobody checks: a warning when the CRD is written.
    pub fn unknown_formats(&self) -> Vec<String> {
        fn collect(props: &Props, found: &mut Vec<String>) {
            let known = match props.kind.as_str() {
                "" | "string" => validate::is_known_format(&props.format),
                "integer" => matches!(props.format.as_str(), "int32" | "int64"),
                "number" => matches!(props.format.as_str(), "float" | "double"),
                _ => false,
            };
            if !props.format.is_empty() && !known && !found.contains(&props.format) {
                found.push(props.format.clone());
            }
            let more = props.additional.iter().filter_map(|more| more.schema.as_deref());
            for below in props.properties.values().chain(props.items.as_deref()).chain(more) {
                collect(below, found);
            }
        }
        let mut found = Vec::new();
        collect(self.props(), &mut found);
        found
    }
}

impl Structural {
    /// The types of the items of sets that hold objects or lists: a warning when the CRD is written.
    pub fn sets_of_containers(&self) -> Vec<String> {
        fn collect(props: &Props, found: &mut Vec<String>) {
            if let (Some("set"), Some(items)) = (props.list_type.as_deref(), props.items.as_deref())
                && matches!(items.kind.as_str(), "object" | "array")
            {
                found.push(items.kind.clone());
            }
            let more = props.additional.iter().filter_map(|more| more.schema.as_deref());
            for below in props.properties.values().chain(props.items.as_deref()).chain(more) {
                collect(below, found);
            }
        }
        let mut found = Vec::new();
        collect(self.props(), &mut found);
        found
    }
}

/// Whether a regular expression is one.
pub fn is_pattern(pattern: &str) -> bool {
    pattern::compile(pattern).is_ok()
}

/// Whether a value did not change, as far as its schema tells.
pub fn unchanged(new: &Value, old: &Value, props: &Props) -> bool {
    validate::unchanged(new, old, props)
}
