//! The thin part of the binder: read, decide, write one side after the other, tell.

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::{Value, json};
use setpoint::recorder::{EventApi, reference};
use setpoint::{
    Action, Client, ClientError, Context, Controller, Error, Key, Kind, Manager, Patch, Query, Reconciler,
    SetupError, Watch,
};

use super::{Notice, bind, claim, release, trigger};
use crate::object::pod::{claim_name, is_terminal, node_name, volumes};

/// The name under which people know the events of volumes.
const SOURCE: &str = "persistentvolume-controller";

/// Registers the controllers: one for claims, one for volumes.
pub(crate) fn register(manager: &Manager) -> Result<(), SetupError> {
    let (claims, volumes) = (trigger::claims(manager), trigger::volumes(manager));
    let waiting = claims.clone();
    Controller::for_kind::<PersistentVolumeClaim>(manager)
        .watches(
            Watch::of::<PersistentVolume>().map_changes(move |change| trigger::of_volume(change, &claims)),
        )
        .watches(Watch::of::<StorageClass>().map_changes(move |change| trigger::of_class(change, &waiting)))
        .reads::<Pod>()
        .named("persistentvolume-binder")
        .events(SOURCE, EventApi::CoreV1)
        .field_owner(crate::FIELD_OWNER)
        .register(Claims)?;
    Controller::for_kind::<PersistentVolume>(manager)
        .watches(
            Watch::of::<PersistentVolumeClaim>()
                .map_changes(move |change| trigger::of_claim(change, &volumes)),
        )
        .named("persistentvolume-binder-volumes")
        .events(SOURCE, EventApi::CoreV1)
        .field_owner(crate::FIELD_OWNER)
        .register(Volumes)?;
    Ok(())
}

struct Claims;

impl Reconciler for Claims {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let client = ctx.client();
        let Some(claim) = client.get::<PersistentVolumeClaim>(&key).await? else {
            return Ok(Action::done());
        };
        let volumes = client.list::<PersistentVolume>(Query::all()).await?;
        let classes = client.list::<StorageClass>(Query::all()).await?;
        match claim::step(&claim, &volumes, &classes) {
            claim::Step::Bind(volume) => bind(client, volume, &claim).await?,
            claim::Step::Assign(class) => {
                let patch = json!({ "spec": { "storageClassName": class } });
                write(client, &*claim, Some(patch)).await?;
            }
            claim::Step::Provision(provisioner) => {
                write(client, &*claim, bind::provisioner(&claim, provisioner)).await?;
                record(ctx, &*claim, &external(provisioner));
            }
            claim::Step::AwaitConsumer => {
                record(ctx, &*claim, &claim::awaited(&consumers(client, &claim).await?));
                write_status(client, &*claim, bind::claim_status(&claim, "Pending", None)).await?;
            }
            claim::Step::Wait(notice) => {
                notice.iter().for_each(|notice| record(ctx, &*claim, notice));
                write_status(client, &*claim, bind::claim_status(&claim, "Pending", None)).await?;
            }
            claim::Step::Lost(notice) if phase(&claim) != Some("Lost") => {
                write_status(client, &*claim, bind::claim_status(&claim, "Lost", None)).await?;
                record(ctx, &*claim, &notice);
            }
            claim::Step::Lost(_) => {}
        }
        Ok(Action::done())
    }
}

fn phase(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.status.as_ref().and_then(|status| status.phase.as_deref())
}

fn external(provisioner: &str) -> Notice {
    Notice::normal(
        "ExternalProvisioning",
        format!(
            "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the \
             system administrator. If volume creation is delayed, please verify that the provisioner is running and \
             correctly registered."
        ),
    )
}

/// After a crash in between, the written objects lead here again.
async fn bind(
    client: &Client,
    volume: &PersistentVolume,
    claim: &PersistentVolumeClaim,
) -> Result<(), ClientError> {
    let volume = write(client, volume, bind::claim_ref(volume, claim)).await?;
    let volume = write_status(client, &volume, bind::phase(&volume, "Bound", None)).await?;
    let claim = write(client, claim, bind::volume_name(claim, &volume)).await?;
    write_status(client, &claim, bind::claim_status(&claim, "Bound", Some(&volume))).await?;
    Ok(())
}

/// The pods that use a claim and have no node yet.
async fn consumers(client: &Client, claim: &PersistentVolumeClaim) -> Result<Vec<String>, ClientError> {
    let near = Query::namespace(claim.metadata.namespace.clone().unwrap_or_default());
    let pods = client.list::<Pod>(near).await?;
    let uses = |pod: &Pod| volumes(pod).any(|volume| claim_name(pod, volume) == claim.metadata.name);
    let waiting = pods.iter().filter(|pod| !is_terminal(pod) && node_name(pod).is_empty() && uses(pod));
    Ok(waiting.filter_map(|pod| pod.metadata.name.clone()).collect())
}

struct Volumes;

impl Reconciler for Volumes {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let client = ctx.client();
        let Some(volume) = client.get::<PersistentVolume>(&key).await? else {
            return Ok(Action::done());
        };
        let claim = claim_of(client, &volume).await?;
        match release::step(&volume, claim.as_ref()) {
            release::Step::Leave => {}
            release::Step::Phase(phase) => {
                write_status(client, &*volume, bind::phase(&volume, phase, None)).await?;
            }
            release::Step::Release => release(ctx, &volume).await?,
            release::Step::Unbind => {
                let volume = write(client, &*volume, Some(bind::unbound(&volume))).await?;
                write_status(client, &volume, bind::phase(&volume, "Available", None)).await?;
            }
            release::Step::Mismatch { volume: to_volume, claim: to_claim } => {
                record(ctx, &*volume, &to_volume);
                claim.iter().for_each(|claim| record(ctx, claim, &to_claim));
            }
        }
        Ok(Action::done())
    }
}

/// The claim that a volume is bound to, if it is still there. The server is asked before a volume is released because a
/// cache was behind: that cannot be taken back.
async fn claim_of(
    client: &Client,
    volume: &PersistentVolume,
) -> Result<Option<PersistentVolumeClaim>, ClientError> {
    let Some(wanted) = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()) else { return Ok(None) };
    let key = Key::new(wanted.namespace.as_deref(), wanted.name.as_deref().unwrap_or_default());
    let is_it = |claim: &PersistentVolumeClaim| claim.metadata.uid == wanted.uid;
    if let Some(cached) = client.get::<PersistentVolumeClaim>(&key).await?.filter(|claim| is_it(claim)) {
        return Ok(Some((*cached).clone()));
    }
    if release::is_released(volume) || wanted.uid.as_ref().is_none_or(String::is_empty) {
        return Ok(None);
    }
    Ok(client.live().get::<PersistentVolumeClaim>(&key).await?.filter(is_it))
}

async fn release(ctx: &Context, volume: &PersistentVolume) -> Result<(), ClientError> {
    let client = ctx.client();
    let patch = bind::phase(volume, "Released", None).filter(|_| !release::is_released(volume));
    let volume = write_status(client, volume, patch).await?;
    let is_failed = volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Failed");
    if let Some(notice) = release::failure(&volume).filter(|_| !is_failed) {
        write_status(client, &volume, bind::phase(&volume, "Failed", Some(&notice.message))).await?;
        record(ctx, &volume, &notice);
    }
    Ok(())
}

/// Writes to an object as it was read. Returns the new object.
pub(super) async fn write<K: Kind + Clone>(
    client: &Client,
    object: &K,
    patch: Option<Value>,
) -> Result<K, ClientError> {
    match patch {
        None => Ok(object.clone()),
        Some(patch) => client.patch::<K>(key_of(object), &locked(object, patch)).await,
    }
}

async fn write_status<K: Kind + Clone>(
    client: &Client,
    object: &K,
    patch: Option<Value>,
) -> Result<K, ClientError> {
    match patch {
        None => Ok(object.clone()),
        Some(patch) => client.patch_status::<K>(key_of(object), &locked(object, patch)).await,
    }
}

fn key_of<K: Kind>(object: &K) -> Key {
    let meta = object.meta();
    Key::new(meta.namespace.as_deref(), meta.name.as_deref().unwrap_or_default())
}

fn locked<K: Kind>(object: &K, patch: Value) -> Patch {
    Patch::Merge(patch).locked(object.meta().resource_version.as_deref().unwrap_or_default())
}

pub(super) fn record<K: Kind>(ctx: &Context, object: &K, notice: &Notice) {
    ctx.recorder().publish(
        notice.kind,
        reference(object),
        None,
        notice.reason,
        notice.reason,
        notice.message.clone(),
    );
}
