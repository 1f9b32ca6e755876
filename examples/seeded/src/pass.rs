//! The surroundings of one pass over one store.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use serde_json::{Value, json};
use setpoint::client::controller_reference;
use setpoint::informer::Lister;
use setpoint::{Client, Context, Error, Key};

use crate::bug::Bug;
use crate::types::Store;

/// The memory of the process. The sound operator has none: only bugs use it.
pub struct Memory {
    /// Reads that no own write guards.
    pub unguarded: Lister<ConfigMap>,
    notes: Mutex<BTreeMap<String, String>>,
}

impl Memory {
    /// Nothing is remembered yet.
    pub fn new(unguarded: Lister<ConfigMap>) -> Memory {
        Memory { unguarded, notes: Mutex::default() }
    }

    fn notes(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a value. Returns the value before.
    pub fn remember(&self, key: &str, value: &str) -> Option<String> {
        self.notes().insert(key.to_owned(), value.to_owned())
    }

    /// Returns a value.
    pub fn recall(&self, key: &str) -> Option<String> {
        self.notes().get(key).cloned()
    }
}

/// One pass over one store.
pub struct Pass<'a> {
    /// The context of the reconcile.
    pub ctx: &'a Context,
    /// The store.
    pub store: &'a Store,
    /// The bug.
    pub bug: Option<Bug>,
    /// The memory of the process.
    pub memory: &'a Memory,
}

impl Pass<'_> {
    /// Returns the client.
    pub fn client(&self) -> &Client {
        self.ctx.client()
    }

    /// Returns whether a bug is switched on.
    pub fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// Returns whether the server has the store as this pass sees it. A pass asks before it deletes anything: the cache
    /// of the store may be older than the caches of the children.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn is_current(&self) -> Result<bool, Error> {
        let now = self.client().live().get::<Store>(self.key("")).await?;
        let same = |now: &Store| {
            (&now.metadata.uid, now.metadata.generation)
                == (&self.store.metadata.uid, self.store.metadata.generation)
        };
        Ok(now.as_ref().is_some_and(same))
    }

    /// Returns the namespace of the store.
    pub fn namespace(&self) -> String {
        self.store.namespace().unwrap_or_default()
    }

    /// Returns the name of a child.
    pub fn name(&self, suffix: &str) -> String {
        format!("{}{suffix}", self.store.name_any())
    }

    /// Returns the key of a child.
    pub fn key(&self, suffix: &str) -> Key {
        Key::new(Some(&self.namespace()), &self.name(suffix))
    }

    /// Returns the metadata of a child that goes with the store.
    ///
    /// # Errors
    /// If the store has no uid.
    pub fn owned(&self, suffix: &str) -> Result<Value, Error> {
        let owner = controller_reference(self.store)?;
        Ok(json!({"name": self.name(suffix), "namespace": self.namespace(), "ownerReferences": [owner]}))
    }
}
