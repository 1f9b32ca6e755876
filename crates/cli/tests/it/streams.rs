//! Exec, attach, port-forward and logs as kube-rs speaks them, over a socket.

use futures::{AsyncBufReadExt, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{AttachParams, AttachedProcess, LogParams, TerminalSize};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::node::World;

/// A client over TLS: an in-process one has no connection to upgrade.
async fn pods(world: &World) -> Api<Pod> {
    let address = world.cluster.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let kubeconfig = Kubeconfig::from_yaml(&world.cluster.kubeconfig(address).unwrap()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Api::default_namespaced(Client::try_from(config).unwrap())
}

async fn code(mut process: AttachedProcess) -> (String, String) {
    let mut out = String::new();
    if let Some(mut stdout) = process.stdout() {
        stdout.read_to_string(&mut out).await.unwrap();
    }
    let status = process.take_status().unwrap().await.unwrap();
    let causes = status.details.and_then(|details| details.causes).unwrap_or_default();
    let code = causes.first().and_then(|cause| cause.message.clone()).unwrap_or_else(|| "0".into());
    (out, code)
}

#[tokio::test]
async fn exec_carries_input_output_and_the_exit_code() {
    let world = World::start().await;
    world.script("p", "sleep 1000", json!({})).await;
    world.until_ready("p").await;
    let pods = pods(&world).await;
    let ran = pods.exec("p", ["sh", "-c", "echo $HOSTNAME; exit 7"], &AttachParams::default()).await.unwrap();
    assert_eq!(code(ran).await, ("p\n".into(), "7".into()));
    let mut cat = pods.exec("p", ["cat"], &AttachParams::default().stdin(true).stderr(false)).await.unwrap();
    // More than all buffers on the way hold together.
    let sent: Vec<u8> = (0..4_000_000u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let (mut input, mut output) = (cat.stdin().unwrap(), cat.stdout().unwrap());
    let typed = async {
        input.write_all(&sent).await.unwrap();
        input.shutdown().await.unwrap();
    };
    let mut got = vec![0; sent.len()];
    let (_, read) = tokio::join!(typed, output.read_exact(&mut got));
    read.unwrap();
    assert!(got == sent, "what comes back is what was sent");
}

#[tokio::test]
async fn exec_is_off_unless_the_table_allows_it_and_never_runs_what_it_does_not_name() {
    let world = World::start().await;
    world.script("open", "sleep 1000", json!({})).await;
    world.script("closed", "sleep 1000", json!({"image": "closed"})).await;
    world.pod("pretend", json!({"containers": [{"name": "main", "image": "nginx"}]})).await;
    let pods = pods(&world).await;
    for (name, command, wanted) in [
        ("open", "perl", "the image table lets shell run cat, sh, test, not \"perl\""),
        ("closed", "sh", "the image table does not allow exec for closed"),
        ("pretend", "sh", "container main is simulated: there is no program to run [\"sh\"] beside"),
    ] {
        world.until_ready(name).await;
        let Err(kube::Error::Api(refused)) = pods.exec(name, [command], &AttachParams::default()).await
        else {
            panic!("{name}: exec was not refused")
        };
        assert_eq!((refused.code, refused.message.as_str()), (500, wanted), "{name}");
    }
}

#[tokio::test]
async fn a_terminal_has_a_size_that_the_client_changes() {
    let world = World::start().await;
    world.script("p", "sleep 1000", json!({})).await;
    world.until_ready("p").await;
    let pods = pods(&world).await;
    let script = "trap 'stty size; exit 5' WINCH; tty; while :; do sleep 0.05; done";
    let mut shell = pods.exec("p", ["sh", "-c", script], &AttachParams::interactive_tty()).await.unwrap();
    let mut output = shell.stdout().unwrap();
    let mut seen = String::new();
    while !seen.contains("/dev/pts/") {
        let mut buffer = [0; 256];
        let count = output.read(&mut buffer).await.unwrap();
        assert!(count > 0, "{seen}");
        seen += std::str::from_utf8(&buffer[..count]).unwrap();
    }
    let mut sizes = shell.terminal_size().unwrap();
    futures::SinkExt::send(&mut sizes, TerminalSize { width: 91, height: 17 }).await.unwrap();
    output.read_to_string(&mut seen).await.unwrap();
    assert!(seen.contains("17 91"), "{seen}");
}

#[tokio::test]
async fn attach_joins_the_streams_of_the_container_itself() {
    let world = World::start().await;
    let script = "echo up; while read line; do echo got $line; done; echo over; sleep 1000";
    world.script("p", script, json!({"stdin": true, "stdinOnce": true})).await;
    world.until_ready("p").await;
    world.until_logged("p", "up").await;
    let pods = pods(&world).await;
    let mut attached = pods.attach("p", &AttachParams::default().stdin(true).stderr(false)).await.unwrap();
    let (mut input, mut output) = (attached.stdin().unwrap(), attached.stdout().unwrap());
    input.write_all(b"one\n").await.unwrap();
    let mut got = [0; 8];
    output.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"got one\n");
    input.shutdown().await.unwrap();
    drop(input);
    // stdinOnce: the program's input ends with the client's.
    let mut over = [0; 5];
    output.read_exact(&mut over).await.unwrap();
    assert_eq!(&over, b"over\n");
    assert_eq!(world.until_logged("p", "over").await, "up\ngot one\nover\n");
}

#[tokio::test]
async fn logs_are_followed_until_the_container_ends() {
    let world = World::start().await;
    let more = json!({"command": ["sh", "-c", "echo error >&2; echo one; echo two; read x; printf three"], "stdin": true});
    let mut container = json!({"name": "main", "image": "shell"});
    for (field, value) in more.as_object().unwrap() {
        container[field] = value.clone();
    }
    world.pod("p", json!({"restartPolicy": "Never", "containers": [container]})).await;
    world.until_logged("p", "two").await;
    world.until_logged("p", "error").await;
    let pods = pods(&world).await;
    let follow = LogParams { follow: true, tail_lines: Some(1), ..LogParams::default() };
    let mut lines = pods.log_stream("p", &follow).await.unwrap().lines();
    let last = lines.next().await.unwrap().unwrap();
    assert!(last == "two" || last == "error", "{last}");
    let mut attached =
        pods.attach("p", &AttachParams::default().stdin(true).stdout(false).stderr(false)).await.unwrap();
    attached.stdin().unwrap().write_all(b"go\n").await.unwrap();
    assert_eq!(lines.next().await.unwrap().unwrap(), "three");
    assert!(lines.next().await.is_none());
    let stamped = LogParams { timestamps: true, limit_bytes: Some(34), ..LogParams::default() };
    let text = world.logs("p", &stamped).await.unwrap();
    assert!(text.len() == 34 && text.starts_with("20") && text.contains("Z "), "{text}");
    let recent = LogParams { since_seconds: Some(3600), tail_lines: Some(1), ..LogParams::default() };
    assert_eq!(world.logs("p", &recent).await.unwrap(), "three");
    // Lines of the two streams may pass each other, as with any runtime that has a pipe for each.
    assert!(world.logs("p", &LogParams::default()).await.unwrap().contains("error\n"));
}

#[tokio::test]
async fn port_forward_reaches_the_program_and_says_when_none_listens() {
    let world = World::start().await;
    let book =
        json!({"metadata": {"name": "book"}, "data": {"SUMMARY.md": "- [One](one.md)", "one.md": "# Hello"}});
    world.create::<k8s_openapi::api::core::v1::ConfigMap>(book).await;
    let spec = json!({
        "volumes": [{"name": "src", "configMap": {"name": "book"}}],
        "containers": [{
            "name": "main", "image": "viewer", "volumeMounts": [{"name": "src", "mountPath": "/book/src"}],
            "readinessProbe": {"tcpSocket": {"port": 3000}},
        }],
    });
    world.pod("web", spec).await;
    world.until_ready("web").await;
    let pods = pods(&world).await;
    let mut forwarded = pods.portforward("web", &[3000, 81]).await.unwrap();
    let refused = forwarded.take_error(81).unwrap();
    let mut stream = forwarded.take_stream(3000).unwrap();
    stream.write_all(b"GET /one.html HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).await.unwrap();
    assert!(page.contains("Hello"), "{page}");
    assert!(refused.await.unwrap().contains("error forwarding port 81"));
}
