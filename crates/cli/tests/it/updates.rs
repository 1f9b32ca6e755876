//! Updates during a program's life: endpoints follow its readiness, files follow their sources, tokens are renewed.

use std::path::Path;
use std::time::Duration;

use base64::Engine;
use k8s_openapi::api::core::v1::{Endpoints, Event, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::node::{World, container, is_ready};

/// Returns the numbers of ready and other addresses of Service `web`: in Endpoints, and in its slices.
async fn addresses(world: &World) -> [(usize, usize); 2] {
    let endpoints = world.api::<Endpoints>().get_opt("web").await.unwrap();
    let subsets = endpoints.and_then(|endpoints| endpoints.subsets).unwrap_or_default();
    let count = |addresses: &Option<Vec<_>>| addresses.as_ref().map_or(0, Vec::len);
    let older = subsets.iter().fold((0, 0), |(ready, not), subset| {
        (ready + count(&subset.addresses), not + count(&subset.not_ready_addresses))
    });
    let query = ListParams::default().labels("kubernetes.io/service-name=web");
    let slices = world.api::<EndpointSlice>().list(&query).await.unwrap().items;
    let all: Vec<bool> = slices
        .iter()
        .flat_map(|slice| slice.endpoints.iter().flatten())
        .map(|endpoint| endpoint.conditions.as_ref().is_some_and(|is| is.ready == Some(true)))
        .collect();
    let ready = all.iter().filter(|ready| **ready).count();
    [older, (ready, all.len() - ready)]
}

#[tokio::test]
async fn endpoints_and_slices_follow_the_readiness_of_a_program() {
    let world = World::start().await;
    world
        .create::<Service>(json!({"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}))
        .await;
    let pod: Pod = world
        .create(json!({
            "metadata": {"name": "p", "labels": {"app": "web"}},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "volumes": [{"name": "flags", "emptyDir": {}}],
                "containers": [{
                    "name": "main", "image": "shell", "command": ["sh", "-c", "sleep 1000"],
                    "volumeMounts": [{"name": "flags", "mountPath": "/flags"}],
                    "readinessProbe": {
                        "exec": {"command": ["test", "-e", "/flags/ready"]}, "periodSeconds": 1, "failureThreshold": 1,
                        "timeoutSeconds": 20,
                    },
                }],
            },
        }))
        .await;
    let until = async |what: &str, ready: bool| {
        let wanted = if ready { [(1, 0); 2] } else { [(0, 1); 2] };
        let came = world.cluster.eventually(what, async || (addresses(&world).await == wanted).then_some(()));
        came.await.unwrap();
        let pod = world.api::<Pod>().get("p").await.unwrap();
        assert_eq!((is_ready(&pod), container(&pod, "main").restart_count), (ready, 0), "{what}");
    };
    until("not ready", false).await;
    let flag = world.pod_folder(&pod).join("volumes/flags/ready");
    for again in ["", " again"] {
        std::fs::write(&flag, "").unwrap();
        until(&format!("ready{again}"), true).await;
        std::fs::remove_file(&flag).unwrap();
        until(&format!("not ready{again}"), false).await;
    }
}

/// Returns the claims of a token in a file, or `None` while the file is being replaced.
fn claims(file: &Path) -> Option<Value> {
    let token = std::fs::read_to_string(file).ok()?;
    let body = token.split('.').nth(1).unwrap();
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(body).unwrap();
    Some(serde_json::from_slice(&bytes).unwrap())
}

#[tokio::test]
async fn a_projected_token_is_renewed_in_its_file_before_it_expires() {
    let world = World::start().await;
    let spec = json!({
        "terminationGracePeriodSeconds": 1,
        "volumes": [{"name": "v", "projected": {"sources": [
            {"serviceAccountToken": {"path": "token", "expirationSeconds": 600, "audience": "vault"}},
        ]}}],
        "containers": [{
            "name": "main", "image": "shell", "command": ["sh", "-c", "sleep 1000"],
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        }],
    });
    let pod = world.pod("p", spec).await;
    world.until_ready("p").await;
    let file = world.pod_folder(&pod).join("volumes/v/token");
    let first = claims(&file).unwrap();
    assert_eq!(first["aud"], json!(["vault"]));
    let end = first["exp"].as_i64().unwrap();
    assert_eq!(end - first["iat"].as_i64().unwrap(), 600);
    // Nothing but time passes: nine minutes, while the program runs on.
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(540)).await;
    tokio::time::resume();
    assert!(world.cluster.clock().now().as_second() < end, "it has not expired yet");
    let deadline = tokio::time::Instant::now() + setpoint_cluster::PATIENCE;
    let second = loop {
        assert!(tokio::time::Instant::now() < deadline, "the same token");
        match claims(&file).filter(|claims| *claims != first) {
            Some(second) => break second,
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    assert!(second["exp"].as_i64().unwrap() >= end + 480, "{second}");
    assert_eq!(second["kubernetes.io"]["pod"]["name"], "p");
    let pod = world.until_ready("p").await;
    assert_eq!(container(&pod, "main").restart_count, 0);
}

#[tokio::test]
async fn downward_files_follow_the_pods_own_labels() {
    let world = World::start().await;
    let spec = json!({
        "volumes": [{"name": "v", "downwardAPI": {"items": [
            {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
            {"path": "cpu", "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu"}},
        ]}}],
        "containers": [{
            "name": "main", "image": "shell", "resources": {"limits": {"cpu": "2"}},
            "command": ["sh", "-c", "cd /v; while :; do echo $(cat labels) $(cat cpu); sleep 0.1; done"],
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        }],
    });
    world.create::<Pod>(json!({"metadata": {"name": "p", "labels": {"a": "one"}}, "spec": spec})).await;
    world.until_logged("p", "a=\"one\" 2\n").await;
    let patch = Patch::Merge(json!({"metadata": {"labels": {"a": "two", "b": "three"}}}));
    world.api::<Pod>().patch("p", &PatchParams::default(), &patch).await.unwrap();
    world.until_logged("p", "a=\"two\" b=\"three\" 2\n").await;
}

#[tokio::test]
async fn a_probe_that_cannot_be_asked_is_told_and_never_taken_for_good() {
    let world = World::start().await;
    let exec = json!({"readinessProbe": {"exec": {"command": ["perl"]}}});
    world.script("unnamed", "sleep 1000", exec).await;
    let is_refused = |pod: &Pod| {
        let state = container(pod, "main").state.unwrap_or_default();
        state.waiting.is_some_and(|waiting| waiting.reason.as_deref() == Some("CreateContainerError"))
    };
    let pod = world.until("unnamed", "refused", is_refused).await;
    let message = container(&pod, "main").state.unwrap().waiting.unwrap().message.unwrap();
    assert_eq!(message, "the image table lets shell run cat, sh, test, not \"perl\"");
    world.script("portless", "sleep 1000", json!({"readinessProbe": {"tcpSocket": {"port": "web"}}})).await;
    world.script("deaf", "sleep 1000", json!({"readinessProbe": {"grpc": {"port": 9}}})).await;
    for (name, wanted) in [
        ("portless", "Readiness probe errored and resulted in unknown state: couldn't find port: \"web\""),
        ("deaf", "Readiness probe failed: Connection refused"),
    ] {
        let events = world.api::<Event>();
        let query = ListParams::default().fields(&format!("involvedObject.name={name},reason=Unhealthy"));
        let told = world.cluster.eventually(wanted, async || {
            let found = events.list(&query).await.unwrap().items;
            found.into_iter().find(|event| event.message.as_deref().unwrap_or_default().starts_with(wanted))
        });
        told.await.unwrap();
        let pod = world.api::<Pod>().get(name).await.unwrap();
        assert!(!is_ready(&pod) && container(&pod, "main").state.unwrap().running.is_some(), "{name}");
    }
}
