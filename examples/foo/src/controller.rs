//! The controller: what each event queues, and what a key's turn does.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::ResourceExt;
use setpoint::client::{controller_reference, is_controlled_by};
use setpoint::queue::{QueueOptions, WorkQueue};
use setpoint::{
    Client, Error, Event, HandlerRegistration, Key, Lister, Manager, Object, Priority, RateLimiter, Reason,
    Recorder, SharedInformer, SubscribeOptions, wait_for_cache_sync,
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::NAME;
use crate::types::{Foo, FooStatus};

const SYNCED: (&str, &str) = ("Synced", "Foo synced successfully");
const ERR_RESOURCE_EXISTS: &str = "ErrResourceExists";

/// Everything that one turn needs.
#[derive(Clone)]
pub struct Controller {
    client: Client,
    recorder: Recorder,
    queue: WorkQueue<Key>,
    foos: Lister<Foo>,
    deployments: Lister<Deployment>,
    informers: Arc<[SharedInformer]>,
    _handlers: Arc<[HandlerRegistration]>,
}

impl Controller {
    /// Asks the manager for two shared informers and registers a handler with each.
    pub fn new(manager: &Manager) -> Self {
        let foos = manager.informer::<Foo>();
        let deployments = manager.informer::<Deployment>();
        let limiter = RateLimiter::client_go_default();
        let queue = WorkQueue::new("Foos", QueueOptions { limiter, ..QueueOptions::default() });
        manager.metrics().watch_queue(&queue);
        let lister = foos.lister::<Foo>();
        let handlers = [
            foos.add_handler(&SubscribeOptions::default(), {
                let queue = queue.clone();
                move |event| {
                    // A deleted Foo has nothing left to do: what it owned goes by owner reference.
                    if let Event::Add { object, .. } | Event::Update { new: object, .. } = event {
                        queue.add(object.key().clone());
                    }
                }
            }),
            deployments.add_handler(&SubscribeOptions::default(), {
                let (queue, foos) = (queue.clone(), lister.clone());
                move |event| {
                    // A resync delivers what is known already. A tombstone's object is the last state that was seen.
                    if !event.is_resync() {
                        enqueue_owner(&queue, &foos, event.object());
                    }
                }
            }),
        ];
        Controller {
            client: manager.client().with_field_owner(NAME),
            recorder: manager.recorder(NAME),
            queue,
            foos: lister,
            deployments: deployments.lister(),
            informers: [foos, deployments].into(),
            _handlers: handlers.into(),
        }
    }

    /// Waits for the caches, then works on keys until told to stop; keys under way are finished.
    pub async fn run(self, workers: usize, stop: CancellationToken) -> Result<(), Error> {
        wait_for_cache_sync(&self.informers).await;
        let mut running = JoinSet::new();
        for _ in 0..workers {
            running.spawn(self.clone().work());
        }
        stop.cancelled().await;
        self.queue.shut_down_with_drain().await;
        while running.join_next().await.is_some() {}
        Ok(())
    }

    async fn work(self) {
        while let Some(item) = self.queue.get().await {
            let key = item.key().clone();
            match self.sync_handler(&key).await {
                Ok(()) => self.queue.forget(&key),
                Err(error) => {
                    // Somebody else wrote first: the cache will show it, and the next turn starts from there.
                    match error.is_conflict() {
                        true => tracing::debug!(%key, %error, "conflict; requeuing"),
                        false => tracing::warn!(%key, %error, "error syncing; requeuing"),
                    }
                    self.queue.add_rate_limited(&key, Priority::DEFAULT, Reason::MANUAL);
                }
            }
            item.done();
        }
    }

    /// Brings one Foo's Deployment and status to where they should be.
    async fn sync_handler(&self, key: &Key) -> Result<(), Error> {
        let Some(foo) = self.foos.get_key(key.as_str())? else {
            tracing::debug!(%key, "a Foo in the work queue no longer exists");
            return Ok(());
        };
        let Some(name) = foo.spec.deployment_name.as_deref().filter(|name| !name.is_empty()) else {
            // No retry: the next change of the Foo queues it again.
            tracing::warn!(%key, "deployment name must be specified");
            return Ok(());
        };
        let mut changed = false;
        let mut deployment = match self.deployments.get(foo.namespace().as_deref(), name)? {
            Some(found) => found,
            None => {
                changed = true;
                Arc::new(self.client.create(&new_deployment(&foo, name)?).await?)
            }
        };
        if !is_controlled_by(&*deployment, &*foo) {
            let message = format!("Resource {name:?} already exists and is not managed by Foo");
            self.recorder.warning(&*foo, ERR_RESOURCE_EXISTS, message.clone());
            return Err(Error::msg(message));
        }
        let replicas = deployment.spec.replicas;
        if foo.spec.replicas.is_some() && foo.spec.replicas != replicas {
            changed = true;
            deployment = Arc::new(self.client.update(&new_deployment(&foo, name)?).await?);
        }
        changed |= self.update_status(&foo, &deployment).await?;
        if changed {
            self.recorder.normal(&*foo, SYNCED.0, SYNCED.1);
        }
        Ok(())
    }

    /// Writes the status where it differs; the cached Foo is shared and never changed.
    async fn update_status(&self, foo: &Foo, deployment: &Deployment) -> Result<bool, Error> {
        let available_replicas =
            Some(deployment.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0));
        let status = Some(FooStatus { available_replicas });
        if foo.status == status {
            return Ok(false);
        }
        self.client.update_status(&Foo { status, ..foo.clone() }).await?;
        Ok(true)
    }
}

/// Queues the Foo that controls an object, where one does and is known.
fn enqueue_owner(queue: &WorkQueue<Key>, foos: &Lister<Foo>, object: &Object) {
    let Some(owner) = object.controller_owner().filter(|owner| &*owner.kind == "Foo") else { return };
    match foos.get(object.namespace(), &owner.name) {
        Ok(Some(foo)) => queue.add(Key::new(foo.namespace().as_deref(), &foo.name_any())),
        _ => tracing::debug!(object = %object.key(), owner = %owner.name, "ignoring an orphaned object"),
    }
}

/// The Deployment that a Foo asks for.
fn new_deployment(foo: &Foo, name: &str) -> Result<Deployment, Error> {
    let labels =
        BTreeMap::from([("app".to_owned(), "nginx".to_owned()), ("controller".to_owned(), foo.name_any())]);
    let container =
        Container { name: "nginx".into(), image: Some("nginx:latest".into()), ..Default::default() };
    Ok(Deployment {
        metadata: ObjectMeta {
            name: Some(name.into()),
            namespace: foo.namespace(),
            owner_references: Some(vec![controller_reference(foo)?]),
            ..Default::default()
        },
        spec: DeploymentSpec {
            replicas: foo.spec.replicas,
            selector: LabelSelector { match_labels: Some(labels.clone()), ..Default::default() },
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta { labels: Some(labels), ..Default::default() }),
                spec: Some(PodSpec { containers: vec![container], ..Default::default() }),
            },
            ..Default::default()
        },
        status: None,
    })
}
