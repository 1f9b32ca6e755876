//! Hooks that see calls before they are made.

use std::sync::Arc;

use crate::error::ClientError;

/// The verb of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Read one object.
    Get,
    /// Read several.
    List,
    /// Create an object.
    Create,
    /// Replace an object.
    Update,
    /// Change an object.
    Patch,
    /// Server-side apply.
    Apply,
    /// Delete an object.
    Delete,
    /// Delete several.
    DeleteCollection,
}

/// A call that is about to be made.
#[derive(Clone, Copy, Debug)]
pub struct Intercepted<'a> {
    /// The verb.
    pub verb: Verb,
    /// The kind it concerns.
    pub kind: &'a str,
    /// The namespace, if it names one.
    pub namespace: Option<&'a str>,
    /// The object, if it names one.
    pub name: Option<&'a str>,
    /// The subresource, if it goes to one.
    pub subresource: Option<&'a str>,
    /// Whether it goes to the server: cached reads do not.
    pub live: bool,
}

type Hook = Arc<dyn Fn(&Intercepted<'_>) -> Result<(), ClientError> + Send + Sync>;

#[derive(Clone, Default)]
pub(super) struct Interceptors(Arc<[Hook]>);

impl Interceptors {
    pub(super) fn with(
        &self,
        hook: impl Fn(&Intercepted<'_>) -> Result<(), ClientError> + Send + Sync + 'static,
    ) -> Self {
        let hook: Hook = Arc::new(hook);
        Interceptors(self.0.iter().cloned().chain([hook]).collect())
    }

    pub(super) fn check(&self, call: &Intercepted<'_>) -> Result<(), ClientError> {
        self.0.iter().try_for_each(|hook| hook(call))
    }
}
