//! Finalizers as a lifecycle: present while the object lives, removed once `on_delete` has cleaned up.

use std::sync::Arc;

use serde_json::{Value, json};
use setpoint_api::status::Reason;

use crate::client::{Client, Kind, Patch};
use crate::error::{ClientError, Error, NotFoundExt};
use crate::key::{Key, KeyFor};

/// The message of kube-apiserver if a test within a JSON patch fails.
const TEST_FAILED: &str = "the server rejected our request due to an error in our request";

/// Whether an object has a finalizer.
pub fn has_finalizer<K: kube::Resource>(object: &K, finalizer: &str) -> bool {
    object.meta().finalizers.as_deref().unwrap_or_default().iter().any(|known| known == finalizer)
}

/// Adds a finalizer to an object in memory. Says whether it was missing.
pub fn add_finalizer<K: kube::Resource>(object: &mut K, finalizer: &str) -> bool {
    if has_finalizer(object, finalizer) {
        return false;
    }
    object.meta_mut().finalizers.get_or_insert_default().push(finalizer.to_owned());
    true
}

/// Removes a finalizer from an object in memory. Says whether it was there.
pub fn remove_finalizer<K: kube::Resource>(object: &mut K, finalizer: &str) -> bool {
    let Some(finalizers) = object.meta_mut().finalizers.as_mut() else { return false };
    let before = finalizers.len();
    finalizers.retain(|known| known != finalizer);
    before != finalizers.len()
}

/// The object, alive and with its finalizer, or on its way out.
#[derive(Clone, Debug)]
pub enum Lifecycle<K> {
    /// It exists and will not vanish before `on_delete` has run.
    Alive(Arc<K>),
    /// It is being deleted; `on_delete` has run, or it was not ours to clean up.
    Deleting,
    /// It does not exist.
    Gone,
}

impl Client {
    /// Reads an object and takes care of its finalizer: adds it while the object lives; once it is being deleted
    /// runs `on_delete` and then removes it. `on_delete` may run more than once.
    ///
    /// ```no_run
    /// # use setpoint::finalizer::Lifecycle;
    /// # use setpoint::{Action, Context, Error, Key};
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # async fn reconcile(ctx: &Context, key: Key) -> Result<Action, Error> {
    /// let lifecycle = ctx
    ///     .client()
    ///     .lifecycle::<ConfigMap>(&key, "example.org/bucket", async |config| {
    ///         tracing::info!(name = ?config.metadata.name, "removing the bucket");
    ///         Ok(())
    ///     })
    ///     .await?;
    /// let Lifecycle::Alive(config) = lifecycle else { return Ok(Action::done()) };
    /// # drop(config);
    /// # Ok(Action::done())
    /// # }
    /// ```
    ///
    /// Dropping the future also drops `on_delete` at its `.await`. The finalizer then stays, unless the request that
    /// removes it was sent already.
    ///
    /// # Errors
    /// An error of `on_delete` or from the server. After an error of `on_delete` the finalizer stays.
    pub async fn lifecycle<K: Kind>(
        &self,
        key: impl KeyFor<K::Scope>,
        finalizer: &str,
        on_delete: impl AsyncFnOnce(Arc<K>) -> Result<(), Error>,
    ) -> Result<Lifecycle<K>, Error> {
        let key = key.into_key();
        let Some(object) = self.get::<K>(&key).await? else { return Ok(Lifecycle::Gone) };
        let present = has_finalizer(&*object, finalizer);
        if object.meta().deletion_timestamp.is_none() {
            if present {
                return Ok(Lifecycle::Alive(object));
            }
            let mut finalizers = object.meta().finalizers.clone().unwrap_or_default();
            finalizers.push(finalizer.to_owned());
            // As it was read: what became something else meanwhile is looked at anew.
            let unchanged = ("/metadata/resourceVersion", json!(object.meta().resource_version));
            let written = self.write_finalizers::<K>(&key, &object, unchanged, &finalizers).await?;
            return Ok(written.map_or(Lifecycle::Gone, |object| Lifecycle::Alive(Arc::new(object))));
        }
        if present {
            on_delete(Arc::clone(&object)).await?;
            let mut finalizers = object.meta().finalizers.clone().unwrap_or_default();
            finalizers.retain(|known| known != finalizer);
            // `on_delete` and others may write to the object meanwhile: it would run again for each.
            let unchanged = ("/metadata/finalizers", json!(object.meta().finalizers));
            self.write_finalizers::<K>(&key, &object, unchanged, &finalizers).await?;
        }
        Ok(Lifecycle::Deleting)
    }

    /// Replaces the finalizers of this very object, provided that nobody changed them meanwhile.
    async fn write_finalizers<K: Kind>(
        &self,
        key: &Key,
        object: &K,
        (place, unchanged): (&str, Value),
        finalizers: &[String],
    ) -> Result<Option<K>, ClientError> {
        let before = object.meta().finalizers.as_ref().map_or(Value::Null, |list| json!(list));
        let patch = Patch::Json(json!([
            {"op": "test", "path": "/metadata/uid", "value": object.meta().uid},
            {"op": "test", "path": place, "value": unchanged},
            match before {
                Value::Null => json!({"op": "add", "path": "/metadata/finalizers", "value": finalizers}),
                _ => json!({"op": "replace", "path": "/metadata/finalizers", "value": finalizers}),
            },
        ]));
        match self.patch::<K>(key, &patch).await.ignore_not_found() {
            // A failed test is answered as an invalid patch, in these words: somebody else wrote first.
            Err(ClientError::Api(mut refused))
                if refused.status.code == 422 && refused.status.message.starts_with(TEST_FAILED) =>
            {
                refused.status.code = 409;
                refused.status.reason = Reason::Conflict;
                Err(ClientError::Api(refused))
            }
            answer => answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;

    #[test]
    fn finalizers_are_added_and_removed_once() {
        let mut object = ConfigMap::default();
        assert!(add_finalizer(&mut object, "a") && !add_finalizer(&mut object, "a"));
        assert!(has_finalizer(&object, "a") && !has_finalizer(&object, "b"));
        assert!(remove_finalizer(&mut object, "a") && !remove_finalizer(&mut object, "a"));
    }
}
