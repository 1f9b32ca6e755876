//! A write, and the change that it makes on one state of the store.

use std::sync::{Arc, Mutex, OnceLock};

use serde_json::Value;
use setpoint_store::{Entry, Snapshot, Txn};

use super::decode::Decoded;
use super::delete_options::DeleteOptions;
use crate::context::RequestContext;
use crate::decision::Decision;
use crate::object;
use crate::registry::Resource;
use crate::writer::Writer;

/// The kinds of writes. A write that creates what it was to change is still of its own kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Create,
    Update,
    /// JSON, merge and strategic merge patch.
    Patch,
    /// Server-side apply.
    Apply,
    /// A change of `scale`.
    Scale,
    /// A pod is bound to a node.
    Bind,
    /// A deletion that disruption budgets may refuse.
    Evict,
    Delete,
}

/// One write of one object. It is decided once or more often; what it draws at random stays the same.
pub(crate) struct Write<'a> {
    pub(crate) writer: &'a Writer<'a>,
    pub(crate) kind: Kind,
    /// The name of the object; empty if it is in the body, or generated.
    pub(crate) name: &'a str,
    /// How the new object is made of the body and the stored object.
    pub(crate) merge: &'a (dyn Merge + Sync),
    /// How the object is deleted; none for what is not a deletion.
    pub(crate) delete: Option<&'a DeleteOptions>,
    uid: OnceLock<String>,
    generated_name: Mutex<Option<String>>,
    warned: Mutex<Vec<String>>,
}

impl<'a> Write<'a> {
    /// A write of the object that the request names.
    pub(crate) fn new(writer: &'a Writer<'a>, kind: Kind, merge: &'a (dyn Merge + Sync)) -> Self {
        let name = &writer.ctx.info.name;
        Write {
            writer,
            kind,
            name,
            merge,
            delete: None,
            uid: OnceLock::new(),
            generated_name: Mutex::default(),
            warned: Mutex::default(),
        }
    }

    /// A deletion of the object that the request names.
    pub(crate) fn deletion(
        writer: &'a Writer<'a>,
        kind: Kind,
        merge: &'a (dyn Merge + Sync),
        options: &'a DeleteOptions,
    ) -> Self {
        Write { delete: Some(options), ..Write::new(writer, kind, merge) }
    }

    /// Keeps the warnings of a decision for an error that follows it.
    pub(super) fn note_warnings(&self, warnings: &[String]) {
        let mut warned = self.warned.lock().expect("no holder of this lock panics");
        if *warned != warnings {
            *warned = warnings.to_vec();
        }
    }

    /// The warnings of the last decision.
    pub(super) fn warned(&self) -> Vec<String> {
        self.warned.lock().expect("no holder of this lock panics").clone()
    }

    /// The same for another object.
    pub(crate) fn of(self, name: &'a str) -> Self {
        Write { name, ..self }
    }

    pub(crate) fn ctx(&self) -> &'a RequestContext {
        self.writer.ctx
    }

    pub(crate) fn resource(&self) -> &'a Resource {
        &self.writer.ctx.resource
    }

    /// The uid of a new object.
    pub(super) fn uid(&self) -> &str {
        self.uid.get_or_init(|| self.ctx().server.options().random.uid())
    }

    /// A name that begins like that and that nobody has: the one of the last decision if it is still free.
    pub(super) fn generate_name(
        &self,
        mut generate: impl FnMut() -> String,
        is_free: impl Fn(&str) -> bool,
    ) -> Result<String, NameTaken> {
        let mut kept = self.generated_name.lock().expect("no holder of this lock panics");
        let mut name = String::new();
        for _ in 0..NAME_TRIES {
            name = kept.take().unwrap_or_else(&mut generate);
            if is_free(&name) {
                *kept = Some(name.clone());
                return Ok(name);
            }
        }
        Err(NameTaken(name))
    }

    /// Whether that name was generated for the new object.
    pub(super) fn has_generated(&self, name: &str) -> bool {
        self.generated_name.lock().expect("no holder of this lock panics").as_deref() == Some(name)
    }
}

/// The last of the generated names, which are all taken.
pub(super) struct NameTaken(pub(super) String);

/// How often a name is generated again if it is taken.
const NAME_TRIES: usize = 8;

/// The state on which a write is decided, and what it will change there.
pub(crate) struct State<'t> {
    pub(crate) snapshot: &'t Snapshot,
    pub(crate) txn: &'t mut Txn,
}

/// How a verb makes the new object.
pub(crate) trait Merge {
    /// Sets what is new in `change`, or its outcome if nothing further is to be decided.
    fn merge(&self, write: &Write<'_>, state: &mut State<'_>, change: &mut Change) -> Decision<()>;
}

/// The stored object.
pub(crate) struct Live {
    pub(crate) entry: Arc<Entry>,
    /// In the version in which the write is decided.
    pub(crate) object: Value,
}

/// The change that a decision is about, on its way through the stages.
#[derive(Default)]
pub(crate) struct Change {
    /// The stored object; none if the write creates it.
    pub(crate) live: Option<Live>,
    /// The stored object as the version of the request has it, where that is another.
    pub(super) requested_view: Option<Value>,
    /// The object as it will be.
    pub(crate) new: Value,
    /// The `resourceVersion` that the client sent.
    pub(crate) sent_version: String,
    /// Maps that were sent empty and are read as absent: what is immutable notices, and refusals show them as sent.
    pub(crate) sent_empty: Vec<&'static str>,
    /// Metadata that a replacement left out, and that webhooks therefore do not see.
    pub(crate) unsent: Vec<&'static str>,
    pub(crate) warnings: Vec<String>,
    /// The key of the object in the store.
    pub(crate) key: Vec<u8>,
    /// The object is put once more, as its deletion leaves it, and is deleted by a transaction of its own.
    pub(crate) is_dying: bool,
    /// Set by the stage that ends the decision.
    pub(crate) outcome: Option<Outcome>,
}

/// The end of a decision.
pub(crate) enum Outcome {
    /// The object is written.
    Written,
    /// The object stays as it is stored.
    Unchanged,
    /// The object is gone.
    Deleted,
    /// There was no object to delete, which is no error here.
    Absent,
}

impl Change {
    /// Takes over what a body or a patch came to.
    pub(crate) fn take(&mut self, decoded: Decoded) {
        object::meta_text(&decoded.object, "resourceVersion").clone_into(&mut self.sent_version);
        self.new = decoded.object;
        self.sent_empty = decoded.sent_empty;
        self.warnings.extend(decoded.warnings);
    }

    /// The stored object.
    pub(crate) fn live_object(&self) -> Option<&Value> {
        self.live.as_ref().map(|live| &live.object)
    }

    /// The stored object as validation compares it with the new one.
    pub(super) fn old(&self) -> Option<&Value> {
        self.requested_view.as_ref().or(self.live_object())
    }
}
