//! Logs and upgraded streams, relayed to a node inside the process.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{Empty, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::json;
use setpoint_apiserver::{Caller, Dialing, Io, Nodes, UserInfo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use crate::cluster::{Cluster, start_with};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// A kubelet that tells what it is asked, and echoes upgraded bytes.
#[derive(Default)]
struct Kubelet(Mutex<JoinSet<()>>);

impl Nodes for Kubelet {
    fn dial(&self, node: &str) -> Option<Dialing> {
        let (ours, theirs) = tokio::io::duplex(4096);
        self.0.lock().unwrap().spawn(async move {
            let service = hyper::service::service_fn(answer);
            let connection =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(theirs), service);
            let _ = connection.with_upgrades().await;
        });
        (node == "n").then(|| Box::pin(async move { Ok(Box::new(ours) as Box<dyn Io>) }) as Dialing)
    }
}

async fn answer(mut request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.headers().contains_key("upgrade") {
        let upgraded = hyper::upgrade::on(&mut request);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut io = TokioIo::new(upgraded.await.unwrap());
            let mut word = [0; 5];
            io.read_exact(&mut word).await.unwrap();
            io.write_all(&word).await.unwrap();
        });
        tasks.detach_all();
        let response =
            Response::builder().status(101).header("upgrade", "SPDY/3.1").header("connection", "Upgrade");
        return Ok(response.body(Full::default()).unwrap());
    }
    Ok(Response::new(Full::from(request.uri().to_string())))
}

async fn cluster_with_pod() -> Cluster {
    let cluster = start_with(|options| options.nodes = Some(Arc::new(Kubelet::default()))).await;
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    cluster.post(PODS, &pod).await.expect(201);
    cluster
}

async fn bind(cluster: &Cluster) {
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}});
    cluster.post(&format!("{PODS}/p/binding"), &binding).await.expect(201);
}

#[tokio::test]
async fn logs_come_from_the_node() {
    let cluster = cluster_with_pod().await;
    assert_eq!(cluster.get(&format!("{PODS}/p/log")).await.code, 400);
    bind(&cluster).await;
    let log = cluster.get(&format!("{PODS}/p/log?tailLines=5&follow=true")).await;
    assert_eq!(log.bytes, "/containerLogs/default/p/c?follow=true&tailLines=5");
    assert_eq!(log.headers["content-type"], "text/plain");
    assert_eq!(cluster.get(&format!("{PODS}/p/log?container=x")).await.code, 400);
    assert_eq!(cluster.get(&format!("{PODS}/none/log")).await.code, 404);
}

/// A WebSocket is a GET that does more than read: Kubernetes 1.37 asks for `create` too
/// (`AuthorizePodWebsocketUpgradeCreatePermission`).
#[tokio::test]
async fn streams_need_the_right_to_create() {
    const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
    let cluster = cluster_with_pod().await;
    bind(&cluster).await;
    let role = |verbs: &[&str]| {
        json!({"metadata": {"name": "streams"}, "rules": [{"apiGroups": [""], "verbs": verbs,
            "resources": ["pods/exec", "pods/attach", "pods/portforward"]}]})
    };
    cluster.post(&format!("{RBAC}/clusterroles"), &role(&["get"])).await.expect(201);
    let binding = json!({"metadata": {"name": "streams"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "streams"},
        "subjects": [{"kind": "User", "name": "eve", "apiGroup": "rbac.authorization.k8s.io"}]});
    cluster.post(&format!("{RBAC}/clusterrolebindings"), &binding).await.expect(201);
    let open = async |pod: &str, stream: &str| {
        let request = Request::get(format!("{PODS}/{pod}/{stream}"))
            .header("connection", "Upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-protocol", "v5.channel.k8s.io");
        let groups: [&str; 0] = [];
        let eve = Caller::Trusted(UserInfo::new("eve", groups));
        cluster.send_as(eve, request.body(crate::cluster::body("")).unwrap()).await
    };
    for stream in ["exec", "attach", "portforward"] {
        let refused = open("p", stream).await.expect(403);
        assert_eq!(refused["message"], "pods \"p\" is forbidden: ");
        // Nor does it tell whether there is such a pod.
        open("none", stream).await.expect(403);
    }
    cluster.put(&format!("{RBAC}/clusterroles/streams"), &role(&["get", "create"])).await.expect(200);
    for stream in ["exec", "attach", "portforward"] {
        assert_eq!(open("p", stream).await.code, 101, "{stream}");
    }
}

#[tokio::test]
async fn upgraded_bytes_pass_untouched() {
    let cluster = cluster_with_pod().await;
    bind(&cluster).await;
    let (client, served) = tokio::io::duplex(4096);
    let server = cluster.server.clone();
    let mut tasks = JoinSet::new();
    let shutdown = tokio_util::sync::CancellationToken::new();
    tasks.spawn(async move {
        server.serve_io(served, Caller::Trusted(UserInfo::admin("admin")), shutdown).await;
    });
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(client)).await.unwrap();
    tasks.spawn(async move { drop(connection.with_upgrades().await) });
    let request = Request::post(format!("{PODS}/p/exec?command=ls&command=-l&stdout=true"))
        .header("host", "x")
        .header("connection", "Upgrade")
        .header("upgrade", "SPDY/3.1");
    let mut response = sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 101);
    let mut io = TokioIo::new(hyper::upgrade::on(&mut response).await.unwrap());
    io.write_all(b"hello").await.unwrap();
    let mut echoed = [0; 5];
    io.read_exact(&mut echoed).await.unwrap();
    assert_eq!(&echoed, b"hello");
    let plain = Request::post(format!("{PODS}/p/exec?command=ls")).body(crate::cluster::body("")).unwrap();
    assert_eq!(cluster.send(plain).await.code, 400);
}
