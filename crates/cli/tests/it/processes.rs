//! The life of a container's program: its end, its environment, its probes, its stop.

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{LogParams, Patch, PatchParams};
use serde_json::json;
use setpoint_node::Listen;

use crate::node::{World, bytes_in, container, is_ready, runs};

fn waits_with(pod: &Pod, reason: &str) -> bool {
    let state = container(pod, "main").state.unwrap_or_default();
    state.waiting.and_then(|waiting| waiting.reason).as_deref() == Some(reason)
}

#[tokio::test]
async fn a_program_that_crashes_backs_off_and_keeps_its_last_words() {
    let world = World::start().await;
    world.script("crash", "echo run; echo bye > /dev/termination-log; exit 3", json!({})).await;
    let pod = world.until("crash", "back-off", |pod| waits_with(pod, "CrashLoopBackOff")).await;
    let status = container(&pod, "main");
    assert_eq!(status.restart_count, 1, "the first restart is at once");
    let last = status.last_state.unwrap().terminated.unwrap();
    assert_eq!((last.exit_code, last.reason.as_deref()), (3, Some("Error")));
    assert_eq!(last.message.as_deref(), Some("bye\n"));
    assert_eq!(pod.status.unwrap().phase.as_deref(), Some("Running"));
    let previous = LogParams { previous: true, ..LogParams::default() };
    assert_eq!(world.logs("crash", &previous).await.unwrap(), "run\n");
    assert_eq!(world.logs("crash", &LogParams::default()).await.unwrap(), "run\n");
}

#[tokio::test]
async fn the_log_stands_in_for_a_missing_message_where_that_is_asked_for() {
    let world = World::start().await;
    let spec = json!({"restartPolicy": "Never", "containers": [{
        "name": "main", "image": "shell", "command": ["sh", "-c", "echo the reason >&2; exit 9"],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }]});
    world.pod("p", spec).await;
    let is_failed = |pod: &Pod| pod.status.as_ref().unwrap().phase.as_deref() == Some("Failed");
    let pod = world.until("p", "failed", is_failed).await;
    let end = container(&pod, "main").state.unwrap().terminated.unwrap();
    assert_eq!((end.exit_code, end.message.as_deref()), (9, Some("the reason\n")));
}

#[tokio::test]
async fn one_that_ignores_sigterm_is_killed_after_the_grace_period_with_its_children() {
    let world = World::start().await;
    let script = "trap '' TERM; sleep 1000 & echo child $!; setsid sleep 1000 & while :; do wait; done";
    world.script("deaf", script, json!({})).await;
    let log = world.until_logged("deaf", "child").await;
    let child = log.trim().rsplit(' ').next().unwrap().to_owned();
    assert!(runs(&child));
    let began = std::time::Instant::now();
    world.delete("deaf").await;
    world.until_gone("deaf").await;
    assert!(began.elapsed() >= std::time::Duration::from_secs(1), "the grace period is kept");
    assert!(!runs(&child));
}

#[tokio::test]
async fn one_that_obeys_sigterm_has_time_to_end() {
    let world = World::start().await;
    let flag = world.folder.path().join("flag");
    let script =
        format!("trap 'echo done > {}; exit 0' TERM; echo up; while :; do sleep 0.05; done", flag.display());
    world.script("polite", &script, json!({})).await;
    world.until_logged("polite", "up").await;
    world.delete("polite").await;
    world.until_gone("polite").await;
    assert_eq!(std::fs::read_to_string(flag).unwrap(), "done\n");
}

#[tokio::test]
async fn a_flood_of_output_is_bounded_on_disk_and_its_end_is_kept() {
    let world = World::start().await;
    // About 40 MB.
    let script = "yes $(head -c 999 /dev/zero | tr '\\0' x) | head -n 40000; echo the end";
    let container = json!({"name": "main", "image": "shell", "command": ["sh", "-c", script]});
    let pod = world.pod("flood", json!({"restartPolicy": "Never", "containers": [container]})).await;
    let is_over = |pod: &Pod| pod.status.as_ref().unwrap().phase.as_deref() == Some("Succeeded");
    world.until("flood", "its end", is_over).await;
    let tail = LogParams { tail_lines: Some(1), ..LogParams::default() };
    assert_eq!(world.logs("flood", &tail).await.unwrap(), "the end\n");
    let kept = bytes_in(&world.pod_folder(&pod).join("containers/main"));
    assert!((10 << 20..=21 << 20).contains(&kept), "{kept}");
    let limit = LogParams { limit_bytes: Some(1000), ..LogParams::default() };
    assert_eq!(world.logs("flood", &limit).await.unwrap(), "x".repeat(999) + "\n");
}

#[tokio::test]
async fn probes_decide_when_it_is_started_ready_and_restarted() {
    let world = World::start().await;
    let exec = |word: &str| json!({"exec": {"command": ["test", "-e", format!("/flags/{word}")]}, "periodSeconds": 1, "failureThreshold": 1});
    let mut startup = exec("started");
    startup["failureThreshold"] = json!(30);
    let spec = json!({
        "terminationGracePeriodSeconds": 1,
        "volumes": [{"name": "flags", "emptyDir": {}}],
        "containers": [{
            "name": "main", "image": "shell", "command": ["sh", "-c", "touch /flags/alive; sleep 1000"],
            "volumeMounts": [{"name": "flags", "mountPath": "/flags"}],
            "startupProbe": startup, "readinessProbe": exec("ready"), "livenessProbe": exec("alive"),
        }],
    });
    let pod = world.pod("probed", spec).await;
    let flags = world.pod_folder(&pod).join("volumes/flags");
    let pod = world
        .until("probed", "running", |pod| container(pod, "main").state.is_some_and(|s| s.running.is_some()))
        .await;
    assert_eq!((container(&pod, "main").started, is_ready(&pod)), (Some(false), false));
    std::fs::write(flags.join("started"), "").unwrap();
    world.until("probed", "started", |pod| container(pod, "main").started == Some(true)).await;
    std::fs::write(flags.join("ready"), "").unwrap();
    world.until_ready("probed").await;
    std::fs::remove_file(flags.join("ready")).unwrap();
    world.until("probed", "not ready", |pod| !is_ready(pod)).await;
    std::fs::remove_file(flags.join("alive")).unwrap();
    let pod = world.until("probed", "restarted", |pod| container(pod, "main").restart_count > 0).await;
    let last = container(&pod, "main").last_state.unwrap().terminated.unwrap();
    assert_eq!(last.exit_code, 128 + 15, "it is told before it is killed");
}

#[tokio::test]
async fn a_changed_config_map_and_secret_reach_the_files() {
    let world = World::start().await;
    world.create::<ConfigMap>(json!({"metadata": {"name": "c"}, "data": {"k": "one"}})).await;
    world.create::<Secret>(json!({"metadata": {"name": "s"}, "stringData": {"p": "old"}})).await;
    let spec = json!({
        "volumes": [{"name": "v", "projected": {"sources": [
            {"configMap": {"name": "c"}},
            {"secret": {"name": "s", "items": [{"key": "p", "path": "deep/password"}]}},
            {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
        ]}}],
        "containers": [{
            "name": "main", "image": "shell",
            "command": ["sh", "-c", "cd /data; while :; do echo $(cat k) $(cat deep/password) $(cat name); sleep 0.1; done"],
            "volumeMounts": [{"name": "v", "mountPath": "/data", "readOnly": true}],
        }],
    });
    world.pod("p", spec).await;
    world.until_logged("p", "one old p").await;
    let (merge, to) = (PatchParams::default(), |value| Patch::Merge(value));
    world.api::<ConfigMap>().patch("c", &merge, &to(json!({"data": {"k": "two"}}))).await.unwrap();
    world.until_logged("p", "two old p").await;
    world.api::<Secret>().patch("s", &merge, &to(json!({"stringData": {"p": "new"}}))).await.unwrap();
    world.until_logged("p", "two new p").await;
}

#[tokio::test]
async fn a_pod_waits_for_what_its_volumes_and_environment_need() {
    let world = World::start().await;
    let from = json!([{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "later", "key": "a"}}}]);
    world.script("p", "echo $A; sleep 1000", json!({"env": from})).await;
    let pod = world.until("p", "refused", |pod| waits_with(pod, "CreateContainerConfigError")).await;
    let message = container(&pod, "main").state.unwrap().waiting.unwrap().message.unwrap();
    assert_eq!(message, "couldn't find key a in ConfigMap default/later");
    world.create::<ConfigMap>(json!({"metadata": {"name": "later"}, "data": {"a": "came"}})).await;
    world.until_logged("p", "came").await;
}

#[tokio::test]
async fn the_environment_comes_from_everywhere() {
    let world = World::start().await;
    world.create::<ConfigMap>(json!({"metadata": {"name": "c"}, "data": {"K": "v"}})).await;
    world.create::<Secret>(json!({"metadata": {"name": "s"}, "stringData": {"P": "w"}})).await;
    let more = json!({
        "workingDir": "/tmp",
        "envFrom": [{"configMapRef": {"name": "c"}, "prefix": "C_"}, {"secretRef": {"name": "s"}}],
        "env": [
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "MEMORY", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
            {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}}},
            {"name": "BOTH", "value": "$(C_K)-$(P)"},
        ],
        "resources": {"limits": {"memory": "64Mi"}, "requests": {"cpu": "250m"}},
    });
    world.script("p", "echo $(pwd) $NODE $IP $MEMORY $CPU $BOTH; sleep 1000", more).await;
    let log = world.until_logged("p", "\n").await;
    assert_eq!(log, "/tmp setpoint-0 10.244.0.2 64 250 v-w\n");
}

#[tokio::test]
async fn init_containers_run_before_the_others_and_share_their_volumes() {
    let world = World::start().await;
    let mount = json!([{"name": "v", "mountPath": "/v"}]);
    let step = |name: &str, script: &str| json!({"name": name, "image": "shell", "command": ["sh", "-c", script], "volumeMounts": mount});
    let spec = json!({
        "volumes": [{"name": "v", "emptyDir": {}}],
        "initContainers": [step("a", "echo 1 > /v/f"), step("b", "echo 2 >> /v/f")],
        "containers": [step("main", "cat /v/f; sleep 1000")],
    });
    world.pod("p", spec).await;
    assert_eq!(world.until_logged("p", "2").await, "1\n2\n");
    let pod = world.until_ready("p").await;
    let init = pod.status.unwrap().init_container_statuses.unwrap();
    assert!(
        init.iter().all(|status| status.state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code == 0)
    );
}

#[tokio::test]
async fn an_init_container_may_be_the_only_program() {
    let world = World::start().await;
    let init = json!({"name": "first", "image": "shell", "command": ["sh", "-c", "echo made ready; exit 0"]});
    let spec = json!({"initContainers": [init], "containers": [{"name": "main", "image": "nginx"}]});
    world.pod("p", spec).await;
    let pod = world.until_ready("p").await;
    assert_eq!(container(&pod, "main").image_id, "simulated://nginx");
    let of_first = LogParams { container: Some("first".into()), ..LogParams::default() };
    assert_eq!(world.logs("p", &of_first).await.unwrap(), "made ready\n");
}

#[tokio::test]
async fn programs_and_simulated_containers_share_a_pod() {
    let world = World::start().await;
    let spec = json!({"containers": [
        {"name": "main", "image": "shell", "command": ["sh", "-c", "echo real; sleep 1000"]},
        {"name": "other", "image": "shell", "command": ["sh", "-c", "echo second; sleep 1000"]},
        {"name": "pretend", "image": "nginx"},
    ]});
    world.pod("p", spec).await;
    let pod = world.until_ready("p").await;
    assert_eq!(container(&pod, "pretend").image_id, "simulated://nginx");
    assert_eq!(container(&pod, "main").image_id, "process://shell");
    for (name, text) in
        [("main", "real\n"), ("other", "second\n"), ("pretend", "simulated container pretend started\n")]
    {
        let params = LogParams { container: Some(name.into()), ..LogParams::default() };
        let deadline = tokio::time::Instant::now() + setpoint_cluster::PATIENCE;
        while world.logs("p", &params).await.unwrap() != text {
            assert!(tokio::time::Instant::now() < deadline, "{name}");
            tokio::task::yield_now().await;
        }
    }
    world.delete("p").await;
    world.until_gone("p").await;
}

#[tokio::test]
async fn a_program_that_the_table_does_not_name_is_refused_and_says_so() {
    let world = World::start().await;
    world.pod("p", json!({"containers": [{"name": "main", "image": "shell", "command": ["perl"]}]})).await;
    let pod = world.until("p", "refused", |pod| waits_with(pod, "CreateContainerError")).await;
    let message = container(&pod, "main").state.unwrap().waiting.unwrap().message.unwrap();
    assert_eq!(message, "the image table lets shell run cat, sh, test, not \"perl\"");
    let refused = world.logs("p", &LogParams::default()).await.unwrap_err().to_string();
    assert!(
        refused.contains("container \"main\" in pod \"p\" is waiting to start: CreateContainerError"),
        "{refused}"
    );
}

#[tokio::test]
async fn nothing_is_left_of_a_cluster_that_stopped() {
    let world = World::start().await;
    world.script("p", "sleep 1000 & echo $$$$ $!; setsid sleep 1000 & wait", json!({})).await;
    let log = world.until_logged("p", "\n").await;
    let pids: Vec<&str> = log.split_whitespace().collect();
    assert!(pids.iter().all(|pid| runs(pid)), "{pids:?}");
    world.cluster.shutdown().await;
    assert!(!pids.iter().any(|pid| runs(pid)), "{pids:?}");
}

#[tokio::test]
async fn a_signal_to_the_helper_leaves_its_program_and_what_that_started_in_its_hands() {
    let world = World::start().await;
    let script =
        "sleep 1000 & for signal in INT TERM HUP QUIT; do kill -$signal $PPID; done; echo $PPID $!; wait";
    world.script("p", script, json!({})).await;
    let log = world.until_logged("p", "\n").await;
    let pids: Vec<&str> = log.split_whitespace().collect();
    let group = std::fs::read_to_string(format!("/proc/{}/stat", pids[0])).unwrap();
    let group = group.rsplit(") ").next().unwrap().split(' ').nth(2).unwrap().to_owned();
    assert_eq!(group, pids[0], "a signal to the node's group does not reach it");
    world.delete("p").await;
    world.until_gone("p").await;
    assert!(!runs(pids[1]), "it ended what the program had started");
}

#[tokio::test]
async fn ports_may_be_free_ones_that_the_program_is_told() {
    let world = World::listening(Listen::FreePorts).await;
    world.create::<ConfigMap>(json!({"metadata": {"name": "book"}, "data": {"SUMMARY.md": "- [One](one.md)", "one.md": "# Hello"}})).await;
    let spec = json!({
        "volumes": [{"name": "src", "configMap": {"name": "book"}}],
        "containers": [{
            "name": "main", "image": "viewer", "ports": [{"containerPort": 3000}],
            "volumeMounts": [{"name": "src", "mountPath": "/book/src"}],
            "readinessProbe": {"httpGet": {"port": 3000, "path": "/one.html"}},
        }],
    });
    for name in ["a", "b"] {
        world.pod(name, spec.clone()).await;
    }
    for name in ["a", "b"] {
        let pod = world.until_ready(name).await;
        assert!(pod.status.unwrap().pod_ip.unwrap().starts_with("10.244.0."));
        let log = world.until_logged(name, "http://127.0.0.1:").await;
        assert!(!log.contains(":3000"), "{log}");
    }
}
