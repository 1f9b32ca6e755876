//! Claims and volumes find each other, with pods that wait for them.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Event, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use setpoint_cluster::{Cluster, Controllers, Options};

use super::World;

fn claim(name: &str, class: &str, size: &str) -> Value {
    json!({ "metadata": { "name": name, "namespace": "default" }, "spec": { "accessModes": ["ReadWriteOnce"],
        "storageClassName": class, "resources": { "requests": { "storage": size } } } })
}

fn pod(name: &str, volume: Value) -> Value {
    let mut volume = volume;
    volume["name"] = json!("data");
    json!({ "metadata": { "name": name, "namespace": "default" }, "spec": {
        "containers": [{ "name": "c", "image": "web:1" }], "volumes": [volume] } })
}

fn uses(claim: &str) -> Value {
    json!({ "persistentVolumeClaim": { "claimName": claim } })
}

/// A local volume of a class, on a node if that is named.
async fn add_volume(world: &World, name: &str, class: &str, size: &str, node: &str) {
    let is_node = json!([{ "key": "kubernetes.io/hostname", "operator": "In", "values": [node] }]);
    let mut volume = json!({ "metadata": { "name": name }, "spec": { "capacity": { "storage": size },
        "accessModes": ["ReadWriteOnce"], "storageClassName": class, "persistentVolumeReclaimPolicy": "Retain",
        "nfs": { "server": "nowhere.example", "path": "/" } } });
    if !node.is_empty() {
        volume["spec"]["nodeAffinity"] =
            json!({ "required": { "nodeSelectorTerms": [{ "matchExpressions": is_node }] } });
    }
    volumes(world).create(&PostParams::default(), &serde_json::from_value(volume).unwrap()).await.unwrap();
}

fn volumes(world: &World) -> Api<PersistentVolume> {
    Api::all(world.client.clone())
}

/// Waits until the claim is bound, and gives its volume.
async fn bound(world: &World, name: &str) -> String {
    world
        .until(&format!("{name} is bound"), async || {
            let claim = world.api::<PersistentVolumeClaim>().get(name).await.unwrap();
            claim.status.filter(|status| status.phase.as_deref() == Some("Bound"))?;
            claim.spec?.volume_name
        })
        .await
}

async fn in_phase(world: &World, volume: &str, phase: &str) -> PersistentVolume {
    world
        .until(&format!("{volume} is {phase}"), async || {
            let volume = volumes(world).get(volume).await.unwrap();
            let is_so = volume.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some(phase));
            is_so.then_some(volume)
        })
        .await
}

async fn told(world: &World, kind: &str, reason: &str) -> String {
    world
        .until(&format!("{kind} is told {reason}"), async || {
            let events = Api::<Event>::all(world.client.clone()).list(&ListParams::default()).await.unwrap();
            let found = events.items.into_iter().find(|event| {
                event.reason.as_deref() == Some(reason) && event.involved_object.kind.as_deref() == Some(kind)
            });
            found?.message
        })
        .await
}

async fn node_of(world: &World, pod: &str) -> String {
    world
        .until(&format!("{pod} has a node"), async || {
            let pod: Pod = world.api().get(pod).await.unwrap();
            pod.spec?.node_name
        })
        .await
}

async fn refusal(world: &World, pod: &str, expected: &str) {
    world
        .until(&format!("{pod} waits: {expected}"), async || {
            let pod: Pod = world.api().get(pod).await.unwrap();
            let conditions = pod.status?.conditions?;
            let said = conditions.into_iter().find(|condition| condition.type_ == "PodScheduled")?;
            said.message.filter(|message| message == expected)
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_takes_the_smallest_volume_and_leaves_it_released() {
    let world = World::start().await;
    world.create::<PersistentVolumeClaim>(claim("c", "", "2Gi")).await;
    let nothing = told(&world, "PersistentVolumeClaim", "FailedBinding").await;
    assert_eq!(nothing, "no persistent volumes available for this claim and no storage class is set");
    for (name, size) in [("small", "1Gi"), ("large", "9Gi"), ("right", "3Gi")] {
        add_volume(&world, name, "", size, "").await;
    }
    let first = bound(&world, "c").await;
    assert_ne!(first, "small");
    let claim = world.api::<PersistentVolumeClaim>().get("c").await.unwrap();
    let volume = in_phase(&world, &first, "Bound").await;
    let reference = volume.spec.as_ref().unwrap().claim_ref.clone().unwrap();
    assert_eq!((reference.uid, reference.name), (claim.metadata.uid.clone(), Some("c".into())));
    assert_eq!(volume.metadata.annotations.unwrap()["pv.kubernetes.io/bound-by-controller"], "yes");
    let annotations = claim.metadata.annotations.unwrap();
    assert_eq!(annotations["pv.kubernetes.io/bind-completed"], "yes");
    assert_eq!(annotations["pv.kubernetes.io/bound-by-controller"], "yes");
    let status = claim.status.unwrap();
    assert_eq!(status.capacity, volume.spec.unwrap().capacity);
    assert_eq!(status.access_modes.unwrap(), ["ReadWriteOnce"]);
    in_phase(&world, "small", "Available").await;
    world.delete::<PersistentVolumeClaim>("c", &DeleteParams::default()).await;
    in_phase(&world, &first, "Released").await;
    // Removing the old claim makes the volume available to other claims.
    let open = Patch::Merge(json!({ "spec": { "claimRef": null } }));
    volumes(&world).patch(&first, &PatchParams::default(), &open).await.unwrap();
    in_phase(&world, &first, "Available").await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_whose_volume_goes_is_lost_and_a_volume_that_nobody_can_delete_fails() {
    let world = World::start().await;
    add_volume(&world, "v", "", "1Gi", "").await;
    world.create::<PersistentVolumeClaim>(claim("c", "", "1Gi")).await;
    bound(&world, "c").await;
    let bare = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    volumes(&world).delete("v", &DeleteParams::default()).await.unwrap();
    volumes(&world).patch("v", &PatchParams::default(), &bare).await.unwrap();
    let lost = told(&world, "PersistentVolumeClaim", "ClaimLost").await;
    assert_eq!(lost, "Bound claim has lost its PersistentVolume. Data on the volume is lost!");
    let status = world.api::<PersistentVolumeClaim>().get("c").await.unwrap().status.unwrap();
    assert_eq!((status.phase.as_deref(), status.capacity), (Some("Lost"), None));
    add_volume(&world, "w", "", "1Gi", "").await;
    let delete = Patch::Merge(json!({ "spec": { "persistentVolumeReclaimPolicy": "Delete" } }));
    volumes(&world).patch("w", &PatchParams::default(), &delete).await.unwrap();
    world.create::<PersistentVolumeClaim>(claim("d", "", "1Gi")).await;
    assert_eq!(bound(&world, "d").await, "w");
    world.delete::<PersistentVolumeClaim>("d", &DeleteParams::default()).await;
    let failed = in_phase(&world, "w", "Failed").await.status.unwrap().message.unwrap();
    assert_eq!(told(&world, "PersistentVolume", "VolumeFailedDelete").await, failed);
}

#[tokio::test(start_paused = true)]
async fn a_claim_without_a_class_gets_the_default_that_comes_later() {
    let world = World::start().await;
    let classes: Api<StorageClass> = Api::all(world.client.clone());
    classes.delete("standard", &DeleteParams::default()).await.unwrap();
    let mut unnamed = claim("c", "", "1Gi");
    unnamed["spec"]["storageClassName"] = Value::Null;
    world.create::<PersistentVolumeClaim>(unnamed).await;
    told(&world, "PersistentVolumeClaim", "FailedBinding").await;
    world.add_class("late", setpoint_controllers::PROVISIONER, true).await;
    world
        .until("it has the class", async || {
            let claim = world.api::<PersistentVolumeClaim>().get("c").await.unwrap();
            claim.spec?.storage_class_name.filter(|class| class == "late")
        })
        .await;
    told(&world, "PersistentVolumeClaim", "WaitForFirstConsumer").await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_its_claim_and_goes_where_the_volume_is() {
    let world = World::start().await;
    world.create::<Pod>(pod("early", uses("c"))).await;
    refusal(&world, "early", "0/2 nodes are available: persistentvolumeclaim \"c\" not found.").await;
    world.create::<PersistentVolumeClaim>(claim("c", "", "1Gi")).await;
    let unbound = "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims.";
    refusal(&world, "early", unbound).await;
    add_volume(&world, "there", "", "1Gi", "nowhere").await;
    let conflict = "0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity.";
    refusal(&world, "early", conflict).await;
    world.add_node("nowhere", "8", json!({ "kubernetes.io/hostname": "nowhere" })).await;
    assert_eq!(node_of(&world, "early").await, "nowhere");
}

#[tokio::test(start_paused = true)]
async fn local_volumes_are_bound_where_their_pod_goes() {
    let world = World::start().await;
    world.add_class("local", "kubernetes.io/no-provisioner", false).await;
    for name in ["a", "b"] {
        world.create::<PersistentVolumeClaim>(claim(name, "local", "1Gi")).await;
    }
    world.create::<Pod>(pod("a", uses("a"))).await;
    let none = "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind.";
    refusal(&world, "a", none).await;
    world.add_node("far", "8", json!({ "kubernetes.io/hostname": "far" })).await;
    add_volume(&world, "first", "local", "1Gi", "far").await;
    assert_eq!(node_of(&world, "a").await, "far");
    assert_eq!(bound(&world, "a").await, "first");
    // The other claim waits for its own pod.
    add_volume(&world, "second", "local", "1Gi", "far").await;
    in_phase(&world, "second", "Available").await;
    world.create::<Pod>(pod("b", uses("b"))).await;
    assert_eq!(bound(&world, "b").await, "second");
    assert_eq!(node_of(&world, "b").await, "far");
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_has_volumes_made_that_go_with_their_claims() {
    let world = World::start().await;
    let set = json!({ "metadata": { "name": "db", "namespace": "default" }, "spec": { "replicas": 3,
        "serviceName": "db", "selector": { "matchLabels": { "app": "db" } },
        "template": { "metadata": { "labels": { "app": "db" } },
            "spec": { "containers": [{ "name": "c", "image": "db:1" }] } },
        "volumeClaimTemplates": [{ "metadata": { "name": "data" }, "spec": { "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": "1Gi" } } } }] } });
    world.create::<StatefulSet>(set).await;
    let mut made = BTreeSet::new();
    for ordinal in 0..3 {
        let node = node_of_created(&world, &format!("db-{ordinal}")).await;
        let name = format!("data-db-{ordinal}");
        made.insert(bound(&world, &name).await);
        let claim = world.api::<PersistentVolumeClaim>().get(&name).await.unwrap();
        assert_eq!(claim.metadata.annotations.unwrap()["volume.kubernetes.io/selected-node"], node);
        assert_eq!(claim.spec.unwrap().storage_class_name.as_deref(), Some("standard"));
    }
    assert_eq!(made.len(), 3);
    told(&world, "PersistentVolumeClaim", "ProvisioningSucceeded").await;
    world.delete::<StatefulSet>("db", &DeleteParams::default()).await;
    for ordinal in 0..3 {
        let name = format!("data-db-{ordinal}");
        world.delete::<PersistentVolumeClaim>(&name, &DeleteParams::default()).await;
    }
    world
        .until("the volumes go too", async || {
            volumes(&world).list(&ListParams::default()).await.unwrap().items.is_empty().then_some(())
        })
        .await;
}

/// The node of a pod that may not exist yet.
async fn node_of_created(world: &World, name: &str) -> String {
    let pods = world.api::<Pod>();
    world.until(&format!("{name} is there"), async || pods.get_opt(name).await.unwrap()).await;
    node_of(world, name).await
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_describes_its_claim_gets_it_and_takes_it_along() {
    let world = World::start().await;
    let template = json!({ "spec": { "accessModes": ["ReadWriteOnce"],
        "resources": { "requests": { "storage": "1Gi" } } } });
    world.create::<Pod>(pod("p", json!({ "ephemeral": { "volumeClaimTemplate": template } }))).await;
    node_of(&world, "p").await;
    bound(&world, "p-data").await;
    world.delete::<Pod>("p", &DeleteParams::default()).await;
    world
        .until("nothing is left", async || {
            let claims = world.api::<PersistentVolumeClaim>().list(&ListParams::default()).await.unwrap();
            let volumes = volumes(&world).list(&ListParams::default()).await.unwrap();
            (claims.items.is_empty() && volumes.items.is_empty()).then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_between_any_two_writes_gives_no_volume_to_two_claims() {
    for seed in 1..=5 {
        let mut world = World::with(seed).await;
        for n in 0..6 {
            add_volume(&world, &format!("v{n}"), "", "1Gi", "").await;
            world.create::<PersistentVolumeClaim>(claim(&format!("c{n}"), "", "1Gi")).await;
            world.create::<PersistentVolumeClaim>(claim(&format!("d{n}"), "standard", "1Gi")).await;
            world.create::<Pod>(pod(&format!("p{n}"), uses(&format!("d{n}")))).await;
        }
        for _ in 0..8 {
            // The controllers die at an arbitrary point, and start again with nothing but the stored state.
            let pause = world.cluster.random().below(4_000);
            world.cluster.advance(Duration::from_micros(pause)).await;
            world.crash().await;
            world.run_controllers();
        }
        let mut taken = BTreeSet::new();
        for n in 0..6 {
            for name in [format!("c{n}"), format!("d{n}")] {
                let volume = bound(&world, &name).await;
                let holder = in_phase(&world, &volume, "Bound").await.spec.unwrap().claim_ref.unwrap();
                assert_eq!(holder.name.as_deref(), Some(name.as_str()), "seed {seed}");
                taken.insert(volume);
            }
            node_of(&world, &format!("p{n}")).await;
        }
        let all = volumes(&world).list(&ListParams::default()).await.unwrap().items;
        assert_eq!((taken.len(), all.len()), (12, 12), "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_with_controllers_begins_with_a_class_and_a_bare_server_does_not() {
    for (controllers, expected) in [
        (Controllers::All, vec!["standard".to_owned()]),
        (Controllers::None, vec![]),
        (Controllers::Only(vec!["scheduler".into()]), vec![]),
    ] {
        let cluster = Cluster::start(Options { controllers, ..Options::default() }).await.unwrap();
        let classes: Api<StorageClass> = Api::all(cluster.client());
        let list = async || classes.list(&ListParams::default()).await.unwrap().items;
        let names: Vec<String> = list().await.into_iter().filter_map(|class| class.metadata.name).collect();
        assert_eq!(names, expected);
        // Deleted once, it does not come back.
        for name in names {
            classes.delete(&name, &DeleteParams::default()).await.unwrap();
        }
        let again = cluster.fork().await.unwrap();
        let left: Api<StorageClass> = Api::all(again.client());
        assert!(left.list(&ListParams::default()).await.unwrap().items.is_empty());
    }
}
