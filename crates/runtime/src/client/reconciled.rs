//! The object that a reconcile is about.

use std::sync::Arc;

use kube::core::ApiResource;

use crate::key::Key;

/// The kind of a controller's own objects.
#[derive(Clone, Debug)]
pub(crate) struct OwnKind {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) namespaced: bool,
}

impl OwnKind {
    pub(crate) fn is(&self, resource: &ApiResource) -> bool {
        self.kind == resource.kind && self.group == resource.group
    }
}

/// The object of one reconcile.
#[derive(Clone, Debug)]
pub(crate) struct Reconciled {
    pub(crate) kind: Arc<OwnKind>,
    pub(crate) key: Key,
}
