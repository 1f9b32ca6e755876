//! The controller: what each event queues, and what a key's turn does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::ResourceExt;
use setpoint::client::{controller_reference, is_controlled_by};
use setpoint::informer::{Event, HandlerRegistration, Lister, SubscribeOptions, wait_for_cache_sync};
use setpoint::queue::{Priority, RateLimiter, Reason};
use setpoint::queue::{QueueOptions, WorkQueue};
use setpoint::{Client, Error, Key, Manager, Object, Recorder};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::NAME;
use crate::types::{Foo, FooStatus};

/// The period in which every Foo is queued again although nothing changed.
const RESYNC: Duration = Duration::from_secs(10 * 60 * 60);
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
    handlers: Arc<[HandlerRegistration]>,
}

impl Controller {
    /// Asks the manager for two shared informers and registers a handler with each.
    pub fn new(manager: &Manager) -> Self {
        let foos = manager.informer::<Foo>();
        let deployments = manager.informer::<Deployment>();
        let limiter = RateLimiter::client_go_default();
        let queue = WorkQueue::new("Foos", QueueOptions::with(|options| options.limiter = limiter));
        manager.metrics().watch_queue(&queue);
        let lister = foos.lister::<Foo>();
        let subscribe = SubscribeOptions::with(|options| options.resync = Some(RESYNC));
        let handlers = [
            foos.add_handler(&subscribe, {
                let queue = queue.clone();
                move |event| {
                    // A deleted Foo has nothing left to do: what it owned goes by owner reference.
                    if let Event::Add { object, .. } | Event::Update { new: object, .. } = event {
                        queue.add(object.key().clone());
                    }
                }
            }),
            deployments.add_handler(&subscribe, {
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
            handlers: handlers.into(),
        }
    }

    /// Waits for the caches, then works on keys until told to stop; keys under way are finished.
    ///
    /// # Errors
    /// If a handler ends before it has seen the first list, or a worker panics: the key that the worker had is lost, and
    /// only a new start lists it again. The manager then ends, as Go's process does.
    pub async fn run(self, workers: usize, stop: CancellationToken) -> Result<(), Error> {
        tracing::info!(controller = NAME, "waiting for the informer caches to sync");
        tokio::select! {
            biased;
            () = stop.cancelled() => return Ok(()),
            synced = wait_for_cache_sync(&self.handlers) => {
                if !synced {
                    return Err(Error::msg("the informers stopped before their caches synced"));
                }
            }
        }
        tracing::info!(controller = NAME, workers, "starting workers");
        let mut running = JoinSet::new();
        for _ in 0..workers {
            running.spawn(self.clone().work());
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            ended = running.join_next() => worker_ended(ended)?,
        }
        tracing::info!(controller = NAME, "shutting down workers");
        let queue_empty = async {
            self.queue.shut_down_with_drain().await;
            Ok(())
        };
        let workers_ended = async {
            while let Some(ended) = running.join_next().await {
                worker_ended(Some(ended))?;
            }
            Ok(())
        };
        tokio::try_join!(queue_empty, workers_ended).map(drop)
    }

    async fn work(self) {
        while let Some(item) = self.queue.get().await {
            let key = item.key().clone();
            match self.sync_handler(&key).await {
                Ok(()) => {
                    self.queue.forget(&key);
                    tracing::info!(controller = NAME, %key, "successfully synced");
                }
                Err(error) => {
                    // Another client wrote first: the cache will show its change, and the next sync starts from there.
                    match error.is_conflict() {
                        true => tracing::debug!(controller = NAME, %key, %error, "conflict; requeuing"),
                        false => tracing::warn!(controller = NAME, %key, %error, "error syncing; requeuing"),
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
            tracing::debug!(controller = NAME, %key, "a Foo in the work queue no longer exists");
            return Ok(());
        };
        let Some(name) = foo.spec.deployment_name.as_deref().filter(|name| !name.is_empty()) else {
            // No retry: the next change of the Foo queues it again.
            tracing::warn!(controller = NAME, %key, "deployment name must be specified");
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

/// Passes on the panic of a worker as an error.
fn worker_ended(ended: Option<Result<(), JoinError>>) -> Result<(), Error> {
    match ended {
        Some(Err(error)) => Err(Error::msg(format!("a worker died: {error}"))),
        Some(Ok(())) | None => Ok(()),
    }
}

/// Queues the Foo that controls an object, if one does and is known.
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

#[cfg(test)]
mod tests {
    use kube::Api;
    use kube::api::{ObjectMeta, PostParams};
    use setpoint::ManagerOptions;
    use setpoint::manager::ManagerError;
    use setpoint_cluster::{Cluster, Controllers, NodeOptions, Options};

    use super::*;
    use crate::types::FooSpec;

    /// An API server with one Foo, and nothing that acts on Deployments.
    async fn cluster_with_a_foo() -> Cluster {
        let nodes = NodeOptions { count: 0, ..NodeOptions::default() };
        let options = Options { seed: Some(1), controllers: Controllers::None, nodes, ..Options::default() };
        let cluster = Cluster::start(options).await.unwrap();
        cluster.install::<Foo>().await.unwrap();
        let spec = FooSpec { deployment_name: Some("one".into()), replicas: Some(1) };
        let metadata = ObjectMeta { name: Some("one".into()), ..ObjectMeta::default() };
        let foos: Api<Foo> = Api::default_namespaced(cluster.client());
        foos.create(&PostParams::default(), &Foo { metadata, spec, status: None }).await.unwrap();
        cluster
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_of_a_worker_ends_the_manager_at_once() {
        let cluster = cluster_with_a_foo().await;
        let manager = Manager::new(cluster.client(), ManagerOptions::default());
        let mut controller = Controller::new(&manager);
        controller.client = controller.client.intercept(|_| panic!("a slip"));
        manager.add(NAME, move |stop| controller.run(2, stop)).unwrap();
        let ended = manager.run(std::future::pending()).await.unwrap_err();
        let ManagerError::Failed { name, message } = ended else { panic!("{ended}") };
        assert_eq!(name, NAME);
        assert!(message.starts_with("a worker died") && message.contains("a slip"), "{message}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_resync_queues_every_foo_once_and_writes_nothing() {
        const HOUR: Duration = Duration::from_secs(60 * 60);
        let cluster = cluster_with_a_foo().await;
        let manager = Manager::new(cluster.client(), ManagerOptions::default());
        crate::register(&manager).unwrap();
        let adds = || {
            let text = manager.metrics().encode();
            let line = text.lines().find(|line| line.starts_with("workqueue_adds_total{")).unwrap();
            line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()
        };
        let test = async {
            tokio::time::sleep(9 * HOUR).await;
            let (before, written) = (adds(), cluster.store().revision());
            tokio::time::sleep(2 * HOUR).await;
            // The one Foo. Its Deployment, which the same resync delivers, queues nothing.
            assert_eq!(adds(), before + 1);
            assert_eq!(cluster.store().revision(), written);
        };
        tokio::select! {
            biased;
            ended = manager.run(std::future::pending()) => panic!("{ended:?}"),
            () = test => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn caches_that_end_before_they_sync_are_an_error() {
        let cluster = cluster_with_a_foo().await;
        let manager = Manager::new(cluster.client(), ManagerOptions::default());
        let controller = Controller::new(&manager);
        manager.run(std::future::ready(())).await.unwrap();
        let ended = controller.run(2, CancellationToken::new()).await.unwrap_err();
        assert_eq!(ended.to_string(), "the informers stopped before their caches synced");
    }
}
