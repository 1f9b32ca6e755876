//! Writes, and the reads after them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v1::Scale;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service, ServiceAccount};
use k8s_openapi::api::rbac::v1::Role;
use kube::api::ObjectMeta;
use serde_json::{Value, json};
use setpoint::client::Upserted;
use setpoint::client::set_controller_reference;
use setpoint::{
    Action, ClientError, Context, Controller, DeleteOptions, Key, NotFoundExt, Patch, Query, Target,
};

use super::{Place, beside, until, until_true};

#[tokio::test]
async fn reads_see_what_was_written_before_whatever_the_verb() {
    let place = Place::new().await;
    let manager = place.manager();
    manager.informer::<ConfigMap>();
    let client = manager.client();
    let key = || place.key("a");
    beside(&manager, async {
        let data = async || {
            let object = client.get::<ConfigMap>(key()).await.unwrap();
            object
                .map(|object| object.data.clone().unwrap_or_default().get("key").cloned().unwrap_or_default())
        };
        for round in 0..20 {
            client.create(&place.config_map("a", "created")).await.unwrap();
            assert_eq!(data().await.as_deref(), Some("created"), "round {round}");
            client.update(&place.config_map("a", "updated")).await.unwrap();
            assert_eq!(data().await.as_deref(), Some("updated"));
            client
                .patch::<ConfigMap>(key(), &Patch::Merge(json!({"data": {"key": "patched"}})))
                .await
                .unwrap();
            assert_eq!(data().await.as_deref(), Some("patched"));
            client.apply(&place.config_map("a", "applied")).await.unwrap();
            assert_eq!(data().await.as_deref(), Some("applied"));
            client.dry_run().update(&place.config_map("a", "dry")).await.unwrap();
            assert_eq!(data().await.as_deref(), Some("applied"));
            let one = || Query::namespace(&place.namespace).fields("metadata.name=a");
            client.dry_run().delete::<ConfigMap>(key()).await.unwrap();
            client.dry_run().delete_collection::<ConfigMap>(one(), &DeleteOptions::default()).await.unwrap();
            assert!(client.live().get::<ConfigMap>(key()).await.unwrap().is_some(), "round {round}");
            match round % 2 {
                0 => client.delete::<ConfigMap>(key()).await.unwrap(),
                _ => client.delete_collection::<ConfigMap>(one(), &DeleteOptions::default()).await.unwrap(),
            }
            assert_eq!(data().await, None);
        }
        let metrics = manager.metrics().encode();
        assert!(!metrics.contains("setpoint_read_your_writes_timeouts_total{"), "{metrics}");
    })
    .await;
}

/// Creates a child whenever it sees none: without read-your-writes there would be several.
#[tokio::test]
async fn a_naive_reconciler_makes_one_child_each() {
    let place = Place::new().await;
    let manager = place.manager();
    let runs = Arc::new(AtomicUsize::new(0));
    let (counted, namespace) = (Arc::clone(&runs), place.namespace.clone());
    let handle = Controller::for_kind::<ConfigMap>(&manager)
        .owns::<Secret>()
        .concurrency(8)
        .register(move |ctx: Context, key: Key| {
            let (counted, namespace) = (Arc::clone(&counted), namespace.clone());
            async move {
                let Some(owner) = ctx.client().get::<ConfigMap>(&key).await? else {
                    return Ok(Action::done());
                };
                if key.name() == "kube-root-ca.crt" {
                    return Ok(Action::done());
                }
                let children = ctx.client().list::<Secret>(Query::namespace(namespace.as_str())).await?;
                let mine = |secret: &&Arc<Secret>| setpoint::client::is_controlled_by(&***secret, &*owner);
                if !children.iter().any(|secret| mine(&secret)) {
                    let metadata = ObjectMeta {
                        generate_name: Some(format!("{}-", key.name())),
                        namespace: Some(namespace),
                        ..ObjectMeta::default()
                    };
                    let mut child = Secret { metadata, ..Secret::default() };
                    set_controller_reference(&*owner, &mut child)?;
                    ctx.client().create(&child).await?;
                    let touched = json!({"metadata": {"annotations": {"child": "yes"}}});
                    ctx.client().patch::<ConfigMap>(&key, &Patch::Merge(touched)).await?;
                }
                counted.fetch_add(1, Ordering::SeqCst);
                Ok(Action::done())
            }
        })
        .unwrap();
    beside(&manager, async {
        for number in 0..40 {
            place.put(&format!("o{number}"), "1").await;
        }
        // Each is run for its creation and again for what its own run changed.
        until_true("all runs", || runs.load(Ordering::SeqCst) >= 80 && handle.is_idle()).await;
        until("a child each", async || {
            let children = place.api::<Secret>().list(&Default::default()).await.unwrap();
            (children.items.len() >= 40).then_some(())
        })
        .await;
    })
    .await;
    let children = place.api::<Secret>().list(&Default::default()).await.unwrap();
    let mut by_owner: BTreeMap<String, usize> = BTreeMap::new();
    for child in children {
        let owner = child.metadata.owner_references.unwrap_or_default().remove(0).name;
        *by_owner.entry(owner).or_default() += 1;
    }
    assert_eq!(by_owner.len(), 40);
    assert!(by_owner.values().all(|count| *count == 1), "{by_owner:?}");
}

#[tokio::test]
async fn errors_preconditions_and_upserts() {
    let place = Place::new().await;
    let manager = place.manager();
    manager.informer::<ConfigMap>();
    let client = manager.client().in_namespace(&place.namespace);
    beside(&manager, async {
        let created = client.create(&place.config_map("a", "1")).await.unwrap();
        assert!(client.create(&place.config_map("a", "1")).await.unwrap_err().is_already_exists());
        let mut stale = created.clone();
        stale.metadata.resource_version = Some("1".into());
        assert!(client.update(&stale).await.unwrap_err().is_conflict());
        let wrong = DeleteOptions::default().uid("00000000-0000-4000-8000-000000000000");
        assert!(client.delete_with::<ConfigMap>(place.key("a"), &wrong).await.unwrap_err().is_conflict());
        assert!(client.delete::<ConfigMap>(place.key("missing")).await.ignore_not_found().unwrap().is_none());
        assert!(client.create(&place.config_map("Not_A_Name", "1")).await.unwrap_err().is_invalid());
        let error = client.list::<Secret>(Query::all()).await.unwrap_err();
        assert!(matches!(error, ClientError::NoInformer { .. }), "{error}");
        let set = |value: &'static str| {
            move |object: &mut ConfigMap| {
                object.data.get_or_insert_default().insert("key".into(), value.into());
                Ok(())
            }
        };
        let mut did = Vec::new();
        for (name, value) in [("a", "2"), ("a", "2"), ("b", "1")] {
            did.push(client.create_or_update(place.config_map(name, ""), set(value)).await.unwrap().1);
        }
        assert_eq!(did, [Upserted::Updated, Upserted::Unchanged, Upserted::Created]);
        assert_eq!(
            client
                .list::<ConfigMap>(Query::all())
                .await
                .unwrap()
                .iter()
                .filter(|object| object.data.as_ref().is_some_and(|data| data.contains_key("key")))
                .count(),
            2
        );
        let old = client.get::<ConfigMap>(place.key("b")).await.unwrap().unwrap();
        let mut new = (*old).clone();
        assert!(client.patch_from(&*old, &new).await.unwrap().is_none(), "nothing differs");
        new.data.get_or_insert_default().insert("more".into(), "1".into());
        client.patch_from(&*old, &new).await.unwrap().unwrap();
        client.delete_object(&created).await.unwrap();
        assert!(client.live().get::<ConfigMap>(place.key("a")).await.unwrap().is_none());
    })
    .await;
}

#[tokio::test]
async fn a_name_may_hold_whatever_its_kind_allows() {
    let place = Place::new().await;
    let manager = place.manager();
    manager.informer::<Role>();
    let client = manager.client().in_namespace(&place.namespace);
    let name = "system:a b?c=d&e#f+g";
    let role: Role = serde_json::from_value(json!({"metadata": {"name": name}, "rules": []})).unwrap();
    beside(&manager, async {
        client.create(&role).await.unwrap();
        client
            .patch::<Role>(place.key(name), &Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}})))
            .await
            .unwrap();
        let live = client.live().get::<Role>(place.key(name)).await.unwrap().unwrap();
        assert_eq!(live.metadata.labels.unwrap()["a"], "b");
        assert_eq!(
            client.get::<Role>(place.key(name)).await.unwrap().unwrap().metadata.name.as_deref(),
            Some(name)
        );
        client.delete::<Role>(place.key(name)).await.unwrap();
        assert!(client.get::<Role>(place.key(name)).await.unwrap().is_none());
    })
    .await;
}

#[tokio::test]
async fn a_patch_replaces_no_list_that_somebody_else_changed() {
    let place = Place::new().await;
    let manager = place.manager();
    let client = manager.client().in_namespace(&place.namespace);
    // Nobody else writes a Service, on any server.
    let service = json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}});
    let with_condition = |service: &Service, kind: &str| {
        let mut changed = service.clone();
        let condition = serde_json::from_value(json!({
            "type": kind, "status": "True", "reason": "Test", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z",
        }));
        changed.status.get_or_insert_default().conditions.get_or_insert_default().push(condition.unwrap());
        changed
    };
    let created = client.create(&serde_json::from_value::<Service>(service).unwrap()).await.unwrap();
    client.patch_status_from(&created, &with_condition(&created, "example.org/a")).await.unwrap().unwrap();
    let late = client.patch_status_from(&created, &with_condition(&created, "example.org/b")).await;
    assert!(late.unwrap_err().is_conflict());

    let with_finalizer = |service: &Service, name: &str| {
        let mut changed = service.clone();
        changed.metadata.finalizers.get_or_insert_default().push(format!("example.org/{name}"));
        changed
    };
    let read = client.live().get::<Service>(place.key("a")).await.unwrap().unwrap();
    client.patch_from(&read, &with_finalizer(&read, "a")).await.unwrap().unwrap();
    assert!(client.patch_from(&read, &with_finalizer(&read, "b")).await.unwrap_err().is_conflict());

    let mut labelled = read.clone();
    labelled.metadata.labels.get_or_insert_default().insert("a".into(), "b".into());
    client.patch_from(&read, &labelled).await.unwrap().unwrap();
}

#[tokio::test]
async fn status_and_other_subresources() {
    let place = Place::new().await;
    let manager = place.manager();
    manager.informer::<Deployment>();
    let client = manager.client().in_namespace(&place.namespace);
    let deployment: Deployment = serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": {
        "replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "example.org/web:1"}]}}}}))
    .unwrap();
    // Deployments are large, and so is a future that holds several.
    let script = Box::pin(async {
        let created = client.create(&deployment).await.unwrap();
        let scale =
            client.get_subresource::<Deployment, Scale>(place.key("web"), "scale").await.unwrap().unwrap();
        assert_eq!(scale.spec.unwrap().replicas, Some(2));
        let three = Patch::Merge(json!({"spec": {"replicas": 3}}));
        client.patch_subresource::<Deployment, Scale>(place.key("web"), "scale", &three).await.unwrap();
        let cached = client.get::<Deployment>(place.key("web")).await.unwrap().unwrap();
        assert_eq!(cached.spec.replicas, Some(3), "a read waits for what a scale changed");
        let replicas =
            async || client.live().get::<Deployment>(place.key("web")).await.unwrap().unwrap().spec.replicas;
        assert_eq!(replicas().await, Some(3));

        let mut updated = created.clone();
        updated.metadata.resource_version = None;
        updated.status.get_or_insert_default().observed_generation = Some(1);
        client.update_status(&updated).await.unwrap();
        let mut newer = updated.clone();
        newer.status.get_or_insert_default().replicas = Some(3);
        client.patch_status_from(&updated, &newer).await.unwrap().unwrap();
        let read = client.get::<Deployment>(place.key("web")).await.unwrap().unwrap();
        let status = read.status.as_ref().unwrap();
        assert_eq!((status.observed_generation, status.replicas), (Some(1), Some(3)));
        client.apply_status(&*read, &json!({"readyReplicas": 1})).await.unwrap();
        let read = client.get::<Deployment>(place.key("web")).await.unwrap().unwrap();
        assert_eq!(read.status.as_ref().unwrap().ready_replicas, Some(1));
        assert_eq!(replicas().await, Some(3), "a status never changes the spec");

        let metadata = ObjectMeta { name: Some("robot".into()), ..ObjectMeta::default() };
        client.create(&ServiceAccount { metadata, ..ServiceAccount::default() }).await.unwrap();
        let asked = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}});
        let token = client
            .create_subresource::<ServiceAccount, Value>(place.key("robot"), "token", &asked)
            .await
            .unwrap();
        assert!(token["status"]["token"].as_str().is_some_and(|token| !token.is_empty()));
    });
    beside(&manager, script).await;
}

#[tokio::test]
async fn an_object_that_loses_its_label_is_seen_to_leave() {
    let place = Place::new().await;
    let manager = place.manager();
    manager.informer_of(Target::of::<ConfigMap>().in_namespace(&place.namespace).labels("app=web"));
    let client = manager.client().in_namespace(&place.namespace);
    beside(&manager, async {
        for round in 0..5 {
            let name = format!("a-{round}");
            let mut object = place.config_map(&name, "1");
            object.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
            client.create(&object).await.unwrap();
            assert!(client.get::<ConfigMap>(place.key(&name)).await.unwrap().is_some());
            let unlabelled = Patch::Merge(json!({"metadata": {"labels": {"app": null}}}));
            client.patch::<ConfigMap>(place.key(&name), &unlabelled).await.unwrap();
            assert!(client.get::<ConfigMap>(place.key(&name)).await.unwrap().is_none(), "round {round}");
        }
        let metrics = manager.metrics().encode();
        assert!(!metrics.contains("setpoint_read_your_writes_timeouts_total{"), "{metrics}");
    })
    .await;
}

#[tokio::test]
async fn what_a_cache_with_a_field_selector_has_is_seen_to_change() {
    let place = Place::new().await;
    let manager = place.manager();
    let target = Target::of::<ConfigMap>().in_namespace(&place.namespace).fields("metadata.name=a");
    let informer = manager.informer_of(target);
    let client = manager.client().in_namespace(&place.namespace);
    place.put("a", "0").await;
    beside(&manager, async {
        informer.wait_synced().await;
        for round in 1..6 {
            let value = round.to_string();
            client
                .patch::<ConfigMap>(place.key("a"), &Patch::Merge(json!({"data": {"key": value}})))
                .await
                .unwrap();
            let read = client.get::<ConfigMap>(place.key("a")).await.unwrap().unwrap();
            assert_eq!(read.data.as_ref().unwrap()["key"], value);
            // One that it will never have is not waited for.
            client.create(&place.config_map(&format!("b-{round}"), "1")).await.unwrap();
            assert_eq!(client.list::<ConfigMap>(Query::all()).await.unwrap().len(), 1);
        }
        let metrics = manager.metrics().encode();
        assert!(!metrics.contains("setpoint_read_your_writes_timeouts_total{"), "{metrics}");
    })
    .await;
}
