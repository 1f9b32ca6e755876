//! Protection finalizers: an object that is deleted while it is in use goes only when it is no longer used.
//!
//! The API server adds the finalizers to new objects. These controllers remove them, and add them to objects without
//! one.

mod claim;
mod class;
mod unused;
mod volume;

use kube::core::ApiResource;
use serde_json::json;
use setpoint::{Action, Client, ClientError, Error, Key, NotFoundExt, Object, Patch, Predicate};

pub(crate) use claim::register as register_claims;
pub(crate) use class::register as register_classes;
pub(crate) use volume::register as register_volumes;

/// A kind and the finalizer that protects its objects.
struct Protected {
    resource: ApiResource,
    finalizer: &'static str,
}

/// The next step for an object's finalizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The object is active without the finalizer, which should be added.
    Bare,
    /// The object is being deleted: its finalizer is removed once it is no longer used.
    Leaving,
    /// There is nothing to do.
    Settled,
}

fn stage(object: &Object, finalizer: &str) -> Stage {
    let present = object.finalizers().iter().any(|known| known == finalizer);
    match (object.is_terminating(), present) {
        (false, false) => Stage::Bare,
        (true, true) => Stage::Leaving,
        (false, true) | (true, false) => Stage::Settled,
    }
}

/// Passes objects about which there is something to do.
fn unsettled(finalizer: &'static str) -> Predicate {
    Predicate::new(move |change| change.new.is_some_and(|object| stage(object, finalizer) != Stage::Settled))
}

impl Protected {
    /// Does what there is to do about one object; whether it is used is asked only when that matters.
    async fn reconcile<R>(
        &self,
        client: &Client,
        key: &Key,
        in_use: impl FnOnce(Object) -> R,
    ) -> Result<Action, Error>
    where
        R: Future<Output = Result<bool, ClientError>>,
    {
        let Some(object) = client.get_object(&self.resource, key).await? else {
            return Ok(Action::done());
        };
        let mut finalizers = object.finalizers().to_vec();
        match stage(&object, self.finalizer) {
            Stage::Settled => return Ok(Action::done()),
            Stage::Bare => finalizers.push(self.finalizer.to_owned()),
            // The end of its use queues the object again.
            Stage::Leaving if in_use(object.clone()).await? => return Ok(Action::done()),
            Stage::Leaving => finalizers.retain(|known| known != self.finalizer),
        }
        // Others write finalizers too: the list is replaced only as it was seen.
        let patch = Patch::Merge(json!({ "metadata": { "finalizers": finalizers } }))
            .locked(&object.resource_version());
        client.dynamic(&self.resource).patch(object.key(), &patch).await.ignore_not_found()?;
        Ok(Action::done())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_living_are_protected_and_only_the_leaving_released() {
        for (finalizers, leaving, expected) in [
            (vec![], false, Stage::Bare),
            (vec!["other"], false, Stage::Bare),
            (vec!["other", "ours"], false, Stage::Settled),
            (vec!["ours"], true, Stage::Leaving),
            (vec!["other"], true, Stage::Settled),
        ] {
            let mut object =
                json!({ "metadata": { "name": "o", "resourceVersion": "1", "finalizers": finalizers } });
            if leaving {
                object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            }
            let object = Object::from_json(object.to_string().as_bytes()).unwrap();
            assert_eq!(stage(&object, "ours"), expected, "{finalizers:?}, leaving: {leaving}");
        }
    }
}
