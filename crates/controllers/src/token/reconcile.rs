//! The thin part: fill a Secret, or delete it with its account.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use serde_json::json;
use setpoint::informer::{Index, Lister};
use setpoint::predicate::Change;
use setpoint::{
    Action, Client, Context, Controller, DeleteOptions, Error, Key, Manager, NotFoundExt, Object, Patch,
    Reconciler, SetupError, Watch,
};

use super::TokenSigner;
use super::plan::{ACCOUNT, TYPE, account_of, filled, is_for};

/// Finds token Secrets by the account that they name.
const BY_ACCOUNT: &str = "account";

/// Registers the controllers: one for the Secrets, one for the accounts that list them.
pub(crate) fn register(
    manager: &Manager,
    signer: &TokenSigner,
    root_ca: Option<&str>,
) -> Result<(), SetupError> {
    // Only these are cached, not every Secret of the cluster.
    let target = manager.target::<Secret>().fields(&format!("type={TYPE}"));
    let informer = manager.informer_of(target.clone());
    let index = Index::new(BY_ACCOUNT, |secret| vec![account_key(secret.namespace(), &named(secret))]);
    // A second manager's controller finds it there.
    let _ = informer.add_index(index);
    let secrets = informer.lister::<Secret>();
    Controller::for_target(manager, target.clone())
        .watches(Watch::of::<ServiceAccount>().map_changes(move |change| orphaned(change, &secrets)))
        .named("serviceaccount-token-controller")
        .field_owner(crate::FIELD_OWNER)
        .register(Tokens { signer: signer.clone(), root_ca: root_ca.map(Into::into) })?;
    Controller::new(manager, "serviceaccount-token-reference-controller")
        .watches(Watch::of_target(target).map_changes(listed))
        .field_owner(crate::FIELD_OWNER)
        .register(References)?;
    Ok(())
}

fn named(secret: &Object) -> String {
    secret.annotations().remove(ACCOUNT).unwrap_or_default()
}

fn account_key(namespace: Option<&str>, name: &str) -> String {
    format!("{}/{name}", namespace.unwrap_or_default())
}

/// The Secrets of an account that is gone, or that another took the place of.
fn orphaned(change: &Change<'_>, secrets: &Lister<Secret>) -> Vec<Key> {
    let Some(old) = change.old else { return Vec::new() };
    if change.new.is_some_and(|new| new.uid() == old.uid()) {
        return Vec::new();
    }
    let found = secrets.by_index(BY_ACCOUNT, &account_key(old.namespace(), old.name())).unwrap_or_default();
    let names = found.iter().filter_map(|secret| secret.metadata.name.as_deref());
    names.map(|name| Key::namespaced(old.namespace().unwrap_or_default(), name)).collect()
}

struct Tokens {
    signer: TokenSigner,
    root_ca: Option<Arc<str>>,
}

impl Reconciler for Tokens {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let client = ctx.client();
        let Some(secret) = client.get::<Secret>(&key).await? else { return Ok(Action::done()) };
        let Some(account) = account(client, &secret).await? else {
            let options = DeleteOptions::default().uid(secret.metadata.uid.as_deref().unwrap_or_default());
            return match client.delete_with::<Secret>(&key, &options).await.ignore_not_found() {
                // Another came in its place: there is an event for that.
                Err(error) if error.is_conflict() => Ok(Action::done()),
                other => other.map(|_| Action::done()).map_err(Error::from),
            };
        };
        let filled = filled(&secret, &account, self.root_ca.as_deref(), |claims| self.signer.sign(claims));
        let Some(filled) = filled else { return Ok(Action::done()) };
        match client.update(&filled).await.ignore_not_found() {
            Err(error) if error.is_conflict() => Ok(Action::done()),
            other => other.map(|_| Action::done()).map_err(Error::from),
        }
    }
}

/// The account that a Secret is for. The server is asked before a Secret is deleted because a cache was behind.
async fn account(client: &Client, secret: &Secret) -> Result<Option<ServiceAccount>, Error> {
    let key = Key::new(secret.metadata.namespace.as_deref(), account_of(secret));
    let cached = client.get::<ServiceAccount>(&key).await?;
    if let Some(account) = cached.filter(|account| is_for(secret, account)) {
        return Ok(Some((*account).clone()));
    }
    let account = client.live().get::<ServiceAccount>(&key).await?;
    Ok(account.filter(|account| is_for(secret, account)))
}

/// The account that a deleted Secret named, and the Secret: neither name has a colon.
fn listed(change: &Change<'_>) -> Vec<Key> {
    let (Some(old), None) = (change.old, change.new) else { return Vec::new() };
    let name = format!("{}:{}", named(old), old.name());
    vec![Key::namespaced(old.namespace().unwrap_or_default(), &name)]
}

/// Removes deleted token Secrets from the lists of their accounts.
struct References;

impl Reconciler for References {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let Some((account, secret)) = key.name().split_once(':') else { return Ok(Action::done()) };
        let client = ctx.client();
        let account_key = Key::new(key.namespace(), account);
        let Some(account) = client.live().get::<ServiceAccount>(&account_key).await? else {
            return Ok(Action::done());
        };
        let listed = account.secrets.unwrap_or_default();
        let is_gone = |name: Option<&str>| name == Some(secret);
        if !listed.iter().any(|reference| is_gone(reference.name.as_deref())) {
            return Ok(Action::done());
        }
        let kept: Vec<_> =
            listed.into_iter().filter(|reference| !is_gone(reference.name.as_deref())).collect();
        // Others write the list too: it is replaced only as it was seen.
        let version = account.metadata.resource_version.unwrap_or_default();
        let patch = Patch::Merge(json!({ "secrets": kept })).locked(&version);
        client.patch::<ServiceAccount>(&account_key, &patch).await.ignore_not_found()?;
        Ok(Action::done())
    }
}
