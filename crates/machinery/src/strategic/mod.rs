//! Strategic merge patch: objects merge by field, lists by the merge key that the schema names, with the
//! directives `$patch`, `$deleteFromPrimitiveList/…`, `$setElementOrder/…` and `$retainKeys`.

mod element_order;
mod list;
mod order;
mod error;
mod positions;
#[cfg(test)]
mod tests;

pub use error::{Error, ErrorClass};

use serde_json::{Map, Value};

use setpoint_schema::{PatchStrategy, Schema, Shape};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

type Object = Map<String, Value>;

/// Merges `patch` into `live`.
///
/// # Errors
/// See [`Error`]; [`Error::class`] says which HTTP answer it is.
pub fn apply(live: Value, patch: Value, schema: &Schema) -> Result<Value, Error> {
    let (Value::Object(live), Value::Object(patch)) = (live, patch) else { return Err(Error::BadDocument) };
    merge_object(live, patch, schema).map(Value::Object)
}

/// The type of a field and how it merges.
fn lookup(schema: &Schema, name: &str) -> Result<(Schema, PatchStrategy), Error> {
    match &schema.shape {
        Shape::Struct(fields) => match fields.field(name) {
            Some(field) => Ok((field.ty.resolve(), field.patch.clone())),
            None => {
                let owner =
                    schema.name.as_deref().and_then(|name| name.rsplit('.').next()).unwrap_or_default();
                Err(Error::UnknownField { owner: owner.into(), field: name.into() })
            }
        },
        Shape::Map { .. } => Err(Error::NotAStruct("map")),
        Shape::List { .. } => Err(Error::NotAStruct("slice")),
        Shape::Any => Ok((Schema::any(), PatchStrategy::default())),
        Shape::Scalar(_) => Err(Error::NotAStruct("string")),
    }
}

/// As [`lookup`], for a field that holds a list: the type is its items'.
fn lookup_list(schema: &Schema, name: &str) -> Result<(Schema, PatchStrategy), Error> {
    let (ty, strategy) = lookup(schema, name)?;
    match &ty.shape {
        Shape::List { item, .. } => Ok((item.resolve(), strategy)),
        Shape::Any => Ok((ty, strategy)),
        _ => Err(Error::NotAList),
    }
}

fn merge_object(mut original: Object, mut patch: Object, schema: &Schema) -> Result<Object, Error> {
    if let Some(directive) = patch.remove(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => Ok(patch),
            Some("delete") => Ok(Object::new()),
            _ => {
                let shown = setpoint_api::go_format::plain(&directive);
                patch.insert(DIRECTIVE.into(), directive);
                Err(Error::UnknownDirective { directive: shown, map: Value::Object(patch) })
            }
        };
    }
    retain_keys(&mut original, &mut patch)?;
    element_order::set_element_order(&mut original, &mut patch, schema)?;
    for (name, change) in patch {
        merge_field(&mut original, name, change, schema)?;
    }
    Ok(original)
}

fn merge_field(original: &mut Object, name: String, change: Value, schema: &Schema) -> Result<(), Error> {
    let (name, delete_list) = match directive_target(&name, DELETE_FROM_LIST, Error::BadPrimitiveList)? {
        Some(target) => (target.to_owned(), true),
        None => (name, false),
    };
    if change.is_null() {
        original.remove(&name);
        return Ok(());
    }
    match (original.remove(&name), change) {
        (Some(Value::Object(current)), Value::Object(change)) => {
            let (ty, strategy) = lookup(schema, &name)?;
            let merged = if strategy.replace { change } else { merge_object(current, change, &ty)? };
            original.insert(name, Value::Object(merged));
        }
        (Some(Value::Array(current)), Value::Array(change)) => {
            let (item, strategy) = lookup_list(schema, &name)?;
            let merged = list::merge_lists(current, change, &item, &strategy, delete_list)?;
            original.insert(name, Value::Array(merged));
        }
        (current, change) if !delete_list => {
            // Two leaves of one type keep nulls, which leaves do not have: dropping them is the same.
            let _ = current;
            if let Some(change) = without_directives(without_nulls(change)) {
                original.insert(name, change);
            }
        }
        (Some(current), _) => drop(original.insert(name, current)),
        (None, _) => {}
    }
    Ok(())
}

/// The field that a parallel-list directive is about.
fn directive_target<'a>(name: &'a str, prefix: &str, malformed: Error) -> Result<Option<&'a str>, Error> {
    if !name.starts_with(prefix) {
        return Ok(None);
    }
    match name.split_once('/') {
        Some((directive, target)) if directive == prefix => Ok(Some(target)),
        _ => Err(malformed),
    }
}

fn retain_keys(original: &mut Object, patch: &mut Object) -> Result<(), Error> {
    let Some(directive) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(kept) = directive else { return Err(Error::BadRetainKeys) };
    let is_kept = |name: &str| kept.iter().any(|key| key.as_str() == Some(name));
    let unexpected = |(name, value): (&String, &Value)| {
        !value.is_null()
            && !name.starts_with(DELETE_FROM_LIST)
            && !name.starts_with(SET_ORDER)
            && !is_kept(name)
    };
    if patch.iter().any(unexpected) {
        return Err(Error::BadRetainKeys);
    }
    original.retain(|name, _| is_kept(name));
    Ok(())
}

/// Drops null fields of objects at every depth; null items of lists stay.
pub(crate) fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, value)| (name, without_nulls(value)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

/// The value without anything that carries a `$patch` directive; none if it is one itself.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key(DIRECTIVE) => None,
        Value::Object(fields) => Some(Value::Object(
            fields.into_iter().filter_map(|(name, value)| Some((name, without_directives(value)?))).collect(),
        )),
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(without_directives).collect())),
        other => Some(other),
    }
}
