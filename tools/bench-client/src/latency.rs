//! A controller of pods that tells when each reconcile after the first state begins.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use setpoint::{Action, Context, Controller, Manager, ManagerOptions, Request, connect_with};
use tokio::sync::Notify;

use crate::Arguments;
use crate::process::{say, wait_for_go};

#[derive(Default)]
struct Seen {
    objects: u64,
    count: AtomicU64,
    idle: Notify,
    starts: Mutex<Vec<(Request, u128)>>,
}

impl Seen {
    fn start(&self, request: Request) {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        if count == self.objects {
            self.idle.notify_one();
        } else if count > self.objects {
            self.starts.lock().expect("no holder of this lock panics").push((request, at));
        }
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
        Controller::for_kind::<Pod>(&manager).concurrency(1).run(move |_: Context, request: Request| {
            reconciler.start(request);
            async { Ok(Action::done()) }
        })?;
        let stop = tokio_util::sync::CancellationToken::new();
        let mut tasks = tokio::task::JoinSet::new();
        let stopping = stop.clone();
        tasks.spawn(async move { manager.run(stopping.cancelled_owned()).await });
        seen.idle.notified().await;
        say("idle")?;
        wait_for_go()?;
        for (request, at) in seen.starts.lock().expect("no holder of this lock panics").iter() {
            say(&format!("start {request} {at}"))?;
        }
        say("end")?;
        stop.cancel();
        Ok(())
    })
}
