//! Read your own writes, repeatable reads, and everything that must never make them wait for ever.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use serde_json::json;
use setpoint::{
    Action, Client, ClientError, Context, Controller, Key, Manager, ManagerOptions, Patch, Query, Target,
};
use tokio::time::Instant;

use crate::controllers::{CONFIG_MAPS, SECRETS, beside, config_map, timed, until};
use crate::fake::Fake;
use crate::logging::Listener;

fn typed(name: &str, data: &str) -> ConfigMap {
    serde_json::from_value(config_map(name, data)).unwrap()
}

fn data(object: &ConfigMap) -> &str {
    &object.data.as_ref().unwrap()["key"]
}

/// A manager that only keeps ConfigMaps, beside a test of its client.
pub async fn with_client<T>(fake: &Fake, test: impl AsyncFnOnce(Client, Manager) -> T) -> T {
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    manager.informer::<ConfigMap>();
    let client = manager.client();
    beside(&manager, test(client, manager.clone())).await
}

#[tokio::test(start_paused = true)]
async fn a_read_waits_until_the_cache_shows_the_own_write() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "old"));
    with_client(&fake, async |client, manager| {
        client.get::<ConfigMap>(("default", "a")).await.unwrap().unwrap();
        fake.hold_watches(true);
        client
            .patch::<ConfigMap>(("default", "a"), &Patch::Merge(json!({"data": {"key": "new"}})))
            .await
            .unwrap();
        client.create(&typed("b", "1")).await.unwrap();
        let release = async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            fake.hold_watches(false);
        };
        let ((read, waited), (listed, listing), ()) = tokio::join!(
            timed(client.get::<ConfigMap>(("default", "a"))),
            timed(client.list::<ConfigMap>(Query::namespace("default"))),
            release
        );
        assert_eq!(data(&read.unwrap().unwrap()), "new");
        assert_eq!(listed.unwrap().len(), 2);
        assert_eq!((waited, listing), (2, 2));
        assert!(
            manager
                .metrics()
                .encode()
                .contains(r#"setpoint_stale_reads_prevented_total{kind="ConfigMap"} 2"#)
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_seen_by_uid_also_when_the_name_is_taken_again() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    with_client(&fake, async |client, _| {
        let uid = async || {
            client.get::<ConfigMap>(("default", "a")).await.unwrap().and_then(|map| map.metadata.uid.clone())
        };
        let old = uid().await.unwrap();
        fake.hold_watches(true);
        client.delete::<ConfigMap>(("default", "a")).await.unwrap();
        let successor = fake.put(CONFIG_MAPS, config_map("a", "2"));
        let release = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            fake.hold_watches(false);
        };
        let (read, ()) = tokio::join!(uid(), release);
        assert_ne!(read, Some(old));
        // The read waits for the deletion alone. In a second of virtual time the new object has arrived too.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(uid().await.as_deref(), successor["metadata"]["uid"].as_str());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_was_made_and_deleted_before_the_cache_saw_it_does_not_appear() {
    let fake = Fake::new();
    with_client(&fake, async |client, _| {
        fake.hold_watches(true);
        client.create(&typed("a", "1")).await.unwrap();
        client.delete::<ConfigMap>(("default", "a")).await.unwrap();
        let release = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            fake.hold_watches(false);
        };
        let ((read, waited), ()) = tokio::join!(timed(client.get::<ConfigMap>(("default", "a"))), release);
        assert!(read.unwrap().is_none());
        assert_eq!(waited, 1, "the read waited for the creation to come and go");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_read_in_vain_is_refused_counted_and_not_repeated() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "old"));
    with_client(&fake, async |client, manager| {
        client.get::<ConfigMap>(("default", "a")).await.unwrap().unwrap();
        fake.hold_watches(true);
        client
            .patch::<ConfigMap>(("default", "a"), &Patch::Merge(json!({"data": {"key": "new"}})))
            .await
            .unwrap();
        let began = Instant::now();
        let listener = Listener::default();
        let listens = listener.listen();
        let refused = client.get::<ConfigMap>(("default", "a")).await.unwrap_err();
        drop(listens);
        assert_eq!(
            (refused.to_string().as_str(), began.elapsed().as_secs()),
            ("the cache of ConfigMap does not show this process's write to default/a after 5.0 s", 5)
        );
        let written = &fake.get(CONFIG_MAPS, "default", "a").unwrap()["metadata"]["resourceVersion"];
        let waited_for = format!("revision: {}", written.as_str().unwrap());
        let warnings = listener.warnings();
        assert!(
            warnings.iter().any(|text| text.contains(&waited_for) && text.contains(r#""lag": "5s""#)),
            "{warnings:?}"
        );
        let listed = client.list::<ConfigMap>(Query::namespace("default")).await;
        assert!(
            listed.unwrap_err().is_stale() && client.list::<ConfigMap>(Query::namespace("b")).await.is_ok()
        );
        assert_eq!(began.elapsed().as_secs(), 5, "nobody waits twice for one write");
        let shows = |line: &str| {
            let metrics = manager.metrics().encode();
            assert!(metrics.contains(line), "{metrics}");
        };
        shows(r#"setpoint_read_your_writes_timeouts_total{kind="ConfigMap"} 2"#);
        shows(r#"setpoint_cache_lag_seconds{kind="ConfigMap"} 5"#);
        fake.hold_watches(false);
        let store = manager.informer::<ConfigMap>().store().clone();
        store.wait_until(Some("default"), written.as_str().unwrap().parse().unwrap()).await;
        client.get::<ConfigMap>(("default", "a")).await.unwrap();
        shows(r#"setpoint_cache_lag_seconds{kind="ConfigMap"} 0"#);
    })
    .await;
}

/// A watch that is held for ever, as by a proxy that lost it, while lists are answered.
#[tokio::test(start_paused = true)]
async fn a_minute_after_a_write_that_no_watch_tells_of_the_informer_relists() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "old"));
    with_client(&fake, async |client, _| {
        client.get::<ConfigMap>(("default", "a")).await.unwrap().unwrap();
        fake.hold_watches(true);
        client
            .patch::<ConfigMap>(("default", "a"), &Patch::Merge(json!({"data": {"key": "new"}})))
            .await
            .unwrap();
        let began = Instant::now();
        assert!(client.get::<ConfigMap>(("default", "a")).await.unwrap_err().is_stale());
        let read = loop {
            match client.get::<ConfigMap>(("default", "a")).await {
                Ok(read) => break read.unwrap(),
                Err(error) => assert!(error.is_stale(), "{error}"),
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        };
        assert_eq!(data(&read), "new");
        assert!((60..=62).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_seen_is_not_waited_for() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    manager.informer_of(Target::of::<ConfigMap>().in_namespace("default").labels("app=web"));
    let client = manager.client();
    beside(&manager, async {
        let began = Instant::now();
        client.list::<ConfigMap>(Query::namespace("default")).await.unwrap();
        fake.hold_watches(true);
        // Another label, and a dry run.
        client.create(&typed("unlabelled", "1")).await.unwrap();
        client.dry_run().create(&typed("dry", "1")).await.unwrap();
        client.list::<ConfigMap>(Query::namespace("default")).await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(1));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_write_that_changes_nothing_never_gates() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    with_client(&fake, async |client, _| {
        client.get::<ConfigMap>(("default", "a")).await.unwrap().unwrap();
        fake.hold_watches(true);
        let same = Patch::Merge(json!({"data": {"key": "1"}}));
        let began = Instant::now();
        client.patch::<ConfigMap>(("default", "a"), &same).await.unwrap();
        let read = client.get::<ConfigMap>(("default", "a")).await.unwrap().unwrap();
        assert_eq!((data(&read), client.list::<ConfigMap>(Query::all()).await.unwrap().len()), ("1", 1));
        assert_eq!(began.elapsed(), Duration::ZERO);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_a_usable_version_never_gates() {
    let fake = Fake::new();
    let odd = kube::Client::new(
        tower::service_fn({
            let fake = fake.clone();
            move |request: http::Request<kube::client::Body>| {
                let mut fake = fake.clone();
                async move {
                    if request.method() == http::Method::POST {
                        let secret = request.uri().path().ends_with("secrets");
                        let (kind, version) =
                            if secret { ("Secret", "") } else { ("ConfigMap", "restored-7") };
                        let answer = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "x",
                            "namespace": "default", "resourceVersion": version}});
                        return Ok(crate::fake::answer(http::StatusCode::CREATED, &answer));
                    }
                    tower::Service::call(&mut fake, request).await
                }
            }
        }),
        "default",
    );
    let manager = Manager::new(odd, ManagerOptions::default());
    manager.informer::<ConfigMap>();
    manager.informer::<Secret>();
    let client = manager.client();
    beside(&manager, async {
        let began = Instant::now();
        let named = kube::api::ObjectMeta {
            name: Some("x".into()),
            namespace: Some("default".into()),
            ..Default::default()
        };
        client.create(&typed("x", "1")).await.unwrap();
        client.create(&Secret { metadata: named, ..Secret::default() }).await.unwrap();
        client.get::<ConfigMap>(("default", "x")).await.unwrap();
        client.get::<Secret>(("default", "x")).await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(1));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn reads_of_one_reconcile_are_repeatable_and_move_past_its_own_writes() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    fake.put(CONFIG_MAPS, config_map("b", "1"));
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let (seen, server) = (Arc::clone(&log), fake.clone());
    let cached = manager.informer::<ConfigMap>().store().clone();
    Controller::for_kind::<ConfigMap>(&manager)
        .with_predicate(setpoint::Predicate::new(|change| change.object().unwrap().name() == "a"))
        .register(move |ctx: Context, request: Key| {
            let (seen, server, cached) = (Arc::clone(&seen), server.clone(), cached.clone());
            async move {
                let client = ctx.client();
                let read = async |name: &str| {
                    data(&client.get::<ConfigMap>(("default", name)).await.unwrap().unwrap()).to_owned()
                };
                let first = read("a").await;
                if seen.lock().unwrap().is_empty() {
                    assert!(client.pinned_revision::<ConfigMap>().unwrap() > 0);
                    // Somebody else changes b, and the cache shows it.
                    let written = server.put(CONFIG_MAPS, config_map("b", "foreign"));
                    let revision = written["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
                    cached.wait_until(Some("default"), revision).await;
                    let second = read("b").await;
                    client
                        .patch::<ConfigMap>(&request, &Patch::Merge(json!({"data": {"key": "own"}})))
                        .await?;
                    let third = (read("a").await, read("b").await);
                    *seen.lock().unwrap() = vec![first, second, third.0, third.1];
                }
                Ok(Action::done())
            }
        })
        .unwrap();
    beside(&manager, until("a run", || !log.lock().unwrap().is_empty())).await;
    assert_eq!(*log.lock().unwrap(), ["1", "1", "own", "foreign"]);
}

#[tokio::test(start_paused = true)]
async fn a_reconcile_begins_only_when_the_caches_show_what_the_last_one_wrote() {
    for consistent in [true, false] {
        let fake = Fake::new();
        fake.put(CONFIG_MAPS, config_map("a", "1"));
        let manager = Manager::new(fake.client(), ManagerOptions::default());
        let runs = Arc::new(AtomicUsize::new(0));
        let (counted, server) = (Arc::clone(&runs), fake.clone());
        let controller = Controller::for_kind::<ConfigMap>(&manager).reads::<Secret>();
        let controller = if consistent { controller } else { controller.without_read_your_writes() };
        let handle = controller
            .register(move |ctx: Context, key: Key| {
                let (counted, server) = (Arc::clone(&counted), server.clone());
                async move {
                    // Naive on purpose: creates a child whenever it sees none.
                    if ctx.client().list::<Secret>(Query::all()).await?.is_empty() {
                        server.hold_watches(true);
                        let name = format!("{}-{}", key.name(), counted.load(Ordering::SeqCst));
                        let metadata = kube::api::ObjectMeta {
                            name: Some(name),
                            namespace: Some("default".into()),
                            ..Default::default()
                        };
                        ctx.client().create(&Secret { metadata, ..Secret::default() }).await?;
                    }
                    counted.fetch_add(1, Ordering::SeqCst);
                    Ok(Action::done())
                }
            })
            .unwrap();
        beside(&manager, async {
            until("the first run", || runs.load(Ordering::SeqCst) == 1).await;
            handle.enqueue(&Key::namespaced("default", "a"));
            tokio::time::sleep(Duration::from_secs(1)).await;
            fake.hold_watches(false);
            until("the second run", || runs.load(Ordering::SeqCst) >= 2).await;
        })
        .await;
        let children = fake.writes().iter().filter(|call| call.ends_with("secrets")).count();
        assert_eq!(children, if consistent { 1 } else { 2 }, "consistent: {consistent}");
        assert!(fake.get(SECRETS, "default", "a-0").is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn reading_what_nobody_keeps_says_what_to_declare() {
    let fake = Fake::new();
    with_client(&fake, async |client, _| {
        let error = client.get::<Secret>(("default", "a")).await.unwrap_err();
        assert!(matches!(error, ClientError::NoInformer { .. }));
        let text = error.to_string();
        assert!(text.contains("no informer keeps Secret in namespace default"), "{text}");
        assert!(text.contains(".reads::<Secret>()") && text.contains("client.live()"), "{text}");
        assert!(client.live().get::<Secret>(("default", "a")).await.unwrap().is_none());
        let error = client.list::<ConfigMap>(Query::all().index("nope", "x")).await.unwrap_err();
        assert!(matches!(error, ClientError::NoIndex { .. }));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_key_that_cannot_be_one_of_the_kind_is_refused() {
    let fake = Fake::new();
    fake.put(CONFIG_MAPS, config_map("a", "1"));
    with_client(&fake, async |client, manager| {
        manager.informer::<Node>();
        let error = client.get::<ConfigMap>(Key::new(None, "a")).await.unwrap_err();
        assert_eq!(error.to_string(), "the ConfigMap has no namespace");
        let error = client.live().get::<ConfigMap>(Key::new(None, "a")).await.unwrap_err();
        assert_eq!(error.to_string(), "the ConfigMap has no namespace");
        let within = client.in_namespace("default");
        assert!(within.get::<ConfigMap>(Key::new(None, "a")).await.unwrap().is_some());
        let error = client.get::<Node>(Key::namespaced("default", "a")).await.unwrap_err();
        assert!(matches!(error, ClientError::ClusterScoped { .. }), "{error}");
        assert!(client.get::<Node>("a").await.unwrap().is_none());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_read_that_nobody_can_answer_says_what_there_is() {
    let fake = Fake::new();
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    manager.informer_of(Target::of::<Secret>().in_namespace("x"));
    manager.informer_of(Target::of::<ConfigMap>().metadata_only());
    let client = manager.client();
    beside(&manager, async {
        let text = client.get::<Secret>(("y", "a")).await.unwrap_err().to_string();
        assert!(
            text.starts_with("no informer keeps Secret in namespace y (only in other namespaces):"),
            "{text}"
        );
        let text = client.list::<ConfigMap>(Query::all()).await.unwrap_err().to_string();
        assert!(text.starts_with("no informer keeps ConfigMap (its metadata alone):"), "{text}");
    })
    .await;
    let error = client.get::<Secret>(("x", "a")).await.unwrap_err();
    assert!(matches!(error, ClientError::Stopped), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_list_of_everything_is_not_answered_with_a_part_of_it() {
    let fake = Fake::new();
    let manager = Manager::new(fake.client(), ManagerOptions::default());
    for namespace in ["x", "y"] {
        manager.informer_of(Target::of::<Secret>().in_namespace(namespace));
    }
    let client = manager.client();
    beside(&manager, async {
        let error = client.list::<Secret>(Query::all()).await.unwrap_err();
        assert!(matches!(error, ClientError::PartialInformers { .. }), "{error}");
        assert!(client.list::<Secret>(Query::namespace("y")).await.unwrap().is_empty());
        manager.informer::<Secret>();
        assert!(client.list::<Secret>(Query::all()).await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn wrappers_restrict_and_intercept() {
    let fake = Fake::new();
    with_client(&fake, async |client, _| {
        let error = client.in_namespace("other").create(&typed("a", "1")).await.unwrap_err();
        assert!(matches!(error, ClientError::WrongNamespace { .. }));
        let failing = client.intercept(|call| match call.verb {
            setpoint::client::Verb::Create => Err(ClientError::Hook("no room".into())),
            _ => Ok(()),
        });
        assert_eq!(failing.create(&typed("a", "1")).await.unwrap_err().to_string(), "no room");
        assert!(fake.writes().is_empty());
        client.create(&typed("a", "1")).await.unwrap();
        let error = client.create(&typed("a", "1")).await.unwrap_err();
        assert!(error.is_already_exists() && !error.is_conflict());
        let mut stale = typed("a", "2");
        stale.metadata.resource_version = Some("999".into());
        assert!(client.update(&stale).await.unwrap_err().is_conflict());
        let (_, first) = client
            .create_or_update(typed("a", ""), |object| {
                object.data.get_or_insert_default().insert("key".into(), "3".into());
                Ok(())
            })
            .await
            .unwrap();
        let same = |_: &mut ConfigMap| Ok(());
        let (_, second) = client.create_or_update(typed("a", ""), same).await.unwrap();
        assert_eq!(
            (first, second),
            (setpoint::client::Upserted::Updated, setpoint::client::Upserted::Unchanged)
        );
        for name in ["a", "fresh"] {
            let rename = |object: &mut ConfigMap| {
                object.metadata.name = Some("other".into());
                Ok(())
            };
            let refused = client.create_or_update(typed(name, ""), rename).await.unwrap_err();
            assert!(refused.is_terminal() && refused.to_string().contains("must not rename"), "{refused}");
        }
        // The client's own namespace is no other name.
        let mut skeleton = typed("in-own", "");
        skeleton.metadata.namespace = None;
        let fill = |object: &mut ConfigMap| {
            *object = typed("in-own", "1");
            Ok(())
        };
        let (_, did) = client.in_namespace("default").create_or_update(skeleton, fill).await.unwrap();
        assert_eq!(did, setpoint::client::Upserted::Created);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn hooks_hear_what_a_call_is_about() {
    let fake = Fake::new();
    with_client(&fake, async |client, _| {
        let seen = Arc::new(Mutex::new(None));
        let heard = Arc::clone(&seen);
        let listening = client.intercept(move |call| {
            *heard.lock().unwrap() =
                Some((call.name.map(str::to_owned), call.subresource.map(str::to_owned)));
            Ok(())
        });
        let heard = || seen.lock().unwrap().take().unwrap();
        let _ = listening.get_subresource::<ConfigMap, serde_json::Value>(("default", "a"), "scale").await;
        assert_eq!(heard(), (Some("a".to_owned()), Some("scale".to_owned())));
        listening.create(&typed("named", "1")).await.unwrap();
        assert_eq!(heard(), (Some("named".to_owned()), None));
        let resource = kube::core::ApiResource::erase::<ConfigMap>(&());
        listening.dynamic(&resource).create(&config_map("dynamic", "1")).await.unwrap();
        assert_eq!(heard(), (Some("dynamic".to_owned()), None));
        assert_eq!(fake.writes().last().unwrap(), "POST /api/v1/namespaces/default/configmaps");
    })
    .await;
}
