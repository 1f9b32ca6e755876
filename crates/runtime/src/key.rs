//! Names of objects inside one kind: `namespace/name`, or `name` if the kind has no namespaces.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::core::DynamicResourceScope;

/// Names one object of a kind: `namespace/name`, or `name` if the kind has no namespaces.
///
/// Caches, queues, reconcilers and the client all use this type. Cloning shares the text. Keys sort by their text, so
/// all keys of a namespace lie side by side.
///
/// ```
/// use setpoint::Key;
/// let key = Key::namespaced("default", "web-0");
/// assert_eq!(key.as_str(), "default/web-0");
/// assert_eq!((key.namespace(), key.name()), (Some("default"), "web-0"));
/// assert_eq!(Key::cluster("node-1").namespace(), None);
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// The key of `name` in `namespace`.
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        Key::new(Some(namespace), name)
    }

    /// The key of an object whose kind has no namespaces.
    pub fn cluster(name: &str) -> Self {
        Key::new(None, name)
    }

    /// Joins a namespace and a name. An empty namespace counts as none.
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        Key(join_key(namespace, name).into())
    }

    /// Reads a key as [`Key::as_str`] writes it.
    ///
    /// # Errors
    /// When there is more than one slash or nothing on one side of it.
    pub fn parse(key: &str) -> Result<Self, KeyError> {
        split_key(key)?;
        Ok(Key(key.into()))
    }

    /// Joins in a buffer that is used again, so that a key costs one allocation.
    pub(crate) fn join_in(buffer: &mut String, namespace: Option<&str>, name: &str) -> Self {
        buffer.clear();
        if let Some(namespace) = namespace.filter(|namespace| !namespace.is_empty()) {
            buffer.push_str(namespace);
            buffer.push('/');
        }
        buffer.push_str(name);
        Key(buffer.as_str().into())
    }

    /// The whole key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The namespace, if the object has one.
    pub fn namespace(&self) -> Option<&str> {
        memchr::memchr(b'/', self.0.as_bytes()).map(|slash| &self.0[..slash])
    }

    /// The object's name.
    pub fn name(&self) -> &str {
        match memchr::memchr(b'/', self.0.as_bytes()) {
            Some(slash) => &self.0[slash + 1..],
            None => &self.0,
        }
    }
}

impl Key {
    /// Metadata with this name and namespace and nothing else: the beginning of an object to create or apply.
    pub fn metadata(&self) -> ObjectMeta {
        ObjectMeta {
            name: Some(self.name().to_owned()),
            namespace: self.namespace().map(str::to_owned),
            ..ObjectMeta::default()
        }
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl From<&Key> for Key {
    fn from(key: &Key) -> Self {
        key.clone()
    }
}

/// Names an object of a kind with this scope: `(namespace, name)` for a kind in namespaces, `name` for a kind without
/// them, and a [`Key`] for both. Of a kind that is known only at run time both forms are accepted. A mistake does not
/// compile:
///
/// ```compile_fail
/// # use k8s_openapi::api::core::v1::Pod;
/// # async fn example(client: &setpoint::Client) {
/// client.get::<Pod>("web-0").await;
/// # }
/// ```
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::{Node, Pod};
/// # async fn example(client: &setpoint::Client) -> Result<(), setpoint::ClientError> {
/// client.get::<Pod>(("default", "web-0")).await?;
/// client.get::<Node>("node-1").await?;
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not name an object of this kind",
    label = "use `(namespace, name)` for a kind in namespaces, `name` for a kind without them, or a `Key`"
)]
pub trait KeyFor<Scope> {
    /// The key that it stands for.
    fn into_key(self) -> Key;
}

impl<Scope> KeyFor<Scope> for Key {
    fn into_key(self) -> Key {
        self
    }
}

impl<Scope> KeyFor<Scope> for &Key {
    fn into_key(self) -> Key {
        self.clone()
    }
}

impl KeyFor<NamespaceResourceScope> for (&str, &str) {
    fn into_key(self) -> Key {
        let (namespace, name) = self;
        Key::namespaced(namespace, name)
    }
}

impl KeyFor<ClusterResourceScope> for &str {
    fn into_key(self) -> Key {
        Key::cluster(self)
    }
}

impl KeyFor<DynamicResourceScope> for (&str, &str) {
    fn into_key(self) -> Key {
        let (namespace, name) = self;
        Key::namespaced(namespace, name)
    }
}

impl KeyFor<DynamicResourceScope> for &str {
    fn into_key(self) -> Key {
        Key::cluster(self)
    }
}

/// A text that is no `namespace/name` key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unexpected key format: {key:?}")]
pub struct KeyError {
    /// The text that was given.
    pub key: String,
}

/// Splits `namespace/name` or `name` (client-go's `SplitMetaNamespaceKey`).
///
/// # Errors
/// When there is more than one slash or nothing on one side of it.
pub fn split_key(key: &str) -> Result<(Option<&str>, &str), KeyError> {
    let malformed = || KeyError { key: key.to_owned() };
    let (namespace, name) = match key.split_once('/') {
        None => (None, key),
        Some((namespace, name)) if !namespace.is_empty() && !name.contains('/') => (Some(namespace), name),
        Some(_) => return Err(malformed()),
    };
    if name.is_empty() { Err(malformed()) } else { Ok((namespace, name)) }
}

/// Joins what [`split_key`] splits (client-go's `MetaNamespaceKeyFunc`); an empty namespace counts as none.
pub fn join_key(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) if !namespace.is_empty() => format!("{namespace}/{name}"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_split_as_they_were_joined() {
        for (namespace, name) in [(Some("kube-system"), "dns"), (None, "node-1")] {
            assert_eq!(split_key(&join_key(namespace, name)), Ok((namespace, name)));
        }
        assert_eq!(join_key(Some(""), "node-1"), "node-1");
    }

    #[test]
    fn malformed_keys_are_refused() {
        for key in ["", "a/b/c", "/name", "namespace/", "/"] {
            assert_eq!(Key::parse(key), Err(KeyError { key: key.to_owned() }));
        }
    }
}
