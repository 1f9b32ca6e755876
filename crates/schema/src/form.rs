//! The form itself: plain data, cheap to clone.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

/// A resolved type. Clones share the node.
#[derive(Clone, Debug)]
pub struct Schema(pub Arc<Node>);

impl Deref for Schema {
    type Target = Node;
    fn deref(&self) -> &Node {
        &self.0
    }
}

impl Schema {
    /// A schema that knows nothing: any JSON is allowed, objects are granular and lists atomic.
    pub fn any() -> Self {
        Schema::of(Node { nullable: true, ..Node::new(Shape::Any) })
    }

    /// A schema of one node.
    pub fn of(node: Node) -> Self {
        Schema(Arc::new(node))
    }

    /// The type of field or map entry `name`, where this type has one.
    pub fn child(&self, name: &str) -> Option<Schema> {
        match &self.shape {
            Shape::Struct(fields) => fields.field(name).map(|field| field.ty.resolve()),
            Shape::Map { value, .. } => Some(value.resolve()),
            _ => None,
        }
    }
}

/// One type.
#[derive(Clone, Debug)]
pub struct Node {
    /// The published name of a built-in type (`io.k8s.api.core.v1.Container`); none for inline and custom types.
    pub name: Option<Arc<str>>,
    /// Whether an explicit `null` is a value of this type.
    pub nullable: bool,
    /// The default of an absent value of this type.
    pub default: Option<Value>,
    /// The shape of its JSON.
    pub shape: Shape,
    /// Go's spelling of the type (`v1.PullPolicy`, `[]v1.Container`), which error texts name; none for custom types.
    pub go: Option<Arc<str>>,
    /// How Go reads and writes the type where it has its own way.
    pub codec: Codec,
    /// The values that a built-in text type is published with; empty where any text will do. Reading does not
    /// check them: validation does.
    pub values: Vec<Arc<str>>,
}

impl Node {
    /// A custom type of that shape: no name, no default, not nullable.
    pub fn new(shape: Shape) -> Self {
        Node {
            name: None,
            nullable: false,
            default: None,
            shape,
            go: None,
            codec: Codec::Plain,
            values: Vec::new(),
        }
    }
}

/// Types that Go marshals by hand, or whose protobuf form does not follow from the shape.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Codec {
    /// As the shape says.
    #[default]
    Plain,
    /// Any JSON in a message of one bytes field (`runtime.RawExtension`).
    RawExtension,
    /// The same, where nothing is `{}` (`metav1.FieldsV1`).
    FieldsV1,
    /// The same, where nothing is `null` (`apiextensions JSON`).
    Json,
    /// A schema (that type of the table) or a boolean.
    PropsOrBool(u16),
    /// A schema or a list of schemas.
    PropsOrArray(u16),
    /// A schema or a list of names.
    PropsOrStringArray(u16),
    /// A named list type, which protobuf wraps in a message (`ExtraValue`, `Verbs`).
    WrappedList,
    /// A type that has no protobuf form (`metav1.Table`).
    JsonOnly,
}

/// The JSON shape of a type, with how it merges.
#[derive(Clone, Debug)]
pub enum Shape {
    /// JSON whose structure nobody declared (RawExtension, preserve-unknown-fields): objects merge by key, lists
    /// are atomic.
    Any,
    /// A leaf.
    Scalar(Scalar),
    /// An object with known fields.
    Struct(Struct),
    /// An object with any keys and one value type.
    Map {
        /// The type of each value.
        value: TypeRef,
        /// Whether the whole map has one owner.
        atomic: bool,
    },
    /// A list.
    List {
        /// The type of each item.
        item: TypeRef,
        /// How two lists merge.
        kind: ListKind,
    },
}

/// Leaves, told apart where JSON, protobuf or comparison differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// Text.
    String,
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    /// A number.
    Double,
    /// True or false.
    Bool,
    /// Base64 text; bytes in protobuf.
    Bytes,
    /// A whole number or text.
    IntOrString,
    /// `resource.Quantity`: text or a number in JSON.
    Quantity,
    /// RFC 3339 with whole seconds.
    Time,
    /// RFC 3339 with microseconds.
    MicroTime,
    /// Go's duration text (`1m30s`).
    Duration,
}

/// An object with known fields.
#[derive(Clone, Debug, Default)]
pub struct Struct {
    /// Sorted by name.
    pub fields: Vec<Field>,
    /// Whether the whole object has one owner.
    pub atomic: bool,
    /// Unknown fields are kept (`x-kubernetes-preserve-unknown-fields`).
    pub preserve_unknown: bool,
    /// The object is a whole resource of its own, with `apiVersion`, `kind` and `metadata`.
    pub embedded_resource: bool,
    /// The fields by protobuf place, sorted; empty for custom types.
    pub proto: Vec<ProtoSlot>,
    /// The fields (by index) that Go writes even when nobody set them: no `omitempty`, or a struct that is not
    /// behind a pointer.
    pub always: Vec<u16>,
    /// The fields (by index) that Go keeps in an embedded struct, with its name, which error texts contain.
    pub inlined: Vec<(u16, Arc<str>)>,
    /// The first bytes of the fields' names ([`prefix`]), which find a field without touching most names; may be
    /// left empty.
    pub prefixes: Vec<u64>,
    /// How a message of it is put together; made when one first is.
    pub(crate) layout: OnceLock<Layout>,
}

/// The first eight bytes of a name as a number that sorts as the name does.
pub fn prefix(name: &str) -> u64 {
    prefix_of(name.as_bytes())
}

fn prefix_of(name: &[u8]) -> u64 {
    match name.first_chunk() {
        Some(first) => u64::from_be_bytes(*first),
        None => match (name.first_chunk(), name.last_chunk()) {
            (Some(first), Some(last)) => {
                let last = u64::from(u32::from_be_bytes(*last)) << (64 - 8 * name.len());
                u64::from(u32::from_be_bytes(*first)) << 32 | (last & u64::from(u32::MAX))
            }
            _ => (0..8).fold(0, |number, at| number << 8 | name.get(at).copied().map_or(0, u64::from)),
        },
    }
}

impl Struct {
    /// Builds a struct of fields that are sorted by name. All else is unset, as in a custom type.
    pub fn of(fields: Vec<Field>) -> Self {
        Struct { fields, ..Struct::default() }
    }

    /// The field of that name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.index(name).map(|at| &self.fields[at])
    }

    /// Returns the index of the named field in [`Struct::fields`].
    pub fn index(&self, name: &str) -> Option<usize> {
        self.index_from(name.as_bytes(), self.fields.len())
    }

    /// As [`Struct::index`], where names mostly come in their order: `from` is where the one before ended.
    pub(crate) fn index_from(&self, name: &[u8], from: usize) -> Option<usize> {
        if self.prefixes.len() != self.fields.len() {
            return self.fields.binary_search_by(|field| field.name.as_bytes().cmp(name)).ok();
        }
        let wanted = prefix_of(name);
        let mut at = match self.prefixes.get(from) {
            Some(prefix) if *prefix <= wanted => from,
            _ => self.prefixes.partition_point(|prefix| *prefix < wanted),
        };
        while let Some(prefix) = self.prefixes.get(at).filter(|prefix| **prefix <= wanted) {
            if *prefix == wanted && is_same(self.fields[at].name.as_bytes(), name) {
                return Some(at);
            }
            at += 1;
        }
        // One of two with the same first bytes may stand before `from`.
        if from > 0 && from < self.prefixes.len() && self.prefixes[from - 1] == wanted {
            return self.index_from(name, self.fields.len());
        }
        None
    }
}

/// Whether two names are the same whose first eight bytes are.
fn is_same(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len() && left.get(8..) == right.get(8..)
}

/// One named field.
#[derive(Clone, Debug)]
pub struct Field {
    /// The JSON name.
    pub name: Arc<str>,
    /// Its type.
    pub ty: TypeRef,
    /// Whether an object without it is invalid.
    pub required: bool,
    /// The default of an absent field, from the field itself. Its type may have a default too.
    pub default: Option<Value>,
    /// How strategic merge treats it.
    pub patch: PatchStrategy,
    /// Its place in the protobuf message; none for custom types.
    pub proto: Option<ProtoField>,
    /// When Go leaves it out of the JSON.
    pub omit: Omit,
    /// Whether Go holds it behind a pointer: absent and zero differ.
    pub pointer: bool,
}

/// When Go's encoder leaves a field out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Omit {
    /// Always written, zero or not.
    Never,
    /// Left out when empty (`omitempty`): zero number, empty text, list or map, nil pointer; never a struct.
    #[default]
    Empty,
    /// Left out when zero (`omitzero`), a struct of zeros too.
    Zero,
}

/// `x-kubernetes-patch-strategy` and `x-kubernetes-patch-merge-key`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// Lists merge instead of replacing each other.
    pub merge: bool,
    /// `$retainKeys` is understood.
    pub retain_keys: bool,
    /// Objects replace each other instead of merging.
    pub replace: bool,
    /// The key that matches list items; none for lists of scalars.
    pub merge_key: Option<Arc<str>>,
}

/// A field's place in its protobuf message. The encoding follows from the shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtoField {
    /// The field number, after the numbers of the embedded messages that hold the field where Go inlines a
    /// struct in JSON (a volume's source); zeros fill the rest.
    pub path: [u16; 3],
}

/// Which field stands at a place of the protobuf message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProtoSlot {
    /// As in [`ProtoField`].
    pub path: [u16; 3],
    /// The index into [`Struct::fields`].
    pub field: u16,
}

/// How lists merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// One owner for the whole list.
    Atomic,
    /// Items are unique scalars.
    Set,
    /// Items are objects told apart by these fields.
    Map(Vec<Arc<str>>),
}

/// A type by reference: built-in types refer to each other by number, so that they decode one at a time.
#[derive(Clone, Debug)]
pub enum TypeRef {
    /// A type of the embedded table.
    Builtin(u16),
    /// A type that stands here.
    Inline(Schema),
}

/// The layout of the protobuf messages of a struct.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// By field.
    pub(crate) places: Box<[Place]>,
    /// By slot: what Go writes for a field that nobody set, its tag included; mostly nothing.
    pub(crate) zeros: Box<[Box<[u8]>]>,
    /// No slot stands in an embedded message.
    pub(crate) flat: bool,
    /// How many slots are never left out.
    pub(crate) always: u16,
}

/// The place of a field in its message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    /// Its number in the message that holds it; zero for a field that has none.
    pub(crate) number: u16,
    /// Its slot.
    pub(crate) slot: u16,
    /// Whether it is never left out.
    pub(crate) always: bool,
}
