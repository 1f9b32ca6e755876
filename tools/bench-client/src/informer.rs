//! A shared informer of pods: first sync, updates, memory, reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use setpoint::Target;
use setpoint::informer::{
    Event, FactoryOptions, InformerFactory, LabelMatcher, SharedInformer, SubscribeOptions,
};
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
    /// Read every object that changed as a typed one.
    read: std::sync::atomic::AtomicBool,
    reached: Notify,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let pods = arguments.number("--pods")?;
    let server = arguments.value("--server")?.parse()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut config = kube::Config::new(server);
        config.default_retry = false;
        config.read_timeout = None;
        let factory = InformerFactory::new(kube::Client::try_from(config)?, FactoryOptions::default());
        let informer = factory.informer(Target::of::<Pod>());
        measure(&informer, pods).await
    })
}

async fn measure(informer: &SharedInformer, pods: u64) -> Result<()> {
    let seen = Arc::new(Seen::default());
    let _handler = informer.add_handler(&SubscribeOptions::default(), handler(informer, &seen));
    let before = memory("VmRSS")?;
    say("ready")?;
    wait_for_go()?;
    let watch = Stopwatch::start()?;
    informer.start();
    informer.wait_synced().await;
    say(&format!("synced {}", watch.read()?))?;
    settle(informer, &watch, before).await?;
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
            settle(informer, &watch, before).await?;
        }
    }
    anyhow::ensure!(seen.containers.load(Ordering::Relaxed) >= pods, "the handler read every pod");
    reads(informer)
}

fn handler(informer: &SharedInformer, seen: &Arc<Seen>) -> impl FnMut(Event) + Send + 'static {
    let (seen, pods) = (Arc::clone(seen), informer.lister::<Pod>());
    move |event| {
        if let Event::Add { is_initial: true, .. } = event {
            return;
        }
        if seen.read.load(Ordering::Relaxed) {
            let pod = pods.decode(event.object()).expect("the pods are valid");
            let containers = pod.spec.as_ref().map_or(0, |spec| spec.containers.len());
            seen.containers.fetch_add(containers as u64, Ordering::Relaxed);
        }
        if seen.events.fetch_add(1, Ordering::Relaxed) + 1 == seen.goal.load(Ordering::Relaxed) {
            seen.reached.notify_one();
        }
    }
}

/// Waits until the cache is compressed and the allocator has returned unused memory. Then reports the memory.
async fn settle(informer: &SharedInformer, watch: &Stopwatch, before: u64) -> Result<()> {
    let mut last = u64::MAX;
    while informer.store().bytes() < last {
        last = informer.store().bytes();
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    say(&format!("settled {} {} counted={last}", watch.read()?, weigh(before)?))
}

fn reads(informer: &SharedInformer) -> Result<()> {
    let pods = informer.lister::<Pod>();
    let all = informer.store().snapshot();
    let step = (all.len() / 1000).max(1);
    let keys: Vec<String> = all.iter().skip(3).step_by(step).map(|pod| pod.key().to_string()).collect();
    let get = |keys: &[String]| -> Result<Vec<Duration>> {
        keys.iter()
            .map(|key| {
                let begun = Instant::now();
                pods.get_key(key)?.context("it is cached")?;
                Ok(begun.elapsed())
            })
            .collect()
    };
    say(&percentiles("get_cold", get(&keys)?))?;
    get(&keys[..200])?;
    say(&percentiles("get_warm", get(&keys[..200])?))?;
    let namespace = all.iter().nth(all.len() / 2).and_then(|pod| pod.namespace()).context("a namespace")?;
    for name in ["list_cold", "list_warm"] {
        let begun = Instant::now();
        let found = pods.list_namespace(namespace)?.len();
        say(&format!("{name} found={found} nanos={}", begun.elapsed().as_nanos()))?;
    }
    let workload =
        all.iter().nth(all.len() / 3).and_then(|pod| pod.labels().get("app.kubernetes.io/instance"));
    let matcher =
        LabelMatcher::parse(&format!("app.kubernetes.io/instance={}", workload.context("a label")?))?;
    let begun = Instant::now();
    let found = pods.select(None, &matcher)?.len();
    say(&format!("select found={found} nanos={}", begun.elapsed().as_nanos()))
}
