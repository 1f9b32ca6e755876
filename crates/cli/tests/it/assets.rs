//! The result of `setpoint assets`: a kube-apiserver that honours its flags or does not start.

use std::io::{BufRead, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use setpoint_apiserver::pki::{Authority, Identity};

/// Time that a server may take until it answers.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder that `setpoint assets` has filled.
fn assets() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let made =
        Command::new(env!("CARGO_BIN_EXE_setpoint")).arg("assets").arg(folder.path()).output().unwrap();
    assert!(made.status.success(), "{made:?}");
    folder
}

#[test]
fn a_flag_that_would_protect_and_cannot_stops_the_start() {
    let folder = assets();
    for (flags, words) in [
        (&["--authorization-mode=Webhook"][..], "authorization config file not passed"),
        (&["--authorization-mode=RBAC,Nope"], "authorization-mode \"Nope\" is not a valid mode"),
        (
            &["--authorization-mode=RBAC", "--audit-log-path=-"],
            "--audit-log-path: Setpoint writes no audit log",
        ),
        (&["--enable-admission-plugins=NodeRestriction"], "NodeRestriction is not implemented"),
        (&["--feature-gates=Nope=true"], "unrecognized feature gate: Nope"),
        (&["--token-auth-file=/nowhere/tokens.csv"], "cannot read /nowhere/tokens.csv"),
        (&["--oidc-issuer-url=https://a"], "--oidc-issuer-url: Setpoint has no OIDC authentication"),
        (&["--min-request-timeout=x"], "invalid argument \"x\" for \"--min-request-timeout\" flag"),
    ] {
        let ended = Command::new(folder.path().join("kube-apiserver")).args(flags).output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(!ended.status.success() && said.contains(words), "{flags:?}: {said}");
    }
    let etcd =
        Command::new(folder.path().join("etcd")).arg("--listen-client-urls=https://127.0.0.1:0").output();
    let said = String::from_utf8(etcd.unwrap().stderr).unwrap();
    assert!(said.contains("Setpoint's etcd has no TLS"), "{said}");
}

/// A kube-apiserver; it ends with this.
struct Server {
    process: Child,
    address: SocketAddr,
    folder: tempfile::TempDir,
    clients: Authority,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A loopback address that no other test uses, so that a port which was free a moment ago still is.
fn own_loopback() -> Ipv4Addr {
    static SERVERS: AtomicU8 = AtomicU8::new(0);
    let [_, _, high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 100 + SERVERS.fetch_add(1, Ordering::Relaxed), high, low.clamp(1, 254))
}

fn write(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

impl Server {
    fn start(flags: &[String]) -> Server {
        let folder = assets();
        let now = setpoint::clock::system_clock().now();
        let clients = Authority::generate(now).unwrap();
        let host = own_loopback();
        let serving = clients.serving(&[], &[host.into()], now).unwrap();
        write(folder.path(), "apiserver.crt", &serving.certificate);
        write(folder.path(), "apiserver.key", &serving.key);
        let authority = write(folder.path(), "clients.crt", &clients.identity().certificate);
        let address = std::net::TcpListener::bind((host, 0)).unwrap().local_addr().unwrap();
        let process = Command::new(folder.path().join("kube-apiserver"))
            .arg(format!("--bind-address={host}"))
            .arg(format!("--secure-port={}", address.port()))
            .arg(format!("--cert-dir={}", folder.path().display()))
            .arg(format!("--client-ca-file={}", authority.display()))
            .args(flags)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Server { process, address, folder, clients }
    }

    async fn client(&self, identity: Option<&Identity>) -> Client {
        let encode = |pem: &str| base64::engine::general_purpose::STANDARD.encode(pem);
        let user = identity.map_or(json!({}), |identity| {
            json!({"client-certificate-data": encode(&identity.certificate),
                "client-key-data": encode(&identity.key)})
        });
        let cluster = json!({"server": format!("https://{}", self.address),
            "certificate-authority-data": encode(&self.clients.identity().certificate)});
        let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": cluster}], "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]});
        let config: Kubeconfig = serde_json::from_value(config).unwrap();
        let config =
            kube::Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
        Client::try_from(config).unwrap()
    }

    /// Asks for a path until the server answers.
    async fn ask(&mut self, client: &Client, path: &str, headers: &[(&str, &str)]) -> (u16, Value) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut request = http::Request::get(path);
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            match client.send(request.body(Vec::new().into()).unwrap()).await {
                Ok(response) => {
                    let code = response.status().as_u16();
                    let bytes = response.into_body().collect_bytes().await.unwrap();
                    return (code, serde_json::from_slice(&bytes).unwrap_or_default());
                }
                Err(error) => {
                    let ended = self.process.try_wait().unwrap();
                    assert!(ended.is_none() && Instant::now() < deadline, "{error}, {ended:?}");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
    }
}

#[tokio::test]
async fn the_front_proxy_of_the_flags_names_the_user() {
    let now = setpoint::clock::system_clock().now();
    let proxies = Authority::generate(now).unwrap();
    let files = tempfile::tempdir().unwrap();
    let authority = write(files.path(), "proxies.crt", &proxies.identity().certificate);
    let mut server = Server::start(&[
        "--authorization-mode=RBAC".to_owned(),
        format!("--requestheader-client-ca-file={}", authority.display()),
        "--requestheader-allowed-names=front-proxy".to_owned(),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
    ]);
    let proxy = server.client(Some(&proxies.client("front-proxy", &[], now).unwrap())).await;
    let path = "/api/v1/namespaces/default/secrets";
    let alice = [("X-Remote-User", "alice"), ("X-Remote-Group", "dev")];
    let (code, refused) = server.ask(&proxy, path, &alice).await;
    assert_eq!(code, 403);
    assert!(refused["message"].as_str().unwrap().contains("User \"alice\" cannot list"), "{refused}");
    let masters = [("X-Remote-User", "alice"), ("X-Remote-Group", "system:masters")];
    assert_eq!(server.ask(&proxy, path, &masters).await.0, 200);
    let other = server.client(Some(&proxies.client("other", &[], now).unwrap())).await;
    assert_eq!(server.ask(&other, path, &masters).await.0, 401);
    let bob = server.client(Some(&server.clients.client("bob", &[], now).unwrap())).await;
    let (_, refused) = server.ask(&bob, path, &masters).await;
    assert!(refused["message"].as_str().unwrap().contains("User \"bob\" cannot list"), "{refused}");
    let (_, refused) = {
        let nobody = server.client(None).await;
        server.ask(&nobody, path, &masters).await
    };
    assert!(
        refused["message"].as_str().unwrap().contains("User \"system:anonymous\" cannot list"),
        "{refused}"
    );
    assert!(server.folder.path().is_dir());
}

/// Without the flag kube-apiserver allows everything, so it admits no anonymous user.
#[tokio::test]
async fn without_an_authorization_mode_nobody_is_anonymous() {
    let mut server = Server::start(&[]);
    let nobody = server.client(None).await;
    assert_eq!(server.ask(&nobody, "/api/v1/secrets", &[]).await.0, 401);
    let now = setpoint::clock::system_clock().now();
    let bob = server.client(Some(&server.clients.client("bob", &[], now).unwrap())).await;
    assert_eq!(server.ask(&bob, "/api/v1/secrets", &[]).await.0, 200);
}

/// Answers reviews over HTTP as a function of them, until the end of the test.
fn webhook(answer: impl Fn(&Value) -> Value + Send + 'static) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = std::net::TcpListener::bind((own_loopback(), 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let paths = asked.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = std::io::BufReader::new(stream.unwrap());
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                if stream.read_line(&mut line).unwrap() <= 2 {
                    break;
                }
                if let Some(bytes) = line.to_lowercase().strip_prefix("content-length:") {
                    length = bytes.trim().parse().unwrap();
                }
                head += &line;
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            paths.lock().unwrap().push(head.lines().next().unwrap_or_default().to_owned());
            let mut review: Value = serde_json::from_slice(&body).unwrap();
            review["status"] = answer(&review["spec"]);
            let said = review.to_string();
            let length = said.len();
            let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
            stream.get_mut().write_all((head + &said).as_bytes()).unwrap();
        }
    });
    (address, asked)
}

/// A kubeconfig of a webhook.
fn kubeconfig(folder: &Path, name: &str, url: &str) -> String {
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": url}}], "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]});
    write(folder, name, &config.to_string()).display().to_string()
}

#[tokio::test]
async fn tokens_of_the_file_and_of_the_webhook_name_users_and_the_webhook_decides() {
    let files = tempfile::tempdir().unwrap();
    let tokens = write(files.path(), "tokens.csv", "first,alice,1,\"dev,ops\"\nroot,root,0,system:masters\n");
    let (authn, _) = webhook(|spec| {
        let known = spec["token"] == "second";
        json!({"authenticated": known, "user": {"username": "bob", "groups": ["qa"]}})
    });
    let (authz, asked) = webhook(|spec| {
        let (user, verb) = (&spec["user"], &spec["resourceAttributes"]["verb"]);
        json!({"allowed": user == "bob" && verb != "delete", "denied": verb == "delete", "reason": format!("{user} may not")})
    });
    let mut server = Server::start(&[
        "--authorization-mode=Webhook,RBAC".to_owned(),
        format!("--token-auth-file={}", tokens.display()),
        format!(
            "--authentication-token-webhook-config-file={}",
            kubeconfig(files.path(), "authn", &format!("http://{authn}/tokens"))
        ),
        format!(
            "--authorization-webhook-config-file={}",
            kubeconfig(files.path(), "authz", &format!("http://{authz}/access"))
        ),
        "--authorization-webhook-version=v1".to_owned(),
        "--enable-priority-and-fairness=false".to_owned(),
    ]);
    let client = server.client(None).await;
    let path = "/api/v1/namespaces/default/configmaps";
    for (token, code, said) in [
        (
            "first",
            403,
            "User \"alice\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"default\": default: \"alice\" may not",
        ),
        ("second", 200, ""),
        ("root", 200, ""),
        ("third", 401, "Unauthorized"),
    ] {
        let header = format!("Bearer {token}");
        let (answered, body) = server.ask(&client, path, &[("Authorization", &header)]).await;
        let message = body["message"].as_str().unwrap_or("");
        assert!(answered == code && message.contains(said), "{token}: {answered} {body}");
    }
    let paths = asked.lock().unwrap().clone();
    assert_eq!(paths, ["POST /access?timeout=30s HTTP/1.1"; 2]);
    // The webhook denies what RBAC would allow, and the right to create is asked for too.
    let delete = http::Request::delete(format!("{path}/none"))
        .header("Authorization", "Bearer second")
        .body(Vec::new().into())
        .unwrap();
    assert_eq!(client.send(delete).await.unwrap().status(), 403);
    let put = http::Request::put("/apis/coordination.k8s.io/v1/namespaces/default/leases/new")
        .header("Authorization", "Bearer second")
        .header("Content-Type", "application/json")
        .body(
            json!({"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": {"name": "new"}})
                .to_string()
                .into_bytes()
                .into(),
        )
        .unwrap();
    assert_eq!(client.send(put).await.unwrap().status(), 201);
}

impl Server {
    /// Posts an object once the server answers. Returns the code and the answer.
    async fn post(&mut self, client: &Client, path: &str, object: &Value) -> (u16, Value) {
        self.ask(client, "/readyz", &[]).await;
        let request = http::Request::post(path).header("content-type", "application/json");
        let response =
            client.send(request.body(object.to_string().into_bytes().into()).unwrap()).await.unwrap();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect_bytes().await.unwrap();
        (code, serde_json::from_slice(&bytes).unwrap_or_default())
    }
}

/// Without the flag containers are not privileged, as in kube-apiserver.
#[tokio::test]
async fn containers_are_privileged_where_a_flag_says_so() {
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [
        {"name": "c", "image": "i", "securityContext": {"privileged": true}}]}});
    for (flag, expected) in [(None, 422), (Some("--allow-privileged"), 201)] {
        let mut flags = vec!["--disable-admission-plugins=ServiceAccount".to_owned()];
        flags.extend(flag.map(str::to_owned));
        let mut server = Server::start(&flags);
        let now = setpoint::clock::system_clock().now();
        let bob = server.client(Some(&server.clients.client("bob", &[], now).unwrap())).await;
        let (code, answer) = server.post(&bob, "/api/v1/namespaces/default/pods", &pod).await;
        assert_eq!(code, expected, "{answer}");
        if expected == 422 {
            let words =
                "spec.containers[0].securityContext.privileged: Forbidden: disallowed by cluster policy";
            assert!(answer["message"].as_str().unwrap().contains(words), "{answer}");
        }
    }
}

/// The store is in the server, which asks etcd for the quota.
#[tokio::test]
async fn the_quota_that_etcd_is_started_with_counts() {
    let folder = assets();
    let host = own_loopback();
    let address = std::net::TcpListener::bind((host, 0)).unwrap().local_addr().unwrap();
    let mut etcd = Command::new(folder.path().join("etcd"))
        .arg(format!("--listen-client-urls=http://{address}"))
        .arg("--quota-backend-bytes=3000000")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + PATIENCE;
    while std::net::TcpStream::connect(address).is_err() {
        assert!(Instant::now() < deadline && etcd.try_wait().unwrap().is_none());
    }
    let mut server = Server::start(&[format!("--etcd-servers=http://{address}")]);
    let now = setpoint::clock::system_clock().now();
    let bob = server.client(Some(&server.clients.client("bob", &[], now).unwrap())).await;
    let mut answers = Vec::new();
    for number in 0..8 {
        let map = json!({"metadata": {"name": format!("m{number}")}, "data": {"k": "x".repeat(900_000)}});
        answers.push(server.post(&bob, "/api/v1/namespaces/default/configmaps", &map).await);
    }
    let _ = etcd.kill();
    let _ = etcd.wait();
    assert_eq!(answers[0].0, 201, "{:?}", answers[0]);
    let (code, last) = answers.last().unwrap();
    assert_eq!(*code, 500, "{last}");
    assert_eq!(last["message"], "etcdserver: mvcc: database space exceeded");
}
