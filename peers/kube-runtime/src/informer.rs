//! A reflector of pods: first sync, updates, memory, reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use kube::core::{Selector, SelectorExt};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use tokio::sync::Notify;

use crate::Arguments;
use crate::process::{Stopwatch, memory, percentiles, say, wait_for_go, weigh};

/// The events that the handler has seen.
#[derive(Default)]
struct Seen {
    /// Events after the first state.
    events: AtomicU64,
    goal: AtomicU64,
    containers: AtomicU64,
    read: AtomicBool,
    reached: Notify,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let pods = arguments.number("--pods")?;
    let server = arguments.value("--server")?.parse()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = kube::Client::try_from(kube::Config::new(server))?;
        let config = if arguments.flag("--streaming") {
            watcher::Config::default().streaming_lists()
        } else {
            watcher::Config::default()
        };
        measure(client, config, arguments.flag("--strip"), pods).await
    })
}

async fn measure(client: kube::Client, config: watcher::Config, strip: bool, pods: u64) -> Result<()> {
    let seen = Arc::new(Seen::default());
    let before = memory("VmRSS")?;
    say("ready")?;
    wait_for_go()?;
    let watch = Stopwatch::start()?;
    let (store, writer) = reflector::store::<Pod>();
    let stream = watcher(Api::<Pod>::all(client), config).default_backoff();
    let stream = stream.modify(move |pod| {
        if strip {
            pod.metadata.managed_fields = None;
        }
    });
    tokio::spawn(handle(stream.reflect(writer).boxed(), Arc::clone(&seen)));
    store.wait_until_ready().await?;
    say(&format!("synced {}", watch.read()?))?;
    settle(&watch, before).await?;
    // The first pods go and others come; these are updated, twice.
    for (step, events) in [("replaced", 2 * pods), ("updated", pods), ("read", pods)] {
        let read = step == "read";
        seen.read.store(read, Ordering::Relaxed);
        seen.goal.fetch_add(events, Ordering::Relaxed);
        wait_for_go()?;
        let watch = Stopwatch::start()?;
        say("armed")?;
        seen.reached.notified().await;
        say(&format!("{step} {}", watch.read()?))?;
        if !read {
            settle(&watch, before).await?;
        }
    }
    anyhow::ensure!(seen.containers.load(Ordering::Relaxed) >= pods, "the handler read every pod");
    reads(&store)
}

/// Waits until the allocator has given back what it does not need, and tells the memory.
async fn settle(watch: &Stopwatch, before: u64) -> Result<()> {
    tokio::time::sleep(Duration::from_secs(1)).await;
    say(&format!("settled {} {}", watch.read()?, weigh(before)?))
}

type Events = futures::stream::BoxStream<'static, watcher::Result<watcher::Event<Pod>>>;

async fn handle(mut events: Events, seen: Arc<Seen>) {
    while let Some(event) = events.next().await {
        let event = event.expect("the server does not fail");
        let (watcher::Event::Apply(pod) | watcher::Event::Delete(pod)) = event else { continue };
        if seen.read.load(Ordering::Relaxed) {
            let containers = pod.spec.as_ref().map_or(0, |spec| spec.containers.len());
            seen.containers.fetch_add(containers as u64, Ordering::Relaxed);
        }
        if seen.events.fetch_add(1, Ordering::Relaxed) + 1 == seen.goal.load(Ordering::Relaxed) {
            seen.reached.notify_one();
        }
    }
}

fn reads(store: &Store<Pod>) -> Result<()> {
    let all = store.state();
    let keys: Vec<ObjectRef<Pod>> =
        all.iter().step_by((all.len() / 1000).max(1)).map(|pod| ObjectRef::from_obj(&**pod)).collect();
    let get = |keys: &[ObjectRef<Pod>]| -> Result<Vec<Duration>> {
        keys.iter()
            .map(|key| {
                let begun = Instant::now();
                store.get(key).context("it is cached")?;
                Ok(begun.elapsed())
            })
            .collect()
    };
    say(&percentiles("get_cold", get(&keys)?))?;
    get(&keys[..200])?;
    say(&percentiles("get_warm", get(&keys[..200])?))?;
    let middle = &all[all.len() / 2].metadata;
    for name in ["list_cold", "list_warm"] {
        let begun = Instant::now();
        let mut found = store.state();
        found.retain(|pod| pod.metadata.namespace == middle.namespace);
        say(&format!("{name} found={} nanos={}", found.len(), begun.elapsed().as_nanos()))?;
    }
    let label = "app.kubernetes.io/instance";
    let workload = middle.labels.as_ref().and_then(|labels| labels.get(label)).context("a label")?;
    let selector: Selector = [(label.to_owned(), workload.clone())].into_iter().collect();
    let begun = Instant::now();
    let mut found = store.state();
    found.retain(|pod| pod.metadata.labels.as_ref().is_some_and(|labels| selector.matches(labels)));
    say(&format!("select found={} nanos={}", found.len(), begun.elapsed().as_nanos()))
}
