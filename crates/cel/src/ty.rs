//! The types of expressions, and which may stand for which.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use setpoint_api::name::CEL_RESERVED_WORDS;
use setpoint_machinery::structural::Props;

/// A type.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Ty {
    Dyn,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Null,
    Timestamp,
    Duration,
    Type,
    List(Arc<Ty>),
    Map(Arc<Ty>, Arc<Ty>),
    Object(Arc<BTreeMap<String, Ty>>),
    Optional(Arc<Ty>),
    /// A type of a Kubernetes library, by name.
    Opaque(&'static str),
    /// Any type in a function's signature, the same for the same letter; also the items of an empty list.
    Param(char),
}

impl Ty {
    pub(super) fn list(item: Ty) -> Ty {
        Ty::List(Arc::new(item))
    }

    /// The type of a value that a schema describes, or `None` if there is no schema to go by.
    pub(super) fn of(props: &Props, is_resource: bool) -> Option<Ty> {
        if props.int_or_string {
            return Some(Ty::Dyn);
        }
        match props.kind.as_str() {
            "array" => {
                let items = props.items.as_deref()?;
                Some(Ty::list(Ty::of(items, items.embedded_resource)?))
            }
            "object" => {
                if let Some(schema) = props.additional.as_ref().and_then(|more| more.schema.as_deref()) {
                    let value = Ty::of(schema, schema.embedded_resource)?;
                    return Some(Ty::Map(Arc::new(Ty::String), Arc::new(value)));
                }
                Some(Ty::Object(Arc::new(object_fields(props, is_resource))))
            }
            "string" => Some(match props.format.as_str() {
                "byte" => Ty::Bytes,
                "duration" => Ty::Duration,
                "date" | "date-time" => Ty::Timestamp,
                _ => Ty::String,
            }),
            "boolean" => Some(Ty::Bool),
            "number" => Some(Ty::Double),
            "integer" => Some(Ty::Int),
            _ => None,
        }
    }
}

/// Whether a schema of a resource declares all that expressions may know of its metadata.
pub(super) fn declares_metadata(props: &Props) -> bool {
    let is = |props: Option<&Props>, kind: &str| props.is_some_and(|props| props.kind == kind);
    let metadata = props.properties.get("metadata");
    let within = |name: &str| metadata.and_then(|metadata| metadata.properties.get(name));
    is(props.properties.get("kind"), "string")
        && is(props.properties.get("apiVersion"), "string")
        && is(metadata, "object")
        && is(within("name"), "string")
        && is(within("generateName"), "string")
}

fn object_fields(props: &Props, is_resource: bool) -> BTreeMap<String, Ty> {
    let mut fields = BTreeMap::new();
    for (name, property) in &props.properties {
        if let (Some(name), Some(ty)) = (escape(name), Ty::of(property, property.embedded_resource)) {
            fields.insert(name, ty);
        }
    }
    if is_resource && !declares_metadata(props) {
        let names = ["name", "generateName"].map(|name| (name.to_owned(), Ty::String));
        fields.insert("apiVersion".into(), Ty::String);
        fields.insert("kind".into(), Ty::String);
        fields.insert("metadata".into(), Ty::Object(Arc::new(names.into_iter().collect())));
    }
    fields
}

/// The name by which expressions reach a field, or `None` for names that they cannot write.
pub(super) fn escape(name: &str) -> Option<String> {
    let first = name.chars().next()?;
    if first.is_ascii_digit() {
        return None;
    }
    if let Some(name) = keyword(name) {
        return Some(name);
    }
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '-' | '/');
    if !name.chars().all(allowed) {
        return None;
    }
    let name = name.replace("__", "__underscores__");
    Some(name.replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__"))
}

/// The name of a field whose own name is a keyword. Expressions may use either name.
pub(super) fn keyword(name: &str) -> Option<String> {
    CEL_RESERVED_WORDS.contains(&name).then(|| format!("__{name}__"))
}

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ty::Dyn => f.write_str("dyn"),
            Ty::Bool => f.write_str("bool"),
            Ty::Int => f.write_str("int"),
            Ty::Uint => f.write_str("uint"),
            Ty::Double => f.write_str("double"),
            Ty::String => f.write_str("string"),
            Ty::Bytes => f.write_str("bytes"),
            Ty::Null => f.write_str("null"),
            Ty::Timestamp => f.write_str("timestamp"),
            Ty::Duration => f.write_str("duration"),
            Ty::Type => f.write_str("type"),
            Ty::List(item) => write!(f, "list({item})"),
            Ty::Map(key, value) => write!(f, "map({key}, {value})"),
            Ty::Object(_) => f.write_str("object"),
            Ty::Optional(value) => write!(f, "optional_type({value})"),
            Ty::Opaque(name) => f.write_str(name),
            Ty::Param('_') => f.write_str("dyn"),
            Ty::Param(letter) => write!(f, "{letter}"),
        }
    }
}

/// The types that the letters of a signature stand for in one call.
pub(super) type Bindings = BTreeMap<char, Ty>;

/// Whether a value of type `given` is acceptable as `wanted`.
pub(super) fn assignable(wanted: &Ty, given: &Ty, bindings: &mut Bindings) -> bool {
    match (wanted, given) {
        (Ty::Param(letter), given) => match bindings.get(letter).cloned() {
            None => {
                bindings.insert(*letter, given.clone());
                true
            }
            Some(bound) => {
                let forth = assignable(&bound, given, &mut Bindings::new());
                if !forth && assignable(given, &bound, &mut Bindings::new()) {
                    bindings.insert(*letter, given.clone());
                    return true;
                }
                if forth && (matches!(given, Ty::Dyn) || (is_open(&bound) && !is_open(given))) {
                    bindings.insert(*letter, given.clone());
                }
                forth
            }
        },
        (Ty::Dyn, _) | (_, Ty::Dyn | Ty::Param(_)) => true,
        (Ty::Object(_) | Ty::Timestamp | Ty::Duration | Ty::Opaque(_) | Ty::Optional(_), Ty::Null) => true,
        (Ty::List(wanted), Ty::List(given)) | (Ty::Optional(wanted), Ty::Optional(given)) => {
            assignable(wanted, given, bindings)
        }
        (Ty::Map(wanted_key, wanted), Ty::Map(given_key, given)) => {
            assignable(wanted_key, given_key, bindings) && assignable(wanted, given, bindings)
        }
        // The same place of the same schema: two places with the same fields are of two types.
        (Ty::Object(wanted), Ty::Object(given)) => Arc::ptr_eq(wanted, given),
        (wanted, given) => wanted == given,
    }
}

/// Whether two types are the same, as far as they are known.
pub(super) fn equivalent(left: &Ty, right: &Ty) -> bool {
    match (left, right) {
        (Ty::Param(_), _) | (_, Ty::Param(_)) => true,
        (Ty::List(left), Ty::List(right)) | (Ty::Optional(left), Ty::Optional(right)) => {
            equivalent(left, right)
        }
        (Ty::Map(left_key, left), Ty::Map(right_key, right)) => {
            equivalent(left_key, right_key) && equivalent(left, right)
        }
        (Ty::Object(left), Ty::Object(right)) => Arc::ptr_eq(left, right),
        (left, right) => left == right,
    }
}

/// Whether a part of the type is not yet known: the items of an empty list, or the value of no optional.
pub(super) fn is_open(ty: &Ty) -> bool {
    match ty {
        Ty::Param(_) => true,
        Ty::List(inner) | Ty::Optional(inner) => is_open(inner),
        Ty::Map(key, value) => is_open(key) || is_open(value),
        _ => false,
    }
}

/// The type with the letters replaced. A letter that stands for nothing stays open.
pub(super) fn substitute(ty: &Ty, bindings: &Bindings) -> Ty {
    match ty {
        Ty::Param(letter) => bindings.get(letter).cloned().unwrap_or(Ty::Param('_')),
        Ty::List(item) => Ty::list(substitute(item, bindings)),
        Ty::Optional(value) => Ty::Optional(Arc::new(substitute(value, bindings))),
        Ty::Map(key, value) => {
            Ty::Map(Arc::new(substitute(key, bindings)), Arc::new(substitute(value, bindings)))
        }
        other => other.clone(),
    }
}
