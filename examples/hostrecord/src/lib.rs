//! The HostRecord operator: it keeps a file outside the cluster for each record. A garbage collector cannot remove that
//! file and no watch tells of its changes, so this example needs a finalizer, a channel and a timer.

mod drift;
mod folder;
pub mod types;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Service;
use kube::CustomResourceExt;
use serde_json::{Value, json};
use setpoint::finalizer::Lifecycle;
use setpoint::informer::Index;
use setpoint::manifests::{Installation, Rule};
use setpoint::{
    Action, Client, Context, Controller, Error, Key, Manager, Object, Predicate, Reconciler, SetupError,
    Watch, predicate,
};
use tokio::sync::mpsc;
use tracing::info;

pub use drift::LOOK_EVERY;
pub use folder::Folder;
pub use types::{HostRecord, HostRecordSpec, HostRecordStatus, State};

/// The operator's name: of its lease and as field owner.
pub const NAME: &str = "hostrecord-operator";
/// Keeps a deleted record until its file is gone.
pub const FINALIZER: &str = "dns.example.com/hosts-file";
/// The index of the records by their Service.
const BY_SERVICE: &str = "service";
/// Keys that wait in the channel. The task that fills it waits while it is full.
const CHANNEL: usize = 100;

/// Registers the controller, and the task that watches the folder.
///
/// # Errors
/// If the manager has stopped, or has this controller already.
pub fn register(manager: &Manager, folder: Folder) -> Result<(), SetupError> {
    let informer = manager.informer::<HostRecord>();
    // Fails only if the index is there already.
    let _ = informer.add_index(Index::new(BY_SERVICE, |record| {
        let service = record.path("spec.service").unwrap_or_default();
        vec![format!("{}/{service}", record.namespace().unwrap_or_default())]
    }));
    let records = informer.lister::<HostRecord>();
    let (queue, drifted) = mpsc::channel(CHANNEL);
    let drift = drift::Drift { folder: folder.clone(), records: records.clone(), queue };
    manager.add("hosts-folder", move |stop| drift.watch(stop))?;
    Controller::for_kind::<HostRecord>(manager)
        // A status that this controller wrote does not queue the record again.
        .with_predicate(predicate::generation_changed())
        // A Service has no owner reference to its records: the index maps it to them.
        .watches(
            Watch::of::<Service>()
                .map(move |service| {
                    let snapshot = records.snapshot();
                    let of_service = snapshot.by_index(BY_SERVICE, service.key().as_str());
                    of_service.into_iter().flatten().map(|record| record.key().clone()).collect()
                })
                .with_predicate(Predicate::on_update(|old, new| cluster_ip(old) != cluster_ip(new))),
        )
        .channel("hosts-folder", drifted)
        .field_owner(NAME)
        .register(Records(folder))?;
    Ok(())
}

struct Records(Folder);

impl Reconciler for Records {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let client = ctx.client();
        let lifecycle = client.lifecycle::<HostRecord>(&key, FINALIZER, async |_| {
            info!(object = %key, "the record is being deleted; removing its file");
            self.0.set(&key, None)?;
            Ok(())
        });
        let Lifecycle::Alive(record) = lifecycle.await? else { return Ok(Action::done()) };
        let left = time_left(&record, ctx.now());
        let status = match left {
            Some(Duration::ZERO) => HostRecordStatus { state: State::Expired, address: None },
            _ => observe(client, &key, &record).await?,
        };
        let line = status.address.as_deref().map(|address| record.line(address));
        if self.0.set(&key, line.as_deref())? {
            info!(object = %key, state = ?status.state, "changed the file");
        }
        if record.status.as_ref() != Some(&status) {
            info!(object = %key, state = ?status.state, "updating status");
            let updated = HostRecord { status: Some(status), ..(*record).clone() };
            client.patch_status_from(&*record, &updated).await?;
        }
        // Nothing changes in the cluster when the time is over: only a timer calls again.
        Ok(left.filter(|left| !left.is_zero()).map_or(Action::done(), Action::requeue_after))
    }
}

/// Reads the address of the record's Service.
async fn observe(client: &Client, key: &Key, record: &HostRecord) -> Result<HostRecordStatus, Error> {
    let namespace = key.namespace().unwrap_or_default();
    let service = client.get::<Service>((namespace, record.spec.service.as_str())).await?;
    let address = service.as_ref().and_then(|service| service.spec.as_ref()?.cluster_ip.clone());
    // A headless Service has `None`, and one of type ExternalName has nothing.
    let address = address.filter(|address| !address.is_empty() && address != "None");
    let state = if address.is_some() { State::Published } else { State::Waiting };
    Ok(HostRecordStatus { state, address })
}

/// Returns the time until the record expires, zero once it has, or `None` if it never does.
fn time_left(record: &HostRecord, now: Timestamp) -> Option<Duration> {
    let expires = record.spec.expires.as_ref()?.0;
    Some(Duration::try_from(expires.duration_since(now)).unwrap_or_default())
}

fn cluster_ip(service: &Object) -> Option<String> {
    service.path("spec.clusterIP")
}

/// The custom resource definition.
pub fn definition() -> Value {
    serde_json::to_value(HostRecord::crd()).expect("a definition has a JSON form")
}

/// Everything that the operator needs in a cluster, with the rights that it uses and no other. A DNS server that runs
/// as a second container reads the volume `hosts`.
pub fn manifests(image: &str) -> Vec<Value> {
    let args = ["--leader-elect", "--health-probe-bind-address=0.0.0.0:8081", "--hosts-dir=/hosts"];
    let operator = Installation {
        name: NAME.into(),
        namespace: "hostrecord-system".into(),
        image: image.into(),
        command: vec![NAME.into()],
        args: args.map(Into::into).into(),
        rules: Rule::parse(include_str!("../rights.yaml")).expect("the trial of rights reads the file"),
    };
    let mut manifests = operator.manifests();
    if let Some(deployment) = manifests.last_mut() {
        let pod = &mut deployment["spec"]["template"]["spec"];
        pod["volumes"] = json!([{"name": "hosts", "emptyDir": {}}]);
        pod["containers"][0]["volumeMounts"] = json!([{"name": "hosts", "mountPath": "/hosts"}]);
    }
    std::iter::once(definition()).chain(manifests).collect()
}
