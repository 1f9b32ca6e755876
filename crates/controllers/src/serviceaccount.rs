//! Service accounts: every namespace has one called `default`.

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use setpoint::{Action, Context, Controller, Error, Key, Manager, Reconciler, SetupError, Watch};

/// The account that pods have unless they name another.
const DEFAULT: &str = "default";

/// Registers the controller.
pub(crate) fn register(manager: &Manager) -> Result<(), SetupError> {
    Controller::for_kind::<Namespace>(manager)
        .watches(Watch::of::<ServiceAccount>().map_changes(|change| {
            let gone = change.old.filter(|old| change.new.is_none() && old.name() == DEFAULT);
            gone.and_then(|gone| gone.namespace()).map(Key::cluster).into_iter().collect()
        }))
        .named("serviceaccount-controller")
        .field_owner(crate::FIELD_OWNER)
        .register(ServiceAccounts)?;
    Ok(())
}

struct ServiceAccounts;

impl Reconciler for ServiceAccounts {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let client = ctx.client();
        let Some(namespace) = client.get::<Namespace>(&key).await? else { return Ok(Action::done()) };
        let account_key = Key::new(Some(key.name()), DEFAULT);
        if !is_active(&namespace) || client.get::<ServiceAccount>(&account_key).await?.is_some() {
            return Ok(Action::done());
        }
        let account = ServiceAccount {
            metadata: ObjectMeta {
                name: Some(DEFAULT.into()),
                namespace: Some(key.name().to_owned()),
                ..Default::default()
            },
            ..Default::default()
        };
        match client.create(&account).await {
            Err(error) if !error.is_already_exists() && !error.is_namespace_terminating() => {
                Err(error.into())
            }
            _ => Ok(Action::done()),
        }
    }
}

/// Whether something may still be created in it.
pub(crate) fn is_active(namespace: &Namespace) -> bool {
    let phase = namespace.status.as_ref().and_then(|status| status.phase.as_deref());
    namespace.metadata.deletion_timestamp.is_none() && phase != Some("Terminating")
}
