//! The readers that wait for a write of this process, and those that must not.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::core::ApiResource;
use serde_json::{Value, json};
use setpoint::{
    Action, Client, ClientError, Context, Controller, DeleteOptions, Key, Manager, ManagerOptions, Patch,
    Query, Target,
};
use tokio::time::Instant;

use crate::consistency::with_client;
use crate::controllers::{CONFIG_MAPS, SECRETS, beside, config_map, timed, until};
use crate::fake::Fake;

fn new_value() -> Patch {
    Patch::Merge(json!({"data": {"key": "new"}}))
}

fn secret(name: &str) -> Secret {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "default"}})).unwrap()
}

async fn value(client: &Client, name: &str) -> Option<String> {
    let object = client.get::<ConfigMap>(("default", name)).await.unwrap()?;
    object.data.as_ref()?.get("key").cloned()
}

/// Lets the watches go on after a while.
async fn release(fake: &Fake) {
    tokio::time::sleep(Duration::from_secs(2)).await;
    fake.hold_watches(false);
}

#[tokio::test(start_paused = true)]
async fn namespaces_that_are_chosen_by_label_are_waited_for_as_others_are() {
    let fake = Fake::new();
    fake.put(
        "api/v1/namespaces",
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}),
    );
    fake.put(CONFIG_MAPS, config_map("a", "old"));
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let informer = manager.informer_of(Target::of::<ConfigMap>().in_namespaces_labelled("team=a"));
    let client = manager.client();
    beside(&manager, async {
        informer.wait_synced().await;
        assert_eq!(value(&client, "a").await.as_deref(), Some("old"));
        fake.hold_watches(true);
        client.patch::<ConfigMap>(("default", "a"), &new_value()).await.unwrap();
        let ((read, waited), ()) = tokio::join!(timed(value(&client, "a")), release(&fake));
        assert_eq!((read.as_deref(), waited), (Some("new"), 2));
    })
    .await;
}

/// A reconcile that reads nothing, so that only its own start can wait.
#[tokio::test(start_paused = true)]
async fn a_reconcile_starts_when_its_predecessors_writes_and_all_writes_to_its_object_are_seen() {
    for (consistent, waited) in [(true, 2), (false, 0)] {
        for own in [true, false] {
            let fake = Fake::new();
            fake.put(CONFIG_MAPS, config_map("a", "old"));
            let manager = Manager::new(fake.client(), ManagerOptions::default());
            let starts: Arc<Mutex<Vec<Instant>>> = Arc::default();
            let (seen, server) = (Arc::clone(&starts), fake.clone());
            let controller = Controller::for_kind::<ConfigMap>(&manager).reads::<Secret>();
            let controller = if consistent { controller } else { controller.without_read_your_writes() };
            let handle = controller
                .register(move |ctx: Context, _: Key| {
                    let (seen, server) = (Arc::clone(&seen), server.clone());
                    async move {
                        let first = seen.lock().unwrap().is_empty();
                        seen.lock().unwrap().push(Instant::now());
                        if first && own {
                            server.hold_watches(true);
                            ctx.client().create(&secret("child")).await?;
                        }
                        Ok(Action::done())
                    }
                })
                .unwrap();
            let client = manager.client();
            beside(&manager, async {
                until("the first run", || starts.lock().unwrap().len() == 1).await;
                if !own {
                    fake.hold_watches(true);
                    client.patch::<ConfigMap>(("default", "a"), &new_value()).await.unwrap();
                }
                let queued = Instant::now();
                handle.enqueue(&Key::namespaced("default", "a"));
                tokio::join!(until("the second run", || starts.lock().unwrap().len() >= 2), release(&fake));
                let second = starts.lock().unwrap()[1];
                assert_eq!((second - queued).as_secs(), waited, "consistent {consistent}, own {own}");
            })
            .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_other_workers_write_meanwhile_does_not_show_within_a_reconcile() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    fake.put(CONFIG_MAPS, config_map("b", "1"));
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let store = manager.informer::<ConfigMap>().store().clone();
    let (other, done) = (manager.client(), Arc::new(AtomicBool::new(false)));
    let finished = Arc::clone(&done);
    Controller::for_kind::<ConfigMap>(&manager)
        .with_predicate(setpoint::Predicate::new(|change| change.object().unwrap().name() == "a"))
        .register(move |ctx: Context, _: Key| {
            let (other, store, finished) = (other.clone(), store.clone(), Arc::clone(&finished));
            async move {
                if finished.load(Ordering::SeqCst) {
                    return Ok(Action::done());
                }
                let client = ctx.client();
                let names = async || client.list::<ConfigMap>(Query::all()).await.unwrap().len();
                assert_eq!(names().await, 2);
                let b = other.patch::<ConfigMap>(("default", "b"), &new_value()).await?;
                let c =
                    other.create(&serde_json::from_value::<ConfigMap>(config_map("c", "1")).unwrap()).await?;
                for written in [b, c] {
                    let revision = written.metadata.resource_version.unwrap().parse().unwrap();
                    store.wait_until(Some("default"), revision).await;
                }
                assert_eq!(value(client, "b").await.as_deref(), Some("1"));
                assert_eq!((names().await, value(client, "c").await), (2, None));
                // Its own write moves it on, and all the others show.
                client.patch::<ConfigMap>(("default", "a"), &new_value()).await?;
                assert_eq!(value(client, "b").await.as_deref(), Some("new"));
                assert_eq!(names().await, 3);
                finished.store(true, Ordering::SeqCst);
                Ok(Action::done())
            }
        })
        .unwrap();
    beside(&manager, until("a run", || done.load(Ordering::SeqCst))).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_written_before_a_reconcile_is_seen_by_it_whenever_it_reads_it() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    fake.put(CONFIG_MAPS, config_map("b", "1"));
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let (runs, server) = (Arc::new(AtomicUsize::new(0)), fake.clone());
    let counted = Arc::clone(&runs);
    let handle = Controller::for_kind::<ConfigMap>(&manager)
        .with_predicate(setpoint::Predicate::new(|_| false))
        .register(move |ctx: Context, _: Key| {
            let (server, counted) = (server.clone(), Arc::clone(&counted));
            async move {
                let client = ctx.client();
                assert_eq!(value(client, "a").await.as_deref(), Some("1"));
                let (b, ()) = tokio::join!(value(client, "b"), release(&server));
                assert_eq!(b.as_deref(), Some("new"));
                counted.fetch_add(1, Ordering::SeqCst);
                Ok(Action::done())
            }
        })
        .unwrap();
    let client = manager.client();
    beside(&manager, async {
        assert_eq!(value(&client, "b").await.as_deref(), Some("1"));
        fake.hold_watches(true);
        client.patch::<ConfigMap>(("default", "b"), &new_value()).await.unwrap();
        handle.enqueue(&Key::namespaced("default", "a"));
        until("a run", || runs.load(Ordering::SeqCst) == 1).await;
    })
    .await;
}

/// Another object of the kind is read before the write shows; then somebody else waits for it, sees it and forgets it.
#[tokio::test(start_paused = true)]
async fn an_own_write_is_read_also_where_others_saw_it_first() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "old"));
    fake.put(CONFIG_MAPS, config_map("b", "old"));
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let (runs, server, other) = (Arc::new(AtomicUsize::new(0)), fake.clone(), manager.client());
    let counted = Arc::clone(&runs);
    let handle = Controller::for_kind::<ConfigMap>(&manager)
        .with_predicate(setpoint::Predicate::new(|_| false))
        .register(move |ctx: Context, _: Key| {
            let (server, other, counted) = (server.clone(), other.clone(), Arc::clone(&counted));
            async move {
                let client = ctx.client();
                server.hold_watches(true);
                client.patch::<ConfigMap>(("default", "a"), &new_value()).await?;
                assert_eq!(value(client, "b").await.as_deref(), Some("old"));
                server.hold_watches(false);
                assert_eq!(value(&other, "a").await.as_deref(), Some("new"));
                assert_eq!(value(client, "a").await.as_deref(), Some("new"));
                counted.fetch_add(1, Ordering::SeqCst);
                Ok(Action::done())
            }
        })
        .unwrap();
    beside(&manager, async {
        handle.enqueue(&Key::namespaced("default", "a"));
        until("a run", || runs.load(Ordering::SeqCst) == 1).await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_waited_for_also_after_the_creation_was_overdue() {
    let fake = Fake::new();
    with_client(&fake, async |client, _| {
        assert_eq!(value(&client, "a").await, None);
        fake.hold_watches(true);
        client.create(&serde_json::from_value::<ConfigMap>(config_map("a", "1")).unwrap()).await.unwrap();
        let read = client.get::<ConfigMap>(("default", "a")).await;
        assert!(read.is_err_and(|error| error.is_stale()));
        client.delete::<ConfigMap>(("default", "a")).await.unwrap();
        let ((read, waited), ()) = tokio::join!(timed(value(&client, "a")), release(&fake));
        assert_eq!((read, waited), (None, 2));
    })
    .await;
}

/// Lets the cache get as far as one state of an object, and no further.
async fn show(fake: &Fake, object: &Value) {
    fake.pass(object);
    tokio::time::sleep(Duration::from_secs(1)).await;
}

async fn live(client: &Client, name: &str) -> ConfigMap {
    client.live().get::<ConfigMap>(("default", name)).await.unwrap().unwrap()
}

/// Somebody replaced the object before it was deleted, and the cache knows neither.
#[tokio::test(start_paused = true)]
async fn a_deleted_successor_takes_its_predecessor_along() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    with_client(&fake, async |client, _| {
        assert_eq!(value(&client, "a").await.as_deref(), Some("1"));
        fake.hold_watches(true);
        fake.remove(CONFIG_MAPS, "default", "a");
        let successor = fake.put(CONFIG_MAPS, config_map("a", "2"));
        client.delete::<ConfigMap>(("default", "a")).await.unwrap();
        let ((read, waited), ()) = tokio::join!(timed(value(&client, "a")), async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            let removed = json!({"metadata": {"resourceVersion": "102"}});
            show(&fake, &removed).await;
        });
        assert_eq!((read, waited), (None, 2));
        // It comes, and is known to have gone.
        show(&fake, &successor).await;
        let ((read, waited), ()) = tokio::join!(timed(value(&client, "a")), release(&fake));
        assert_eq!((read, waited), (None, 2));
    })
    .await;
}

type Delete = fn(Client, ConfigMap) -> BoxFuture<'static, Result<(), ClientError>>;

#[tokio::test(start_paused = true)]
async fn what_is_deleted_before_the_cache_had_it_is_not_read_when_it_comes() {
    const KEY: (&str, &str) = ("default", "a");
    // Which of them says when the object existed, so that it is waited for also while it has not come.
    let deletions: [(&str, bool, Delete); 3] = [
        ("the object", true, |client, object| Box::pin(async move { client.delete_object(&object).await })),
        ("its version", true, |client, object| {
            let options =
                DeleteOptions::default().resource_version(object.metadata.resource_version.unwrap());
            Box::pin(async move { client.delete_with::<ConfigMap>(KEY, &options).await })
        }),
        ("its name", false, |client, _| Box::pin(async move { client.delete::<ConfigMap>(KEY).await })),
    ];
    for (what, dated, delete) in deletions {
        for comes_first in [false, true] {
            let fake = Fake::new();
            with_client(&fake, async |client, _| {
                assert_eq!(value(&client, "a").await, None);
                fake.hold_watches(true);
                let object = fake.put(CONFIG_MAPS, config_map("a", "1"));
                delete(client.clone(), live(&client, "a").await).await.unwrap();
                if comes_first {
                    show(&fake, &object).await;
                }
                let ((read, waited), ()) = tokio::join!(timed(value(&client, "a")), release(&fake));
                let expected = if dated || comes_first { 2 } else { 0 };
                assert_eq!((read, waited), (None, expected), "by {what}, comes first {comes_first}");
            })
            .await;
        }
    }
}

/// It is not there when the read begins, and comes while that waits for something else.
#[tokio::test(start_paused = true)]
async fn what_is_deleted_by_its_name_does_not_slip_into_a_list_that_waits() {
    let fake = Fake::new();
    with_client(&fake, async |client, _| {
        assert_eq!(value(&client, "a").await, None);
        fake.hold_watches(true);
        // The first event is delivered by itself, the rest at once.
        fake.put(CONFIG_MAPS, config_map("first", "1"));
        client.create(&serde_json::from_value::<ConfigMap>(config_map("b", "own")).unwrap()).await.unwrap();
        let foreign = fake.put(CONFIG_MAPS, config_map("a", "1"));
        client.delete::<ConfigMap>(("default", "a")).await.unwrap();
        let come = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            fake.pass(&foreign);
            tokio::time::sleep(Duration::from_secs(1)).await;
            fake.hold_watches(false);
        };
        let ((read, waited), ()) = tokio::join!(timed(client.list::<ConfigMap>(Query::all())), come);
        let names: Vec<String> = read.unwrap().iter().filter_map(|one| one.metadata.name.clone()).collect();
        assert_eq!((names, waited), (vec!["b".to_owned(), "first".to_owned()], 2));
    })
    .await;
}

/// Two under one name, deleted one after the other before the cache had any.
#[tokio::test(start_paused = true)]
async fn of_two_that_are_deleted_under_one_name_neither_is_read() {
    let fake = Fake::new();
    with_client(&fake, async |client, _| {
        assert_eq!(value(&client, "a").await, None);
        fake.hold_watches(true);
        for number in ["1", "2"] {
            fake.put(CONFIG_MAPS, config_map("a", number));
            let object = fake.get(CONFIG_MAPS, "default", "a").unwrap();
            client.delete::<ConfigMap>(("default", "a")).await.unwrap();
            show(&fake, &object).await;
            let ((read, _), ()) = tokio::join!(timed(value(&client, "a")), async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                fake.hold_watches(false);
                tokio::time::sleep(Duration::from_secs(1)).await;
                fake.hold_watches(true);
            });
            assert_eq!(read, None, "{number}");
        }
    })
    .await;
}

/// An object that this process wrote and the cache has not seen was replaced by another one, and that was deleted.
#[tokio::test(start_paused = true)]
async fn an_unseen_write_is_not_taken_for_one_of_the_successor() {
    let fake = Fake::new();
    with_client(&fake, async |client, _| {
        assert_eq!(value(&client, "a").await, None);
        fake.hold_watches(true);
        client.create(&serde_json::from_value::<ConfigMap>(config_map("a", "own")).unwrap()).await.unwrap();
        let own = fake.get(CONFIG_MAPS, "default", "a").unwrap();
        fake.remove(CONFIG_MAPS, "default", "a");
        fake.put(CONFIG_MAPS, config_map("a", "foreign"));
        client.delete_object(&live(&client, "a").await).await.unwrap();
        show(&fake, &own).await;
        let ((read, waited), ()) = tokio::join!(timed(value(&client, "a")), release(&fake));
        assert_eq!((read, waited), (None, 2));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_a_field_selector_finds_by_name_or_has_found_is_waited_for() {
    for deleted in [false, true] {
        let fake = Fake::new();
        if deleted {
            fake.put(CONFIG_MAPS, config_map("a", "old"));
        }
        let manager = Manager::new(fake.client(), ManagerOptions::default());
        // The fake server selects nothing: it only matters what the client makes of it.
        let fields = if deleted { "data.key=old" } else { "metadata.name=a" };
        manager.informer_of(Target::of::<ConfigMap>().fields(fields));
        let client = manager.client();
        beside(&manager, async {
            assert_eq!(value(&client, "a").await.is_some(), deleted);
            fake.hold_watches(true);
            if deleted {
                let all = Query::namespace("default");
                client.delete_collection::<ConfigMap>(all, &DeleteOptions::default()).await.unwrap();
            } else {
                let fresh = serde_json::from_value::<ConfigMap>(config_map("a", "new")).unwrap();
                client.create(&fresh).await.unwrap();
            }
            let ((read, waited), ()) = tokio::join!(timed(value(&client, "a")), release(&fake));
            assert_eq!((read.is_some(), waited), (!deleted, 2), "deleted {deleted}");
        })
        .await;
    }
}

/// The server answers with the state that the cache has already: only the object's end shows that it was seen.
#[tokio::test(start_paused = true)]
async fn the_end_of_what_a_field_selector_has_found_is_waited_for() {
    let fake = Fake::new();
    let mut held = config_map("a", "old");
    held["metadata"]["finalizers"] = json!(["example.org/x"]);
    held["metadata"]["deletionTimestamp"] = "2026-11-15T12:00:00Z".into();
    fake.put(CONFIG_MAPS, held);
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    manager.informer_of(Target::of::<ConfigMap>().fields("data.key=old"));
    let client = manager.client();
    beside(&manager, async {
        assert!(value(&client, "a").await.is_some());
        fake.hold_watches(true);
        let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        client.patch::<ConfigMap>(("default", "a"), &free).await.unwrap();
        assert!(fake.get(CONFIG_MAPS, "default", "a").is_none());
        let ((read, waited), ()) = tokio::join!(timed(value(&client, "a")), release(&fake));
        assert_eq!((read, waited), (None, 2));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_whoever_is_asked_cannot_select_by_is_refused() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    with_client(&fake, async |client, _| {
        let by_index = || Query::namespace("default").index("owner", "x");
        let options = DeleteOptions::default();
        for refused in [
            client.delete_collection::<ConfigMap>(by_index(), &options).await.unwrap_err(),
            client.live().list::<ConfigMap>(by_index()).await.unwrap_err(),
            client.list::<ConfigMap>(Query::all().fields("metadata.name=b")).await.unwrap_err(),
        ] {
            assert!(matches!(refused, ClientError::BadQuery(_)), "{refused}");
        }
        assert!(fake.get(CONFIG_MAPS, "default", "a").is_some());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_write_that_was_not_seen_yet_keeps_no_watch_alive() {
    let fake = Fake::new();
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    manager.informer::<ConfigMap>();
    let client = manager.client();
    let watched = || manager.metrics().encode().contains(r#"resource="secrets""#);
    beside(&manager, async {
        let held = manager.hold(Target::of::<Secret>());
        held.wait_synced().await;
        assert!(watched());
        fake.hold_watches(true);
        client.create(&secret("s")).await.unwrap();
        drop(held);
        until("its informer is gone", || !watched()).await;
        assert!(matches!(client.get::<Secret>(("default", "s")).await, Err(ClientError::NoInformer { .. })));
    })
    .await;
    assert!(fake.get(SECRETS, "default", "s").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_restricted_client_reads_and_deletes_nothing_elsewhere() {
    let fake = Fake::new();
    let mut elsewhere = config_map("far", "1");
    elsewhere["metadata"]["namespace"] = "elsewhere".into();
    fake.put(CONFIG_MAPS, config_map("near", "1"));
    fake.put(CONFIG_MAPS, elsewhere.clone());
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    manager.informer::<ConfigMap>();
    let resource = ApiResource::erase::<ConfigMap>(&());
    beside(&manager, async {
        let client = manager.client();
        let near = client.in_namespace("default");
        let near = near.dynamic(&resource);
        let names = |values: Vec<Value>| -> Vec<String> {
            values.iter().map(|value| value["metadata"]["name"].as_str().unwrap().to_owned()).collect()
        };
        let cached = near.list(Query::all()).await.unwrap();
        let cached = cached.iter().map(|object| object.decode::<Value>().unwrap()).collect();
        assert_eq!(names(cached), ["near"]);
        assert_eq!(names(near.list_live(Query::all()).await.unwrap()), ["near"]);
        near.delete_collection(Query::all(), &DeleteOptions::default()).await.unwrap();
        assert!(fake.get(CONFIG_MAPS, "default", "near").is_none());
        assert!(fake.get(CONFIG_MAPS, "elsewhere", "far").is_some());
        // Also where nothing would be sent.
        let far: ConfigMap = serde_json::from_value(elsewhere).unwrap();
        client.apply(&far).await.unwrap();
        client.get::<ConfigMap>(("elsewhere", "far")).await.unwrap().unwrap();
        let restricted = client.in_namespace("default");
        let refused = restricted.apply(&far).await.unwrap_err();
        assert!(matches!(refused, ClientError::WrongNamespace { .. }), "{refused}");
        let refused = restricted.extract::<ConfigMap>(("elsewhere", "far")).await.unwrap_err();
        assert!(matches!(refused, ClientError::WrongNamespace { .. }), "{refused}");
    })
    .await;
}
