//! Admission attributes: the request as admission sees it.

use std::collections::BTreeMap;

use serde_json::Value;
use setpoint_api::kind::GroupVersionKind;
use setpoint_store::Snapshot;

use crate::context::RequestContext;
use crate::key;
use crate::object;
use crate::registry::meta;
use crate::write_options::WriteOptions;

/// Labels of a stored namespace.
pub(crate) type Labels = BTreeMap<String, String>;

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }

    /// Whether there will be an object afterwards.
    pub(crate) fn writes(self) -> bool {
        matches!(self, Operation::Create | Operation::Update)
    }
}

/// A request as admission sees it. Objects are in the form in which they are decided on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Attributes {
    pub(crate) operation: Operation,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) kind: GroupVersionKind,
    /// Whether the objects are of the resource's own kind, which other versions may show too.
    pub(crate) is_own_kind: bool,
    pub(crate) name: String,
    pub(crate) namespace: String,
    /// Labels of the namespace; none if there is no such namespace.
    pub(crate) namespace_labels: Option<Labels>,
    pub(crate) object: Option<Value>,
    pub(crate) old: Option<Value>,
    pub(crate) options: Value,
    pub(crate) dry_run: bool,
}

impl Attributes {
    /// Nothing but the operation.
    pub(crate) fn new(operation: Operation) -> Self {
        let kind = GroupVersionKind { group: String::new(), version: String::new(), kind: String::new() };
        Attributes {
            operation,
            group: String::new(),
            version: String::new(),
            resource: String::new(),
            subresource: String::new(),
            kind,
            is_own_kind: true,
            name: String::new(),
            namespace: String::new(),
            namespace_labels: None,
            object: None,
            old: None,
            options: Value::Null,
            dry_run: false,
        }
    }

    /// The attributes of a request for a resource, about objects of the resource's own kind.
    pub(crate) fn of(ctx: &RequestContext, snapshot: &Snapshot, operation: Operation) -> Self {
        let resource = &ctx.resource;
        let is_namespace = resource.is("", "namespaces");
        let namespace = if is_namespace { &ctx.info.name } else { &ctx.info.namespace };
        let entry = snapshot.get(&key::object("", "namespaces", "", namespace));
        Attributes {
            group: resource.group.clone(),
            version: resource.version.clone(),
            resource: resource.plural.clone(),
            subresource: ctx.info.subresource.clone(),
            kind: GroupVersionKind {
                group: resource.group.clone(),
                version: resource.version.clone(),
                kind: resource.kind.clone(),
            },
            name: ctx.info.name.clone(),
            namespace: namespace.clone(),
            namespace_labels: entry.map(|entry| meta(&entry).labels.clone()),
            ..Attributes::new(operation)
        }
    }

    /// The attributes of a write, with its options.
    pub(crate) fn of_write(
        ctx: &RequestContext,
        options: &WriteOptions,
        snapshot: &Snapshot,
        operation: Operation,
    ) -> Self {
        let dry_run = options.is_dry_run();
        // A patch has the options of the create or update that it becomes.
        let options = match operation {
            Operation::Create => options.to_value("CreateOptions"),
            Operation::Update => options.to_value("UpdateOptions"),
            Operation::Delete | Operation::Connect => Value::Null,
        };
        Attributes { options, dry_run, ..Attributes::of(ctx, snapshot, operation) }
    }

    /// Sets another kind for the object than the resource's own.
    pub(crate) fn about(mut self, group: &str, version: &str, kind: &str) -> Self {
        self.kind = GroupVersionKind { group: group.into(), version: version.into(), kind: kind.into() };
        self.is_own_kind = false;
        self
    }

    /// Adds the object that is written, and the object that was stored.
    pub(crate) fn with(mut self, object: Value, old: Option<&Value>) -> Self {
        // The request may lack a name, which the object itself has.
        if self.name.is_empty() {
            object::name(&object).clone_into(&mut self.name);
        }
        if self.namespace.is_empty() && self.group.is_empty() && self.resource == "namespaces" {
            self.namespace.clone_from(&self.name);
        }
        self.object = Some(object);
        self.old = old.cloned();
        self
    }
}
