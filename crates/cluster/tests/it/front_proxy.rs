//! Request headers of a front proxy, over TLS.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use base64::Engine;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use setpoint_apiserver::pki::{Authority, Identity};
use setpoint_cluster::{Cluster, Controllers, FrontProxy, NodeOptions, Options, Serving};

const DAY: i64 = 86_400;

/// A server that trusts two authorities: one names clients, one a front proxy.
struct World {
    cluster: Cluster,
    address: std::net::SocketAddr,
    proxies: Authority,
    /// Seconds that the server's clock is ahead.
    ahead: Arc<AtomicI64>,
}

impl World {
    async fn start(allowed: &[&str]) -> World {
        World::with(allowed, Authority::generate(setpoint::clock::system_clock().now()).unwrap()).await
    }

    async fn with(allowed: &[&str], proxies: Authority) -> World {
        let ahead = Arc::new(AtomicI64::new(0));
        let (read, real) = (ahead.clone(), setpoint::clock::system_clock());
        let now = move || real.now() + jiff::SignedDuration::from_secs(read.load(Ordering::Relaxed));
        let clock = setpoint_api::Clock::new(now);
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let front_proxy = FrontProxy {
            authority: proxies.identity().certificate.clone(),
            allowed_names: names(allowed),
            username_headers: names(&["X-Remote-User"]),
            uid_headers: names(&["X-Remote-Uid"]),
            group_headers: names(&["X-Remote-Group"]),
            extra_header_prefixes: names(&["X-Remote-Extra-"]),
        };
        let options = Options {
            controllers: Controllers::None,
            nodes: NodeOptions { count: 0, ..NodeOptions::default() },
            clock: Some(clock),
            front_proxy: Some(front_proxy),
            ..Options::default()
        };
        let cluster = Cluster::start(options).await.unwrap();
        let anywhere = "127.0.0.1:0".parse().unwrap();
        let address = cluster.listen_with(anywhere, Serving::default()).await.unwrap();
        World { cluster, address, proxies, ahead }
    }

    fn now(&self) -> jiff::Timestamp {
        self.cluster.clock().now()
    }

    /// A certificate of the front proxy's authority.
    fn proxy(&self, name: &str, groups: &[&str]) -> Identity {
        self.proxies.client(name, groups, self.now()).unwrap()
    }

    /// A client over TLS that shows this certificate, or none.
    async fn client(&self, identity: Option<&Identity>) -> Client {
        let mut config = Kubeconfig::from_yaml(&self.cluster.kubeconfig(self.address).unwrap()).unwrap();
        let user = config.auth_infos[0].auth_info.as_mut().unwrap();
        let encode = |pem: &str| base64::engine::general_purpose::STANDARD.encode(pem);
        user.client_certificate_data = identity.map(|identity| encode(&identity.certificate));
        user.client_key_data = identity.map(|identity| encode(&identity.key).into());
        let config =
            kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
        Client::try_from(config).unwrap()
    }
}

const ALICE: [(&str, &str); 5] = [
    ("X-Remote-User", "alice"),
    ("x-remote-uid", "7"),
    ("X-Remote-Group", "dev"),
    ("X-Remote-Group", "ops"),
    ("X-Remote-Extra-Example.com%2fScopes", "read"),
];

/// Asks the server who asks: the code, and the user or the message.
async fn whoami(client: &Client, headers: &[(&str, &str)]) -> (u16, Value) {
    let mut request = http::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
        .header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = client.send(request.body(b"{}".to_vec().into()).unwrap()).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect_bytes().await.unwrap();
    let answer: Value = serde_json::from_slice(&bytes).unwrap();
    if code == 201 { (code, answer["status"]["userInfo"].clone()) } else { (code, answer["message"].clone()) }
}

#[tokio::test]
async fn the_proxys_headers_name_the_user() {
    let world = World::start(&["front-proxy"]).await;
    let proxy = world.client(Some(&world.proxy("front-proxy", &[]))).await;
    let expected = json!({"username": "alice", "uid": "7", "groups": ["dev", "ops", "system:authenticated"],
        "extra": {"example.com/scopes": ["read"]}});
    assert_eq!(whoami(&proxy, &ALICE).await, (201, expected));
    // A token beside them is not asked.
    let headers = [("X-Remote-User", "bob"), ("Authorization", "Bearer wrong")];
    let expected = json!({"username": "bob", "groups": ["system:authenticated"]});
    assert_eq!(whoami(&proxy, &headers).await, (201, expected));
}

#[tokio::test]
async fn the_headers_of_anybody_else_count_for_nothing() {
    let world = World::start(&["front-proxy"]).await;
    let nobody = world.client(None).await;
    let (code, message) = whoami(&nobody, &ALICE).await;
    assert_eq!(code, 403);
    assert!(message.as_str().unwrap().contains("User \"system:anonymous\" cannot create"), "{message}");
    // The name of the proxy from the authority of clients.
    let client = world.cluster.certificate("front-proxy", &["team"]).unwrap();
    let (code, user) = whoami(&world.client(Some(&client)).await, &ALICE).await;
    assert_eq!((code, &user["username"]), (201, &json!("front-proxy")));
    assert_eq!(user["groups"], json!(["team", "system:authenticated"]));
    // The right authority with another name, and a third authority with the right one.
    let other = world.proxy("someone", &["system:masters"]);
    let stranger = Authority::generate(world.now()).unwrap().client("front-proxy", &[], world.now()).unwrap();
    for identity in [other, stranger] {
        let client = world.client(Some(&identity)).await;
        assert_eq!(whoami(&client, &ALICE).await, (401, json!("Unauthorized")));
    }
}

#[tokio::test]
async fn the_proxys_certificate_is_nobody_itself() {
    for allowed in [&["admin"][..], &[]] {
        let world = World::start(allowed).await;
        let proxy = world.client(Some(&world.proxy("admin", &["system:masters"]))).await;
        assert_eq!(whoami(&proxy, &[]).await, (401, json!("Unauthorized")));
        assert_eq!(whoami(&proxy, &[("X-Remote-Group", "system:masters")]).await.0, 401);
        // Any name will do where none is listed.
        assert_eq!(whoami(&proxy, &ALICE).await.0, 201);
    }
}

#[tokio::test]
async fn a_certificate_counts_until_it_expires_on_connections_that_live_on_too() {
    let world = World::start(&[]).await;
    let proxy = world.client(Some(&world.proxy("front-proxy", &[]))).await;
    let client = world.client(Some(&world.cluster.certificate("carol", &[]).unwrap())).await;
    assert_eq!((whoami(&proxy, &ALICE).await.0, whoami(&client, &[]).await.0), (201, 201));
    world.ahead.store(3700 * DAY, Ordering::Relaxed);
    assert_eq!((whoami(&proxy, &ALICE).await.0, whoami(&client, &[]).await.0), (401, 401));
}

#[tokio::test]
async fn a_certificate_for_servers_lets_nobody_in() {
    let world = World::start(&[]).await;
    let identity = world.proxies.serving(&[], &[], world.now()).unwrap();
    assert_eq!(whoami(&world.client(Some(&identity)).await, &ALICE).await.0, 401);
}

/// As in Go, and unlike rustls, which ignores the dates of a root.
#[tokio::test]
async fn an_authority_that_has_expired_vouches_for_nobody() {
    let past = setpoint::clock::system_clock().now() - jiff::SignedDuration::from_secs(3660 * DAY);
    let mut world = World::with(&[], Authority::generate(past).unwrap()).await;
    let proxy = world.client(Some(&world.proxy("front-proxy", &[]))).await;
    assert_eq!(whoami(&proxy, &ALICE).await.0, 401);
    let clients = Authority::generate(past).unwrap();
    let serving =
        Serving { client_authority: Some(clients.identity().certificate.clone()), ..Serving::default() };
    world.address = world.cluster.listen_with("127.0.0.1:0".parse().unwrap(), serving).await.unwrap();
    let carol = clients.client("carol", &[], world.now()).unwrap();
    assert_eq!(whoami(&world.client(Some(&carol)).await, &[]).await.0, 401);
}
