//! The thin part: list, delete, list again, say what remains.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use serde_json::{Value, json};
use setpoint::{
    Action, Client, ClientError, Context, Controller, DeleteOptions, Error, Key, Manager, NotFoundExt, Patch,
    Query, Reconciler, SetupError, Watch,
};

use super::{Content, KUBERNETES, Remaining, Step, conditions, step};
use crate::discovery::{ServerResource, discover};
use crate::object::pod::is_terminal;

/// Number of namespaces that are emptied in parallel.
const CONCURRENCY: usize = 10;
/// The first pause for other components' finalizers. It doubles up to the plan's limit.
const FIRST_WAIT: Duration = Duration::from_millis(20);

/// Registers the controller.
pub(crate) fn register(manager: &Manager) -> Result<(), SetupError> {
    let namespaces = manager.informer::<Namespace>();
    Controller::for_kind::<Namespace>(manager)
        .watches(Watch::of::<Pod>().map_changes(move |change| {
            // A pod that ends lets its namespace go on at once.
            let gone = change.old.filter(|_| change.new.is_none()).and_then(|pod| pod.namespace());
            let namespace = gone.and_then(|name| namespaces.store().get(name));
            let waiting = namespace.filter(|namespace| namespace.is_terminating());
            waiting.map(|namespace| Key::cluster(namespace.name())).into_iter().collect()
        }))
        .named("namespace-controller")
        .field_owner(crate::FIELD_OWNER)
        .concurrency(CONCURRENCY)
        .register(Namespaces::default())?;
    Ok(())
}

#[derive(Default)]
struct Namespaces {
    /// Number of passes that found remaining content, by namespace.
    waits: Mutex<BTreeMap<Key, u32>>,
}

impl Reconciler for Namespaces {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let client = ctx.client();
        let Some(mut namespace) = client.get::<Namespace>(&key).await?.map(|found| (*found).clone()) else {
            self.forget(&key);
            return Ok(Action::done());
        };
        match step(&namespace) {
            Step::Nothing => return Ok(Action::done()),
            Step::Empty => {}
            Step::MarkTerminating => {
                let patch = json!({ "metadata": { "uid": namespace.metadata.uid }, "status": { "phase": "Terminating" } });
                namespace = client.patch_status::<Namespace>(&key, &Patch::Merge(patch)).await?;
            }
        }
        let (content, remaining) = empty(client, key.name(), &namespace, ctx.now()).await?;
        say(client, &key, &namespace, &content, ctx.now()).await?;
        match remaining {
            Remaining::Nothing
                if content.delete_failures.is_empty() && content.discovery_failure.is_none() =>
            {
                self.forget(&key);
                finalize(client, &key, namespace).await
            }
            Remaining::Nothing => Err(Error::msg(content.delete_failures.join("; "))),
            remaining => Ok(Action::requeue_after(self.next_wait(&key, remaining))),
        }
    }
}

impl Namespaces {
    fn forget(&self, key: &Key) {
        self.waits.lock().expect("no holder of this lock panics").remove(key);
    }

    fn next_wait(&self, key: &Key, remaining: Remaining) -> Duration {
        let most = remaining.retry_after().unwrap_or(FIRST_WAIT);
        let mut waits = self.waits.lock().expect("no holder of this lock panics");
        let count = waits.entry(key.clone()).or_default();
        *count += 1;
        FIRST_WAIT.saturating_mul(1 << (*count).min(16)).min(most)
    }
}

/// Does one pass: deletes pods first, and nothing else while pods remain.
async fn empty(
    client: &Client,
    name: &str,
    namespace: &Namespace,
    now: Timestamp,
) -> Result<(Content, Remaining), Error> {
    let discovered = discover(client.kube()).await?;
    let mut content = Content::default();
    if !discovered.failed.is_empty() {
        let (count, groups) = (discovered.failed.len(), discovered.failed.join(", "));
        let text = format!("unable to retrieve the complete list of server APIs: {groups}");
        content.discovery_failure =
            Some(format!("Discovery failed for some groups, {count} failing: {text}"));
    }
    let deletable =
        |resource: &&ServerResource| resource.namespaced && resource.can("delete") && resource.can("list");
    let (pods, others): (Vec<&ServerResource>, Vec<&ServerResource>) = discovered
        .resources
        .iter()
        .filter(deletable)
        .partition(|resource| resource.resource.group.is_empty() && resource.resource.plural == "pods");
    for resource in pods {
        let left = empty_kind(client, name, resource, &mut content).await;
        if !left.is_empty() {
            return Ok((content, Remaining::Pods { grace_seconds: grace_left(&left, namespace, now) }));
        }
    }
    for resource in others {
        empty_kind(client, name, resource, &mut content).await;
    }
    let remaining = if content.remaining.is_empty() { Remaining::Nothing } else { Remaining::Held };
    Ok((content, remaining))
}

/// Deletes all objects of a kind. Returns the remaining ones.
async fn empty_kind(
    client: &Client,
    name: &str,
    resource: &ServerResource,
    content: &mut Content,
) -> Vec<Value> {
    match delete_all(client, name, resource).await {
        Ok(left) => {
            if !left.is_empty() {
                let label = format!("{}.{}", resource.resource.plural, resource.resource.group);
                content.remaining.insert(label, left.len());
            }
            for finalizer in
                left.iter().flat_map(|object| object["metadata"]["finalizers"].as_array()).flatten()
            {
                *content.finalizers.entry(finalizer.as_str().unwrap_or_default().to_owned()).or_default() +=
                    1;
            }
            left
        }
        Err(error) => {
            content.delete_failures.push(error.message());
            Vec::new()
        }
    }
}

async fn delete_all(
    client: &Client,
    name: &str,
    resource: &ServerResource,
) -> Result<Vec<Value>, ClientError> {
    let kind = client.dynamic(&resource.resource);
    // Most kinds have nothing here: one question instead of two.
    let present = kind.list_live(Query::namespace(name)).await?;
    if present.is_empty() {
        return Ok(present);
    }
    let options = DeleteOptions::background();
    let mut collected = false;
    if resource.can("deletecollection") {
        match kind.delete_collection(Query::namespace(name), &options).await {
            Ok(()) => collected = true,
            Err(error) if matches!(error.code(), Some(404 | 405)) => {}
            Err(error) => return Err(error),
        }
    }
    if !collected {
        for object in present.iter().filter_map(|object| object["metadata"]["name"].as_str()) {
            kind.delete(Key::new(Some(name), object), &options).await.ignore_not_found()?;
        }
    }
    kind.list_live(Query::namespace(name)).await
}

/// The longest grace period among the pods, or zero when the namespace has been going for longer than that.
fn grace_left(pods: &[Value], namespace: &Namespace, now: Timestamp) -> i64 {
    let grace = |pod: &Value| {
        let pod: Pod = serde_json::from_value(pod.clone()).unwrap_or_default();
        let seconds = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
        if is_terminal(&pod) { 0 } else { seconds.unwrap_or(0) }
    };
    let longest = pods.iter().map(grace).max().unwrap_or(0);
    let since =
        namespace.metadata.deletion_timestamp.as_ref().map(|time| now.duration_since(time.0).as_secs());
    if since.is_some_and(|since| since >= longest) { 0 } else { longest }
}

async fn say(
    client: &Client,
    key: &Key,
    namespace: &Namespace,
    content: &Content,
    now: Timestamp,
) -> Result<(), Error> {
    let before = namespace.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    let Some(conditions) = conditions(&before, content, now) else { return Ok(()) };
    // A namespace that can go now need not say so first.
    if *content == Content::default() && before.is_empty() {
        return Ok(());
    }
    let patch =
        json!({ "metadata": { "uid": namespace.metadata.uid }, "status": { "conditions": conditions } });
    let version = namespace.metadata.resource_version.as_deref().unwrap_or_default();
    client.patch_status::<Namespace>(key, &Patch::Merge(patch).locked(version)).await.ignore_not_found()?;
    Ok(())
}

async fn finalize(client: &Client, key: &Key, mut namespace: Namespace) -> Result<Action, Error> {
    if let Some(finalizers) = namespace.spec.as_mut().and_then(|spec| spec.finalizers.as_mut()) {
        finalizers.retain(|finalizer| finalizer != KUBERNETES);
    }
    // The status was written in between; the uid suffices to be sure which namespace this is.
    namespace.metadata.resource_version = None;
    let done = client.update_subresource::<Namespace, Value>(key, "finalize", &namespace).await;
    done.ignore_not_found()?;
    Ok(Action::done())
}
