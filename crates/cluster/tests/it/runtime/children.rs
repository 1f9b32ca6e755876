//! Controllers: owners, finalizers, conflicts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use serde_json::json;
use setpoint::client::{owner_reference, set_controller_reference};
use setpoint::finalizer::Lifecycle;
use setpoint::{Action, ClientError, Context, Controller, Error, Key, Target, Watch, predicate};

use super::{Place, beside, until, until_true};

const FINALIZER: &str = "example.org/cleanup";

async fn copy(ctx: Context, key: Key) -> Result<Action, Error> {
    let Some(owner) = ctx.client().get::<ConfigMap>(&key).await? else { return Ok(Action::done()) };
    if owner.data.as_ref().is_none_or(|data| !data.contains_key("key")) {
        return Ok(Action::done());
    }
    let metadata = ObjectMeta {
        name: owner.metadata.name.clone(),
        namespace: owner.metadata.namespace.clone(),
        ..ObjectMeta::default()
    };
    let mut child = Secret { metadata, string_data: owner.data.clone(), ..Secret::default() };
    set_controller_reference(&*owner, &mut child)?;
    ctx.client().apply(&child).await?;
    Ok(Action::done())
}

#[tokio::test]
async fn a_child_follows_its_owner_and_comes_back_when_it_is_deleted() {
    let place = Place::new().await;
    let manager = place.manager();
    Controller::for_kind::<ConfigMap>(&manager).owns::<Secret>().register(copy).unwrap();
    place.put("before", "1").await;
    let secrets = place.api::<Secret>();
    let value = async |name: &str| {
        let secret = secrets.get_opt(name).await.unwrap()?;
        Some((secret.metadata.uid?, String::from_utf8(secret.data?.get("key")?.0.clone()).ok()?))
    };
    beside(&manager, async {
        until("the child of what was there", async || value("before").await).await;
        place.put("after", "1").await;
        let (first, _) = until("the child of the new object", async || value("after").await).await;
        secrets.delete("after", &DeleteParams::default()).await.unwrap();
        until("another child", async || value("after").await.filter(|(uid, _)| *uid != first)).await;
        let patch = kube::api::Patch::Merge(json!({"data": {"key": "2"}}));
        place.api::<ConfigMap>().patch("after", &Default::default(), &patch).await.unwrap();
        until("the new value", async || value("after").await.filter(|(_, value)| value == "2")).await;
    })
    .await;
}

#[tokio::test]
async fn the_finalizer_holds_an_object_until_it_was_cleaned_up() {
    let place = Place::new().await;
    let manager = place.manager();
    let cleaned = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&cleaned);
    let failures = Arc::new(AtomicUsize::new(2));
    Controller::for_kind::<ConfigMap>(&manager)
        .with_predicate(setpoint::Predicate::new(|change| {
            change.object().is_some_and(|object| object.name() == "guarded")
        }))
        .register(move |ctx: Context, key: Key| {
            let (counted, failures) = (Arc::clone(&counted), Arc::clone(&failures));
            async move {
                let on_delete = |_: Arc<ConfigMap>| async move {
                    let left = |left: usize| left.checked_sub(1);
                    if failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left).is_ok() {
                        return Err(Error::msg("the bucket is busy"));
                    }
                    counted.fetch_add(1, Ordering::SeqCst);
                    Ok(())
                };
                let life = ctx.client().lifecycle::<ConfigMap>(&key, FINALIZER, on_delete).await?;
                if let Lifecycle::Alive(object) = life {
                    assert!(setpoint::finalizer::has_finalizer(&*object, FINALIZER));
                }
                Ok(Action::done())
            }
        })
        .unwrap();
    let api = place.api::<ConfigMap>();
    place.put("guarded", "1").await;
    beside(&manager, async {
        until("the finalizer", async || {
            let object = api.get_opt("guarded").await.unwrap()?;
            setpoint::finalizer::has_finalizer(&object, FINALIZER).then_some(())
        })
        .await;
        api.delete("guarded", &DeleteParams::default()).await.unwrap();
        until("it is gone", async || api.get_opt("guarded").await.unwrap().is_none().then_some(())).await;
    })
    .await;
    assert_eq!(cleaned.load(Ordering::SeqCst), 1, "cleaned up once, after two failures");
}

#[tokio::test]
async fn a_finalizer_that_no_server_takes_is_an_error_and_no_conflict() {
    let place = Place::new().await;
    let manager = place.manager();
    manager.informer::<ConfigMap>();
    let client = manager.client();
    place.put("a", "1").await;
    beside(&manager, async {
        let nothing = |_: Arc<ConfigMap>| async { Ok(()) };
        let refused = client.lifecycle::<ConfigMap>(place.key("a"), "no finalizer", nothing).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.client_error().unwrap().code(), Some(422), "{refused}");
        assert!(!refused.is_conflict() && refused.to_string().contains("metadata.finalizers"), "{refused}");
    })
    .await;
}

/// Each sees a part of the kind: neither may take the other's objects for deleted.
#[tokio::test]
async fn controllers_of_parts_of_a_kind_read_their_own_part() {
    let place = Place::new().await;
    let manager = place.manager();
    let (sender, mut found) = tokio::sync::mpsc::unbounded_channel();
    for team in ["a", "b"] {
        let target = Target::of::<ConfigMap>().in_namespace(&place.namespace).labels(&format!("team={team}"));
        let sender = sender.clone();
        Controller::for_target(&manager, target)
            .named(team)
            .register(move |ctx: Context, key: Key| {
                let sender = sender.clone();
                async move {
                    let object = ctx.client().get::<ConfigMap>(&key).await?;
                    let _ = sender.send((team, key.name().to_owned(), object.is_some()));
                    Ok(Action::done())
                }
            })
            .unwrap();
    }
    for team in ["a", "b"] {
        let mut object = place.config_map(team, "1");
        object.metadata.labels = Some([("team".to_owned(), team.to_owned())].into());
        place.api::<ConfigMap>().create(&PostParams::default(), &object).await.unwrap();
    }
    beside(&manager, async {
        let mut seen = [found.recv().await.unwrap(), found.recv().await.unwrap()];
        seen.sort();
        assert_eq!(seen, [("a", "a".into(), true), ("b", "b".into(), true)]);
    })
    .await;
}

#[tokio::test]
async fn any_owner_queues_and_lost_conflicts_are_retried_quietly() {
    let place = Place::new().await;
    let manager = place.manager();
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let conflicts = Arc::new(AtomicUsize::new(0));
    let lost = Arc::clone(&conflicts);
    let api = place.api::<ConfigMap>();
    let other = api.clone();
    Controller::for_kind::<ConfigMap>(&manager)
        .with_predicate(predicate::labels_changed())
        .watches(Watch::of::<Secret>().by_any_owner())
        .register(move |ctx: Context, key: Key| {
            let (counted, lost, other) = (Arc::clone(&counted), Arc::clone(&lost), other.clone());
            async move {
                if key.name() != "owner" {
                    return Ok(Action::done());
                }
                let mut object = (*ctx.client().get::<ConfigMap>(&key).await?.unwrap()).clone();
                if counted.fetch_add(1, Ordering::SeqCst) == 0 {
                    // Another client writes in between.
                    let patch = kube::api::Patch::Merge(json!({"data": {"other": "1"}}));
                    other.patch("owner", &Default::default(), &patch).await?;
                }
                object.data.get_or_insert_default().insert("mine".into(), "1".into());
                let updated = ctx.client().update(&object).await;
                if updated.as_ref().is_err_and(ClientError::is_conflict) {
                    lost.fetch_add(1, Ordering::SeqCst);
                }
                updated?;
                Ok(Action::done())
            }
        })
        .unwrap();
    let owner = place.put("owner", "1").await;
    beside(&manager, async {
        until("both writes", async || {
            let data = api.get("owner").await.unwrap().data?;
            (data.contains_key("mine") && data.contains_key("other")).then_some(())
        })
        .await;
        let metrics = manager.metrics().encode();
        // Another try may come before the cache has the other's write.
        let conflicts = conflicts.load(Ordering::SeqCst);
        assert!(conflicts > 0);
        let counted = format!(r#"setpoint_reconcile_conflicts_total{{controller="configmap"}} {conflicts}"#);
        assert!(metrics.contains(&counted), "{metrics}");
        assert!(metrics.contains(r#"controller_runtime_reconcile_errors_total{controller="configmap"} 0"#));
        let before = runs.load(Ordering::SeqCst);
        // Owned, but not controlled.
        let mut reference = owner_reference(&owner).unwrap();
        reference.controller = Some(false);
        let metadata = ObjectMeta {
            name: Some("child".into()),
            owner_references: Some(vec![reference]),
            ..ObjectMeta::default()
        };
        let child = Secret { metadata, ..Secret::default() };
        place.api::<Secret>().create(&PostParams::default(), &child).await.unwrap();
        until_true("the owner runs again", || runs.load(Ordering::SeqCst) > before).await;
        let controller = place.put("another", "1").await;
        let mut taken: Secret = place.api::<Secret>().get("child").await.unwrap();
        set_controller_reference(&controller, &mut taken).unwrap();
        let error = set_controller_reference(&owner, &mut taken).unwrap_err();
        assert!(
            error.to_string().contains("already owned by another ConfigMap controller another"),
            "{error}"
        );
    })
    .await;
}
