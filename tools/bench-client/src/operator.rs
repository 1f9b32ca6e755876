//! The small operator on the real server: get the object, create its child, patch the object.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::config::{KubeConfigOptions, Kubeconfig};
use setpoint::client::connect_with;
use setpoint::client::set_controller_reference;
use setpoint::{Action, Context, Controller, Error, Key, Manager, ManagerOptions, Patch, Reconciler, Target};
use tokio::sync::Notify;

use crate::Arguments;
use crate::process::{Stopwatch, say, wait_for_go};

const DONE: &str = "bench.example.com/done";

struct Small {
    objects: u64,
    converged: AtomicU64,
    finished: Arc<Notify>,
}

impl Reconciler for Small {
    async fn reconcile(&self, ctx: &Context, key: Key) -> Result<Action, Error> {
        let client = ctx.client();
        let Some(parent) = client.get::<ConfigMap>(key.clone()).await? else {
            return Ok(Action::done());
        };
        let annotations = parent.metadata.annotations.as_ref();
        if annotations.and_then(|all| all.get(DONE)).is_some_and(|value| value == "true") {
            return Ok(Action::done());
        }
        let mut child = ConfigMap { data: parent.data.clone(), ..ConfigMap::default() };
        child.metadata.namespace = parent.metadata.namespace.clone();
        child.metadata.name = Some(format!("{}-child", key.name()));
        set_controller_reference(&*parent, &mut child)?;
        match client.create(&child).await {
            Ok(_) => {}
            Err(error) if error.is_already_exists() => {}
            Err(error) => return Err(error.into()),
        }
        let mut patched = (*parent).clone();
        patched.metadata.annotations.get_or_insert_default().insert(DONE.to_owned(), "true".to_owned());
        client.patch::<ConfigMap>(key.clone(), &Patch::merge_from(&*parent, &patched)?).await?;
        if self.converged.fetch_add(1, Ordering::Relaxed) + 1 == self.objects {
            self.finished.notify_one();
        }
        Ok(Action::done())
    }
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let (objects, workers) = (arguments.number("--objects")?, arguments.number("--workers")?);
    let kubeconfig = Kubeconfig::read_from(arguments.value("--config")?)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let manager = Manager::new(connect_with(config)?, ManagerOptions::default());
        let finished = Arc::new(Notify::new());
        let small = Small { objects, converged: AtomicU64::new(0), finished: Arc::clone(&finished) };
        let parents = Target::of::<ConfigMap>().labels("bench=parent");
        Controller::for_target(&manager, parents).concurrency(usize::try_from(workers)?).register(small)?;
        say("ready")?;
        wait_for_go()?;
        let watch = Stopwatch::start()?;
        let stop = tokio_util::sync::CancellationToken::new();
        let mut tasks = tokio::task::JoinSet::new();
        let stopping = stop.clone();
        tasks.spawn(async move { manager.run(stopping.cancelled_owned()).await });
        tokio::select! {
            biased;
            () = finished.notified() => {}
            ended = tasks.join_next() => anyhow::bail!("the manager ended early: {ended:?}"),
        }
        say(&format!("converged {}", watch.read()?))?;
        stop.cancel();
        Ok(())
    })
}
