//! Files of programs in a PersistentVolume.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::node::World;

/// A pod whose script sees the claim `c` at `/data`.
fn pod(name: &str, script: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {
        "terminationGracePeriodSeconds": 0,
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}],
        "containers": [{"name": "main", "image": "shell",
            "command": ["sh", "-c", format!("cd ${{SETPOINT_ROOT:-}}/data; {script}; echo done; sleep 1000")],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
    }})
}

#[tokio::test]
async fn a_volume_keeps_what_is_in_it_from_pod_to_pod_and_goes_with_its_claim() {
    let world = World::start().await;
    let claims = world.api::<PersistentVolumeClaim>();
    world
        .create::<PersistentVolumeClaim>(json!({"metadata": {"name": "c"}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}))
        .await;
    world.create::<Pod>(pod("first", "echo words > kept")).await;
    world.until_logged("first", "done").await;
    let volume = claims.get("c").await.unwrap().spec.unwrap().volume_name.unwrap();
    let folder = world.folder.path().join("volumes").join(volume);
    assert_eq!(std::fs::read_to_string(folder.join("kept")).unwrap(), "words\n");
    world.delete("first").await;
    world.until_gone("first").await;
    world.create::<Pod>(pod("second", "cat kept")).await;
    assert_eq!(world.until_logged("second", "done").await, "words\ndone\n");
    world.delete("second").await;
    claims.delete("c", &DeleteParams::default()).await.unwrap();
    let gone = world.cluster.eventually("the folder is gone", async || (!folder.exists()).then_some(()));
    gone.await.unwrap();
}
