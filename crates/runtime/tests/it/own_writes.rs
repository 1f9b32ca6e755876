//! Every way to write is followed by reads that see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::core::ApiResource;
use serde_json::{Value, json};
use setpoint::{
    Action, Client, Context, Controller, DeleteOptions, Key, Manager, ManagerOptions, Patch, Query, Target,
};
use tokio::time::Instant;

use crate::consistency::with_client;
use crate::controllers::{CONFIG_MAPS, beside, config_map, timed, until};
use crate::fake::Fake;

const KEY: (&str, &str) = ("default", "a");

type Act = fn(Client) -> BoxFuture<'static, ()>;

fn wanted() -> Value {
    config_map("a", "new")
}

fn typed() -> ConfigMap {
    serde_json::from_value(wanted()).unwrap()
}

fn resource() -> ApiResource {
    ApiResource::erase::<ConfigMap>(&())
}

fn merge() -> Patch {
    Patch::Merge(json!({"data": {"key": "new"}}))
}

/// Writes that leave the object with the value `new`.
const CHANGES: [(&str, Act); 17] = [
    ("update", |client| Box::pin(async move { drop(client.update(&typed()).await.unwrap()) })),
    ("patch", |client| {
        Box::pin(async move { drop(client.patch::<ConfigMap>(KEY, &merge()).await.unwrap()) })
    }),
    ("json patch", |client| {
        let patch =
            Patch::Json(json!([{"op": "add", "path": "/metadata/annotations", "value": {"x": "new"}}]));
        Box::pin(async move { drop(client.patch::<ConfigMap>(KEY, &patch).await.unwrap()) })
    }),
    ("strategic patch", |client| {
        let patch = Patch::Strategic(json!({"data": {"key": "new"}}));
        Box::pin(async move { drop(client.patch::<ConfigMap>(KEY, &patch).await.unwrap()) })
    }),
    ("patch from", |client| {
        Box::pin(async move {
            let old: ConfigMap = serde_json::from_value(config_map("a", "old")).unwrap();
            client.patch_from(&old, &typed()).await.unwrap().unwrap();
        })
    }),
    ("apply", |client| Box::pin(async move { drop(client.apply(&typed()).await.unwrap()) })),
    ("apply status", |client| {
        Box::pin(async move { drop(client.apply_status(&typed(), &status()).await.unwrap()) })
    }),
    ("update status", |client| Box::pin(async move { drop(client.update_status(&typed()).await.unwrap()) })),
    ("patch status", |client| {
        Box::pin(async move { drop(client.patch_status::<ConfigMap>(KEY, &merge()).await.unwrap()) })
    }),
    ("update subresource", |client| {
        Box::pin(async move {
            client.update_subresource::<ConfigMap, Value>(KEY, "status", &wanted()).await.unwrap();
        })
    }),
    ("patch scale", |client| {
        Box::pin(async move {
            let scale = client.patch_subresource::<ConfigMap, Value>(KEY, "scale", &merge()).await.unwrap();
            assert_eq!(scale["kind"], "Scale");
        })
    }),
    ("create or update", |client| {
        Box::pin(async move {
            let (_, did) = client
                .create_or_update(typed(), |object| {
                    object.data = typed().data;
                    Ok(())
                })
                .await
                .unwrap();
            assert_eq!(did, setpoint::client::Upserted::Updated);
        })
    }),
    ("dynamic update", |client| {
        Box::pin(async move { drop(client.dynamic(&resource()).update(&wanted()).await.unwrap()) })
    }),
    ("dynamic update subresource", |client| {
        Box::pin(async move {
            client.dynamic(&resource()).update_subresource(&wanted(), "status").await.unwrap();
        })
    }),
    ("lifecycle", |client| {
        Box::pin(async move {
            let on_delete = async |_| Ok(());
            drop(client.lifecycle::<ConfigMap>(KEY, "example.org/new", on_delete).await.unwrap());
        })
    }),
    ("dynamic patch", |client| {
        Box::pin(async move { drop(client.dynamic(&resource()).patch(KEY, &merge()).await.unwrap()) })
    }),
    ("dynamic apply", |client| {
        Box::pin(async move { drop(client.dynamic(&resource()).apply(&wanted()).await.unwrap()) })
    }),
];

fn status() -> Value {
    json!({"key": "new"})
}

/// Writes after which the object is gone.
const DELETIONS: [(&str, Act); 5] = [
    ("delete", |client| Box::pin(async move { client.delete::<ConfigMap>(KEY).await.unwrap() })),
    ("delete object", |client| {
        Box::pin(async move {
            let object = client.get::<ConfigMap>(KEY).await.unwrap().unwrap();
            client.delete_object(&*object).await.unwrap();
        })
    }),
    ("delete collection", |client| {
        Box::pin(async move {
            let options = DeleteOptions::default();
            client.delete_collection::<ConfigMap>(Query::namespace("default"), &options).await.unwrap();
        })
    }),
    ("dynamic delete collection", |client| {
        Box::pin(async move {
            let (all, options) = (Query::namespace("default"), DeleteOptions::default());
            client.dynamic(&resource()).delete_collection(all, &options).await.unwrap();
        })
    }),
    ("dynamic delete", |client| {
        Box::pin(
            async move { client.dynamic(&resource()).delete(KEY, &DeleteOptions::default()).await.unwrap() },
        )
    }),
];

/// Writes while the watches are held back for two seconds; then says what a read gave and how long it took.
async fn read_after(act: Act, dry_run: bool) -> (Option<Value>, u64) {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "old"));
    with_client(&fake, async |client, _| {
        client.get::<ConfigMap>(KEY).await.unwrap().unwrap();
        fake.hold_watches(true);
        let before = fake.get(CONFIG_MAPS, "default", "a");
        act(if dry_run { client.dry_run() } else { client.clone() }).await;
        assert_eq!(fake.get(CONFIG_MAPS, "default", "a") == before, dry_run, "what the server has");
        let began = Instant::now();
        let release = async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            fake.hold_watches(false);
        };
        let read = async {
            let object = client.dynamic(&resource()).get(KEY).await.unwrap();
            (object.map(|object| object.decode::<Value>().unwrap()), began.elapsed().as_secs())
        };
        tokio::join!(read, release).0
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn every_verb_that_writes_is_followed_by_reads_that_see_it() {
    for (name, act) in CHANGES {
        let (object, waited) = read_after(act, false).await;
        assert!(object.unwrap().to_string().contains("new"), "{name}");
        assert_eq!(waited, 2, "{name}");
    }
    for (name, act) in DELETIONS {
        let (object, waited) = read_after(act, false).await;
        assert_eq!((object, waited), (None, 2), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_of_any_verb_is_never_waited_for() {
    for (name, act) in CHANGES.into_iter().chain(DELETIONS) {
        let (object, waited) = read_after(act, true).await;
        assert_eq!((object.unwrap()["data"]["key"].as_str(), waited), (Some("old"), 0), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_collection_that_finalizers_hold_back_is_seen_on_its_way_out() {
    let fake = Fake::new();
    let mut held = config_map("held", "1");
    held["metadata"]["finalizers"] = json!(["example.org/x"]);
    fake.put(CONFIG_MAPS, held);
    fake.put(CONFIG_MAPS, config_map("free", "1"));
    with_client(&fake, async |client, _| {
        client.list::<ConfigMap>(Query::all()).await.unwrap();
        fake.hold_watches(true);
        let options = DeleteOptions::default();
        client.delete_collection::<ConfigMap>(Query::namespace("default"), &options).await.unwrap();
        let release = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            fake.hold_watches(false);
        };
        let began = Instant::now();
        let ((left, waited), ()) = tokio::join!(timed(client.list::<ConfigMap>(Query::all())), release);
        let left = left.unwrap();
        assert_eq!((left.len(), waited), (1, 1));
        assert!(left[0].metadata.deletion_timestamp.is_some());
        // Deleted again, nothing changes, and nothing is waited for.
        fake.hold_watches(true);
        client.delete_collection::<ConfigMap>(Query::namespace("default"), &options).await.unwrap();
        client.list::<ConfigMap>(Query::all()).await.unwrap();
        assert_eq!(began.elapsed().as_secs(), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_write_that_frees_what_is_to_go_is_seen_by_its_end() {
    let fake = Fake::new();
    let mut held = config_map("held", "1");
    held["metadata"]["finalizers"] = json!(["example.org/x"]);
    held["metadata"]["deletionTimestamp"] = json!("2026-11-15T12:00:00Z");
    fake.put(CONFIG_MAPS, held);
    with_client(&fake, async |client, _| {
        client.get::<ConfigMap>(("default", "held")).await.unwrap().unwrap();
        fake.hold_watches(true);
        let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        client.patch::<ConfigMap>(("default", "held"), &free).await.unwrap();
        let release = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            fake.hold_watches(false);
        };
        let ((left, waited), ()) = tokio::join!(timed(client.get::<ConfigMap>(("default", "held"))), release);
        assert_eq!((left.unwrap(), waited), (None, 1));
    })
    .await;
}

/// Its own finalizers hold a namespace, beside those that every object may have.
#[tokio::test(start_paused = true)]
async fn a_namespace_on_its_way_out_is_not_waited_for_until_it_is_gone() {
    let fake = Fake::new();
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": "n", "deletionTimestamp": "2026-11-15T12:00:00Z" },
        "spec": { "finalizers": ["kubernetes"] } });
    fake.put("api/v1/namespaces", namespace);
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    manager.informer::<Namespace>();
    let client = manager.client();
    beside(&manager, async {
        let mut read = (*client.get::<Namespace>("n").await.unwrap().unwrap()).clone();
        read.metadata.labels = Some([("a".to_owned(), "b".to_owned())].into());
        client.update(&read).await.unwrap();
        let began = Instant::now();
        let read = client.get::<Namespace>("n").await.unwrap().unwrap();
        assert!(read.metadata.labels.is_some());
        assert_eq!(began.elapsed().as_secs(), 0);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_write_gates_only_the_informers_that_see_it() {
    let fake = Fake::new();
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    manager.informer_of(Target::of::<ConfigMap>().in_namespace("default"));
    manager.informer_of(Target::of::<ConfigMap>().in_namespace("other"));
    manager.informer::<Secret>();
    let client = manager.client();
    beside(&manager, async {
        client.list::<ConfigMap>(Query::namespace("other")).await.unwrap();
        fake.hold_watches(true);
        client.create(&typed()).await.unwrap();
        let began = Instant::now();
        client.list::<ConfigMap>(Query::namespace("other")).await.unwrap();
        client.list::<Secret>(Query::all()).await.unwrap();
        client.get::<ConfigMap>(("default", "b")).await.unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO, "another namespace, another kind, another object");
        let release = async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            fake.hold_watches(false);
        };
        let list = client.list::<ConfigMap>(Query::namespace("default"));
        let ((listed, waited), ()) = tokio::join!(timed(list), release);
        assert_eq!((listed.unwrap().len(), waited), (1, 3));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_server_restored_to_an_older_revision_frees_whoever_waits() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "old"));
    with_client(&fake, async |client, manager| {
        client.get::<ConfigMap>(KEY).await.unwrap().unwrap();
        fake.hold_watches(true);
        client.patch::<ConfigMap>(KEY, &merge()).await.unwrap();
        let began = Instant::now();
        let restore = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            fake.hold_watches(false);
            fake.restore(50);
        };
        let (read, ()) = tokio::join!(client.get::<ConfigMap>(KEY), restore);
        read.unwrap().unwrap();
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
        // Writes to the restored server are seen as ever.
        client.patch::<ConfigMap>(KEY, &Patch::Merge(json!({"data": {"key": "later"}}))).await.unwrap();
        let read = client.get::<ConfigMap>(KEY).await.unwrap().unwrap();
        assert_eq!(read.data.as_ref().unwrap()["key"], "later");
        assert!(!manager.metrics().encode().contains("setpoint_read_your_writes_timeouts_total{"));
    })
    .await;
}

/// The cache has heard nothing of the restore: by its revision it is ahead of what is written now.
#[tokio::test(start_paused = true)]
async fn a_write_to_a_server_that_went_back_is_seen_before_the_watch_tells_of_it() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "old"));
    with_client(&fake, async |client, _| {
        client.get::<ConfigMap>(KEY).await.unwrap().unwrap();
        fake.hold_watches(true);
        fake.rewind(50);
        client.patch::<ConfigMap>(KEY, &merge()).await.unwrap();
        let began = Instant::now();
        let read = client.get::<ConfigMap>(KEY).await.unwrap().unwrap();
        assert_eq!(read.data.as_ref().unwrap()["key"], "new");
        assert_eq!(began.elapsed().as_secs(), 0, "a list was asked for at once");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_vanishes_and_comes_back_never_blocks_for_ever() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "old"));
    with_client(&fake, async |client, manager| {
        client.get::<ConfigMap>(KEY).await.unwrap().unwrap();
        // As when a CRD is deleted: watches end and lists are not found.
        let gone = Arc::new(AtomicUsize::new(1));
        let asked = Arc::clone(&gone);
        fake.refuse(move |method, _| {
            (asked.load(Ordering::SeqCst) == 1 && *method == http::Method::GET).then_some((404, "NotFound"))
        });
        fake.end_watches();
        client.patch::<ConfigMap>(KEY, &merge()).await.unwrap();
        let began = Instant::now();
        assert!(client.get::<ConfigMap>(KEY).await.unwrap_err().is_stale());
        assert_eq!(began.elapsed().as_secs(), 5, "the bound, and no longer");
        gone.store(0, Ordering::SeqCst);
        let cached = || manager.informer::<ConfigMap>().store().get("default/a").unwrap();
        until("the cache shows it", || cached().decode::<Value>().unwrap()["data"]["key"] == "new").await;
        assert_eq!(client.get::<ConfigMap>(KEY).await.unwrap().unwrap().data.as_ref().unwrap()["key"], "new");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn pins_move_past_own_writes_also_without_waiting() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "old"));
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let store = manager.informer::<ConfigMap>().store().clone();
    let done = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&done);
    Controller::for_kind::<ConfigMap>(&manager)
        .without_read_your_writes()
        .register(move |ctx: Context, key: Key| {
            let (store, seen) = (store.clone(), Arc::clone(&seen));
            async move {
                let client = ctx.client();
                client.get::<ConfigMap>(&key).await?.unwrap();
                let first = client.pinned_revision::<ConfigMap>().unwrap();
                let written = client.patch::<ConfigMap>(&key, &merge()).await?;
                let revision = written.metadata.resource_version.unwrap().parse().unwrap();
                store.wait_until(Some("default"), revision).await;
                client.get::<ConfigMap>(&key).await?.unwrap();
                let second = client.pinned_revision::<ConfigMap>().unwrap();
                assert!(second >= revision && (first < revision || first == second), "{first} {second}");
                seen.fetch_add(1, Ordering::SeqCst);
                Ok(Action::done())
            }
        })
        .unwrap();
    beside(&manager, until("a run", || done.load(Ordering::SeqCst) > 0)).await;
}
