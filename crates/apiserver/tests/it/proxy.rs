//! `proxy` of pods, services and nodes, to programs inside the test.

use std::convert::Infallible;
use std::io::{self, Read};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use flate2::read::{GzDecoder, GzEncoder};
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Empty, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use setpoint_apiserver::{Caller, Dialing, FrontProxy, Io, Nodes, UserInfo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use crate::cluster::{Cluster, body, start_with};

const CORE: &str = "/api/v1/namespaces/default";

/// Pods and nodes that tell what they are asked.
#[derive(Default)]
struct Programs(Mutex<JoinSet<()>>);

impl Programs {
    fn serve(&self, who: String) -> Dialing {
        let (ours, theirs) = tokio::io::duplex(4096);
        self.0.lock().unwrap().spawn(async move {
            let service = hyper::service::service_fn(move |request| answer(who.clone(), request));
            let connection =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(theirs), service);
            let _ = connection.with_upgrades().await;
        });
        Box::pin(async move { Ok(Box::new(ours) as Box<dyn Io>) })
    }
}

impl Nodes for Programs {
    fn dial(&self, node: &str) -> Option<Dialing> {
        Some(self.serve(node.to_owned()))
    }

    fn dial_pod(&self, namespace: &str, pod: &str, port: u16) -> Option<Dialing> {
        if port == 1 {
            return Some(Box::pin(async { Err(io::ErrorKind::ConnectionRefused.into()) }));
        }
        Some(self.serve(format!("{namespace}/{pod}:{port}")))
    }
}

const PAGE: &str = r#"<a href="/next">next</a><img src=near.png>"#;

async fn answer(who: String, mut request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let response = Response::builder().header("access-control-allow-origin", "*");
    let packed = || {
        let mut packed = Vec::new();
        GzEncoder::new(PAGE.as_bytes(), flate2::Compression::fast()).read_to_end(&mut packed).unwrap();
        packed
    };
    let response = match request.uri().path() {
        "/page" => response.header("content-type", "text/html; charset=utf-8").body(PAGE.into()),
        "/packed" => {
            let response = response.header("content-type", "text/html").header("content-encoding", "gzip");
            response.body(packed().into())
        }
        "/moved" => response.status(302).header("location", "/next?a=b").body(Full::default()),
        "/echo" => {
            let upgraded = hyper::upgrade::on(&mut request);
            let mut tasks = JoinSet::new();
            tasks.spawn(async move {
                let mut io = TokioIo::new(upgraded.await.unwrap());
                let mut word = [0; 5];
                io.read_exact(&mut word).await.unwrap();
                io.write_all(&word).await.unwrap();
            });
            tasks.detach_all();
            response
                .status(101)
                .header("upgrade", "echo")
                .header("connection", "Upgrade")
                .body(Full::default())
        }
        _ => {
            let header =
                |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
            let told = json!({ "who": who, "method": request.method().as_str(), "uri": request.uri().to_string(),
                "forwarded": header("x-forwarded-uri"), "accept": header("accept"), "host": header("host"),
                "secrets": [header("authorization"), header("impersonate-user"), header("impersonate-extra-a"),
                    header("x-remote-user"), header("x-remote-uid"), header("x-remote-group"),
                    header("x-remote-extra-a"), header("x-login")],
                "hop": [header("x-hop"), header("x-other"), header("keep-alive"), header("te")],
            });
            let sent = request.into_body().collect().await.unwrap().to_bytes();
            let told = format!("{told}\n{}", String::from_utf8_lossy(&sent));
            response
                .status(418)
                .header("connection", "X-Gone")
                .header("x-gone", "1")
                .header("x-kept", "1")
                .body(told.into())
        }
    };
    Ok(response.unwrap())
}

async fn cluster() -> Cluster {
    let change = |options: &mut setpoint_apiserver::Options| {
        options.nodes = Some(Arc::new(Programs::default()));
        let username_headers = vec!["X-Login".to_owned()];
        options.front_proxy = Some(FrontProxy { username_headers, ..FrontProxy::default() });
    };
    let cluster = start_with(change).await;
    let ports = json!([{ "containerPort": 8080 }]);
    let pod = json!({ "metadata": { "name": "p" },
        "spec": { "containers": [{ "name": "c", "image": "i", "ports": ports }] } });
    cluster.post(&format!("{CORE}/pods"), &pod).await.expect(201);
    let address = json!({ "status": { "podIP": "10.244.0.9", "podIPs": [{ "ip": "10.244.0.9" }] } });
    let status = format!("{CORE}/pods/p/status");
    cluster.patch(&status, "application/merge-patch+json", &address).await.expect(200);
    let service =
        json!({ "metadata": { "name": "s" }, "spec": { "ports": [{ "port": 80, "name": "web" }] } });
    cluster.post(&format!("{CORE}/services"), &service).await.expect(201);
    cluster
}

/// The request that the proxied program got, and its body.
fn told(answer: &crate::cluster::Answer) -> (Value, String) {
    assert_eq!(answer.code, 418, "{:?}", answer.bytes);
    let text = String::from_utf8(answer.bytes.to_vec()).unwrap();
    let (told, sent) = text.split_once('\n').unwrap();
    (serde_json::from_str(told).unwrap(), sent.to_owned())
}

#[tokio::test]
async fn a_request_reaches_the_pod_as_it_was_sent() {
    let cluster = cluster().await;
    let path = format!("{CORE}/pods/p:9/proxy/a%20b/c/?x=%2Fy&timeout=1");
    let request =
        Request::builder().method(Method::PUT).uri(path).header("host", "api").header("accept", "image/png");
    let request = request.header("authorization", "Bearer secret").header("content-type", "text/plain");
    // A backend that trusts this server's front-proxy certificate would take these for its word.
    let request =
        request.header("x-remote-user", "root").header("x-remote-uid", "0").header("x-login", "root");
    let request = request.header("x-remote-group", "system:masters").header("x-remote-extra-a", "b");
    let request = request.header("connection", "close, X-Hop").header("connection", "x-other");
    let request =
        request.header("x-hop", "1").header("x-other", "1").header("keep-alive", "1").header("te", "gzip");
    let answer = cluster.send(request.body(body("hello")).unwrap()).await;
    assert!(answer.headers.contains_key("x-kept") && !answer.headers.contains_key("x-gone"));
    let (asked, sent) = told(&answer);
    assert_eq!(sent, "hello");
    assert_eq!(
        asked,
        json!({ "who": "default/p:9", "method": "PUT", "uri": "/a%20b/c/?x=%2Fy&timeout=1", "accept": "image/png",
            "host": "api", "forwarded": format!("{CORE}/pods/p:9/proxy/a%20b/c/"), "secrets": vec![Value::Null; 8],
            "hop": [null, null, null, null] })
    );
    // The first port that the pod names.
    let (asked, _) = told(&cluster.get(&format!("{CORE}/pods/p/proxy/")).await);
    assert_eq!((&asked["who"], &asked["uri"]), (&json!("default/p:8080"), &json!("/")));
    for method in [Method::DELETE, Method::PATCH, Method::OPTIONS, Method::HEAD] {
        let request = Request::builder().method(method.clone()).uri(format!("{CORE}/pods/p/proxy/x"));
        assert_eq!(cluster.send(request.body(body("")).unwrap()).await.code, 418, "{method}");
    }
}

#[tokio::test]
async fn a_service_leads_to_a_pod_that_is_ready() {
    let cluster = cluster().await;
    let none = "no endpoints available for service \"s\"";
    for id in ["s", "s:web", "s:80", "http:s:80"] {
        let refused = cluster.get(&format!("{CORE}/services/{id}/proxy/")).await.expect(503);
        assert_eq!(refused["message"], none, "{id}");
    }
    let refused = cluster.get(&format!("{CORE}/services/s:81/proxy/")).await.expect(503);
    assert_eq!(refused["message"], "no service port 81 found for service \"s\"");
    let pod = json!({ "kind": "Pod", "namespace": "default", "name": "p" });
    let endpoints = json!({ "metadata": { "name": "s" }, "subsets": [
        { "addresses": [{ "ip": "10.244.0.8" }], "ports": [{ "port": 7, "name": "web" }] },
        { "addresses": [{ "ip": "10.244.0.9", "targetRef": pod }], "ports": [{ "port": 9443, "name": "web" }] }] });
    cluster.post(&format!("{CORE}/endpoints"), &endpoints).await.expect(201);
    for id in ["s:web", "s:80"] {
        let (asked, _) = told(&cluster.get(&format!("{CORE}/services/{id}/proxy/x")).await);
        assert_eq!(asked["who"], "default/p:9443", "what is no pod is not asked");
    }
    // The port has a name, so the nameless one is another.
    cluster.get(&format!("{CORE}/services/s/proxy/")).await.expect(503);
}

/// kube-apiserver's rule for an endpoint (`isValidAddress`): a pod of the same namespace that has the address.
#[tokio::test]
async fn an_endpoint_that_is_not_its_pods_address_is_not_asked() {
    let cluster = cluster().await;
    let other =
        json!({ "metadata": { "name": "other" }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    cluster.post(&format!("{CORE}/pods"), &other).await.expect(201);
    let at = |ip: &str, namespace: &str, name: &str| {
        let pod = json!({ "kind": "Pod", "namespace": namespace, "name": name });
        json!({ "addresses": [{ "ip": ip, "targetRef": pod }], "ports": [{ "port": 7, "name": "web" }] })
    };
    let subsets = [
        at("10.244.0.8", "default", "p"),
        at("10.244.0.9", "default", "other"),
        at("10.244.0.9", "default", "none"),
        at("10.244.0.9", "kube-system", "p"),
    ];
    let endpoints = json!({ "metadata": { "name": "s" }, "subsets": subsets });
    cluster.post(&format!("{CORE}/endpoints"), &endpoints).await.expect(201);
    let refused = cluster.get(&format!("{CORE}/services/s:80/proxy/")).await.expect(503);
    assert_eq!(refused["message"], "no endpoints available for service \"s\"");
}

#[tokio::test]
async fn links_lead_through_the_proxy() {
    let cluster = cluster().await;
    let prefix = format!("{CORE}/pods/p/proxy");
    let first = cluster.get(&format!("{prefix}?a=b")).await;
    assert_eq!((first.code, first.headers["location"].to_str().unwrap()), (301, &*format!("{prefix}/?a=b")));
    let moved = cluster.get(&format!("{prefix}/moved")).await;
    assert_eq!(
        (moved.code, moved.headers["location"].to_str().unwrap()),
        (302, &*format!("{prefix}/next?a=b"))
    );
    let expected = format!(r#"<a href="{prefix}/next">next</a><img src=near.png>"#);
    let page = cluster.get(&format!("{prefix}/page")).await;
    assert_eq!(page.bytes, expected);
    assert!(!page.headers.contains_key("access-control-allow-origin"));
    let packed = cluster.get(&format!("{prefix}/packed")).await;
    let mut unpacked = String::new();
    GzDecoder::new(&packed.bytes[..]).read_to_string(&mut unpacked).unwrap();
    assert_eq!(unpacked, expected);
}

#[tokio::test]
async fn whoever_cannot_be_reached_is_named() {
    let cluster = cluster().await;
    for (path, code, message) in [
        (
            "pods/p:1/proxy/",
            503,
            "error trying to reach service: dial tcp 10.244.0.9:1: connect: connection refused",
        ),
        ("pods/none/proxy/", 404, "pods \"none\" not found"),
        ("pods/ftp:p:1/proxy/", 400, "invalid pod request \"ftp:p:1\""),
        ("services/none:80/proxy/", 404, "services \"none\" not found"),
        ("services/none/proxy/", 503, "no endpoints available for service \"none\""),
    ] {
        let refused = cluster.get(&format!("{CORE}/{path}")).await.expect(code);
        assert_eq!(refused["message"], message, "{path}");
    }
    let refused = cluster.get("/api/v1/nodes/none/proxy/pods").await.expect(404);
    assert_eq!(refused["message"], "nodes \"none\" not found");
    cluster.post("/api/v1/nodes", &json!({ "metadata": { "name": "n" } })).await.expect(201);
    let (asked, _) = told(&cluster.get("/api/v1/nodes/n/proxy/metrics/probes").await);
    assert_eq!((&asked["who"], &asked["uri"]), (&json!("n"), &json!("/metrics/probes")));
}

#[tokio::test]
async fn another_protocol_passes_untouched() {
    let cluster = cluster().await;
    let (client, served) = tokio::io::duplex(4096);
    let server = cluster.server.clone();
    let mut tasks = JoinSet::new();
    let shutdown = tokio_util::sync::CancellationToken::new();
    tasks.spawn(async move {
        server.serve_io(served, Caller::Trusted(UserInfo::admin("admin")), shutdown).await;
    });
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(client)).await.unwrap();
    tasks.spawn(async move { drop(connection.with_upgrades().await) });
    let request = Request::get(format!("{CORE}/pods/p/proxy/echo"))
        .header("host", "x")
        .header("connection", "Upgrade")
        .header("upgrade", "echo");
    let mut response = sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
    assert_eq!((response.status().as_u16(), &response.headers()["upgrade"]), (101, &"echo".parse().unwrap()));
    let mut io = TokioIo::new(hyper::upgrade::on(&mut response).await.unwrap());
    io.write_all(b"hello").await.unwrap();
    let mut echoed = [0; 5];
    io.read_exact(&mut echoed).await.unwrap();
    assert_eq!(&echoed, b"hello");
}
