//! `caBundle` in the configurations and definitions that lead to the webhooks.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::core::ApiResource;
use serde_json::{Value, json};

use crate::client::{Client, Patch};
use crate::error::{ClientError, Error};
use crate::key::Key;
use crate::webhook::own::{self, OwnObject};

/// An object that holds a `caBundle`.
#[derive(Clone, Debug)]
pub(in crate::webhook) struct Holder {
    pub(in crate::webhook) resource: ApiResource,
    pub(in crate::webhook) name: String,
    pub(in crate::webhook) place: Place,
}

/// The place of the `caBundle` in its object.
#[derive(Clone, Debug)]
pub(in crate::webhook) enum Place {
    /// In the webhooks of these names.
    Webhooks(Vec<String>),
    /// In the conversion stanza.
    Conversion,
}

/// Whether an object holds the authorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    Yes,
    /// It does now.
    Written,
    /// The object, or a part of it, is not installed.
    NotInstalled,
}

impl Holder {
    /// Makes the object hold these authorities and no others.
    pub(super) async fn publish(
        &self,
        client: &Client,
        authorities: &str,
        own: &[OwnObject],
    ) -> Result<Held, Error> {
        let api = client.dynamic(&self.resource);
        let key = Key::cluster(&self.name);
        let Some(object) = self.read(client, own).await? else { return Ok(self.not_installed("the object")) };
        let (operations, missing) = self.operations(&object, &STANDARD.encode(authorities));
        let changed = !operations.is_empty();
        if changed {
            let written: Result<Value, ClientError> = api.patch(&key, &Patch::Json(operations.into())).await;
            written?;
            tracing::info!(kind = self.resource.kind, name = self.name, "wrote the caBundle of the webhooks");
        }
        let held = if changed { Held::Written } else { Held::Yes };
        Ok(missing.map_or(held, |missing| self.not_installed(&missing)))
    }

    /// Fails if the object would lead reviews of the operator's own objects here.
    pub(super) async fn check(&self, client: &Client, own: &[OwnObject]) -> Result<(), Error> {
        self.read(client, own).await.map(drop)
    }

    async fn read(&self, client: &Client, own: &[OwnObject]) -> Result<Option<Value>, Error> {
        let object = client.live().get_value(&self.resource, Key::cluster(&self.name)).await?;
        match object.as_ref().and_then(|object| own::refusal(object, own)) {
            Some(refusal) => Err(Error::terminal(refusal)),
            None => Ok(object),
        }
    }

    fn not_installed(&self, what: &str) -> Held {
        let (kind, name) = (&self.resource.kind, &self.name);
        tracing::warn!(
            kind,
            name,
            missing = what,
            "a webhook is not installed: apply the operator's manifests"
        );
        Held::NotInstalled
    }

    /// The operations that write the bundle, and the part of the object that is missing.
    fn operations(&self, object: &Value, bundle: &str) -> (Vec<Value>, Option<String>) {
        match &self.place {
            Place::Conversion => {
                let config = &object["spec"]["conversion"]["webhook"]["clientConfig"];
                if !config.is_object() {
                    return (Vec::new(), Some("spec.conversion.webhook".to_owned()));
                }
                let path = "/spec/conversion/webhook/clientConfig/caBundle";
                let add = json!({"op": "add", "path": path, "value": bundle});
                let differs = config["caBundle"] != bundle;
                (differs.then_some(add).into_iter().collect(), None)
            }
            Place::Webhooks(names) => {
                let found = object["webhooks"].as_array().map(Vec::as_slice).unwrap_or_default();
                let mut operations = Vec::new();
                for (at, webhook) in found.iter().enumerate() {
                    let named = names.iter().any(|name| webhook["name"] == *name);
                    if named && webhook["clientConfig"]["caBundle"] != bundle {
                        let path = |field: &str| format!("/webhooks/{at}/{field}");
                        // Others may have moved the webhooks in between.
                        operations
                            .push(json!({"op": "test", "path": path("name"), "value": webhook["name"]}));
                        let place = path("clientConfig/caBundle");
                        operations.push(json!({"op": "add", "path": place, "value": bundle}));
                    }
                }
                let missing =
                    names.iter().find(|name| !found.iter().any(|webhook| webhook["name"] == **name));
                (operations, missing.cloned())
            }
        }
    }
}
