//! The collector's eyes: one informer of metadata for every kind that can be listed, watched and deleted, as kinds
//! come and go.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use setpoint::informer::{Event, SubscribeOptions, SyncHandle};
use setpoint::recorder::EventApi;
use setpoint::{Error, Manager, SetupError, Target};
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::collector::Collector;
use super::{Identity, Object, Owner, Uid};
use crate::discovery::{ServerResource, discover};

/// Number of objects that are processed in parallel.
const WORKERS: usize = 20;
/// Interval of discovery without a change of a CRD: aggregated servers announce their kinds in no other way.
const DISCOVERY_PERIOD: Duration = Duration::from_secs(30);
/// Pause after a change of a CRD: a server publishes a kind a moment after its CRD.
const SETTLE: Duration = Duration::from_millis(100);
/// Time limit for the first lists. Afterwards the work begins without them, because missing owners are looked up
/// anyway.
const SYNC_TIMEOUT: Duration = Duration::from_secs(30);

/// Kinds that own nothing and have no owners.
const IGNORED: &[(&str, &str)] = &[("", "events"), ("events.k8s.io", "events")];

/// Registers the collector.
pub(crate) fn register(manager: &Manager) -> Result<(), SetupError> {
    let definitions = manager.target::<CustomResourceDefinition>().metadata_only();
    manager.informer_of(definitions.clone());
    let own = manager.clone();
    manager.add("garbage-collector-controller", move |stopping| run(own, definitions, stopping))
}

async fn run(manager: Manager, definitions: Target, stopping: CancellationToken) -> Result<(), Error> {
    let client = manager.client().with_field_owner(crate::FIELD_OWNER);
    let recorder = manager.recorder("garbage-collector-controller").with_api(EventApi::CoreV1);
    let collector = Arc::new(Collector::new(client, recorder));
    let mut monitors = Monitors {
        manager,
        collector: Arc::clone(&collector),
        kinds: BTreeMap::new(),
        tasks: JoinSet::new(),
    };
    let mut definitions = monitors.manager.informer_of(definitions).subscribe(&SubscribeOptions::default());
    let mut workers = JoinSet::new();
    let mut tick = tokio::time::interval(DISCOVERY_PERIOD);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = stopping.cancelled() => break,
            _ = tick.tick() => {}
            event = definitions.recv() => {
                let Some(event) = event else { break };
                if matches!(event, Event::Add { is_initial: true, .. }) {
                    continue;
                }
                tokio::time::sleep(SETTLE).await;
                while definitions.try_recv().is_some() {}
            }
        }
        let synced = monitors.refresh().await;
        if workers.is_empty() {
            let wait = async {
                for handle in synced {
                    handle.wait().await;
                }
            };
            let _ = tokio::time::timeout(SYNC_TIMEOUT, wait).await;
            for _ in 0..WORKERS {
                workers.spawn(Arc::clone(&collector).work());
            }
        }
    }
    collector.queue.shut_down();
    while workers.join_next().await.is_some() {}
    Ok(())
}

/// The kinds that are watched.
struct Monitors {
    manager: Manager,
    collector: Arc<Collector>,
    kinds: BTreeMap<(String, String), (Arc<ServerResource>, AbortHandle)>,
    tasks: JoinSet<()>,
}

impl Monitors {
    /// Adapts the monitors to the kinds of the server. Returns handles that resolve when the new monitors have
    /// synced.
    async fn refresh(&mut self) -> Vec<SyncHandle> {
        let discovered = match discover(self.manager.client().kube()).await {
            Ok(discovered) => discovered,
            Err(error) => {
                tracing::warn!(%error, "could not discover kinds; the known kinds stay monitored");
                return Vec::new();
            }
        };
        let complete = discovered.failed.is_empty();
        let resources: Vec<Arc<ServerResource>> = discovered.resources.into_iter().map(Arc::new).collect();
        let wanted: BTreeMap<(String, String), &Arc<ServerResource>> = resources
            .iter()
            .filter(|resource| is_collectable(resource))
            .map(|resource| (name_of(resource), resource))
            .collect();
        // A group that does not answer now may answer later: its kinds are not gone.
        let gone: Vec<_> =
            self.kinds.keys().filter(|name| complete && !wanted.contains_key(*name)).cloned().collect();
        for name in gone {
            if let Some((resource, task)) = self.kinds.remove(&name) {
                task.abort();
                self.manager.forget(&target(&resource));
                self.collector.vanish_kind(&resource.resource.api_version, &resource.resource.kind);
            }
        }
        let mut synced = Vec::new();
        for (name, resource) in wanted {
            if !self.kinds.contains_key(&name) {
                synced.push(self.watch(name, resource));
            }
        }
        if complete || self.kinds.is_empty() {
            self.collector.set_resources(resources.into_iter());
        }
        synced
    }

    fn watch(&mut self, name: (String, String), resource: &Arc<ServerResource>) -> SyncHandle {
        let informer = self.manager.informer_of(target(resource));
        let mut subscription = informer.subscribe(&SubscribeOptions::default());
        let synced = subscription.sync_handle();
        let collector = Arc::clone(&self.collector);
        let api_version: Arc<str> = resource.resource.api_version.as_str().into();
        let kind: Arc<str> = resource.resource.kind.as_str().into();
        let task = self.tasks.spawn(async move {
            // Held, so that the informer lives as long as its monitor.
            let _informer = informer;
            while let Some(event) = subscription.recv().await {
                take_in(&collector, &api_version, &kind, &event);
                tokio::task::coop::consume_budget().await;
            }
        });
        self.kinds.insert(name, (Arc::clone(resource), task));
        synced
    }
}

fn target(resource: &ServerResource) -> Target {
    Target::resource(resource.resource.clone()).metadata_only()
}

fn name_of(resource: &ServerResource) -> (String, String) {
    (resource.resource.group.clone(), resource.resource.plural.clone())
}

fn is_collectable(resource: &ServerResource) -> bool {
    let ignored = IGNORED
        .iter()
        .any(|(group, plural)| resource.resource.group == *group && resource.resource.plural == *plural);
    !ignored && ["list", "watch", "delete"].iter().all(|verb| resource.can(verb))
}

fn take_in(collector: &Collector, api_version: &Arc<str>, kind: &Arc<str>, event: &Event) {
    match event {
        Event::Delete { object, .. } => collector.vanish(&object.uid().to_string()),
        Event::Add { object, .. } => collector.observe(observed(api_version, kind, object)),
        Event::Update { old, new } => {
            if old.uid() != new.uid() {
                collector.vanish(&old.uid().to_string());
            }
            collector.observe(observed(api_version, kind, new));
        }
    }
}

fn observed(api_version: &Arc<str>, kind: &Arc<str>, object: &setpoint::Object) -> Object {
    let uid: Uid = object.uid().to_string().into();
    let owners = object.owner_references().iter().map(|reference| Owner {
        api_version: reference.api_version.clone(),
        kind: reference.kind.clone(),
        name: reference.name.clone(),
        uid: reference.uid.as_str().into(),
        blocks: reference.block_owner_deletion == Some(true),
    });
    Object {
        identity: Identity {
            api_version: Arc::clone(api_version),
            kind: Arc::clone(kind),
            namespace: object.namespace().map(Arc::from),
            name: object.name().into(),
            uid,
        },
        resource_version: object.resource_version(),
        owners: owners.collect(),
        deleting: object.is_terminating(),
        finalizers: object.finalizers().to_vec(),
    }
}
