//! A pod's environment and volumes do not choose what the table's programs execute.

use std::os::unix::fs::PermissionsExt;

use k8s_openapi::api::core::v1::{ConfigMap, Event, PersistentVolume, PersistentVolumeClaim, Pod, Secret};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::node::{World, container};

fn waiting(pod: &Pod) -> Option<String> {
    container(pod, "main").state?.waiting?.message
}

fn end(pod: &Pod) -> Option<k8s_openapi::api::core::v1::ContainerStateTerminated> {
    container(pod, "main").state?.terminated
}

/// Waits for an event about a pod and gives its message.
async fn event(world: &World, pod: &str, reason: &str) -> String {
    let events = world.api::<Event>();
    let about = ListParams::default().fields(&format!("involvedObject.name={pod},reason={reason}"));
    let found = world.cluster.eventually(reason, async || {
        let first = events.list(&about).await.unwrap().items.into_iter().next();
        first.and_then(|event| event.message)
    });
    found.await.unwrap()
}

#[tokio::test]
async fn variables_that_load_code_are_dropped() {
    let world = World::start().await;
    world
        .create::<ConfigMap>(json!({"metadata": {"name": "c"}, "data": {"PRELOAD": "/x.so", "k": "v"}}))
        .await;
    let env = json!({
        "envFrom": [{"configMapRef": {"name": "c"}, "prefix": "LD_"}],
        "env": [
            {"name": "BASH_ENV", "value": "/x"}, {"name": "PATH", "value": "/x"}, {"name": "HOME", "value": "/x"},
            {"name": "OWN", "value": "1"},
        ],
    });
    let script =
        "echo \"$LD_PRELOAD,$LD_k,$BASH_ENV,$HOME,$OWN\"; case $PATH in /x*) echo bad;; esac; sleep 1000";
    world.script("p", script, env).await;
    assert_eq!(world.until_logged("p", "\n").await, ",,,/,1\n");
    let told = event(&world, "p", "DroppedVariables").await;
    assert_eq!(
        told,
        "variables that make programs load code are dropped: BASH_ENV, HOME, LD_PRELOAD, LD_k, PATH"
    );
}

#[tokio::test]
async fn no_volume_stands_over_programs_or_what_they_load() {
    let world = World::start().await;
    world.create::<ConfigMap>(json!({"metadata": {"name": "c"}, "data": {"sh": "#!/bin/cat\n"}})).await;
    for (number, path) in
        ["/usr/bin", "/etc/ld.so.preload", "/lib", "/", "/data/../usr/local/lib"].iter().enumerate()
    {
        let name = format!("p{number}");
        let spec = json!({
            "volumes": [{"name": "v", "configMap": {"name": "c"}}],
            "containers": [{"name": "main", "image": "shell", "command": ["sh", "-c", "echo ran; sleep 1000"],
                "volumeMounts": [{"name": "v", "mountPath": path}]}],
        });
        world.pod(&name, spec).await;
        let pod = world
            .until(&name, path, |pod| waiting(pod).is_some_and(|text| text.contains("would cover")))
            .await;
        assert_eq!(container(&pod, "main").restart_count, 0);
    }
    let last = json!({"containers": [{"name": "main", "image": "shell", "command": ["sh", "-c", "echo ran"],
        "terminationMessagePath": "/etc/ld.so.preload"}]});
    world.pod("last", last).await;
    world.until("last", "refused", |pod| waiting(pod).is_some_and(|text| text.contains("would cover"))).await;
}

#[tokio::test]
async fn a_script_of_the_table_runs_with_its_own_name_and_arguments() {
    let world = World::start().await;
    let script = json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": "script",
        "args": ["a", "b c"]}]});
    world.pod("p", script).await;
    let log = world.until_logged("p", "done").await;
    let home = world.folder.path().join("programs/script");
    assert_eq!(log, format!("{}|a|b c|2\ndone\n", home.display()));
}

#[tokio::test]
async fn a_sub_path_does_not_lead_out_of_its_volume() {
    let world = World::start().await;
    let outside = world.folder.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "s").unwrap();
    let mount = |sub: &str| json!({"name": "v", "mountPath": "/m", "subPath": sub});
    let first = format!("ln -s {} away; mkdir in; ln -s in near; echo kept > in/f", outside.display());
    let spec = |sub: &str| {
        json!({
            "restartPolicy": "Never",
            "volumes": [{"name": "v", "emptyDir": {}}],
            "initContainers": [{"name": "first", "image": "shell",
                "command": ["sh", "-c", format!("cd ${{SETPOINT_ROOT:-}}/v; {first}")],
                "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
            "containers": [{"name": "main", "image": "shell",
                "command": ["sh", "-c", "cd ${SETPOINT_ROOT:-}/m; cat *; echo > made; echo done"],
                "volumeMounts": [mount(sub)]}],
        })
    };
    for (name, sub) in [("away", "away"), ("deep", "away/new")] {
        world.pod(name, spec(sub)).await;
        let pod = world.until(name, "its end", |pod| end(pod).is_some()).await;
        let end = end(&pod).unwrap();
        assert_eq!(end.reason.as_deref(), Some("StartError"), "{end:?}");
        assert!(end.message.unwrap().contains("leads out of its volume"));
    }
    world.pod("near", spec("near")).await;
    assert_eq!(world.until_logged("near", "done").await, "kept\ndone\n");
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 1, "nothing was written outside");
}

#[tokio::test]
async fn a_claim_gives_no_volume_that_is_not_its_own() {
    let world = World::start().await;
    let claim = |name: &str, volume: &str| {
        json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "",
            "volumeName": volume, "resources": {"requests": {"storage": "1Gi"}}}})
    };
    let volumes: Api<PersistentVolume> = Api::all(world.client.clone());
    let taken = json!({"metadata": {"name": "taken"}, "spec": {"capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"},
        "claimRef": {"namespace": "others", "name": "c", "uid": "theirs"}}});
    volumes.create(&PostParams::default(), &serde_json::from_value(taken).unwrap()).await.unwrap();
    for (name, volume) in [("host", "/etc"), ("up", "../../../../etc"), ("other", "taken")] {
        world.create::<PersistentVolumeClaim>(claim(name, volume)).await;
        // Even a claim whose status says so, as it did once and as others may write it.
        let bound: Value = json!({"status": {"phase": "Bound"}});
        let claims = world.api::<PersistentVolumeClaim>();
        claims.patch_status(name, &PatchParams::default(), &Patch::Merge(&bound)).await.unwrap();
        let spec = json!({
            "nodeName": "setpoint-0",
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": name}}],
            "containers": [{"name": "main", "image": "shell", "command": ["sh", "-c", "ls /v; echo ran; sleep 1000"],
                "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
        });
        world.pod(name, spec).await;
        let why = event(&world, name, "FailedMount").await;
        assert!(why.starts_with("MountVolume.SetUp failed for volume \"v\" : "), "{why}");
        let pod = world.until(name, "there", |_| true).await;
        assert!(container(&pod, "main").state.is_none_or(|state| state.running.is_none()), "{name}");
    }
}

#[tokio::test]
async fn nobody_else_reads_the_secrets_of_a_pod() {
    let world = World::start().await;
    std::fs::set_permissions(world.folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let pods = world.folder.path().join("pods");
    std::fs::create_dir_all(&pods).unwrap();
    std::fs::set_permissions(&pods, PermissionsExt::from_mode(0o755)).unwrap();
    world.create::<Secret>(json!({"metadata": {"name": "s"}, "stringData": {"p": "word"}})).await;
    let spec = json!({
        "volumes": [{"name": "v", "secret": {"secretName": "s"}}],
        "containers": [{"name": "main", "image": "shell", "command": ["sh", "-c", "cat ${SETPOINT_ROOT:-}/v/p; \
            echo x 2>/dev/null > ${SETPOINT_ROOT:-}/v/q || echo .; sleep 1000"],
            "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
    });
    let pod = world.pod("p", spec).await;
    assert_eq!(world.until_logged("p", ".").await, "word.\n", "and the program does not write there");
    for folder in [pods, world.pod_folder(&pod)] {
        let mode = std::fs::metadata(&folder).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}", folder.display());
    }
}

#[tokio::test]
async fn last_words_are_a_small_regular_file() {
    let world = World::start().await;
    let run = async |name: &str, script: &str| {
        let container = json!({"name": "main", "image": "shell", "command": ["sh", "-c", script]});
        world.pod(name, json!({"restartPolicy": "Never", "containers": [container]})).await;
        let pod = world.until(name, "its end", |pod| end(pod).is_some()).await;
        end(&pod).unwrap().message
    };
    // A sparse file: read whole it would be a gigabyte.
    let message =
        run("large", "echo first; printf word > /dev/termination-log; truncate -s 1G /dev/termination-log")
            .await;
    let message = message.unwrap();
    assert_eq!(message.len(), 4096);
    assert!(message.starts_with("word\0"));
    // The program sees the host, and may put a pipe or a link where its node reads.
    let node = world.folder.path().display();
    let swap = |made: &str| {
        format!("cd {node}/pods/*/containers/main && rm termination-log && {made} termination-log")
    };
    world.delete("large").await;
    world.until_gone("large").await;
    assert_eq!(run("pipe", &swap("mkfifo")).await, None);
    world.delete("pipe").await;
    world.until_gone("pipe").await;
    assert_eq!(run("link", &swap("ln -s /etc/hostname")).await, None);
}
