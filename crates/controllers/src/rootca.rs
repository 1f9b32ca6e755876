//! The root CA publisher: every namespace has the bundle by which pods know the API server.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;
use setpoint::informer::SharedInformer;
use setpoint::{Action, Context, Controller, Error, Key, Manager, Patch, Reconciler, SetupError, Watch};

use crate::serviceaccount::is_active;

const NAME: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
const DESCRIPTION_TEXT: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
    endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across \
    distributions of Kubernetes clusters.";

/// Registers the controller; `bundle` is the CA certificate in PEM.
pub(crate) fn register(manager: &Manager, bundle: &str) -> Result<(), SetupError> {
    // Only these are cached, not every ConfigMap of the cluster.
    let target = manager.target::<ConfigMap>().fields(&format!("metadata.name={NAME}"));
    let published = manager.informer_of(target.clone());
    Controller::for_kind::<Namespace>(manager)
        .watches(
            Watch::of_target(target).map(|object| object.namespace().map(Key::cluster).into_iter().collect()),
        )
        .named("root-ca-certificate-publisher")
        .field_owner(crate::FIELD_OWNER)
        .register(Publisher { bundle: bundle.into(), published })?;
    Ok(())
}

struct Publisher {
    bundle: Arc<str>,
    published: SharedInformer,
}

impl Reconciler for Publisher {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let client = ctx.client();
        let namespace = client.get::<Namespace>(&key).await?;
        if !namespace.is_some_and(|namespace| is_active(&namespace)) {
            return Ok(Action::done());
        }
        let bundle_key = Key::new(Some(key.name()), NAME);
        let present = self
            .published
            .store()
            .get(bundle_key.as_str())
            .map(|object| object.decode::<ConfigMap>())
            .transpose()?;
        let written = match present {
            None => client.create(&config_map(key.name(), &self.bundle)).await,
            Some(present) if is_right(&present, &self.bundle) => return Ok(Action::done()),
            Some(_) => {
                let patch = json!([
                    { "op": "add", "path": "/data", "value": { "ca.crt": &*self.bundle } },
                    { "op": "add", "path": "/metadata/annotations", "value": { DESCRIPTION: DESCRIPTION_TEXT } },
                ]);
                client.patch::<ConfigMap>(&bundle_key, &Patch::Json(patch)).await
            }
        };
        match written {
            // The ConfigMap was created before the cache showed it. The next event shows its content.
            Err(error) if error.is_already_exists() || error.is_namespace_terminating() => Ok(Action::done()),
            Err(error) if error.is_not_found() => Ok(Action::done()),
            other => other.map(|_| Action::done()).map_err(Error::from),
        }
    }
}

fn config_map(namespace: &str, bundle: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(NAME.into()),
            namespace: Some(namespace.into()),
            annotations: Some(BTreeMap::from([(DESCRIPTION.into(), DESCRIPTION_TEXT.into())])),
            ..Default::default()
        },
        data: Some(BTreeMap::from([("ca.crt".into(), bundle.into())])),
        ..Default::default()
    }
}

fn is_right(present: &ConfigMap, bundle: &str) -> bool {
    let data = present.data.as_ref();
    let only =
        data.is_some_and(|data| data.len() == 1 && data.get("ca.crt").map(String::as_str) == Some(bundle));
    let annotations = present.metadata.annotations.as_ref();
    only && annotations.is_some_and(|annotations| annotations.contains_key(DESCRIPTION))
}
