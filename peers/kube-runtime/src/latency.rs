//! A controller of pods that tells when each reconcile after the first state begins: it is given its pod.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use kube::runtime::controller::{Action, Controller};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use tokio::sync::Notify;

use crate::Arguments;
use crate::process::{say, wait_for_go};

#[derive(Default)]
struct Seen {
    objects: u64,
    count: AtomicU64,
    idle: Notify,
    starts: Mutex<Vec<(String, u128)>>,
}

impl Seen {
    fn start(&self, pod: &Pod) {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        if count == self.objects {
            self.idle.notify_one();
        } else if count > self.objects {
            let metadata = &pod.metadata;
            let key = format!(
                "{}/{}",
                metadata.namespace.as_deref().unwrap_or_default(),
                metadata.name.as_deref().unwrap_or_default()
            );
            self.starts.lock().expect("no holder of this lock panics").push((key, at));
        }
    }
}

async fn reconcile(pod: Arc<Pod>, seen: Arc<Seen>) -> Result<Action, Infallible> {
    seen.start(&pod);
    Ok(Action::await_change())
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let objects = arguments.number("--objects")?;
    let server = arguments.value("--server")?.parse()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = kube::Client::try_from(kube::Config::new(server))?;
        let seen = Arc::new(Seen { objects, ..Seen::default() });
        let pods = Api::<Pod>::all(client);
        let controller = if arguments.flag("--strip") {
            let (store, writer) = reflector::store();
            let watch = watcher(pods, watcher::Config::default()).default_backoff();
            let watch = watch.modify(|pod| pod.metadata.managed_fields = None);
            Controller::for_stream(watch.reflect(writer).touched_objects(), store)
        } else {
            Controller::new(pods, watcher::Config::default())
        };
        let controller = controller
            .run(reconcile, |_, error, _| match *error {}, Arc::clone(&seen))
            .for_each(|_| futures::future::ready(()));
        let task = tokio::spawn(controller);
        seen.idle.notified().await;
        say("idle")?;
        wait_for_go()?;
        for (key, at) in seen.starts.lock().expect("no holder of this lock panics").iter() {
            say(&format!("start {key} {at} {at}"))?;
        }
        say("end")?;
        task.abort();
        Ok(())
    })
}
