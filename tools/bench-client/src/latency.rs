//! A controller of pods that tells when each reconcile after the first state begins, and when it has its pod.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use setpoint::client::connect_with;
use setpoint::{Action, Context, Controller, Error, Key, Manager, ManagerOptions};
use tokio::sync::Notify;

use crate::Arguments;
use crate::process::{say, wait_for_go};

#[derive(Default)]
struct Seen {
    objects: u64,
    count: AtomicU64,
    idle: Notify,
    starts: Mutex<Vec<(Key, u128, u128)>>,
}

impl Seen {
    async fn reconcile(&self, ctx: Context, key: Key) -> Result<Action, Error> {
        let begun = now();
        let pod = ctx.client().get::<Pod>(&key).await?;
        let read = now();
        black_box(pod);
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        if count == self.objects {
            self.idle.notify_one();
        } else if count > self.objects {
            self.starts.lock().expect("no holder of this lock panics").push((key, begun, read));
        }
        Ok(Action::done())
    }
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let objects = arguments.number("--objects")?;
    let server = arguments.value("--server")?.parse()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = connect_with(kube::Config::new(server))?;
        let manager = Manager::new(client, ManagerOptions::default());
        let seen = Arc::new(Seen { objects, ..Seen::default() });
        let reconciler = Arc::clone(&seen);
        // One at a time, as controller-runtime's default is.
        Controller::for_kind::<Pod>(&manager).concurrency(1).register(move |ctx: Context, key: Key| {
            let reconciler = Arc::clone(&reconciler);
            async move { reconciler.reconcile(ctx, key).await }
        })?;
        let stop = tokio_util::sync::CancellationToken::new();
        let mut tasks = tokio::task::JoinSet::new();
        let stopping = stop.clone();
        tasks.spawn(async move { manager.run(stopping.cancelled_owned()).await });
        seen.idle.notified().await;
        say("idle")?;
        wait_for_go()?;
        for (key, begun, read) in seen.starts.lock().expect("no holder of this lock panics").iter() {
            say(&format!("start {key} {begun} {read}"))?;
        }
        say("end")?;
        stop.cancel();
        Ok(())
    })
}

fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos())
}
